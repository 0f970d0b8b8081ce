//! The examples are in `examples/`: each is one file that can be copied into a program of yours.
//!
//! **Not here:** anything that an example uses.
#![forbid(unsafe_code)]

/// The code in README.md is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
