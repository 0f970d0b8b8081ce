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

use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::service::LISTEN_VARIABLE;
use nearcall::{CallOptions, Client};
use nearcall_bench_service::setup::{MeasureRequest, MemberCaller};
use nearcall_bench_service::{LINKED, NONBLOCKING};
use nearcall_host::library::LibraryConfig;
use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_os::procfs_memory::{Rollup, rollup};
use nearcall_results::findings::memory::{Setup, SetupMemory, SetupsMemory};

use super::Stop;
use super::allocator::BLOCK_BYTES;
use super::files::{Copies, ServiceFiles};
use super::helper::Helper;
use super::{budget, room};
use crate::launch::WorkerRequest;
use crate::runner::{Program, RunContext};
use crate::stats;

/// Measures every set-up with each number of services.
pub(super) fn measure(
    counts: &[u32],
    rounds: usize,
    files: &ServiceFiles,
    context: &RunContext<'_>,
) -> Result<SetupsMemory, Stop> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let copies = Copies::new(files, most, &context.program.path);
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
        found.setups.extend(Setup::ALL.iter().map(row));
    }
    let host = Program { path: copies.host(), args: context.program.args.clone() };
    let host_hooks = RunContext { program: host, ..*context };
    let bench = Bench { copies: &copies, budget_bytes, context, host_hooks: &host_hooks };
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

/// What a measurement goes by.
struct Bench<'a> {
    copies: &'a Copies,
    budget_bytes: Option<u64>,
    context: &'a RunContext<'a>,
    /// Start a host of libraries.
    host_hooks: &'a RunContext<'a>,
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
        for turn in 0..Setup::ALL.len() {
            let setup = Setup::ALL[(round + turn) % Setup::ALL.len()];
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
        // The next set-up listens at the same places.
        for address in &addresses {
            let _ = fs::remove_file(address.trim_start_matches("unix:"));
        }
        Ok(Reading { processes, memory, start_up_ns, allocated_bytes, call_ns })
    }

    fn start(&self, setup: Setup, addresses: &[String]) -> Result<Running<'_>, Stop> {
        let mut running = Running { stderr: Some(self.copies), ..Running::default() };
        let libraries: Vec<LibraryConfig> =
            (0..).zip(addresses).map(|(at, address)| self.library(at, address)).collect();
        let hosts = match setup {
            Setup::Processes => {
                for (at, address) in (0..).zip(addresses) {
                    let mut command = Command::new(self.copies.program(at));
                    command.env(LISTEN_VARIABLE, address);
                    running.programs.push(self.spawn(&mut command)?);
                }
                libraries[..0].chunks(1)
            }
            Setup::Linked => {
                let mut command = Command::new(self.copies.program(0));
                command.arg(LINKED).args(addresses);
                running.programs.push(self.spawn(&mut command)?);
                libraries[..0].chunks(1)
            }
            Setup::LibraryHosts => libraries.chunks(1),
            Setup::Libraries => libraries.chunks(libraries.len().max(1)),
        };
        for group in hosts {
            let host = Helper::start(&WorkerRequest::Libraries(group.to_vec()), self.host_hooks)?;
            running.hosts.push(host);
        }
        Ok(running)
    }

    fn library(&self, at: u32, address: &str) -> LibraryConfig {
        LibraryConfig {
            name: at.to_string(),
            file: self.copies.library(at),
            // The first calls the second, which is to be a function call.
            arguments: (at > 0).then(|| NONBLOCKING.to_owned()).into_iter().collect(),
            listen: address.to_owned(),
            interfaces: Vec::new(),
            watchdog: None,
            stop_within: Duration::ZERO,
        }
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, Stop> {
        let failed = |error| Stop::Failed(format!("cannot start a measured service: {error}"));
        let stderr = OpenOptions::new().create(true).append(true).open(self.copies.stderr());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.map_err(failed)?);
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

/// The processes of a set-up, which end with this.
#[derive(Default)]
struct Running<'a> {
    programs: Vec<Child>,
    hosts: Vec<Helper<'a>>,
    stderr: Option<&'a Copies>,
}

impl Running<'_> {
    fn pids(&self) -> impl Iterator<Item = u32> {
        self.programs.iter().map(Child::pid).chain(self.hosts.iter().map(Helper::pid))
    }

    /// The memory of all processes together.
    fn memory(&self) -> Result<Rollup, String> {
        self.pids().try_fold(Rollup::default(), |sum, pid| {
            let one = i32::try_from(pid).ok().and_then(rollup);
            let one = one.ok_or("/proc/PID/smaps_rollup of a measured service cannot be read")?;
            Ok(add(sum, one))
        })
    }

    /// Why one of them has ended, if one has.
    fn failure(&mut self) -> Option<String> {
        let hosts = self.hosts.iter_mut().find_map(Helper::failure);
        hosts.or_else(|| {
            let ended = |child: &mut Child| child.wait(Some(Duration::ZERO)).ok().flatten();
            let status = self.programs.iter_mut().find_map(ended)?;
            let text = self.stderr.and_then(|copies| fs::read_to_string(copies.stderr()).ok());
            let last = text.as_deref().and_then(|text| text.lines().last()).unwrap_or_default();
            Some(format!("a measured service has ended ({status}): {last}"))
        })
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
