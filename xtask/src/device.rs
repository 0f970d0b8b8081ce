//! `cargo xtask device`: builds what is small in memory, for images of devices.
//!
//! Below the target directory, in `device`, is then the host and the service that is measured, each
//! with a runtime of its own, and in `device/shared` the same with one runtime for all of them: the
//! library of the crate `nearcall-runtime`, and that of Rust.
//! **Invariants:** what shares a runtime was built with it, at once: the names of its functions
//! have a word of this build, so that the dynamic linker refuses what is of another.
//! **Not here:** what that costs and saves (`docs/book/src/guides/memory.md`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::child::succeed;
use crate::facts;

/// The profile of `Cargo.toml` for what is small.
const PROFILE: &str = "small";

/// What is built.
const PACKAGES: [&str; 2] = ["nearcall-host", "nearcall-bench-service"];

/// The files of a build, below its directory.
const FILES: [&str; 3] =
    ["nearcall-host", "examples/nearcall-bench-service", "libnearcall_bench_service.so"];

/// Builds both.
///
/// # Errors
///
/// Something cannot be built or copied.
pub fn run(root: &Path, out: &mut dyn Write) -> io::Result<()> {
    let target = env::current_dir()?.join(facts::target_directory(root));
    let device = target.join("device");
    let shared = device.join("shared");
    fs::create_dir_all(&shared)?;
    succeed(&mut cargo(root))?;
    copy(&target.join(PROFILE), &device)?;

    let compiler = succeed(Command::new("rustc").arg("-vV"))?;
    let find = |name: &str| compiler.lines().find_map(|line| line.strip_prefix(name));
    let machine = find("host: ").ok_or_else(|| io::Error::other("rustc names no machine"))?;
    // What link-time optimisation would leave out, others may need.
    let mut build = cargo(root);
    build.args(["--target", machine, "--package", "nearcall-runtime"]);
    build.env("CARGO_PROFILE_SMALL_LTO", "off").env("RUSTFLAGS", flags(root)?);
    succeed(&mut build)?;
    let built = target.join(machine).join(PROFILE);
    copy(&built, &shared)?;
    replace(&built.join("libnearcall_runtime.so"), &shared)?;
    let libraries = succeed(Command::new("rustc").args(["--print", "target-libdir"]))?;
    for entry in fs::read_dir(libraries.trim())?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("libstd-") && name.ends_with(".so") {
            replace(&entry.path(), &shared)?;
        }
    }
    for directory in [&device, &shared] {
        let mut entries: Vec<_> = fs::read_dir(directory)?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries.iter().filter(|entry| entry.path().is_file()) {
            writeln!(out, "{}: {} bytes", entry.path().display(), entry.metadata()?.len())?;
        }
    }
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "--quiet", "--profile", PROFILE, "--lib", "--bins"]);
    build.args(["--example", "nearcall-bench-service"]);
    build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    build
}

/// Returns the flags of the compiler by which everything shares one runtime. The word of the build
/// is the commit, and what is changed since.
fn flags(root: &Path) -> io::Result<String> {
    let git = |words: [&str; 2]| succeed(Command::new("git").current_dir(root).args(words));
    let (head, changes) = (git(["rev-parse", "HEAD"])?, git(["diff", "HEAD"])?);
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    let state = hasher.finish();
    Ok(format!(
        "--cfg nearcall_shared -C prefer-dynamic -C metadata={}-{state:x} \
         -C link-arg=-Wl,-rpath,$ORIGIN",
        head.trim()
    ))
}

/// Copies the files of a build.
fn copy(built: &Path, to: &Path) -> io::Result<()> {
    FILES.iter().try_for_each(|file| replace(&built.join(file), to))
}

/// Copies a file into a directory, in place of the one there, which a process may run.
fn replace(file: &Path, directory: &Path) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let (to, new) = (directory.join(name), directory.join(".new"));
    let failed = |error| io::Error::other(format!("cannot copy {}: {error}", file.display()));
    fs::copy(file, &new).map_err(failed)?;
    fs::rename(new, PathBuf::from(&to)).map_err(failed)
}
