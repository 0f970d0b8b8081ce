//! Both ends of the ring, against a peer that writes anything into its memory.
#![no_main]
#![forbid(unsafe_code)]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearcall_channel::fuzzing::region(bytes));
