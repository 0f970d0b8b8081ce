//! `nearcall bench memory`: measures memory and prints the findings.
//!
//! **Invariants:** what was measured before Ctrl-C is printed and stored, marked as partial.

use anyhow::{Context, Error, bail};
use nearcall_bench::footprint::{self, MemoryPlan, ServiceFiles};
use nearcall_channel::Mechanism;
use nearcall_os::signal::Interrupt;
use nearcall_results::findings::memory::MemoryFindings;
use nearcall_results::report::table;

use super::distinct;
use super::measure::hooked;
use crate::args::MemoryArgs;
use crate::commands::{End, findings};
use crate::terminal::style;

pub(super) fn run(args: &MemoryArgs) -> anyhow::Result<End> {
    findings::check(args.output.out.as_deref())?;
    let interrupt = Interrupt::install().context("cannot listen for Ctrl-C")?;
    let mechanisms = distinct(&args.mechanism.mechanism).unwrap_or_else(|| USUAL.to_vec());
    let quick = args.quick.quick;
    let mut found = if args.setups {
        setups(quick, interrupt)?
    } else if args.map {
        let files = ServiceFiles::find().map_err(Error::msg)?;
        hooked(interrupt, |hooks| footprint::map(&files, hooks)).map_err(Error::msg)?
    } else {
        measure(&MemoryPlan { mechanisms, quick }, interrupt)
    };
    found.tool = super::tool();
    if cfg!(debug_assertions) {
        found.warnings.push("a debug build: its code takes more memory".to_owned());
    }
    let table = (!args.output.format.json).then(|| table::footprint::table(&found, style()));
    findings::deliver(&found.to_json(), table, args.output.out.as_deref())?;
    if interrupt.interrupted() {
        return Ok(End::Interrupted);
    }
    if found.connections.is_empty() && found.setups.is_none() && found.maps.is_empty() {
        bail!("nothing that was asked for could be measured; the table has the reasons");
    }
    Ok(End::Done)
}

fn measure(plan: &MemoryPlan, interrupt: Interrupt) -> MemoryFindings {
    hooked(interrupt, |hooks| footprint::measure(plan, hooks))
}

fn setups(quick: bool, interrupt: Interrupt) -> anyhow::Result<MemoryFindings> {
    let files = ServiceFiles::find().map_err(Error::msg)?;
    let found = hooked(interrupt, |hooks| footprint::setups(quick, &files, hooks));
    found.map_err(Error::msg)
}

/// nearcall's own, the most common one, and one whose buffers the kernel has.
const USUAL: [Mechanism; 3] = [Mechanism::Shm, Mechanism::UnixStream, Mechanism::Pipe];
