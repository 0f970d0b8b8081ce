//! What other crates see of nearcall-bench, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod load;
mod profile;
mod runner;
mod study_calls;
mod study_methods;
mod traffic;

/// A page of the usual width without colours.
const PAGE: nearcall_results::report::lines::Style =
    nearcall_results::report::lines::Style::new(Some(100), false);
