//! nearcall-bench
#![forbid(unsafe_code)]
