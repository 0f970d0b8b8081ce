//! Options of `nearcall advise` for its modes other than advice for requirements.

use std::path::PathBuf;

use clap::Args;

/// Advice for recorded traffic, and the tuning file of the runtime.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Advise for recorded traffic: time_s,bytes[,direction], or strace lines
    ///
    /// `strace -f -ttt -e trace=%network,read,write -o FILE PROGRAM` records a program. Pattern,
    /// sizes and rate are those of the typical message of the recording; - reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "rate"])]
    pub(crate) trace: Option<PathBuf>,

    /// Write the tuning file of this machine, which the runtime reads
    ///
    /// It holds the cost of a wake-up, how long to spin, and with --run which mechanism is the
    /// fastest from which size on. It is written to $NEARCALL_TUNING, else to nearcall/tuning.conf
    /// in $XDG_CONFIG_HOME or ~/.config; the runtime reads it there and then in /etc.
    #[arg(long)]
    pub(crate) profile: bool,
}
