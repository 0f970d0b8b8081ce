//! The archive of programs that need nothing but a kernel.
//!
//! **Not here:** how the programs are built (`program.rs`).

use std::io;
use std::process::Command;

use super::program::{Programs, STATIC};
use super::{Made, Places, VERSION, trial};
use crate::child::succeed;

/// Makes the archive, and tries what is in it.
pub(super) fn make(places: &Places) -> io::Result<Vec<Made>> {
    let programs = Programs::build(places, STATIC)?;
    let name = format!("nearcall-{VERSION}-{STATIC}");
    let stage = places.stage("archive")?;
    programs.lay_out(places, &stage.join("laid-out"))?;
    // Whoever unpacks it chooses where: there is no `usr`.
    std::fs::rename(stage.join("laid-out/usr"), stage.join(&name))?;
    let file = places.out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", places.time)).arg("-C").arg(&stage).arg("-czf").arg(&file);
    succeed(tar.arg(&name))?;
    let unpacked = places.stage("unpacked")?;
    std::fs::create_dir(unpacked.join("usr"))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&file).arg("--strip-components=1").arg("-C").arg(unpacked.join("usr"));
    succeed(&mut tar)?;
    let tried = trial::alone(&unpacked, &programs);
    Ok(vec![Made { file, tried }])
}
