//! Everything that is shown: functions of stored runs, and of nothing else.
//!
//! The same run always gives the same text. Nothing is measured, read or printed here.

pub mod chart;
pub mod columns;
pub mod document;
pub mod figure;
pub mod hosts;
pub mod lines;
pub mod markdown;
pub mod number;
pub mod page;
pub mod table;
