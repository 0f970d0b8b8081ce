//! What other crates see of nearcall-results, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dataset;
mod figures;
mod figures_random;
mod page_reader;
mod report;
mod report_answers;
mod table;
mod table_compare;
mod table_width;
