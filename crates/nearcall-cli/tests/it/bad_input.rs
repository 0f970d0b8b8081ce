//! Every wrong input: its exit code, its message, and that nothing else happens.

use std::fs;

use crate::program::Folder;

/// Arguments, exit code, and what the message must contain.
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
fn usage_errors_end_with_2_and_name_what_is_accepted() {
    let folder = Folder::new();
    USAGE_ERRORS.iter().for_each(|&case| check(&folder, case));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
    assert!(!folder.home().join(".local").exists(), "nothing was written");
}

#[test]
fn no_arguments_end_with_2_and_the_help() {
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
    let oneway = "{ option (nearcall.oneway) = true; }";
    let import = "import \"nearcall/options.proto\"; message X {}";
    let head_with_options = head.replace("message X {}", import);
    write("stream.proto", &format!("{head_with_options}A(X) returns (stream X) {oneway} }}"));
    write("name.proto", &format!("{head}A(X) returns (Y); }}"));
    write("fine.proto", &format!("{head}A(X) returns (X); }}"));
    write("file", "");
    let cases: &[Case] = &[
        (&["gen", "absent.proto", "--out-dir", "."], 1, &["error: absent.proto: does not exist"]),
        (
            &["gen", "stream.proto", "--out-dir", "out"],
            1,
            &["error: stream.proto:2:17: oneway method `A` takes or returns a stream"],
        ),
        (
            &["gen", "name.proto", "--out-dir", "."],
            1,
            &["name.proto:2:31: name 'Y' is not defined"],
        ),
        (
            &["gen", "fine.proto", "--out-dir", ".", "--rename", "S.B=C"],
            1,
            &["there is no service or method `S.B`; there are: S, S.A"],
        ),
        (
            &["gen", "fine.proto", "--out-dir", ".", "--rename", "S.A"],
            2,
            &["invalid value 'S.A' for '--rename", "write KEY=VALUE"],
        ),
        (
            &["gen", "--lang=cpp", "fine.proto", "--out-dir", ".", "--bytes=."],
            1,
            &["`bytes` is for Rust, and C++ is generated; leave it out"],
        ),
        (&["gen", "fine.proto", "--out-dir", "file"], 1, &["error: file: cannot write: "]),
        (
            &["gen", "fine.proto", "--include", "elsewhere", "--out-dir", "."],
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
            &["profile", "pipe", "--out-dir", "absent"],
            1,
            &["cannot write absent/profile-pipe.folded: No"],
        ),
        (
            &["profile", "pipe", "--out-dir", "/proc"],
            1,
            &["cannot write /proc/profile-pipe.folded: "],
        ),
    ];
    let start = nearcall_os::clock::now();
    cases.iter().for_each(|&case| check(&folder, case));
    assert!(start.elapsed().as_secs() < 20, "measured first?");
}

#[test]
fn libraries_without_their_program_end_with_1_and_how_to_build_it() {
    let folder = Folder::new();
    // Beside the program under test lies none; if somebody built it, there is nothing to test.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_nearcall"));
    if !program.with_file_name("nearcall-peers").exists() {
        let build = "build it by `cargo build --release -p nearcall-peers`";
        let ended = folder.run(&["bench", "libraries", "--quick"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(build), "{ended:?}");
        assert_eq!(folder.run(&["bench", "libraries"]).stderr.lines().count(), 1);
    }
}

const USAGE_ERRORS: &[Case] = &[
    (&["bnch"], 2, &["'bench'"]),
    (&["bench", "latncy"], 2, &["latncy", "'latency'"]),
    (&["bench", "--mechansm", "pipe"], 2, &["'--mechanism'"]),
    (
        &["bench", "--mechanism", "shm-futx"],
        2,
        &["unknown mechanism `shm-futx`", "did you mean `shm-futex`", "pipe fifo", "shm-mq"],
    ),
    (&["bench", "--mechanism", "pipe,"], 2, &["unknown mechanism ``"]),
    (&["bench", "--size", "0"], 2, &["size \"0\" is zero; the smallest is 1 byte"]),
    (&["bench", "--size", "8,5MiB"], 2, &["\"5MiB\" is above the limit of 4 MiB"]),
    (&["bench", "--size", "eight"], 2, &["\"eight\" is not a size", "such as 8, 64KiB or 1MB"]),
    (&["bench", "--size", "1XB"], 2, &["\"1XB\" is not a size", "KB, MB = powers of 1,000"]),
    (&["bench", "--size", "5000KB"], 2, &["\"5000KB\" is above the limit of 4 MiB"]),
    (&["bench", "--size", "-8"], 2, &["\"-8\" is not a size"]),
    (&["bench", "--size", ""], 2, &["--size"]),
    (&["bench", "--shape", "ring"], 2, &["echo, sink"]),
    (&["bench", "--wait", "spun"], 2, &["adaptive, spin, block, poll"]),
    (&["bench", "--placement", "far"], 2, &["same, cross, none"]),
    (&["bench", "--pin", "0"], 2, &["give two CPU numbers such as 0,1"]),
    (&["bench", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
    (&["bench", "--pin", "0,0", "--placement", "same"], 2, &["cannot be used with"]),
    (&["bench", "--launches", "0"], 2, &["1..=1000"]),
    (&["bench", "--time", "soon"], 2, &["is not a duration; give a number with a unit"]),
    (&["bench", "--time", "0s"], 2, &["nothing can be measured within a second"]),
    (&["bench", "--seed", "-1"], 2, &["--seed"]),
    (&["bench", "call"], 2, &["'call'"]),
    (&["bench", "calls", "--client", "other"], 2, &["blocking, loop, async, same-loop"]),
    (&["bench", "calls", "--size", "2MiB"], 2, &["above the limit of 1 MiB"]),
    (&["bench", "--size", "8", "calls"], 2, &["calls"]),
    (&["bench", "budgets", "--wait", "spin"], 2, &["'--wait'"]),
    (&["bench", "budgets", "--placement", "same"], 2, &["'--placement'"]),
    (&["bench", "--load", "35"], 2, &["unknown load \"35\"; use idle"]),
    (&["bench", "--load", "0%"], 2, &["1% to 99%"]),
    (&["bench", "--payload-access", "some"], 2, &["full, header, none"]),
    (&["bench", "--buffer", "8,9"], 2, &["--buffer: give one size"]),
    (&["bench", "--allow-buffer-mismatch"], 2, &["--buffer"]),
    (&["bench", "matrix", "--load", "disk"], 2, &["workers of cpu,memory,io"]),
    (&["bench", "matrix", "--size", "8,9"], 2, &["\"8,9\" is a list; give one size"]),
    (&["bench", "matrix", "--pin", "0,0"], 2, &["every pair of CPUs is measured"]),
    (&["show"], 2, &["RUN.json"]),
    (&["mechanisms", "--jsn"], 2, &["'--json'"]),
    (&["gen", "--out-dir", "."], 2, &["FILE.proto"]),
    (&["gen", "a.proto"], 2, &["--out-dir"]),
    (&["gen", "a.proto", "--out", "."], 2, &["'--out-dir'"]),
    (&["profile", "pipe", "--out", "."], 2, &["'--out-dir'"]),
    (&["doctor", "--color", "blue"], 2, &["auto, always, never"]),
    (&["profile"], 2, &["<MECHANISM>"]),
    (&["profile", "pipe", "--size", "8,9"], 2, &["give one size such as 1KiB"]),
    (
        &["profile", "sysv-mq", "--wait", "poll"],
        2,
        &["does not support the wait policy poll; it supports block"],
    ),
    (&["profile", "pipe", "--pin", "0,65000"], 2, &["there is no CPU 65000; allowed: "]),
    (&["bench", "open-loop", "--rate", "0"], 2, &["1..=1000000"]),
    (&["bench", "open-loop", "--rate", "1000,"], 2, &["--rate"]),
    (&["bench", "open-loop", "--stall", "5"], 2, &["is not a duration; give a number with a unit"]),
    (&["bench", "open-loop", "--stall", "2us"], 2, &["\"2us\" is below the minimum of 1ms"]),
    (&["bench", "open-loop", "--size", "8,16"], 2, &["give one size"]),
    (&["bench", "idle-gap", "--gap", "2s"], 2, &["\"2s\" is above the limit of 1s"]),
    (&["bench", "idle-gap", "--gap", "10"], 2, &["is not a duration; give a number with a unit"]),
    (&["bench", "burst", "--messages", "0"], 2, &["1..=100000"]),
    (&["bench", "clients", "--clients", "0"], 2, &["1..=2000"]),
    (&["bench", "clients", "--size", "8"], 2, &["'--size'"]),
    (&["bench", "threads", "--threads", "0"], 2, &["1..=2000"]),
    (&["bench", "threads", "--loops", "0"], 2, &["1..=1024"]),
];
