//! Options of `nearcall advise` for its modes other than advice for requirements.

use std::path::PathBuf;

use clap::Args;

/// Advice for recorded traffic, and the tuning file of the runtime.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Advise for the traffic of a program that strace recorded
    ///
    /// `strace -f -ttt -e trace=%network,read,write -o FILE PROGRAM` records a program. Pattern,
    /// sizes and rate are those of its busiest descriptor; - reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "rate"])]
    pub(crate) trace: Option<PathBuf>,

    /// Write the tuning file of this machine, which the runtime reads
    ///
    /// It holds the cost of a wake-up, how long to spin, and what calls cost over the mechanisms
    /// that servers offer by default, by which clients with `via=auto` choose. That takes half a
    /// minute, or --time. It is written to $NEARCALL_TUNING, else
    /// to nearcall/tuning.conf in $XDG_CONFIG_HOME or ~/.config; the runtime reads it there and
    /// then in /etc.
    #[arg(long, conflicts_with = "run")]
    pub(crate) profile: bool,
}
