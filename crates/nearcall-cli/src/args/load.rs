//! What runs beside what is measured, for verbs that measure in one place or in many.

use clap::Args;
use nearcall_bench::scene::Load;

/// Load that is wanted.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// What runs beside: idle, workers cpu,memory,io, or busy CPUs, as 35%
    #[arg(
        long,
        value_name = "LOAD",
        default_value = "idle",
        hide_default_value = true,
        allow_negative_numbers = true,
        help_heading = super::WHERE
    )]
    pub(crate) load: Load,
}
