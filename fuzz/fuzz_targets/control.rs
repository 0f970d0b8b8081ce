//! The packets of an open control line, with any descriptors.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::control(bytes));
