//! The contribution rules as pure functions from texts to messages.
//!
//! Every message names the place and what to do instead. An empty list means that the rule is kept.
//! Not here: reading the repository (`tests/tidy.rs`), running chores (`main.rs`).

pub mod api;
pub mod book;
pub mod circles;
pub mod document;
pub mod invariants;
pub mod manifest;
pub mod modules;
pub mod source;
pub mod words;

mod lexer;
mod paths;
