//! Archives of another program, without their compression, from a file that may come from anywhere.
#![no_main]
#![forbid(unsafe_code)]

use nearcall_results::dataset::import::import_tar;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(import_tar(bytes, "fuzz")));
