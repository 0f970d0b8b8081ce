//! What other crates see of nearcall-bench, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runner;
mod table;
mod table_budgets;
mod table_traffic;
mod table_waits;
mod traffic;
