//! What other crates see of nearcall-results, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dataset;
mod dataset_import;
mod figures;
mod figures_random;
mod page_reader;
mod report;
mod report_answers;
mod table;
mod table_budgets;
mod table_compare;
mod table_kinds;
mod table_libraries;
mod table_matrix;
mod table_studies;
mod table_traffic;
mod table_waits;
mod table_width;
