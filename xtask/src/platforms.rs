//! `cargo xtask platforms`: builds for every platform of the README, and runs tests on each.
//!
//! Programs for other processors run under `qemu-user`, by binfmt_misc, since tests start
//! themselves again. Kernels boot under `qemu-system-x86_64` without KVM, from a picture of a file
//! system whose init runs static test programs. What is missing here is said in the table.
//! Invariants: a platform whose tests did not run is never shown as passed.
//! Not here: the check of CI that all of them compile (`plan.rs`).

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::child::{Child, succeed};

/// Which platforms `cargo xtask platforms` tries.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Options {
    /// The kernels to boot, as files such as /boot/vmlinuz-6.1.0-56-cloud-amd64
    #[arg(long = "kernel", value_name = "FILE")]
    kernels: Vec<PathBuf>,
    /// Try only platforms whose names have this in them
    #[arg(long, value_name = "PART", default_value = "")]
    only: String,
}

/// A processor and a C library.
pub(crate) struct Target {
    /// As rustc names it.
    pub(crate) name: &'static str,
    /// The linker, and the package of Debian that has it.
    linker: (&'static str, &'static str),
    /// The name of `qemu-user` for it, if tests run under that.
    emulator: Option<&'static str>,
    /// Where the emulator finds the C library.
    libraries: &'static str,
    runs: bool,
}

/// What the README names, apart from what everything is developed on.
pub(crate) const TARGETS: [Target; 4] = [
    Target {
        name: STATIC,
        linker: ("musl-gcc", "musl-tools"),
        emulator: None,
        libraries: "/",
        runs: true,
    },
    Target {
        name: "aarch64-unknown-linux-gnu",
        linker: ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        emulator: Some("qemu-aarch64"),
        libraries: "/usr/aarch64-linux-gnu",
        runs: true,
    },
    Target {
        name: "armv7-unknown-linux-gnueabihf",
        linker: ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"),
        emulator: Some("qemu-arm"),
        libraries: "/usr/arm-linux-gnueabihf",
        runs: true,
    },
    Target {
        name: "riscv64gc-unknown-linux-gnu",
        linker: ("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
        emulator: None,
        libraries: "/usr/riscv64-linux-gnu",
        runs: false,
    },
];

/// The target whose programs need nothing but a kernel.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// What is built for each target. The program needs the C compiler of the target, for TLS.
const PRODUCT: [&str; 6] = [
    "check",
    "--package=nearcall-cli",
    "--package=nearcall-c",
    "--package=nearcall-host",
    "--package=nearcall-otel",
    "--package=nearcall-prometheus",
];
/// The tests that run on each target: the unit tests and the conformance suite.
const TESTS: [&str; 4] =
    ["test", "--no-run", "--package=nearcall-channel", "--package=nearcall-wire"];
/// The tests that run on each kernel beside them.
const CALLS: [&str; 4] = ["test", "--no-run", "--package=nearcall", "--test=it"];
/// Of those tests, what finds servers and notices their ends.
const OF_CALLS: &str = "attach:: hunts::";
/// Tests that read files of the repository, which a kernel alone does not have.
const WITHOUT_FILES: &str = "--skip document:: --skip golden::";
/// Limit of one test program: an emulator is ten times slower than the processor.
const RUN_LIMIT: Duration = Duration::from_secs(2400);
/// Limit of a kernel with all of its tests.
const BOOT_LIMIT: Duration = Duration::from_secs(5400);
/// Memory of the machine that a kernel boots on: test programs lie in it as well.
const MEMORY: &str = "2048";
/// The last line of an init that ran to its end.
const END: &str = "nearcall-init: end";
/// Where Debian's `busybox-static` lies.
const BUSYBOX: &str = "/bin/busybox";

/// What came of one platform.
#[derive(Debug, Default)]
struct Row {
    name: String,
    built: String,
    tally: Tally,
    /// Why nothing was run, or what went wrong.
    problem: Option<String>,
}

/// What test programs have printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: Vec<String>,
    programs: u64,
    unsupported: Vec<String>,
}

/// Tries the platforms and prints the table. What it writes for itself lies in `written`. Returns
/// whether all passed that were tried; a missing tool is a failure.
///
/// # Errors
///
/// The table cannot be written.
pub fn run(
    root: &Path,
    written: &Path,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut rows = Vec::new();
    for target in TARGETS.iter().filter(|target| target.name.contains(&options.only)) {
        rows.push(try_target(root, target));
    }
    for kernel in &options.kernels {
        rows.push(try_kernel(root, written, kernel));
    }
    out.write_all(table(&rows).as_bytes())?;
    Ok(rows.iter().all(|row| row.tally.failed.is_empty() && row.problem.is_none()))
}

fn try_target(root: &Path, target: &Target) -> Row {
    let mut row = Row { name: target.name.to_owned(), built: "no".into(), ..Row::default() };
    if let Err(problem) = build_and_run(root, target, &mut row) {
        row.problem = Some(problem.to_string());
    }
    row
}

fn build_and_run(root: &Path, target: &Target, row: &mut Row) -> io::Result<()> {
    let (linker, package) = target.linker;
    if Command::new(linker).arg("--version").output().is_err() {
        return Err(io::Error::other(format!("there is no {linker}: install {package}")));
    }
    succeed(cargo(root, target).args(PRODUCT))?;
    row.built = "yes".into();
    if !target.runs {
        return Ok(());
    }
    if let Some(emulator) = target.emulator
        && !Path::new("/proc/sys/fs/binfmt_misc").join(emulator).exists()
    {
        let text = format!("binfmt_misc has no {emulator}: install qemu-user-binfmt");
        return Err(io::Error::other(text));
    }
    for (_, program) in test_programs(root, target, &TESTS)? {
        let mut test = Command::new(&program);
        // Where `cargo test` would run it, for tests that read files of the repository.
        test.current_dir(root).env("QEMU_LD_PREFIX", target.libraries);
        test.args(["--test-threads=2"]);
        // Its last lines name what failed; the tally is made of those that come before.
        let ran = Child::start(&mut test)?.collect(RUN_LIMIT)?;
        row.tally.add(&ran);
    }
    Ok(())
}

fn cargo(root: &Path, target: &Target) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).env("CARGO_PROFILE_DEV_DEBUG", "0");
    let variable = target.name.to_uppercase().replace('-', "_");
    if target.name != STATIC {
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), target.linker.0);
    }
    cargo.env("CARGO_BUILD_TARGET", target.name);
    cargo
}

/// Builds tests; returns the names and paths of their programs.
fn test_programs(
    root: &Path,
    target: &Target,
    arguments: &[&str],
) -> io::Result<Vec<(String, PathBuf)>> {
    let printed = succeed(cargo(root, target).args(arguments).arg("--message-format=json"))?;
    Ok(printed.lines().filter_map(executable).collect())
}

/// Returns the name and the path of a program that a line of Cargo's output is about.
fn executable(line: &str) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let package = manifest.parent()?.file_name()?.to_str()?;
    let name = message.get("target")?.get("name")?.as_str()?;
    Some((format!("{package}.{name}"), path))
}

impl Tally {
    /// Counts what one or several test programs have printed.
    fn add(&mut self, printed: &str) {
        for line in printed.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("test result: ") {
                self.programs += 1;
                let passed = rest.split_once(". ").and_then(|(_, rest)| rest.split_once(" passed"));
                self.passed += passed.and_then(|(count, _)| count.parse().ok()).unwrap_or(0_u64);
            } else if let Some((name, _)) = line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "))
                .filter(|(_, end)| end.ends_with("FAILED"))
            {
                self.failed.push(name.to_owned());
            } else if let Some((mechanism, reason)) = line.split_once(": unsupported: ") {
                let words = format!("{}: {reason}", mechanism.rsplit(' ').next().unwrap_or(""));
                if !self.unsupported.contains(&words) {
                    self.unsupported.push(words);
                }
            }
        }
    }
}

fn try_kernel(root: &Path, written: &Path, kernel: &Path) -> Row {
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    let mut row = Row { name: name.into_owned(), built: "no".into(), ..Row::default() };
    if let Err(problem) = boot(root, written, kernel, &mut row) {
        row.problem = Some(problem.to_string());
    }
    row
}

fn boot(root: &Path, written: &Path, kernel: &Path, row: &mut Row) -> io::Result<()> {
    let missing = |what: &str, error| io::Error::other(format!("{what}: {error}"));
    let busybox = fs::read(BUSYBOX)
        .map_err(|error| missing("/bin/busybox (install busybox-static)", error))?;
    let [target, ..] = &TARGETS;
    let mut programs = test_programs(root, target, &TESTS)?;
    programs.extend(test_programs(root, target, &CALLS)?);
    row.built = "yes".into();
    let picture = written.join("platforms.cpio");
    let mut picture_bytes = Vec::new();
    for directory in ["bin", "proc", "sys", "dev", "tmp", "run", "tests"] {
        entry(&mut picture_bytes, directory, 0o04_0755, &[]);
    }
    entry(&mut picture_bytes, "bin/busybox", 0o10_0755, &busybox);
    for (name, path) in &programs {
        entry(&mut picture_bytes, &format!("tests/{name}"), 0o10_0755, &fs::read(path)?);
    }
    let names: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
    entry(&mut picture_bytes, "init", 0o10_0755, init(&names).as_bytes());
    entry(&mut picture_bytes, "TRAILER!!!", 0, &[]);
    fs::write(&picture, picture_bytes)?;
    let mut machine = Command::new("qemu-system-x86_64");
    machine.args(["-accel", "tcg", "-m", MEMORY, "-smp", "2", "-nographic", "-no-reboot"]);
    machine.args(["-cpu", "max", "-nic", "none", "-append", "console=ttyS0 quiet panic=-1"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(&picture);
    let printed = Child::start(&mut machine)?.collect(BOOT_LIMIT);
    fs::remove_file(&picture)?;
    let printed = printed?;
    row.tally.add(&printed);
    match printed.contains(END) {
        true => Ok(()),
        false => {
            let rest: Vec<&str> = printed.lines().rev().take(3).collect();
            Err(io::Error::other(format!("its init did not end: {rest:?}")))
        }
    }
}

/// Returns the program that a kernel runs first: it mounts what tests need, and runs them.
fn init(programs: &[&str]) -> String {
    let mut script = String::from(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin\n\
         export PATH=/bin\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
         mkdir -p /dev/shm /dev/mqueue\n\
         mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run\n\
         mount -t mqueue mqueue /dev/mqueue\n\
         ip link set lo up\n\
         uname -r\n",
    );
    for name in programs {
        let which = if name.starts_with("nearcall.") { OF_CALLS } else { "" };
        let _ = writeln!(script, "/tests/{name} --test-threads=2 {which} {WITHOUT_FILES}");
    }
    let _ = writeln!(script, "echo {END}\npoweroff -f");
    script
}

/// Adds a file or a directory to a picture of a file system, in the format `newc` of cpio.
fn entry(picture: &mut Vec<u8>, name: &str, mode: u32, contents: &[u8]) {
    let (links, device) = (1, 0);
    // The kernel takes files with equal numbers for links to one file only if they have several.
    let fields = [
        0,
        mode as usize,
        0,
        0,
        links,
        0,
        contents.len(),
        device,
        device,
        device,
        device,
        name.len() + 1,
        0,
    ];
    picture.extend_from_slice(b"070701");
    for field in fields {
        picture.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    picture.extend_from_slice(name.as_bytes());
    picture.push(0);
    picture.resize(picture.len().next_multiple_of(4), 0);
    picture.extend_from_slice(contents);
    picture.resize(picture.len().next_multiple_of(4), 0);
}

/// Returns the rows as a table, and below it what failed and what was unsupported.
fn table(rows: &[Row]) -> String {
    let mut text = String::from("| platform | built | tests | result |\n|---|---|--:|---|\n");
    for Row { name, built, tally, problem } in rows {
        let result = match (problem, tally.failed.len(), tally.programs) {
            (Some(problem), ..) => problem.replace(['\n', '|'], " "),
            (None, 0, 0) => "not run".to_owned(),
            (None, 0, _) => "passed".to_owned(),
            (None, failed, _) => format!("{failed} failed"),
        };
        let _ = writeln!(text, "| {name} | {built} | {} | {result} |", tally.passed);
    }
    for row in rows {
        for failed in &row.tally.failed {
            let _ = writeln!(text, "{}: failed: {failed}", row.name);
        }
        for unsupported in &row.tally.unsupported {
            let _ = writeln!(text, "{}: unsupported: {unsupported}", row.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_print_is_counted() {
        let mut tally = Tally::default();
        tally.add(
            "running 3 tests\ncma: unsupported: no process_vm_readv\ntest a::b ... ok\n\
             test a::c ... FAILED\ncma: unsupported: no process_vm_readv\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored\n\
             test result: ok. 40 passed; 0 failed; 0 ignored\n",
        );
        let expected = Tally {
            passed: 42,
            failed: vec!["a::c".to_owned()],
            programs: 2,
            unsupported: vec!["cma: no process_vm_readv".to_owned()],
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_platform_without_tests_is_not_passed() {
        let row = |problem: Option<&str>, programs| Row {
            name: "x".into(),
            built: "yes".into(),
            tally: Tally { programs, passed: programs, ..Tally::default() },
            problem: problem.map(str::to_owned),
        };
        let text = table(&[row(None, 0), row(Some("no qemu"), 0), row(None, 1)]);
        let results: Vec<&str> = text.lines().skip(2).collect();
        let expected = ["| x | yes | 0 | not run |", "| x | yes | 0 | no qemu |"];
        assert_eq!(results[..2], expected);
        assert_eq!(results[2], "| x | yes | 1 | passed |");
    }

    #[test]
    fn an_entry_of_a_picture_begins_at_a_multiple_of_four() {
        let mut picture = Vec::new();
        entry(&mut picture, "init", 0o10_0755, b"abc");
        assert_eq!(picture.len(), 110 + 6 + 4);
        let sizes = std::str::from_utf8(&picture[54..62]).unwrap();
        assert_eq!(usize::from_str_radix(sizes, 16).unwrap(), 3);
    }

    #[test]
    fn a_program_is_named_by_its_package() {
        let line = r#"{"executable":"/t/it-1","manifest_path":"/r/crates/nearcall/Cargo.toml",
            "target":{"name":"it"}}"#;
        assert_eq!(executable(line), Some(("nearcall.it".to_owned(), "/t/it-1".into())));
        assert_eq!(executable(r#"{"reason":"build-finished"}"#), None);
    }
}
