//! Whole recordings: what real ones give, and that no text makes it panic.

use std::fs;
use std::path::Path;

use super::*;

fn recording(text: &str) -> Recording {
    read(&mut text.as_bytes()).unwrap()
}

fn error(text: &str) -> String {
    read(&mut text.as_bytes()).expect_err("no recording").to_string()
}

/// A client that asks five times, a thread with a pipe and sockets of its own, and a server.
#[track_caller]
fn check_echo(text: &str) {
    let found = recording(text);
    assert_eq!((found.format, found.garbage_lines), (Format::Strace, 0), "{found:?}");
    let asker = found.streams.iter().find(|stream| stream.answered > 0).unwrap();
    assert_eq!((asker.messages, asker.answered, asker.asks), (5, 5, true), "{found:?}");
    assert_eq!((asker.sent_bytes, asker.received_bytes), (510, 80), "{found:?}");
    // Three times 17 bytes through the pipe, 7 and 40 bytes through sockets.
    assert_eq!((found.messages, found.sizes_bytes.min, found.sizes_bytes.max), (14, 7, 104));
    let once = "recorded; each message counts once";
    assert!(found.notes.iter().any(|note| note.contains(once)), "{:?}", found.notes);
    let answered = found.answered.unwrap();
    assert!((answered - 5.0 / 14.0).abs() < 1e-9, "{answered}");
}

#[test]
fn a_recording_of_both_ends_counts_each_message_once() {
    check_echo(include_str!("../../../tests/data/trace/echo-file.txt"));
    check_echo(include_str!("../../../tests/data/trace/echo-terminal.txt"));
}

#[test]
fn a_table_with_directions_tells_requests_and_replies() {
    let mut text = "time_s,bytes,direction\n".to_owned();
    for second in 0..20 {
        text += &format!("{second}.0,128,out\n{second}.001,4096,in\n{second}.5,128,out\n");
    }
    let found = recording(&text);
    assert_eq!((found.format, found.messages, found.answered), (Format::Csv, 40, Some(0.5)));
    assert_eq!((found.sizes_bytes.p50, found.busiest_second), (128, 2));
    assert!((found.rate_per_s.unwrap() - 2.0).abs() < 0.01);
    assert_eq!(found.ranges, [SizeRange { from_bytes: 64, calls: 20, one_way: 20 }]);
    assert_eq!(found.reply_bytes, Some(4_096));
}

#[test]
fn the_first_message_decides_who_asks_and_a_reply_may_come_in_parts() {
    let found = recording("1,100,out\n2,8,in\n3,500,in\n4,100,out\n5,9,out\n");
    let stream = &found.streams[0];
    assert_eq!((stream.messages, stream.answered, stream.asks), (3, 1, true));
    assert_eq!((stream.sent_bytes, stream.received_bytes), (209, 508));
    assert_eq!(found.ranges[1], SizeRange { from_bytes: 64, calls: 1, one_way: 1 });
    assert_eq!((found.calls_bytes.unwrap().p50, found.reply_bytes), (100, Some(508)));
    let stream = &recording("1,100,in\n2,8,out\n3,100,in\n4,8,out\n").streams[0];
    assert_eq!((stream.messages, stream.answered, stream.asks), (2, 2, false));
}

#[test]
fn a_table_without_directions_does_not_know_of_replies() {
    for text in ["0.1,64\n0.2,64\n0.3,100000\n", "time_s,bytes\n0.1,64\n0.2,64\n0.3,100000"] {
        let found = recording(text);
        assert_eq!((found.messages, found.answered, found.garbage_lines), (3, None, 0));
        assert_eq!(found.ranges.len(), 2);
    }
}

#[test]
fn requirements_are_those_of_the_typical_message() {
    let base = |pattern| Requirements { pattern, reply_bytes: Some(8), ..Requirements::default() };
    let call = base(Pattern::Call);
    let with = |pattern, message_bytes, reply_bytes, rate_per_s| Requirements {
        pattern,
        message_bytes,
        reply_bytes,
        rate_per_s,
        ..Requirements::default()
    };
    let (calls, one_way) = (Pattern::Call, Pattern::OneWay);
    let one_way_base = Requirements { pattern: one_way, ..Requirements::default() };
    let of_100 = "0.1,100,out\n0.2,30,in\n0.3,100,out\n0.4,30,in\n0.5,9000,out\n";
    for (text, base, expected) in [
        (of_100, &call, with(calls, 100, Some(30), Some(5.0))),
        ("1,9,out\n2,700,out\n3,700,out\n3,1,in\n", &call, with(one_way, 9, None, Some(1.0))),
        ("0.1,100\n0.2,100", &call, with(calls, 100, Some(8), Some(10.0))),
        ("0.1,100\n0.2,100", &one_way_base, with(one_way, 100, None, Some(10.0))),
        ("1,99999999999\n", &call, with(calls, MESSAGE_BYTES_MAX, Some(8), None)),
    ] {
        let wanted = requirements(&recording(text), base);
        assert_eq!(wanted, expected, "{text}");
        assert_eq!(wanted.check(), Ok(()), "{text}");
    }
}

#[test]
fn what_the_typical_message_does_not_stand_for_is_told() {
    let mut text = "0.1,100,out\n0.2,30,in\n".repeat(60);
    text += &"0.3,9000,out\n".repeat(40);
    let found = recording(&text);
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
fn rates_have_three_digits() {
    for (given, expected) in
        [(76.344_854, 76.3), (12_345.6, 12_300.0), (0.012_34, 0.012_3), (1.0, 1.0), (1e12, 1e9)]
    {
        assert_eq!(rounded(given), expected);
    }
}

#[test]
fn lines_end_with_the_file_too_and_long_ones_and_the_rest_are_left_out() {
    let long = "x".repeat(200_000);
    let text = format!("0.1,64\r\n\n{long}\n0.2,64\n0.3,64");
    let up_to_last = text.len() as u64 - 1;
    for capacity in [1, 2, 3, 1_000] {
        for (bytes_max, lines, messages, is_cut) in
            [(u64::MAX, 5, 3, false), (up_to_last, 4, 2, true), (8, 1, 1, true)]
        {
            let mut input = io::BufReader::with_capacity(capacity, text.as_bytes());
            let found = read_up_to(&mut input, bytes_max).unwrap();
            assert_eq!((found.lines, found.messages), (lines, messages), "{bytes_max}");
            assert_eq!(found.notes.iter().any(|note| note.contains("is longer than")), is_cut);
        }
    }
}

#[test]
fn garbage_is_counted_and_the_first_line_of_it_is_shown() {
    let found = recording("0.1,64\n\nwhat is this\n0.2,64\n0.3,-1\n");
    assert_eq!((found.lines, found.garbage_lines, found.messages), (5, 2, 2));
    let first = UnparsedLine { line: 3, text: "what is this".to_owned() };
    assert_eq!(found.first_garbage, Some(first));
    let note = "2 of 5 lines made no sense; the first is line 3: \"what is this\"";
    assert!(found.notes.iter().any(|one| one == note), "{:?}", found.notes);
}

#[test]
fn what_is_no_recording_is_an_error_with_its_first_line() {
    let text = error("a log\nof something\n");
    assert!(text.contains("none of its 2 lines") && text.contains("line 1: \"a log\""), "{text}");
    assert!(error("").contains("no messages"), "{}", error(""));
    assert!(error("time_s,bytes\n").contains("no messages"));
    assert!(error("1.5 close(3) = 0\n").contains("none of its 1 lines moved a byte"));
    assert!(error(&"x".repeat(200_000)).contains("xxxx\""));
}

#[test]
fn times_that_go_back_are_told_and_harmless() {
    let found = recording("5.0,64\n1.0,64\n2.0,64\n");
    assert!((found.span_s - 4.0).abs() < 1e-9);
    assert!(found.rate_per_s.unwrap() > 0.0);
    assert_eq!(recording("7,1\n").rate_per_s, None);
    assert!(found.notes.iter().any(|note| note.contains("in 2 lines the time goes back")));
}

#[test]
fn files_and_the_terminal_are_left_out_where_there_is_anything_else() {
    let text = "1.0 read(3, \"\\177ELF\"..., 832) = 832\n1.1 write(1, \"hello\", 5) = 5\n";
    let alone = recording(text);
    assert_eq!((alone.messages, alone.streams.len()), (2, 2), "{alone:?}");
    let with = recording(&format!("{text}1.2 sendto(7, \"x\"..., 40, 0, NULL, 0) = 40\n"));
    assert_eq!((with.messages, with.streams[0].descriptor), (1, 7), "{with:?}");
    assert!(with.notes.iter().any(|note| note.contains("2 descriptors are left out")));
    let path = recording("1.0 write(5</var/log/x>, \"a\", 1) = 1\n1.2 write(6, \"bc\", 2) = 2\n");
    assert_eq!((path.messages, path.streams[0].descriptor), (1, 6), "{path:?}");
}

#[test]
fn a_number_that_means_something_else_now_is_another_stream() {
    let text = "1.0 read(3, \"# a file\"..., 4096) = 4096\n\
                1.1 socket(AF_UNIX, SOCK_STREAM, 0) = 3\n\
                1.2 sendto(3, \"x\", 1, 0, NULL, 0) = 1\n\
                1.3 recvfrom(3, \"yy\", 9, 0, NULL, NULL) = 2\n";
    let found = recording(text);
    assert_eq!((found.messages, found.answered, found.sizes_bytes.max), (1, Some(1.0), 1));
}

#[test]
fn who_passes_messages_on_is_not_taken_for_the_other_end() {
    let text = "12 1.0 recvfrom(4, \"x\", 9, 0, NULL, NULL) = 1\n\
                12 1.1 sendto(5, \"x\", 1, 0, NULL, 0) = 1\n\
                12 1.2 recvfrom(5, \"yy\", 9, 0, NULL, NULL) = 2\n\
                12 1.3 sendto(4, \"yy\", 2, 0, NULL, 0) = 2\n";
    let found = recording(text);
    assert_eq!((found.messages, found.streams.len(), found.answered), (2, 2, Some(1.0)));
}

#[test]
fn a_thousand_descriptors_are_told_apart_and_the_rest_is_counted() {
    let lines = (0..1_100).map(|at| format!("1.0 sendto({at}, \"x\", 1, 0, NULL, 0) = 1\n"));
    let found = recording(&lines.collect::<String>());
    assert_eq!((found.messages, found.streams.len()), (1_024, 8));
    assert!(found.notes.iter().any(|note| note.contains("76 messages of further descriptors")));
}

#[test]
fn the_corpus_of_the_fuzzer_is_harmless() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace");
    let mut tried = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        fuzz(&fs::read(file.unwrap().path()).unwrap());
        tried += 1;
    }
    assert!(tried > 5);
}

#[test]
fn no_text_makes_it_panic_and_every_line_is_counted() {
    let real = include_str!("../../../tests/data/trace/echo-terminal.txt");
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
        let lines = text.split_inclusive(|&byte| byte == b'\n').count() as u64;
        fuzz(&text);
        match read(&mut &text[..]) {
            Ok(found) => {
                assert_eq!(found.lines, lines, "seed {seed}");
                assert!(found.garbage_lines <= lines && found.messages > 0, "seed {seed}");
            }
            Err(
                TraceError::Garbage { lines: counted, .. }
                | TraceError::NoMessages { lines: counted },
            ) => {
                assert_eq!(counted, lines, "seed {seed}");
            }
            Err(TraceError::Read(error)) => panic!("seed {seed}: {error}"),
        }
    }
}
