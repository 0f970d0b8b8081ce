//! `cargo xtask package`: makes every package, and tries each as whoever installs it.
//!
//! Below `target/package`, or another directory, are then the crates, the packages of Debian, a
//! static archive, the wheel, the image for containers and the lists of what is in them.
//! **Invariants:** a package that was not tried is never shown as passed. What is tried runs in
//! name spaces of its own, and leaves nothing on this machine.
//! **Not here:** how programs, libraries and the wheel are built (`program.rs`, `languages.rs`,
//! `crates/nearcall-python/tests/run.py`).

mod archive;
mod bill;
mod crates;
mod debian;
mod image;
mod program;
mod trial;
mod wheel;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::child::succeed;
use crate::step::now;

/// The version of all packages.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Which packages are made.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Options {
    /// Directory of the packages; `package` below the target directory by default
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make only these; repeatable or a list
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Of the build of the tests, which is larger and slower, and made sooner: to try packages, not
    /// to ship them
    #[arg(long)]
    dev: bool,
    /// Check what needs no build of a program: the crates, and what describes the packages
    #[arg(long, conflicts_with_all = ["out", "only", "dev"])]
    pub(crate) check: bool,
}

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// What `cargo publish` would upload, built from nothing but each other
    Crates,
    /// Packages of Debian: programs, libraries, and Python
    Debian,
    /// Programs that need nothing but a kernel, as one archive
    Archive,
    /// The package for Python
    Wheel,
    /// The programs as an image for containers
    Image,
}

/// Where things are.
pub(crate) struct Places {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Where Cargo builds.
    pub(crate) target: PathBuf,
    /// Where the packages go.
    pub(crate) out: PathBuf,
    /// Whether programs and libraries are those of the build of the tests.
    pub(crate) dev: bool,
    /// The time of the last commit, in seconds since 1970: packages of one commit are the same.
    pub(crate) time: String,
}

/// A package that was made.
pub(crate) struct Made {
    /// The file.
    pub(crate) file: PathBuf,
    /// What was tried with it, or why it failed or could not be tried.
    pub(crate) tried: Result<String, String>,
}

/// Makes the packages and prints a table of them. Returns whether all passed.
///
/// # Errors
///
/// A package cannot be built.
pub fn run(root: &Path, target: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let directory = options.out.clone().unwrap_or_else(|| target.join("package"));
    let mut git = Command::new("git");
    git.current_dir(root).args(["-c", "safe.directory=*", "log", "-1", "--format=%ct"]);
    let time = succeed(&mut git)?;
    let places = Places {
        root: root.to_owned(),
        target: std::path::absolute(target)?,
        out: std::path::absolute(directory)?,
        dev: options.dev,
        time: time.trim().to_owned(),
    };
    fs::create_dir_all(&places.out)?;
    if options.check {
        let count = crates::check(&places)?;
        debian::check(&places)?;
        writeln!(out, "{count} crates, and what describes the packages of Debian: ok")?;
        return Ok(true);
    }
    let is_asked = |kind| options.only.is_empty() || options.only.contains(&kind);
    let mut passed = true;
    writeln!(out, "| package | bytes | seconds | tried |\n|---|--:|--:|---|")?;
    // The package of Debian for Python is made of the wheel.
    let kinds = [Kind::Crates, Kind::Wheel, Kind::Debian, Kind::Archive, Kind::Image];
    for kind in kinds.into_iter().filter(|kind| is_asked(*kind)) {
        let started = now();
        let all = match kind {
            Kind::Crates => crates::make(&places)?,
            Kind::Wheel => wheel::make(&places)?,
            Kind::Debian => debian::make(&places)?,
            Kind::Archive => archive::make(&places)?,
            Kind::Image => image::make(&places)?,
        };
        // Those of one kind are made at once.
        let seconds = started.elapsed().as_secs();
        for Made { file, tried } in all {
            passed &= tried.is_ok();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::metadata(&file).map_or(0, |metadata| metadata.len());
            let (Ok(result) | Err(result)) = &tried;
            let result = result.trim().replace(['\n', '|'], "; ");
            let failed = if tried.is_err() { "FAILED: " } else { "" };
            writeln!(out, "| {name} | {bytes} | {seconds} | {failed}{result} |")?;
        }
    }
    Ok(passed)
}

impl Places {
    /// Makes an empty directory for what a package is made of.
    fn stage(&self, name: &str) -> io::Result<PathBuf> {
        let stage = self.target.join("package-stage").join(name);
        if stage.exists() {
            fs::remove_dir_all(&stage)?;
        }
        fs::create_dir_all(&stage)?;
        Ok(stage)
    }
}

/// Copies a file to a path below `stage`, with this mode, and makes the directories above it.
fn install(stage: &Path, from: &Path, to: &str, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |error| io::Error::other(format!("cannot install {}: {error}", from.display()));
    let to = stage.join(to);
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::copy(from, &to).map_err(failed)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(mode))
}

/// Writes a file that is text to a path below `stage`, and makes the directories above it.
fn install_text(stage: &Path, text: &str, to: &str) -> io::Result<()> {
    let to = stage.join(to);
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&to, text)
}
