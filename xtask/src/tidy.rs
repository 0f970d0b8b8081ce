//! The house rules as pure functions: text in, messages out.
//!
//! Every message names the place and says what to do instead. An empty list means that all is well.
//! Not here: reading the repository (`tests/tidy.rs`), running chores (`main.rs`).

pub mod circles;
pub mod document;
pub mod manifest;
pub mod modules;
pub mod source;
pub mod words;

mod lexer;
mod paths;
