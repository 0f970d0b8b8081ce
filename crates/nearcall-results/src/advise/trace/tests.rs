//! Whole recordings: what real ones give, and that no text makes it panic.

use std::fs;
use std::path::Path;

use super::*;

fn recording(text: &str) -> Recording {
    read(&mut text.as_bytes()).unwrap()
}

/// What a thread sent (above zero) and received (below) on descriptor 3, a second apart.
fn traffic(moved: &[i64]) -> String {
    let line = |(second, bytes): (usize, &i64)| match bytes {
        0.. => format!("{second}.0 sendto(3, \"x\"..., {bytes}, 0, NULL, 0) = {bytes}\n"),
        _ => format!("{second}.0 recvfrom(3, \"x\"..., 9, 0, NULL, NULL) = {}\n", -bytes),
    };
    (1..).zip(moved).map(line).collect()
}

#[test]
fn the_busiest_end_that_asks_stands_for_a_recording_of_both() {
    let found = recording(include_str!("../../../tests/data/trace/echo-file.txt"));
    assert_eq!((found.garbage_lines, found.pid, found.descriptor), (0, 25_757, 3), "{found:?}");
    assert_eq!((found.messages, found.answered, found.asks), (5, 5, true));
    // The mean of the bin of 100 to 103.
    assert_eq!((found.message_bytes, found.reply_bytes), (101, Some(16)));
    let range = |from_bytes, sent, received| SizeRange { from_bytes, sent, received };
    assert_eq!(found.sizes, [range(8, 0, 5), range(64, 5, 0)]);
    let text = summary(&found, Style::PLAIN);
    assert!(text.contains("5 messages in 0.010 s, 5 of them answered"), "{text}");
}

#[test]
fn requirements_are_those_of_the_typical_message() {
    let with = |pattern, message_bytes, reply_bytes, rate_per_s| Requirements {
        pattern,
        message_bytes,
        reply_bytes,
        rate_per_s,
        ..Requirements::default()
    };
    let (calls, one_way) = (Pattern::Call, Pattern::OneWay);
    for (moved, expected) in [
        // The last one is not answered, and a reply may come in parts.
        (&[100, -8, -22, 100, -30, 9_000][..], with(calls, 100, Some(30), Some(0.4))),
        (&[9, 700, 700, -1], with(one_way, 700, None, Some(1.0))),
        (&[-100, 8, -100, 8], with(calls, 100, Some(8), Some(0.5))),
        (&[99_999_999_999], with(one_way, MESSAGE_BYTES_MAX, None, None)),
    ] {
        let wanted = requirements(&recording(&traffic(moved)), &Requirements::default());
        assert_eq!(wanted, expected, "{moved:?}");
        assert_eq!(wanted.check(), Ok(()), "{moved:?}");
    }
    for (given, expected) in [(76.344_854, 76.3), (12_345.6, 12_300.0), (1.0, 1.0), (1e12, 1e9)] {
        assert_eq!(rounded(given), expected);
    }
}

#[test]
fn what_the_typical_message_does_not_stand_for_is_told() {
    let moved = [[100, -30].repeat(60), vec![9_000; 40]].concat();
    let found = recording(&traffic(&moved));
    let told = not_typical(&found, &requirements(&found, &Requirements::default()));
    assert_eq!(
        told,
        [
            "Recorded traffic, judged by calls of 100 B with replies of 30 B.",
            "40 % of the messages are one-way messages and do not count.",
            "One message of a hundred has 9000 B or more; ask for those with --size 9000."
        ]
    );
}

#[test]
fn files_and_the_terminal_stand_for_a_program_only_where_there_is_nothing_else() {
    let files = "1.0 read(3, \"\\177ELF\"..., 832) = 832\n1.1 write(1, \"hello\", 5) = 5\n";
    for (more, expected, may_be_file) in [
        ("", (3, 832, false), true),
        ("1.2 sendto(7, \"x\"..., 40, 0, NULL, 0) = 40\n", (7, 40, true), false),
        // The number means something else now.
        (
            "1.1 socket(AF_UNIX, SOCK_STREAM, 0) = 3\n1.2 write(3, \"x\", 1) = 1\n\
             1.3 read(3, \"yy\", 9) = 2\n",
            (3, 1, true),
            false,
        ),
    ] {
        let found = recording(&format!("{files}{more}"));
        assert_eq!((found.descriptor, found.message_bytes, found.asks), expected, "{more}");
        let note = found.notes.iter().any(|note| note.contains("may be a file"));
        assert_eq!(note, may_be_file, "{:?}", found.notes);
    }
}

#[test]
fn lines_end_with_the_file_too_and_long_ones_and_the_rest_are_left_out() {
    let long = "x".repeat(200_000);
    let one = "0.1 sendto(3, \"\", 64, 0) = 64";
    let text = format!("{one}\r\n\n{long}\n{one}\n{one}");
    let up_to_last = text.len() as u64 - 1;
    for capacity in [1, 2, 3, 1_000] {
        let first = one.len() as u64 + 3;
        for (bytes_max, lines, messages, is_cut) in
            [(u64::MAX, 5, 3, false), (up_to_last, 4, 2, true), (first, 2, 1, true)]
        {
            let mut input = io::BufReader::with_capacity(capacity, text.as_bytes());
            let found = read_up_to(&mut input, bytes_max).unwrap();
            assert_eq!((found.lines, found.messages), (lines, messages), "{bytes_max}");
            assert_eq!(found.notes.iter().any(|note| note.contains("is longer than")), is_cut);
        }
    }
}

#[test]
fn garbage_is_counted_and_what_is_no_recording_is_refused_with_its_first_line() {
    let found = recording(&format!("{}\nwhat is this\n", traffic(&[64, 64])));
    assert_eq!((found.lines, found.garbage_lines, found.messages), (4, 1, 2));
    let first = UnparsedLine { line: 4, text: "what is this".to_owned() };
    assert_eq!(found.first_garbage, Some(first));
    let note = "1 of 4 lines made no sense; the first is line 4: \"what is this\"";
    assert!(found.notes.iter().any(|one| one == note), "{:?}", found.notes);
    for (text, expected) in [
        (
            "a log\nof something\n",
            "none of its 2 lines is from `strace -f -ttt`; line 1: \"a log\"",
        ),
        ("", "no messages"),
        ("1.5 close(3) = 0\n", "none of its 1 lines moved a byte"),
        (&"x".repeat(200_000), "xxxx\""),
    ] {
        let error = read(&mut text.as_bytes()).expect_err("no recording").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_thousand_descriptors_are_told_apart_and_times_may_go_back() {
    let lines = (0..1_100).map(|at| format!("{at}.5 sendto({at}, \"x\", 1, 0, NULL, 0) = 1\n"));
    let found = recording(&lines.rev().collect::<String>());
    assert_eq!((found.messages, found.rate_per_s), (1, None));
    let note = "1099 messages of other descriptors do not count";
    assert!(found.notes.iter().any(|one| one == note), "{:?}", found.notes);
    let back = "5.0 sendto(3, \"\", 1) = 1\n1.0 sendto(3, \"\", 1) = 1\n";
    assert_eq!(recording(back).rate_per_s, Some(0.25));
}

#[test]
fn no_text_makes_it_panic_and_every_line_is_counted() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace");
    let files = fs::read_dir(&corpus).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    let mut texts: Vec<Vec<u8>> = files.collect();
    assert!(texts.len() > 5);
    let real = include_str!("../../../tests/data/trace/echo-file.txt");
    let words: Vec<&str> = real.split_inclusive([' ', '(', '\n', ',']).collect();
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut text: Vec<u8> = Vec::new();
        for _ in 0..rng.usize(0..400) {
            match rng.u8(0..10) {
                0 => text.push(rng.u8(..)),
                1 => text.extend_from_slice(rng.u64(..).to_string().as_bytes()),
                2 => text.push(b'\n'),
                _ => text.extend_from_slice(words[rng.usize(0..words.len())].as_bytes()),
            }
        }
        texts.push(text);
    }
    for text in texts {
        fuzz(&text);
        let lines = text.split_inclusive(|&byte| byte == b'\n').count() as u64;
        let found = match read(&mut &text[..]) {
            Ok(found) => found.lines,
            Err(TraceError::Garbage { lines, .. } | TraceError::NoMessages { lines }) => lines,
            Err(TraceError::Read(error)) => panic!("{error}"),
        };
        assert_eq!(found, lines, "{}", String::from_utf8_lossy(&text));
    }
}
