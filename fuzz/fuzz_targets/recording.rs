//! Recordings of a server, from a file that may come from anywhere.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_recording::fuzz(bytes));
