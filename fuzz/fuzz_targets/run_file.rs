//! Stored runs, from a file that may come from anywhere.
#![no_main]
#![forbid(unsafe_code)]

use nearcall_results::run::Run;

libfuzzer_sys::fuzz_target!(|text: &str| drop(Run::parse(text)));
