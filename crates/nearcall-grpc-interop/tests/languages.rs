//! The suite of all languages passes between two programs in Rust.
//!
//! **Not here:** programs in other languages, which `cargo xtask languages` builds.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn suite(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interop"));
    let ended = command.arg("languages").args(arguments).output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
}

#[test]
fn two_programs_in_rust_pass_over_every_mechanism() {
    let (has_passed, table) = suite(&[]);
    assert!(has_passed, "{table}");
    assert!(table.contains("3 cells in "), "{table}");
}

#[test]
fn a_case_that_fails_is_named_with_its_step() {
    // Its client answers nothing that was asked for.
    let (has_passed, table) = suite(&[
        "--program=cat=sh -c cat",
        "--client=cat",
        "--server=Rust",
        "--mechanism=shm",
        "--case=empty_unary",
    ]);
    assert!(!has_passed, "{table}");
    let failure = "FAIL cat→Rust shm empty_unary: step 1 of 1, Ask(\"empty\", Is(\"OK\")): \
                   it answers \"empty\"";
    assert!(table.contains(failure), "{table}");
    assert!(table.contains("0/1"), "{table}");
}
