//! A folder of runs as a data set, and the flat table of its cells.
//!
//! Always true: a run's place in the folder follows from its content (`dataset/identity.rs`), so
//! there is no list of the runs that could go out of step with them; runs of two machines never lie
//! in one folder and are never averaged. How runs look is in `report`.

pub mod flat;
mod identity;

pub use identity::{identity, kind_of_run, place};
