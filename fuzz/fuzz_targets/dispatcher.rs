//! A server in an event loop with generated dispatchers, from the frames of one client.
#![no_main]
#![forbid(unsafe_code)]

#[path = "../../crates/nearcall/tests/it/fuzzing.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::dispatcher(bytes));
