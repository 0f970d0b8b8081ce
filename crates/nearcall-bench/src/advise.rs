//! Advises a mechanism: requirements and stored runs in, a ranking with reasons out.
//!
//! Always true: a choice meets every need; all candidates of one ranking are judged by the same
//! kind of evidence from the same run; the same requirements and runs give the same advice. Where
//! the evidence is missing or bad, advice is refused with the reason.
//! Not here: measuring (`runner.rs`, started by `measure.rs` below), the verb (nearcall-cli).

mod advice;
mod candidates;
pub mod check;
mod needs;
mod requirements;
mod specs;
pub mod store;
pub mod trace;

pub use advice::{Advice, Confidence, Figure, Ranked, RunnerUp, SCHEMA, Unmeasured};
pub use candidates::{Candidate, Excluded, Violation, candidates, conflict, eligible};
pub use needs::{Need, UnknownNeed};
pub use requirements::{BadRequirements, Objective, Pattern, Placement, Requirements, Weights};
pub use specs::specs;
