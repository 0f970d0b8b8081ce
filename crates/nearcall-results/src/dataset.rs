//! A directory of runs as a data set, and the flat table of its cells.
//!
//! **Invariants:** a run's place in the directory follows from its content (`dataset/identity.rs`),
//! so there is no list of the runs that could go out of step with them; runs of two machines never
//! lie in one directory and are never averaged. `dataset/store.rs` takes runs in, `dataset/rows.rs`
//! is the table and `dataset/export.rs` writes it. How runs look is in `report`. For people:
//! docs/book/src/reference/data.md.

mod export;
mod identity;
pub mod rows;
mod store;

pub use export::{Exported, Format, export};
pub use identity::{kind_of_run, place, run_id};
pub use store::{Arrival, DataSet, FILES_MAX, Outcome, StoreError, StoreProblem};
