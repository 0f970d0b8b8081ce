//! Every wrong input: its exit code, its message, and that nothing else happens.

use std::fs;

use crate::program::Folder;

/// Words, exit code, and what the message must contain.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

#[track_caller]
fn check(folder: &Folder, (words, code, messages): Case) {
    let ended = folder.run(words);
    assert_eq!(ended.code, Some(code), "{words:?}: {ended:?}");
    assert_eq!(ended.stdout, "", "{words:?}");
    for message in messages {
        assert!(ended.stderr.contains(message), "{words:?}: no {message:?} in {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{words:?}: {}", ended.stderr);
}

#[test]
fn wrong_words_end_with_2_and_say_what_would_be_right() {
    let folder = Folder::new();
    let cases: &[Case] = &[
        (&["bnch"], 2, &["'bench'"]),
        (&["bench", "latncy"], 2, &["latncy", "'latency'"]),
        (&["bench", "--mechansm", "pipe"], 2, &["'--mechanism'"]),
        (
            &["bench", "--mechanism", "shm-futx"],
            2,
            &["unknown mechanism `shm-futx`", "did you mean `shm-futex`", "pipe fifo", "shm-mq"],
        ),
        (&["bench", "--mechanism", "pipe,"], 2, &["unknown mechanism ``"]),
        (&["bench", "--sizes", "0"], 2, &["size \"0\" is zero; the smallest is 1 byte"]),
        (&["bench", "--sizes", "8,5MiB"], 2, &["\"5MiB\" is above the limit of 4 MiB"]),
        (&["bench", "--sizes", "eight"], 2, &["\"eight\" is not a size"]),
        (&["bench", "--sizes", "1KB"], 2, &["\"1KB\" has an unknown unit"]),
        (&["bench", "--sizes", "-8"], 2, &["\"-8\" is not a size"]),
        (&["bench", "--sizes", ""], 2, &["--sizes"]),
        (&["bench", "--shape", "ring"], 2, &["echo, sink"]),
        (&["bench", "--wait", "spun"], 2, &["adaptive, spin, block, poll"]),
        (&["bench", "--placement", "far"], 2, &["same, cross, none"]),
        (&["bench", "--pin", "0"], 2, &["give two CPU numbers such as 0,1"]),
        (&["bench", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
        (&["bench", "--pin", "0,4294967296"], 2, &["give two CPU numbers"]),
        (&["bench", "--pin", "0,0", "--placement", "same"], 2, &["cannot be used with"]),
        (&["bench", "--launches", "0"], 2, &["1..=1000"]),
        (&["bench", "--time", "soon"], 2, &["give a time such as 30s, 2m or 90"]),
        (&["bench", "--time", "-5"], 2, &["give a time such as 30s, 2m or 90"]),
        (&["bench", "--time", "0s"], 2, &["nothing can be measured within a second"]),
        (&["bench", "--seed", "-1"], 2, &["--seed"]),
        (&["bench", "call"], 2, &["'call'"]),
        (
            &["bench", "calls", "--via", "pip"],
            2,
            &["unknown mechanism `pip`", "did you mean `pipe`"],
        ),
        (&["bench", "calls", "--caller", "nobody"], 2, &["blocking, loop, same-loop"]),
        (&["bench", "calls", "--wait", "nap"], 2, &["adaptive, spin, block, poll"]),
        (&["bench", "calls", "--size", "0"], 2, &["size \"0\" is zero"]),
        (&["bench", "calls", "--size", "2MiB"], 2, &["above the limit of 1 MiB"]),
        (&["bench", "calls", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
        (&["bench", "calls", "--mechanism", "pipe"], 2, &["'--mechanism'"]),
        (&["bench", "--sizes", "8", "calls"], 2, &["calls"]),
        (&["bench", "budgets", "--wait", "spin"], 2, &["'--wait'"]),
        (&["bench", "budgets", "--placement", "same"], 2, &["'--placement'"]),
        (&["bench", "budgets", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
        (&["bench", "budgets", "--launches", "0"], 2, &["1..=1000"]),
        (&["bench", "waits", "--wait", "nap"], 2, &["adaptive, spin, block, poll"]),
        (&["bench", "--load", "35"], 2, &["unknown load \"35\"; use idle"]),
        (&["bench", "--load", "0%"], 2, &["1% to 99%"]),
        (&["bench", "--touch", "some"], 2, &["full, header, none"]),
        (&["bench", "--buffer", "8,9"], 2, &["--buffer: give one size"]),
        (&["bench", "--any-buffer"], 2, &["--buffer"]),
        (&["bench", "matrix", "--load", "disk"], 2, &["workers of cpu,memory,io"]),
        (&["bench", "matrix", "--size", "8,9"], 2, &["--size: give one size"]),
        (&["bench", "matrix", "--pin", "0,0"], 2, &["every pair of CPUs"]),
        (&["bench", "waits", "--time", "soon"], 2, &["give a time such as 30s, 2m or 90"]),
        (&["show"], 2, &["RUN.json"]),
        (&["mechanisms", "--jsn"], 2, &["'--json'"]),
        (&["gen", "--out", "."], 2, &["FILE.proto"]),
        (&["gen", "a.proto"], 2, &["--out"]),
    ];
    cases.iter().for_each(|&case| check(&folder, case));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
    assert!(!folder.home().join(".local").exists(), "nothing was written");
}

#[test]
fn wrong_words_of_a_profile_end_with_2() {
    let folder = Folder::new();
    let cases: &[Case] = &[
        (&["profile"], 2, &["<MECHANISM>"]),
        (
            &["profile", "shm-futx"],
            2,
            &["unknown mechanism `shm-futx`", "did you mean `shm-futex`", "pipe fifo", "shm-mq"],
        ),
        (&["profile", "pipe", "--size", "0"], 2, &["size \"0\" is zero"]),
        (&["profile", "pipe", "--size", "8,9"], 2, &["give one size such as 1KiB"]),
        (&["profile", "pipe", "--size", "5MiB"], 2, &["above the limit of 4 MiB"]),
        (&["profile", "pipe", "--shape", "ring"], 2, &["echo, sink"]),
        (&["profile", "pipe", "--wait", "nap"], 2, &["adaptive, spin, block, poll"]),
        (&["profile", "sysv-mq", "--wait", "poll"], 2, &["cannot wait by poll; it can by block"]),
        (&["profile", "pipe", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
        (&["profile", "pipe", "--pin", "0,0", "--placement", "same"], 2, &["cannot be used with"]),
        (&["profile", "pipe", "--time", "soon"], 2, &["give a time such as 30s, 2m or 90"]),
    ];
    cases.iter().for_each(|&case| check(&folder, case));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn wrong_words_of_traffic_end_with_2_and_say_what_would_be_right() {
    let folder = Folder::new();
    let cases: &[Case] = &[
        (&["bench", "pace", "--rate", "0"], 2, &["1..=1000000"]),
        (&["bench", "pace", "--rate", "1000,"], 2, &["--rate"]),
        (&["bench", "pace", "--stall", "5"], 2, &["give a time such as 10us, 1ms or 0"]),
        (&["bench", "pace", "--stall", "2us"], 2, &["the shortest stall is 1ms"]),
        (&["bench", "pace", "--size", "8,16"], 2, &["give one size"]),
        (&["bench", "pace", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
        (&["bench", "gap", "--gap", "2s"], 2, &["the longest is 1s"]),
        (&["bench", "gap", "--gap", "10"], 2, &["give a time such as 10us, 1ms or 0"]),
        (&["bench", "burst", "--messages", "0"], 2, &["1..=100000"]),
        (&["bench", "clients", "--clients", "0"], 2, &["1..=2000"]),
        (&["bench", "clients", "--size", "8"], 2, &["'--size'"]),
        (&["bench", "start", "--mechanism", "pip"], 2, &["did you mean `pipe`"]),
    ];
    cases.iter().for_each(|&case| check(&folder, case));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn no_words_at_all_end_with_2_and_the_help() {
    let ended = Folder::new().run(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("Examples:"), "{}", ended.stderr);
}

#[test]
fn a_run_file_that_is_no_run_ends_with_1() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("newer", "{\"schema\": \"nearcall.run/2\"}");
    write("cut", "{\"schema\": \"nearcall.run/1\", \"machine\": {\"id\": \"x");
    write("other", "{\"name\": 1}");
    write("noise", "\u{0}\u{1b}[31m");
    write("empty", "");
    let cases: &[Case] = &[
        (&["show", "absent"], 1, &["error: absent: cannot read", "No such file"]),
        (&["show", "newer"], 1, &["newer: nearcall.run/2 is newer than this program reads"]),
        (&["show", "cut"], 1, &["cut: cut off: the file ends at line 1"]),
        (&["show", "other", "--json"], 1, &["other: not a nearcall run"]),
        (&["show", "noise"], 1, &["noise: "]),
        (&["show", "empty"], 1, &["empty: "]),
        (&["show", "."], 1, &["cannot read"]),
    ];
    cases.iter().for_each(|&case| check(&folder, case));
}

#[test]
fn a_proto_file_that_is_wrong_ends_with_1_and_its_place() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let head = "syntax = \"proto3\"; message X {}\nservice S { rpc ";
    write("stream.proto", &format!("{head}A(X) returns (stream X); }}"));
    write("name.proto", &format!("{head}A(X) returns (Y); }}"));
    write("fine.proto", &format!("{head}A(X) returns (X); }}"));
    write("file", "");
    let cases: &[Case] = &[
        (&["gen", "absent.proto", "--out", "."], 1, &["error: absent.proto: does not exist"]),
        (
            &["gen", "stream.proto", "--out", "out"],
            1,
            &["error: stream.proto:2:17: streaming methods are not supported yet: `A`"],
        ),
        (&["gen", "name.proto", "--out", "."], 1, &["name.proto:2:31: name 'Y' is not defined"]),
        (
            &["gen", "fine.proto", "--out", ".", "--answer-later", "S.B"],
            1,
            &["there is no method `S.B`; there are: S.A"],
        ),
        (&["gen", "fine.proto", "--out", "file"], 1, &["error: file: cannot write: "]),
        (
            &["gen", "fine.proto", "--include", "elsewhere", "--out", "."],
            1,
            &["error: fine.proto: does not exist, or lies in no include directory"],
        ),
    ];
    cases.iter().for_each(|&case| check(&folder, case));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing was written");
}

#[test]
fn an_output_path_that_cannot_be_written_is_said_before_measuring() {
    let folder = Folder::new();
    let cases: &[Case] = &[
        (
            &["bench", "--out", "absent/run.json"],
            1,
            &["error: cannot store a run in absent/run.json: No such file or directory"],
        ),
        (&["bench", "--out", "."], 1, &["cannot store a run in .: "]),
        (&["bench", "--json", "--out", "/proc/run.json"], 1, &["cannot store a run in /proc/"]),
        (
            &["profile", "pipe", "--out", "absent"],
            1,
            &["cannot write absent/profile-pipe.folded: No"],
        ),
        (&["profile", "pipe", "--out", "/proc"], 1, &["cannot write /proc/profile-pipe.folded: "]),
    ];
    let start = nearcall_os::clock::now();
    cases.iter().for_each(|&case| check(&folder, case));
    assert!(start.elapsed().as_secs() < 20, "measured first?");
}

#[test]
fn rivals_without_their_program_end_with_1_and_say_how_to_build_it() {
    let folder = Folder::new();
    // Beside the program under test lies none; if somebody built it, there is nothing to test.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_nearcall"));
    if !program.with_file_name("nearcall-peers").exists() {
        let build = "build it by `cargo build --release -p nearcall-peers`";
        let ended = folder.run(&["bench", "rivals", "--quick"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(build), "{ended:?}");
        assert_eq!(folder.run(&["bench", "rivals"]).stderr.lines().count(), 1);
    }
}
