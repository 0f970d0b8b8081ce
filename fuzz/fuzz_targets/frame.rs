//! Messages to a connection with open calls, from bytes that a peer may send.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_wire::fuzzing::frame(bytes));
