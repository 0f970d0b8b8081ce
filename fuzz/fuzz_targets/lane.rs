//! Both sides of a lane, against a peer whose indirect frames name anything.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::lane(bytes));
