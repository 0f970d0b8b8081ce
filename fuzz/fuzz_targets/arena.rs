//! Loans and borrowed places, against a peer that lies about both.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::arena(bytes));
