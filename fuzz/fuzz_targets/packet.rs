//! The packets of the handshake, from bytes that anybody may send.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::packet(bytes));
