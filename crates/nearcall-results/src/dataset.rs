//! A folder of runs as a data set, and the flat table of its cells.
//!
//! Always true: a run's place in the folder follows from its content (`dataset/identity.rs`), so
//! there is no list of the runs that could go out of step with them; runs of two machines never lie
//! in one folder and are never averaged. `dataset/store.rs` takes runs in, `dataset/survey.rs`
//! tells what there is, `dataset/flat` is the table and `dataset/export.rs` writes it;
//! `dataset/import.rs` reads the archives of another program. How runs look is in `report`. For
//! people: docs/data.md.

mod canonical;
mod export;
pub mod flat;
mod identity;
pub mod import;
mod publish;
mod store;
mod survey;

pub use export::{ExportError, Exported, Format, export};
pub use identity::{identity, kind_of_run, place};
pub use store::{Arrival, DataSet, FILES_MAX, Outcome, StoreError};
pub use survey::{MachineLine, Problem, SURVEY_SCHEMA, Survey};
