//! Many clients that call one server at once, each without a pause.
//!
//! Each client is a thread of the client's process with a connection of its own and calls as one
//! without a loop does: one empty call at a time, from its own start to its own end. Either each
//! has a client of its own and the server is one event loop, or all have a clone of one caller and
//! the server has some (`loops.rs`). One more connection says when the measured region begins and
//! ends.
//! **Invariants:** all clients are connected before the first of them is measured, and none goes
//! before the last has ended.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nearcall::Client;
use nearcall_channel::Mechanism;
use nearcall_os::clock;

use crate::calls::generated::BenchCaller;
use crate::calls::meet::{add_report, begin_cell, calls_address, connect_bare};
use crate::calls::rest::allow_descriptors;
use crate::calls::route::Route;
use crate::exchange::Failure;
use crate::exchange::count::{Counts, EndReport};
use crate::exchange::exact::present;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, OfTraffic};
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::histogram::Histogram;
use crate::launch::LaunchRequest;
use crate::session::measure_all;

/// The end of all clients.
pub(super) fn client(
    mechanism: Mechanism,
    clients: u32,
    shares_caller: bool,
    request: &LaunchRequest,
    meeting: &Meeting,
) -> Result<(), Failure> {
    // Nothing moves over it.
    let _bare = connect_bare(mechanism, request, meeting)?;
    let descriptors_max = allow_descriptors(clients);
    let address = calls_address(request, Route::Blocking(mechanism));
    let begin_ns = clock::monotonic_ns();
    let client = Client::new();
    client.hunt(&address, MEET_TIMEOUT)?;
    let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let marker = BenchCaller::new(&client, &address).map_err(Failure::other)?;
    let shared = shares_caller.then_some((&client, &marker));
    measure_all(request, (Some(set_up_ns), Vec::new()), |job| {
        begin_cell(meeting, &job.cell)?;
        let mut measured = measure(&address, clients, shared, &marker, job).map_err(|failure| {
            let limit = descriptors_max.map_or_else(String::new, |limit| {
                format!("with {limit} descriptors allowed to each process ")
            });
            Failure { text: format!("{limit}{}", failure.text), ..failure }
        })?;
        if let Some(OfTraffic::Clients { descriptors_max: found, .. }) = &mut measured.traffic {
            *found = descriptors_max;
        }
        add_report(meeting, &job.cell, &mut measured)?;
        Ok(measured)
    })
}

fn measure(
    address: &str,
    clients: u32,
    shared: Option<Shared<'_>>,
    marker: &BenchCaller,
    job: &Job,
) -> Result<Measured, Failure> {
    let gate = Gate::default();
    thread::scope(|scope| {
        let (mut threads, mut spawned) = (Vec::new(), Ok(()));
        for _ in 0..clients {
            let one = || Caller { address, shared, job, gate: &gate }.run();
            match thread::Builder::new().spawn_scoped(scope, one) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    spawned = Err(Failure::other(format!("cannot start a thread: {error}")));
                    break;
                }
            }
        }
        let all = u32::try_from(threads.len()).unwrap_or(u32::MAX);
        let outcome = spawned
            .and_then(|()| gate.all_arrived(all, clients))
            .and_then(|()| measured_region(&gate, all, marker, job));
        gate.open(Phase::Over);
        let (mut times, mut calls, mut first) = (Histogram::new(), Vec::new(), None);
        for thread in threads {
            let called = thread.join().map_err(|_| Failure::other("a client panicked"))?;
            // Why the others ended early stands in the outcome.
            let Ok(called) = called else { continue };
            times.merge(&called.times);
            calls.push(called.calls);
            first = first.max(Some(called.first_ns));
        }
        let (mut client, elapsed_ns) = outcome?;
        let messages: u64 = calls.iter().sum();
        client.received = messages;
        let slowest = calls.iter().min().copied().unwrap_or(0);
        Ok(Measured {
            client,
            messages,
            elapsed_ns,
            first_message_ns: first,
            warmup_samples: WARMUP_CALLS,
            traffic: Some(OfTraffic::Clients {
                slowest_share: slowest as f64 * f64::from(clients) / messages.max(1) as f64,
                descriptors_max: None,
            }),
            ..Measured::of(&times)
        })
    })
}

/// From the mark before the first call to the one after the last.
fn measured_region(
    gate: &Gate,
    clients: u32,
    marker: &BenchCaller,
    job: &Job,
) -> Result<(EndReport, u64), Failure> {
    marker.mark(&())?;
    let before = Counts::before()?;
    let begin_ns = clock::monotonic_ns();
    gate.open(Phase::Calling { until_ns: begin_ns.saturating_add(job.budget_ns) });
    gate.all_arrived(clients, clients)?;
    let elapsed_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let report = before.report(0, 0)?;
    marker.mark(&())?;
    Ok((report, elapsed_ns))
}

/// The one client and its caller, where all threads share them.
type Shared<'a> = (&'a Client, &'a BenchCaller);

/// One client.
struct Caller<'a> {
    address: &'a str,
    shared: Option<Shared<'a>>,
    job: &'a Job,
    gate: &'a Gate,
}

/// What one client did.
struct Called {
    times: Histogram,
    calls: u64,
    first_ns: u64,
}

impl Caller<'_> {
    fn run(self) -> Result<Called, ()> {
        let connected = self.connect().map_err(|failure| self.gate.arrive(Err(failure)))?;
        let (_client, caller, first_ns) = connected;
        let mut called = Called { times: present(), calls: 0, first_ns };
        self.gate.arrive(Ok(()));
        if let Phase::Calling { until_ns } = self.gate.after(Phase::Connecting) {
            let outcome = self.call(&caller, until_ns, &mut called);
            self.gate.arrive(outcome);
            // Until the last has ended, no connection ends.
            self.gate.after(Phase::Calling { until_ns });
        }
        Ok(called)
    }

    fn connect(&self) -> Result<(Client, BenchCaller, u64), Failure> {
        let client = self.shared.map_or_else(Client::new, |(client, _)| client.clone());
        {
            // One by one: the server's queue of those that want to connect is short.
            let _turn = self.gate.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if self.gate.lock().failure.is_some() {
                return Err(Failure::other("no more after one that could not connect"));
            }
            client.hunt(self.address, CONNECT_TIMEOUT)?;
        }
        let caller = match self.shared {
            Some((_, caller)) => caller.clone(),
            None => BenchCaller::new(&client, self.address).map_err(Failure::other)?,
        };
        let begin = self.job.stamps.start();
        caller.nothing(&())?;
        let first_ns = self.job.stamps.since_ns(begin);
        for _ in 1..WARMUP_CALLS {
            caller.nothing(&())?;
        }
        Ok((client, caller, first_ns))
    }

    fn call(
        &self,
        caller: &BenchCaller,
        until_ns: u64,
        called: &mut Called,
    ) -> Result<(), Failure> {
        while called.calls == 0 || clock::monotonic_ns() < until_ns {
            let begin = self.job.stamps.start();
            caller.nothing(&())?;
            called.times.record(self.job.stamps.since_ns(begin));
            called.calls += 1;
        }
        Ok(())
    }
}

/// What all clients do at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Connecting,
    Calling {
        until_ns: u64,
    },
    Over,
}

/// Where clients wait for each other.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    turn: Mutex<()>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    arrived: u32,
    well: u32,
    failure: Option<Failure>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is done with this phase.
    fn arrive(&self, outcome: Result<(), Failure>) {
        let mut state = self.lock();
        state.arrived += 1;
        match outcome {
            Ok(()) => state.well += 1,
            Err(failure) => drop(state.failure.get_or_insert(failure)),
        }
        self.changed.notify_all();
    }

    /// Waits until so many clients are done with this phase; `wanted` is how many there should be.
    fn all_arrived(&self, clients: u32, wanted: u32) -> Result<(), Failure> {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |state| state.arrived < clients);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.arrived = 0;
        let well = std::mem::take(&mut state.well);
        match state.failure.take() {
            None => Ok(()),
            Some(failure) => Err(Failure {
                text: format!("only {well} of {wanted} clients could call: {}", failure.text),
                ..failure
            }),
        }
    }

    fn open(&self, phase: Phase) {
        self.lock().phase = phase;
        self.changed.notify_all();
    }

    /// Waits for the phase that follows this one.
    fn after(&self, phase: Phase) -> Phase {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |state| state.phase == phase);
        waited.unwrap_or_else(PoisonError::into_inner).phase
    }
}

/// The server is there: who is not let in by then will not be.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Calls of each client before the measured region, the first included.
const WARMUP_CALLS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_that_fails_ends_the_wait_of_all() {
        let gate = Gate::default();
        thread::scope(|scope| {
            for number in 0..4 {
                let gate = &gate;
                scope.spawn(move || {
                    gate.arrive(if number == 2 { Err(Failure::other("no")) } else { Ok(()) });
                    gate.after(Phase::Connecting)
                });
            }
            let failure = gate.all_arrived(4, 8).unwrap_err();
            assert_eq!(failure.text, "only 3 of 8 clients could call: no");
            gate.open(Phase::Over);
        });
        assert!(gate.all_arrived(0, 0).is_ok());
    }
}
