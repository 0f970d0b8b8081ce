//! `cargo xtask device`: builds what is small in memory, for images of devices.
//!
//! Below the target directory, in `device`, is then the host and the service that is measured, each
//! with a runtime of its own, and in `device/shared` the same with one runtime for all of them: the
//! library of the crate `nearcall-runtime`, which has of Rust's own what it needs.
//! **Invariants:** what shares a runtime was built with it, at once: the names of its functions
//! have a word of this build, so that the dynamic linker refuses what is of another.
//! **Not here:** what that costs and saves (`docs/book/src/guides/memory.md`).

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
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
const FILES: [&str; 4] = [
    "nearcall-host",
    "nearcall-group",
    "examples/nearcall-bench-service",
    "libnearcall_bench_service.so",
];

/// The flags of the compiler by which the addresses that are relocated are a table of bits, which
/// the C library has to know (glibc 2.36, musl 1.2.4). The usual table has 24 bytes for each.
const PACKED: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";

/// The variable in which Cargo takes flags of the compiler with a character between them that no
/// path has. As there is a `--target`, they are not for build scripts.
const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// The file of the runtime that is shared.
const RUNTIME: &str = "libnearcall_runtime.so";

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
    let compiler = succeed(Command::new("rustc").arg("-vV"))?;
    let find = |name: &str| compiler.lines().find_map(|line| line.strip_prefix(name));
    let machine = find("host: ").ok_or_else(|| io::Error::other("rustc names no machine"))?;
    let built = target.join(machine).join(PROFILE);

    share(root, machine, &built, &shared)?;
    succeed(services(cargo(root, machine)).env(FLAGS, PACKED))?;
    copy(&built, &device)?;
    for directory in [&device, &shared] {
        let mut entries: Vec<_> = fs::read_dir(directory)?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries.iter().filter(|entry| entry.path().is_file()) {
            writeln!(out, "{}: {} bytes", entry.path().display(), entry.metadata()?.len())?;
        }
    }
    Ok(())
}

/// Builds what shares one runtime: with all that the runtime has, which shows what the rest needs
/// of it; then the runtime alone again, with that only.
fn share(root: &Path, machine: &str, built: &Path, shared: &Path) -> io::Result<()> {
    let flags = flags(root, &sysroot(machine, built)?)?;
    let mut build = services(cargo(root, machine));
    build.args(["--package", "nearcall-runtime", "--message-format", "json"]);
    // What link-time optimisation would leave out, others may need.
    build.env("CARGO_PROFILE_SMALL_LTO", "off").env(FLAGS, flags.join("\x1f"));
    let messages = succeed(&mut build)?;
    copy(built, shared)?;
    let exports = built.join("nearcall_runtime.exports");
    fs::write(&exports, version_script(&built.join(RUNTIME), shared)?)?;

    // By Cargo it would be built with other features of its dependencies, or with all the rest.
    let nearcall = messages.lines().find_map(library_of_nearcall);
    let nearcall = nearcall.ok_or_else(|| io::Error::other("cargo has built no nearcall"))?;
    let mut link = Command::new("rustc");
    link.current_dir(root).args(["--crate-name=nearcall_runtime", "--crate-type=dylib"]);
    link.args(["--edition=2024", "--target", machine, "-Copt-level=s", "-Cstrip=symbols"]);
    link.arg("crates/nearcall-runtime/src/lib.rs").arg("--out-dir").arg(shared);
    link.arg(format!("--extern=nearcall={nearcall}"));
    for directory in [built.to_owned(), root.join(facts::target_directory(root)).join(PROFILE)] {
        link.arg(format!("-Ldependency={}", directory.join("deps").display()));
    }
    succeed(link.args(flags).env("NEARCALL_EXPORTS", exports)).map(drop)
}

/// Returns the file that a message of Cargo names, if that is the library nearcall.
fn library_of_nearcall(message: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["name"] != "nearcall" {
        return None;
    }
    let mut files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
    files.find(|file| file.ends_with(".rlib")).map(str::to_owned)
}

/// Returns which symbols of the runtime the files of a directory need, in the words of the linker.
fn version_script(runtime: &Path, directory: &Path) -> io::Result<String> {
    let symbols = |words: &[&str], file: &Path| -> io::Result<BTreeSet<String>> {
        let text = succeed(Command::new("nm").args(["-D", "-P"]).args(words).arg(file))?;
        Ok(text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect())
    };
    let offered = symbols(&["--defined-only"], runtime)?;
    let mut needed = BTreeSet::new();
    for file in FILES {
        let name = Path::new(file).file_name().unwrap_or_default();
        needed.append(&mut symbols(&["--undefined-only"], &directory.join(name))?);
    }
    let exported: Vec<String> =
        needed.intersection(&offered).map(|name| format!("{name};\n")).collect();
    Ok(format!("{{\nglobal:\n{}local: *;\n}};\n", exported.concat()))
}

fn cargo(root: &Path, machine: &str) -> Command {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "--quiet", "--profile", PROFILE, "--target", machine]);
    build
}

fn services(mut build: Command) -> Command {
    build.args(["--lib", "--bins", "--example", "nearcall-bench-service"]);
    build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    build
}

/// Makes a copy of the compiler's directories without Rust's own dynamic library, and returns it:
/// the runtime then has in itself what it needs of that, which is a third.
fn sysroot(machine: &str, built: &Path) -> io::Result<PathBuf> {
    let whole = succeed(Command::new("rustc").args(["--print", "sysroot"]))?;
    let part = Path::new("lib/rustlib").join(machine);
    let (whole, made) = (Path::new(whole.trim()).join(&part), built.join("sysroot"));
    match fs::remove_dir_all(&made) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let to = made.join(part);
    fs::create_dir_all(to.join("lib"))?;
    if whole.join("bin").is_dir() {
        symlink(whole.join("bin"), to.join("bin"))?;
    }
    for entry in fs::read_dir(whole.join("lib"))? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with(".so") {
            symlink(entry.path(), to.join("lib").join(name))?;
        }
    }
    Ok(made)
}

/// Returns the flags of the compiler by which everything shares one runtime. The word of the build
/// is made from what is built.
fn flags(root: &Path, sysroot: &Path) -> io::Result<Vec<String>> {
    let mut word = DefaultHasher::new();
    for words in [&["ls-tree", "HEAD"][..], &["diff", "HEAD", "--"]] {
        let mut git = Command::new("git");
        git.current_dir(root).args(words).args(["crates", "Cargo.toml", "Cargo.lock"]);
        succeed(&mut git)?.hash(&mut word);
    }
    Ok(vec![
        PACKED.to_owned(),
        "-Clink-arg=-Wl,-rpath,$ORIGIN".to_owned(),
        "--cfg=nearcall_shared".to_owned(),
        format!("-Cmetadata={:x}", word.finish()),
        format!("-Clinker={}", root.join("crates/nearcall-runtime/cc.sh").display()),
        format!("--sysroot={}", sysroot.display()),
    ])
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
