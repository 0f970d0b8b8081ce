//! Some equal services as processes, as libraries of hosts, and linked into one program.
//!
//! In each round every set-up is started, called, read and ended, in an order that changes from
//! round to round. Start-up time counts from before the first process is started until each
//! service has answered a call. Memory is read when the caller has gone. Then what can still be
//! allocated is measured, as the thesis did it, and last what a call from the first service to the
//! second costs.
//! **Invariants:** no process of a set-up is left when the next one starts. A figure that others
//! have disturbed does not count.
//! **Not here:** the files (`files.rs`), the allocation and who disturbs it (`room.rs`).

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::service::LISTEN_VARIABLE;
use nearcall::{CallOptions, Client};
use nearcall_bench_service::setup::{MeasureRequest, MemberCaller};
use nearcall_bench_service::{LINKED, NONBLOCKING};
use nearcall_host::library::LibraryConfig;
use nearcall_host::program::GROUP;
use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::procfs_memory::{Rollup, rollup};
use nearcall_results::findings::memory::{MemoryMap, Setup, SetupMemory, SetupsMemory};

use super::Stop;
use super::allocator::BLOCK_BYTES;
use super::files::{BuildCopies, Copies, ServiceFiles};
use super::{budget, map, room};
use crate::runner::RunContext;
use crate::stats;

/// Measures every set-up with each number of services.
pub(super) fn measure(
    counts: &[u32],
    rounds: usize,
    files: &ServiceFiles,
    context: &RunContext<'_>,
) -> Result<SetupsMemory, Stop> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let copies = Copies::new(files, most);
    let copies = copies.map_err(|error| format!("cannot copy the measured services: {error}"))?;
    let budget_bytes = budget::bytes(u64::from(most) * BUDGET_BYTES_PER_SERVICE);
    let mut found = SetupsMemory {
        limit: room::limit_words(budget_bytes),
        budget_bytes: budget_bytes.unwrap_or(0),
        block_bytes: BLOCK_BYTES,
        ..SetupsMemory::default()
    };
    for &services in counts {
        let row = |&setup| SetupMemory { setup, services, ..SetupMemory::default() };
        found.setups.extend(setups_of(&copies).iter().map(row));
    }
    let bench = Bench { copies: &copies, budget_bytes, context };
    let steps = rounds * counts.len();
    for step in 0..steps {
        let (round, services) = (step / counts.len(), counts[step % counts.len()]);
        (context.progress)(step, steps, &format!("{services} services"));
        match bench.round(round, services, &mut found) {
            Ok(()) => {}
            Err(Stop::Failed(reason)) if step == 0 => return Err(Stop::Failed(reason)),
            Err(stop) => {
                found.partial = Some(stop.to_string());
                break;
            }
        }
    }
    Ok(found)
}

/// Looks at where the memory of services lies, and that of the host of libraries.
pub(super) fn maps(files: &ServiceFiles, context: &RunContext<'_>) -> Result<Vec<MemoryMap>, Stop> {
    let most = MAPPED.iter().map(|row| row.2).max().unwrap_or(0);
    let copies = Copies::new(files, most);
    let copies = copies.map_err(|error| format!("cannot copy the measured services: {error}"))?;
    let bench = Bench { copies: &copies, budget_bytes: None, context };
    let mapped: Vec<_> = MAPPED.iter().filter(|row| files_of(row.1, &copies).is_ok()).collect();
    let mut maps: Vec<MemoryMap> = Vec::new();
    for (done, &&(what, setup, services, has_client)) in mapped.iter().enumerate() {
        (context.progress)(done, mapped.len(), what);
        let map = bench.map(what, setup, services, has_client)?;
        let growth = maps
            .last()
            .filter(|_| services == SEVERAL)
            .map(|one| map.growth(one, SEVERAL - 1, &format!("each further library of {what}")));
        maps.push(map);
        maps.extend(growth);
    }
    (context.progress)(mapped.len(), mapped.len(), "");
    Ok(maps)
}

/// What is looked at: in words, the set-up, the number of services, and whether a client stays
/// connected to each. The row before that of [`SEVERAL`] libraries has one.
const MAPPED: [(&str, Setup, u32, bool); 10] = [
    ("a process", Setup::Processes, 1, false),
    ("a process with a client", Setup::Processes, 1, true),
    ("a host", Setup::Libraries, 0, false),
    ("a host with a library", Setup::Libraries, 1, false),
    ("a host with five libraries", Setup::Libraries, SEVERAL, false),
    ("a process of a shared runtime", Setup::SharedProcesses, 1, false),
    ("a process of a shared runtime with a client", Setup::SharedProcesses, 1, true),
    ("a host of a shared runtime", Setup::SharedLibraries, 0, false),
    ("a host of a shared runtime with a library", Setup::SharedLibraries, 1, false),
    ("a host of a shared runtime with five libraries", Setup::SharedLibraries, SEVERAL, false),
];

const SEVERAL: u32 = 5;

/// What a measurement goes by.
struct Bench<'a> {
    copies: &'a Copies,
    budget_bytes: Option<u64>,
    context: &'a RunContext<'a>,
}

/// One set-up in one round.
struct Reading {
    processes: u32,
    memory: Rollup,
    start_up_ns: u64,
    allocated_bytes: Option<u64>,
    call_ns: Option<f64>,
}

impl Bench<'_> {
    /// Measures every set-up once. What can be allocated without any is measured first.
    fn round(&self, round: usize, services: u32, found: &mut SetupsMemory) -> Result<(), Stop> {
        let without_bytes = self.read(None, 0)?.allocated_bytes;
        let setups = setups_of(self.copies);
        for turn in 0..setups.len() {
            let setup = setups[(round + turn) % setups.len()];
            let reading = self.read(Some(setup), services)?;
            let mut rows = found.setups.iter_mut();
            let row = rows.find(|row| row.setup == setup && row.services == services);
            let Some(row) = row else { continue };
            let Rollup { rss_bytes, pss_bytes, private_bytes, .. } = reading.memory;
            row.processes = reading.processes;
            row.rss_bytes.push(rss_bytes);
            row.pss_bytes.push(pss_bytes);
            row.private_bytes.push(private_bytes);
            row.shared_bytes.push(rss_bytes.saturating_sub(private_bytes));
            row.start_up_ns.push(reading.start_up_ns);
            row.call_ns.extend(reading.call_ns);
            match without_bytes.zip(reading.allocated_bytes) {
                Some((without, with)) => row.allocmem_bytes.push(without as f64 - with as f64),
                None => found.uncounted += 1,
            }
        }
        Ok(())
    }

    /// Looks at a set-up, each of whose services has been called.
    fn map(
        &self,
        what: &str,
        setup: Setup,
        services: u32,
        has_client: bool,
    ) -> Result<MemoryMap, Stop> {
        if (self.context.interrupted)() {
            return Err(Stop::Interrupted);
        }
        let addresses: Vec<String> = (0..services).map(|at| self.copies.address(at)).collect();
        let mut running = self.start(setup, &addresses)?;
        let client = Client::new();
        for address in &addresses {
            self.call(&client, address, &mut running)?;
        }
        let client = has_client.then_some(client);
        let map = running.map(what)?;
        drop((client, running));
        self.remove_sockets(&addresses);
        Ok(map)
    }

    /// The next set-up listens at the same places.
    fn remove_sockets(&self, addresses: &[String]) {
        for address in addresses {
            let _ = fs::remove_file(address.trim_start_matches("unix:"));
        }
    }

    /// Measures a set-up, or what can be allocated without one.
    fn read(&self, setup: Option<Setup>, services: u32) -> Result<Reading, Stop> {
        if (self.context.interrupted)() {
            return Err(Stop::Interrupted);
        }
        clock::pause(room::SETTLE);
        let before_bytes = budget::left_bytes();
        let addresses: Vec<String> = (0..services).map(|at| self.copies.address(at)).collect();
        let begin_ns = clock::monotonic_ns();
        let mut running = match setup {
            Some(setup) => self.start(setup, &addresses)?,
            None => Running::default(),
        };
        let client = Client::new();
        for address in &addresses {
            self.call(&client, address, &mut running)?;
        }
        let start_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
        drop(client);
        clock::pause(room::SETTLE);
        let memory = running.memory()?;
        let allocated_bytes = match before_bytes.zip(self.budget_bytes) {
            Some((before, budget)) => room::allocate(before, budget, self.context)?,
            None => None,
        };
        let call_ns = match &addresses[..] {
            [first, second, ..] => Some(call_ns(first, second)?),
            _ => None,
        };
        let processes = u32::try_from(running.pids().count()).unwrap_or(u32::MAX);
        drop(running);
        let allocated_bytes = allocated_bytes.filter(|_| {
            clock::pause(room::SETTLE);
            room::is_quiet(before_bytes, budget::left_bytes())
        });
        self.remove_sockets(&addresses);
        Ok(Reading { processes, memory, start_up_ns, allocated_bytes, call_ns })
    }

    fn start(&self, setup: Setup, addresses: &[String]) -> Result<Running<'_>, Stop> {
        let mut running = Running { stderr: Some(self.copies), ..Running::default() };
        let files = files_of(setup, self.copies)?;
        let libraries: Vec<LibraryConfig> =
            (0..).zip(addresses).map(|(at, address)| library(files, at, address)).collect();
        match setup {
            Setup::Processes | Setup::SharedProcesses => {
                for (at, address) in (0..).zip(addresses) {
                    let mut command = Command::new(files.program(at));
                    command.env(LISTEN_VARIABLE, address).stdin(Stdio::null());
                    running.programs.push(self.spawn(&mut command)?);
                }
            }
            Setup::Linked => {
                let mut command = Command::new(files.program(0));
                command.arg(LINKED).args(addresses).stdin(Stdio::null());
                running.programs.push(self.spawn(&mut command)?);
            }
            Setup::LibraryHosts => {
                for library in &libraries {
                    running.programs.push(self.host(files, std::slice::from_ref(library))?);
                }
            }
            Setup::Libraries | Setup::SharedLibraries => {
                running.programs.push(self.host(files, &libraries)?);
            }
        }
        Ok(running)
    }

    /// Starts the process of a group of libraries, as `nearcall host` does.
    fn host(&self, files: &BuildCopies, libraries: &[LibraryConfig]) -> Result<Child, Stop> {
        let failed = |error: &dyn fmt::Display| {
            Stop::Failed(format!("cannot tell a host which libraries to load: {error}"))
        };
        let text = serde_json::to_vec(libraries).map_err(|error| failed(&error))?;
        let mut command = Command::new(files.host());
        let mut child = self.spawn(command.arg(GROUP).stdin(Stdio::piped()))?;
        let written = child.pipes().stdin.take().map(|mut stdin| stdin.write_all(&text));
        written.transpose().map_err(|error| failed(&error))?;
        Ok(child)
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, Stop> {
        let failed = |error| Stop::Failed(format!("cannot start a measured service: {error}"));
        let stderr = OpenOptions::new().create(true).append(true).open(self.copies.stderr());
        command.stdout(Stdio::null()).stderr(stderr.map_err(failed)?);
        Child::spawn(command).map_err(failed)
    }

    /// Waits for a service, and calls it once.
    fn call(&self, client: &Client, address: &str, running: &mut Running<'_>) -> Result<(), Stop> {
        let until_ns = clock::monotonic_ns().saturating_add(START_UP_MAX_NS);
        while let Err(status) = client.hunt(address, HUNT_TIMEOUT) {
            if (self.context.interrupted)() {
                return Err(Stop::Interrupted);
            }
            if let Some(reason) = running.failure() {
                return Err(Stop::Failed(reason));
            }
            if clock::monotonic_ns() >= until_ns {
                return Err(Stop::Failed(format!("a measured service does not answer: {status}")));
            }
        }
        let caller = MemberCaller::new(client, address).map_err(|error| error.to_string())?;
        let called = caller.with(CallOptions::new().deadline(CALL_TIMEOUT)).nothing(&());
        Ok(called
            .map_err(|status| format!("a measured service failed its first call: {status}"))?)
    }
}

/// Returns the set-ups whose files are there.
fn setups_of(copies: &Copies) -> Vec<Setup> {
    let is_there = |setup: &Setup| files_of(*setup, copies).is_ok();
    Setup::ALL.into_iter().filter(is_there).collect()
}

/// Returns the files that a set-up is made of.
fn files_of(setup: Setup, copies: &Copies) -> Result<&BuildCopies, Stop> {
    match setup {
        Setup::SharedProcesses | Setup::SharedLibraries => copies.shared().ok_or_else(|| {
            Stop::Failed("services that share their runtime were not built".to_owned())
        }),
        _ => Ok(copies.own()),
    }
}

/// Returns what a host is told of one library.
fn library(files: &BuildCopies, at: u32, address: &str) -> LibraryConfig {
    LibraryConfig {
        name: at.to_string(),
        file: files.library(at),
        // The first calls the second, which is to be a function call.
        arguments: (at > 0).then(|| NONBLOCKING.to_owned()).into_iter().collect(),
        listen: address.to_owned(),
        interfaces: Vec::new(),
        watchdog: None,
        stop_within: Duration::ZERO,
    }
}

/// The processes of a set-up, which end with this.
#[derive(Default)]
struct Running<'a> {
    programs: Vec<Child>,
    stderr: Option<&'a Copies>,
}

impl Running<'_> {
    fn pids(&self) -> impl Iterator<Item = u32> {
        self.programs.iter().map(Child::pid)
    }

    /// The memory of all processes together.
    fn memory(&self) -> Result<Rollup, String> {
        self.pids().try_fold(Rollup::default(), |sum, pid| {
            let one = i32::try_from(pid).ok().and_then(rollup);
            let one = one.ok_or("/proc/PID/smaps_rollup of a measured service cannot be read")?;
            Ok(add(sum, one))
        })
    }

    /// Where the memory of all processes lies once it has stopped changing: a host that nothing
    /// calls cannot be asked whether it has started.
    fn map(&self, what: &str) -> Result<MemoryMap, Stop> {
        let until_ns = clock::monotonic_ns().saturating_add(START_UP_MAX_NS);
        let mut before = None;
        loop {
            clock::pause(room::SETTLE);
            let mut map = MemoryMap { what: what.to_owned(), ..MemoryMap::default() };
            self.pids().try_for_each(|pid| map::add(&mut map, pid))?;
            let sum = Some(map.sum(None).private);
            if sum == before {
                return Ok(map);
            }
            if clock::monotonic_ns() >= until_ns {
                return Err(Stop::Failed(format!("the memory of {what} does not stop changing")));
            }
            before = sum;
        }
    }

    /// Why one of them has ended, if one has.
    fn failure(&mut self) -> Option<String> {
        let ended = |child: &mut Child| child.wait(Some(Duration::ZERO)).ok().flatten();
        let status = self.programs.iter_mut().find_map(ended)?;
        let text = self.stderr.and_then(|copies| fs::read_to_string(copies.stderr()).ok());
        let last = text.as_deref().and_then(|text| text.lines().last()).unwrap_or_default();
        Some(format!("a measured service has ended ({status}): {last}"))
    }
}

fn add(one: Rollup, other: Rollup) -> Rollup {
    Rollup {
        rss_bytes: one.rss_bytes.saturating_add(other.rss_bytes),
        pss_bytes: one.pss_bytes.saturating_add(other.pss_bytes),
        private_bytes: one.private_bytes.saturating_add(other.private_bytes),
        swap_bytes: one.swap_bytes.saturating_add(other.swap_bytes),
    }
}

/// What a call from the service at `first` to that at `second` takes: the median of some batches.
fn call_ns(first: &str, second: &str) -> Result<f64, String> {
    let failed =
        |error: &dyn ToString| format!("calls between two services failed: {}", error.to_string());
    let caller = MemberCaller::new(&Client::new(), first).map_err(|error| failed(&error))?;
    let request = MeasureRequest {
        address: second.to_owned(),
        batches: BATCHES,
        calls_per_batch: CALLS_PER_BATCH,
    };
    let options = CallOptions::new().deadline(CALL_TIMEOUT);
    let reply = caller.with(options).measure(&request).map_err(|status| failed(&status))?;
    stats::median(&reply.ns_per_call).ok_or_else(|| failed(&"no batch was measured"))
}

/// Batches of one measurement of calls.
const BATCHES: u32 = 25;

/// Long enough that reading the clock does not count.
const CALLS_PER_BATCH: u32 = 200;

/// For one call, also for that which makes all the others.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// For a service to answer at all; a busy machine takes seconds for twenty.
const START_UP_MAX_NS: u64 = 60_000_000_000;

/// How often it is asked meanwhile whether the service is still there.
const HUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a service takes in a debug build, with its part of the kernel's memory.
const BUDGET_BYTES_PER_SERVICE: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_several_processes_is_a_sum() {
        let one = Rollup { rss_bytes: 5, pss_bytes: 3, private_bytes: 2, swap_bytes: 1 };
        let other = Rollup { rss_bytes: u64::MAX, ..one };
        let sum = Rollup { rss_bytes: u64::MAX, pss_bytes: 6, private_bytes: 4, swap_bytes: 2 };
        assert_eq!(add(one, other), sum);
    }

    #[test]
    fn a_program_that_has_ended_is_reported_with_its_status() {
        let mut command = Command::new("/bin/sh");
        let child = Child::spawn(command.args(["-c", "exit 7"]).stdin(Stdio::null())).unwrap();
        let mut running = Running { programs: vec![child], ..Running::default() };
        running.programs[0].wait(Some(CALL_TIMEOUT)).unwrap().expect("it ends");
        let reason = running.failure().unwrap();
        assert!(reason.contains("exit status: 7"), "{reason}");
        assert!(running.memory().unwrap_err().contains("smaps_rollup"));
    }
}
