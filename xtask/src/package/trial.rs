//! Tries packages: in a root that has nothing else, and in one over that of this machine.
//!
//! **Invariants:** what is tried runs in a name space of processes that ends with the command, and
//! writes to file systems in memory; a command that needs root says so instead of passing.
//! **Not here:** what is tried (`xtask/package/*.sh`).

use std::io;
use std::path::Path;
use std::process::Command;

use super::Places;
use super::program::{Programs, STATIC};
use crate::child::succeed;

/// What is tried in a root of its own.
const ALONE: &str = include_str!("../../package/alone.sh");
/// What is tried with packages of Debian.
const DEBIAN: &str = include_str!("../../package/debian.sh");

/// Tries the programs in `root`, to which what they are linked to is added: a service and its
/// caller, a measurement, and the manual, which `man` of this machine shows. Static programs may be
/// linked to nothing.
pub(super) fn alone(root: &Path, programs: &Programs) -> Result<String, String> {
    let kind = if programs.target == STATIC { "static" } else { "linked" };
    try_script(ALONE, &[root, &programs.example(), Path::new(kind)])
}

/// Installs the packages in `old` over this machine, upgrades them to those in `new` while a host
/// runs, tries them, and removes them.
pub(super) fn debian(
    places: &Places,
    old: &Path,
    new: &Path,
    programs: &Programs,
) -> Result<String, String> {
    let crates = places.root.join("crates");
    try_script(DEBIAN, &[old, new, &programs.example(), &crates])
}

/// Runs a script in name spaces of its own. Its last lines, behind one that says `tried:`, are what
/// was tried.
fn try_script(script: &str, arguments: &[&Path]) -> Result<String, String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--ipc", "--pid", "--fork", "--kill-child"]);
    unshare.args(["sh", "-euc", script, "trial"]).args(arguments);
    let printed = succeed(&mut unshare).map_err(|error: io::Error| {
        let text = error.to_string();
        text.rsplit_once("\": ").map_or(text.clone(), |(_, why)| why.to_owned())
    })?;
    let tried = printed.rsplit_once("tried:\n").map(|(_, tried)| tried.trim().to_owned());
    tried.ok_or_else(|| format!("the script has ended without a result: {printed}"))
}
