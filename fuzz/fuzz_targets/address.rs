//! Addresses, from any text.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::address(bytes));
