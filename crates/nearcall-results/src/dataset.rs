//! A folder of runs as a data set, and the flat table of its cells.
//!
//! Always true: a run's place in the folder follows from its content (`dataset/run_id.rs`), so
//! there is no list of the runs that could go out of step with them; runs of two machines never lie
//! in one folder and are never averaged. `dataset/store.rs` takes runs in, `dataset/inventory.rs`
//! tells what there is, `dataset/rows` is the table and `dataset/export.rs` writes it;
//! `dataset/import.rs` reads the archives of another program. How runs look is in `report`. For
//! people: docs/data.md.

mod canonical;
mod export;
pub mod import;
mod inventory;
mod redact;
pub mod rows;
mod run_id;
mod store;

pub use export::{ExportError, Exported, Format, export};
pub use inventory::{INVENTORY_SCHEMA, Inventory, MachineLine, Problem};
pub use run_id::{kind_of_run, place, run_id};
pub use store::{Arrival, DataSet, FILES_MAX, Outcome, StoreError};
