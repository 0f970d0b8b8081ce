//! The program nearcall.
#![forbid(unsafe_code)]
fn main() {}
