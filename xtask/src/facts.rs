//! The facts of the machine and the repository, gathered once before anything runs.
//!
//! A missing tool is stored as the reason for skipping its step, as a sentence for the user.
//! Not here: what follows from it (`plan.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use toml::{Table, Value};

use crate::platforms::{TARGETS, Target};

/// Present, or the reason why not.
pub type Presence = Result<(), String>;

/// What decides which steps can run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The repository.
    pub root: PathBuf,
    /// Where Cargo builds; what the chores write lies below it.
    pub target: PathBuf,
    /// Whether nightly has miri.
    pub miri: Presence,
    /// Whether nightly is installed, which the fuzz targets are built with.
    pub nightly: Presence,
    /// Whether nightly has the source of the standard library.
    pub rust_src: Presence,
    /// The oldest compiler that the workspace supports, as `rust-version` has it.
    pub oldest_rust: String,
    /// Whether that compiler is installed.
    pub oldest: Presence,
    /// Whether cargo-fuzz is installed.
    pub cargo_fuzz: Presence,
    /// The names of the fuzz targets.
    pub fuzz_targets: Vec<String>,
    /// Whether cargo-deny is installed.
    pub deny: Presence,
    /// Whether cargo-semver-checks is installed.
    pub semver_checks: Presence,
    /// The last tag of a release, such as v0.1.0.
    pub last_tag: Option<String>,
    /// Whether the standard library is installed for all targets of `platforms.rs`.
    pub targets: Presence,
}

impl Facts {
    /// Looks at the repository that this crate belongs to. Starts a few short processes.
    ///
    /// # Errors
    ///
    /// The repository cannot be read.
    pub fn gather() -> io::Result<Self> {
        let missing = || io::Error::other("run me as `cargo xtask`");
        let xtask = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or_else(missing)?);
        let root = xtask.parent().ok_or_else(missing)?.to_owned();
        let target = target_directory(&root);
        let nightly = "rustup toolchain install nightly --profile minimal";
        let no_version = || io::Error::other("Cargo.toml has no rust-version");
        let manifest = read_manifest(&root.join("Cargo.toml"))?;
        let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
        let oldest_rust = package.and_then(|package| package.get("rust-version")?.as_str());
        let oldest_rust = oldest_rust.ok_or_else(no_version)?.to_owned();
        Ok(Self {
            miri: tool(
                &["+nightly", "miri", "--version"],
                "rustup component add miri rust-src --toolchain nightly",
            ),
            nightly: tool(&["+nightly", "--version"], nightly),
            rust_src: rust_src(),
            oldest: tool(
                &[&format!("+{oldest_rust}"), "--version"],
                &format!("rustup toolchain install {oldest_rust} --profile minimal"),
            ),
            oldest_rust,
            cargo_fuzz: tool(&["fuzz", "--version"], "cargo install cargo-fuzz --locked"),
            fuzz_targets: read_manifest(&root.join("fuzz/Cargo.toml"))
                .map(|manifest| target_names(&manifest))
                .unwrap_or_default(),
            deny: tool(&["deny", "--version"], "cargo install cargo-deny --locked"),
            semver_checks: tool(
                &["semver-checks", "--version"],
                "cargo install cargo-semver-checks --locked",
            ),
            last_tag: last_tag(&root),
            targets: targets(),
            root,
            target,
        })
    }
}

/// Where Cargo writes: relative to the repository, unless the variable is absolute.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Asks Cargo for a version. The reason is the command that installs the tool: what rustup and
/// Cargo print is long and does not name it.
fn tool(arguments: &[&str], cure: &str) -> Presence {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Inside `cargo xtask` rustup has already chosen; a `+nightly` must be able to choose again.
    cargo.env_remove("RUSTUP_TOOLCHAIN");
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("`cargo {}` fails; install it with `{cure}`", arguments.join(" "))),
    }
}

fn last_tag(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["-c", "safe.directory=*", "describe", "--tags", "--abbrev=0"]);
    let found = git.args(["--match", "v[0-9]*"]).output().ok()?;
    let tag = String::from_utf8(found.stdout).ok()?.trim().to_owned();
    (found.status.success() && !tag.is_empty()).then_some(tag)
}

/// The sanitizers need a standard library that is built with them.
fn rust_src() -> Presence {
    let mut rustc = Command::new("rustc");
    rustc.args(["+nightly", "--print", "sysroot"]).stdin(Stdio::null()).stderr(Stdio::null());
    rustc.env_remove("RUSTUP_TOOLCHAIN");
    let sysroot = rustc.output().ok().filter(|output| output.status.success());
    let sysroot = sysroot.and_then(|output| String::from_utf8(output.stdout).ok());
    let source = "lib/rustlib/src/rust/library/Cargo.lock";
    match sysroot.map(|sysroot| Path::new(sysroot.trim()).join(source)) {
        Some(source) if source.exists() => Ok(()),
        _ => Err("nightly has no source of the standard library; add it with `rustup component \
                  add rust-src --toolchain nightly`"
            .to_owned()),
    }
}

/// Where rustc looks for a target's standard library there is a directory only if it is installed.
fn targets() -> Presence {
    let is_missing = |target: &&Target| {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", target.name]).stdin(Stdio::null());
        let printed = rustc.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
        !printed.is_some_and(|directory| Path::new(directory.trim()).is_dir())
    };
    let missing: Vec<&str> = TARGETS.iter().filter(is_missing).map(|target| target.name).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("install targets with `rustup target add {}`", missing.join(" "))),
    }
}

/// The names in the `[[bin]]` sections of the manifest of `fuzz/`.
fn target_names(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    targets.filter_map(|target| Some(target.get("name")?.as_str()?.to_owned())).collect()
}

fn read_manifest(path: &Path) -> io::Result<Table> {
    let named = |error: toml::de::Error| io::Error::other(format!("{}: {error}", path.display()));
    fs::read_to_string(path)?.parse().map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_targets_are_the_binaries() {
        let manifest = "[package]\nname = \"fuzz\"\n\n[[bin]]\nname = \"frame\"\ntest = false\n\n\
                        [dependencies]\n\n[[bin]]\nname = \"region\"\n";
        assert_eq!(target_names(&manifest.parse().unwrap()), ["frame", "region"]);
    }
}
