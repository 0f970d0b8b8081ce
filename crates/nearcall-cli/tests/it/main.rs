//! Runs the real program in an empty directory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advise;
mod advise_trace;
mod bad_input;
mod bench;
mod call;
mod commands;
mod compare;
mod data;
mod gateway;
mod r#gen;
mod host;
mod load;
mod memory;
mod other_servers;
mod profile;
mod program;
mod record;
mod report;
mod report_browser;
mod reproduce;
mod servers;
mod switching;
mod timers;
mod top;
