//! Reads an archive of the public ipc-bench data set into a run of its own kind.
//!
//! **Invariants:** figures are kept as they were published and are never given a statistic, grade
//! or interval that they do not have; what is known to be wrong with them stands in the run's
//! warnings. Mechanisms have the prefix [`PREFIX`], since they are that program's own, and two
//! round trips have a definition of their own, so that no table mixes them with one. Nothing is
//! unpacked: `import/archive.rs` reads the files into memory within limits, `import/results.rs`
//! makes cells of their lines. What the logs lack about the machine is "unknown"; nothing of
//! the machine that imports gets in.
//!
//! **Invariant:** nothing of an imported archive reaches the disk, and every limit is checked
//! before memory is allocated. *Checked by*
//! `what_would_lead_out_of_the_archive_is_refused_by_name`, `a_bomb_of_a_few_kilobytes_is_stopped`,
//! `no_change_of_an_archive_makes_it_panic`, `fuzz/fuzz_targets/import.rs`.

mod archive;
mod results;

use std::collections::BTreeSet;
use std::io::Read;

pub use self::archive::{
    ARCHIVE_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX, ImportError, NAME_BYTES_MAX,
    UNPACKED_BYTES_MAX,
};
use self::archive::{Archive, LIMITS};
use self::results::Results;
pub use self::results::{CELLS_MAX, CPUS_MAX, PREFIX};
use crate::machine::{Stated, from_files, processor};
use crate::run::{
    Cell, Definition, Imported, Kind, Machine, Matrix, Run, Settings, Skipped, Tool, UNKNOWN,
};
use crate::system_files::SystemFiles;
use crate::topology::Topology;

/// Reads a gzipped archive. `file` is its name, for the record.
///
/// # Errors
///
/// [`ImportError`]: the archive is unsafe, too large, damaged, or of another form.
pub fn import(gzip: impl Read, file: &str) -> Result<Run, ImportError> {
    to_run(&Archive::read_gzip(gzip, &LIMITS)?, file)
}

/// Reads an archive that is not compressed.
///
/// # Errors
///
/// As [`import`].
pub fn import_tar(tar: impl Read, file: &str) -> Result<Run, ImportError> {
    to_run(&Archive::read_tar(tar, &LIMITS)?, file)
}

fn to_run(archive: &Archive, file: &str) -> Result<Run, ImportError> {
    let (topology, machine) = machine(archive);
    let Results { cells, unknown, refused, first_refused } = Results::read(archive, &topology)?;
    if cells.is_empty() {
        return Err(ImportError::Form(match first_refused {
            Some(first) => {
                format!("none of {refused} lines of results can be read; the first: {first}")
            }
            None => "not an ipc-bench archive: no results/01-NAME_thr-headline.log and no \
                     results/lat/NAME.csv"
                .to_owned(),
        }));
    }
    let cells: Vec<Cell> = cells.into_values().collect();
    let mechanisms: BTreeSet<&String> = cells.iter().map(|cell| &cell.mechanism).collect();
    let sizes_bytes: BTreeSet<u64> = cells.iter().map(|cell| cell.message_bytes).collect();
    let has = |kind: &Kind| cells.iter().any(|cell| cell.kind == *kind);
    let settings = Settings {
        arguments: vec!["data".to_owned(), "import".to_owned(), file.to_owned()],
        kinds: [Kind::Latency, Kind::Throughput].into_iter().filter(has).collect(),
        mechanisms: mechanisms.into_iter().cloned().collect(),
        sizes_bytes: sizes_bytes.into_iter().collect(),
        wait: UNKNOWN.to_owned(),
        placement: "pin".to_owned(),
        // Not ours, so that no table takes it for one of ours.
        touch: FORM.to_owned(),
        launches: 1,
        ..Settings::default()
    };
    let (first_s, last_s) = archive.written_unix_s;
    let mut run = Run::new(machine, settings, first_s);
    run.finished_unix_s = Some(last_s);
    let (version, profile, compiler) = (FORM.to_owned(), UNKNOWN.to_owned(), UNKNOWN.to_owned());
    run.tool = Tool { version, profile, compiler };
    let (form, file) = (FORM.to_owned(), file.to_owned());
    run.imported = Some(Imported { form, file, lines_refused: refused });
    run.matrix = matrix(&cells, &topology);
    run.warnings = warnings(&cells);
    if !archive.files.contains_key("logs/cpuinfo") {
        run.warnings.push("no logs/cpuinfo: the machine is not known".to_owned());
    }
    run.warnings.extend(
        first_refused.map(|first| {
            format!("{refused} lines of results could not be read; the first: {first}")
        }),
    );
    run.skipped = unknown.iter().map(|test| skipped(test)).collect();
    run.cells = cells;
    Ok(run)
}

fn skipped(test: &str) -> Skipped {
    Skipped {
        mechanism: format!("{PREFIX}{test}"),
        reason: "what its figures mean is not known".to_owned(),
        ..Skipped::default()
    }
}

/// Which CPUs there are: those that cells name.
fn matrix(cells: &[Cell], topology: &Topology) -> Option<Matrix> {
    let of = |cell: &Cell| [cell.placement.client_cpu, cell.placement.server_cpu];
    let mut cpus: BTreeSet<u32> = cells.iter().flat_map(of).flatten().collect();
    let known = topology.cpus.iter().map(|cpu| u32::try_from(cpu.number).unwrap_or(u32::MAX));
    cpus.extend(known.take(CPUS_MAX));
    let pairs = (cpus.len() * cpus.len()) as u64;
    (!cpus.is_empty()).then(|| Matrix { cpus: cpus.into_iter().collect(), pairs, left_out: 0 })
}

/// What is known to be wrong with such figures, in sentences with counts. A defect is named if a
/// cell has it, and only then.
fn warnings(cells: &[Cell]) -> Vec<String> {
    let count = |is: &dyn Fn(&&Cell) -> bool| cells.iter().filter(is).count();
    let times = count(&|cell| cell.kind == Kind::Latency);
    let rates = cells.len() - times;
    let at_step = count(&|cell| cell.tags.iter().any(|tag| tag == results::AT_STEP));
    let two = count(&|cell| cell.definition == Definition::TwoRtt);
    let batched = format!("{PREFIX}mempipe");
    let batched = count(&|one| one.kind == Kind::Throughput && one.mechanism.starts_with(&batched));
    let mut all = Vec::new();
    let mut say = |is_so: bool, text: &str| all.extend(is_so.then(|| text.to_owned()));
    say(
        true,
        "measured by ipc-bench with its own implementations; no interval, no grade, no record of \
         load, clock frequency and sleep states",
    );
    let steps = format!(
        "times were printed in steps of one microsecond; {at_step} of {times} are 0 or 1 µs and \
         say only that (marked {}); they are arithmetic means: one interruption moves them, and \
         there is no median",
        results::AT_STEP
    );
    say(times > 0, &steps);
    let flags = "times of mempipe count two round trips and no payload; they stand apart from \
                 those of one";
    say(two > 0, &format!("{two} {flags}"));
    say(
        rates > 0,
        "rates include writing each message, and those with \"verify\" also checking it, which \
         alone can cost four times the transfer; they were rounded down to whole Mb/s",
    );
    say(
        batched > 0,
        "rates of mempipe gain from publishing messages in batches, which its times do not",
    );
    say(
        true,
        "no warm-up, memory not touched before, ends pinned only after set-up; each figure was \
         measured once",
    );
    all
}

/// How the CPUs are related, and the machine record with its id. The host's name is left out.
fn machine(archive: &Archive) -> (Topology, Machine) {
    let log = |name: &str| archive.files.get(&format!("logs/{name}")).map(String::as_str);
    let files = system_files(archive);
    let topology = processor::topology(&files);
    let mut machine = from_files(&files, Stated::default());
    // The kernel's release is the last word but one of `uname -srm`.
    let words: Vec<&str> = log("uname").unwrap_or_default().split_ascii_whitespace().collect();
    let known = |word: Option<&str>| word.unwrap_or(UNKNOWN).to_owned();
    let is_release = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    // With `uname -a` the host's name comes before it, and may begin with a digit as well.
    let release = words.get(if words.len() > 3 { 2 } else { 1 }).copied().filter(is_release);
    machine.kernel = known(release.map(|release| format!("Linux {release}")).as_deref());
    let is_architecture = |word: &&str| ["x86_64", "i686", "aarch64", "ppc64"].contains(word);
    machine.architecture = known(words.iter().copied().find(is_architecture));
    if machine.hypervisor == "none" {
        // In an older kernel a missing flag means nothing.
        machine.hypervisor = UNKNOWN.to_owned();
    }
    machine.limits.clear();
    machine.kernel_config.clear();
    if log("cpuinfo").and_then(processor::model).is_none() {
        // Two machines that nothing is known of are not one.
        machine.cpu_model = format!("{UNKNOWN} (archive {:016x})", archive.hash);
    }
    machine.set_id();
    (topology, machine)
}

/// The logs under the names that they had on the machine.
fn system_files(archive: &Archive) -> SystemFiles {
    const SYSTEM: &str = "/sys/devices/system";
    let mut files: Vec<(String, &str)> = Vec::new();
    for (name, text) in &archive.files {
        let Some(log) = name.strip_prefix("logs/") else { continue };
        let path = match log.split_once('/') {
            // The kernel makes a file of `/sys` in one page.
            _ if text.len() > 4_096 && log.starts_with("sys-") => continue,
            // The directories, which are bounded, show what is online.
            Some((_, "online")) => continue,
            Some(("sys-cpu", rest)) => format!("{SYSTEM}/cpu/{rest}"),
            Some(("sys-node", rest)) => format!("{SYSTEM}/node/{rest}"),
            _ if log == "cpuinfo" || log == "meminfo" => format!("/proc/{log}"),
            _ => continue,
        };
        files.push((path, text.as_str()));
    }
    let cpus = numbers(archive, "logs/sys-cpu/cpu", CPUS_LISTED_MAX);
    let nodes = numbers(archive, "logs/sys-node/node", NODES_MAX);
    for (directory, numbers) in [("cpu", &cpus), ("node", &nodes)] {
        if !numbers.is_empty() {
            files.push((format!("{SYSTEM}/{directory}/online"), numbers.as_str()));
        }
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    SystemFiles::forged(&files)
}

/// The numbers below `end` behind `prefix` in names of directories: "0,1,2".
fn numbers(archive: &Archive, prefix: &str, end: u32) -> String {
    let rests = archive.files.keys().filter_map(|name| name.strip_prefix(prefix));
    let numbers = rests.filter_map(|rest| rest.split_once('/')?.0.parse::<u32>().ok());
    let numbers: BTreeSet<u32> = numbers.filter(|&number| number < end).collect();
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// CPUs that are looked at. ipc-bench names 160; what else a machine has only counts.
const CPUS_LISTED_MAX: u32 = 1_024;

/// Memory nodes that are looked at: each is compared with each CPU.
const NODES_MAX: u32 = 64;

/// Whose archives these are.
const FORM: &str = "ipc-bench";
