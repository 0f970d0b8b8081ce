//! What other crates see of nearcall-bench, tested from outside.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dataset;
mod dataset_import;
mod figures;
mod figures_evidence;
mod figures_random;
mod load;
mod page_reader;
mod profile;
mod report;
mod report_answers;
mod runner;
mod study_calls;
mod study_methods;
mod table;
mod table_budgets;
mod table_compare;
mod table_libraries;
mod table_matrix;
mod table_studies;
mod table_traffic;
mod table_waits;
mod table_width;
mod traffic;
