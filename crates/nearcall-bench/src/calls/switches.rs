//! Calls of a client in a loop while their connection moves to another mechanism and back.
//!
//! ```text
//! a round:   calls over another connection, which does not move
//!            calls; the switch begins, is done; more calls       measured
//!            calls; the switch back; more calls                  not measured
//! ```
//!
//! A call begins as soon as the one before has ended, also while the client waits for the switch:
//! the loop runs it. A pause is the longest time between the ends of two calls that overlaps the
//! switch. **Invariants:** both connections are of the same two
//! processes, loops and services; only calls that were under way between the beginning of a switch
//! and its end count as calls during it.
//! **Not here:** the server (`peer.rs`), which pairs there are (`experiment/switches.rs`).

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use nearcall::client::PendingCall;
use nearcall::event_loop::{Poster, Stopper};
use nearcall::{Client, EventLoop, Status};
use nearcall_channel::Mechanism;
use nearcall_os::clock;

use crate::calls::generated::BenchCaller;
use crate::calls::meet::{add_report, begin_cell, calls_address, connect_bare};
use crate::calls::route::Route;
use crate::conditions::Traffic;
use crate::exchange::Failure;
use crate::exchange::count::Counts;
use crate::exchange::exact::present;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, OfTraffic, Switches};
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::histogram::Histogram;
use crate::launch::LaunchRequest;
use crate::session::measure_all;

/// The end that calls and switches.
pub(super) fn client(
    from: Mechanism,
    request: &LaunchRequest,
    meeting: &Meeting,
) -> Result<(), Failure> {
    // Nothing moves over it.
    let _bare = connect_bare(from, request, meeting)?;
    let event_loop = EventLoop::new()?;
    let address = calls_address(request, Route::Looped(from));
    let begin_ns = clock::monotonic_ns();
    let [moving, still] = [Way::new(&event_loop, &address)?, Way::new(&event_loop, &address)?];
    let set_up_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let ways = Ways { event_loop: &event_loop, moving, still, address: &address, from };
    measure_all(request, (Some(set_up_ns), Vec::new()), |job| {
        let Traffic::Switch { to } = job.cell.conditions.traffic else {
            return Err(Failure::other("no mechanism to move to"));
        };
        begin_cell(meeting, &job.cell)?;
        let mut measured = ways.measure(to, job)?;
        add_report(meeting, &job.cell, &mut measured)?;
        Ok(measured)
    })
}

/// A connection with its caller.
struct Way {
    client: Client,
    caller: BenchCaller,
}

impl Way {
    fn new(event_loop: &EventLoop, address: &str) -> Result<Self, Failure> {
        let client = Client::in_loop(event_loop);
        client.hunt(address, MEET_TIMEOUT)?;
        let caller = BenchCaller::new(&client, address).map_err(Failure::other)?;
        Ok(Self { client, caller })
    }
}

struct Ways<'a> {
    event_loop: &'a EventLoop,
    moving: Way,
    still: Way,
    address: &'a str,
    from: Mechanism,
}

/// What was found of one cell.
struct Found {
    spans: Histogram,
    pauses: Histogram,
    during: Histogram,
    undisturbed: Histogram,
    calls: u64,
}

impl Ways<'_> {
    fn measure(&self, to: Mechanism, job: &Job) -> Result<Measured, Failure> {
        for _ in 0..ROUNDS_UNMEASURED {
            self.round(to, &mut Found::new())?;
        }
        let mut found = Found::new();
        self.still.caller.mark(&())?;
        let before = Counts::before()?;
        let begin_ns = clock::monotonic_ns();
        let mut switches = 0;
        while switches < SWITCHES_MIN || clock::monotonic_ns() - begin_ns < job.budget_ns {
            self.round(to, &mut found)?;
            switches += 1;
        }
        let elapsed_ns = clock::monotonic_ns() - begin_ns;
        let client = before.report(0, found.calls)?;
        self.still.caller.mark(&())?;
        Ok(Measured {
            client,
            messages: found.calls,
            elapsed_ns,
            warmup_samples: ROUNDS_UNMEASURED,
            traffic: Some(OfTraffic::Switches(Box::new(Switches {
                switches,
                pauses: found.pauses.to_stored(),
                during: found.during.to_stored(),
                undisturbed: found.undisturbed.to_stored(),
            }))),
            ..Measured::of(&found.spans)
        })
    }

    fn round(&self, to: Mechanism, found: &mut Found) -> Result<(), Failure> {
        let calls = Calls::begin(self.event_loop, &self.still.caller)?;
        let undisturbed = calls.end_after(self.event_loop, CALLS_UNDISTURBED)?;
        undisturbed.iter().for_each(|call| found.undisturbed.record(call.took_ns()));
        let (begin_ns, end_ns, calls) = self.switch(to)?;
        found.spans.record(end_ns - begin_ns);
        let is_around = |pair: &&[Call]| pair[1].end_ns > begin_ns && pair[0].end_ns < end_ns;
        let gaps = calls.windows(2).filter(is_around);
        let pause = gaps.map(|pair| pair[1].end_ns - pair[0].end_ns).max();
        pause.into_iter().for_each(|ns| found.pauses.record(ns));
        let is_during = |call: &&Call| call.end_ns > begin_ns && call.begin_ns < end_ns;
        calls.iter().filter(is_during).for_each(|call| found.during.record(call.took_ns()));
        let (_, _, back) = self.switch(self.from)?;
        found.calls += (undisturbed.len() + calls.len() + back.len()) as u64;
        Ok(())
    }

    /// Calls, has the connection move meanwhile, and calls on. Returns when the switch was begun,
    /// when it was done, and all calls.
    fn switch(&self, to: Mechanism) -> Result<(u64, u64, Vec<Call>), Failure> {
        let Way { client, caller } = &self.moving;
        let calls = Calls::begin(self.event_loop, caller)?;
        calls.wait_for(self.event_loop, CALLS_BEFORE)?;
        let begin_ns = clock::monotonic_ns();
        client.switch(self.address, to.name(), MEET_TIMEOUT)?;
        let end_ns = clock::monotonic_ns();
        Ok((begin_ns, end_ns, calls.end_after(self.event_loop, CALLS_AFTER)?))
    }
}

impl Found {
    fn new() -> Self {
        let [spans, pauses, during, undisturbed] = [(); 4].map(|()| present());
        Self { spans, pauses, during, undisturbed, calls: 0 }
    }
}

/// A call that has ended.
#[derive(Clone, Copy)]
struct Call {
    begin_ns: u64,
    end_ns: u64,
}

impl Call {
    fn took_ns(self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

/// Calls one right after the other, which the loop makes until it is told how many more.
struct Calls;

/// The calls of this thread that go on.
struct Chain {
    caller: BenchCaller,
    pending: Option<(PendingCall<()>, u64)>,
    waker: Waker,
    stopper: Stopper,
    /// Calls that have ended.
    ended: Vec<Call>,
    /// The loop stops when so many have.
    stop_at: usize,
    /// No call begins when so many have.
    most: usize,
    failure: Option<Status>,
}

thread_local! {
    static CHAIN: RefCell<Option<Chain>> = const { RefCell::new(None) };
}

impl Calls {
    fn begin(event_loop: &EventLoop, caller: &BenchCaller) -> Result<Self, Failure> {
        let chain = Chain {
            caller: caller.clone(),
            pending: None,
            waker: Waker::from(Arc::new(Goes(event_loop.poster()))),
            stopper: event_loop.stopper(),
            ended: Vec::with_capacity(CALLS_USUAL),
            stop_at: usize::MAX,
            most: usize::MAX,
            failure: None,
        };
        CHAIN.set(Some(chain));
        go_on();
        Ok(Self)
    }

    /// Runs the loop until so many more calls have ended. The calls go on.
    fn wait_for(&self, event_loop: &EventLoop, more: usize) -> Result<(), Failure> {
        with(|chain| chain.stop_at = chain.ended.len() + more)?;
        event_loop.run()?;
        with(|chain| chain.failure.take().map_or(Ok(()), Err))??;
        Ok(())
    }

    /// Ends after so many more calls. Returns all of them.
    fn end_after(self, event_loop: &EventLoop, more: usize) -> Result<Vec<Call>, Failure> {
        with(|chain| chain.most = chain.ended.len() + more)?;
        self.wait_for(event_loop, more)?;
        let chain = CHAIN.take();
        Ok(chain.map(|chain| chain.ended).unwrap_or_default())
    }
}

fn with<T>(use_it: impl FnOnce(&mut Chain) -> T) -> Result<T, Failure> {
    let gone = || Failure::other("the calls have ended");
    CHAIN.with_borrow_mut(|chain| chain.as_mut().map(use_it)).ok_or_else(gone)
}

/// Has the loop go on with the calls when one has ended.
struct Goes(Poster);

impl Wake for Goes {
    fn wake(self: Arc<Self>) {
        // A loop that has closed makes no more calls.
        let _ = self.0.post(|_| go_on());
    }
}

fn go_on() {
    // Beginning a call may run the loop, which then finds that one under way.
    CHAIN.with(|chain| {
        if let Ok(mut chain) = chain.try_borrow_mut()
            && let Some(chain) = &mut *chain
        {
            chain.go_on();
        }
    });
}

impl Chain {
    fn go_on(&mut self) {
        loop {
            if let Some((call, begin_ns)) = &mut self.pending {
                let mut context = Context::from_waker(&self.waker);
                let Poll::Ready(outcome) = Pin::new(call).poll(&mut context) else { return };
                let (begin_ns, end_ns) = (*begin_ns, clock::monotonic_ns());
                self.pending = None;
                self.ended.push(Call { begin_ns, end_ns });
                self.failure = outcome.err();
            }
            if self.ended.len() == self.stop_at || self.failure.is_some() {
                self.stopper.stop();
            }
            if self.ended.len() >= self.most || self.failure.is_some() {
                return;
            }
            let begin_ns = clock::monotonic_ns();
            self.pending = Some((self.caller.start_nothing(&()), begin_ns));
        }
    }
}

/// Switches before the first that counts: pages and code are there by then.
const ROUNDS_UNMEASURED: u64 = 3;

/// A median needs some, however short the time of a cell is.
const SWITCHES_MIN: u64 = 5;

/// Calls before a switch begins, after its end, and over the other connection: enough that each
/// begins as those of a client that calls without a pause, and about as many as during a switch.
/// Not more: a 99th percentile of a pair takes a thousand switches.
const CALLS_BEFORE: usize = 8;
const CALLS_AFTER: usize = 8;
const CALLS_UNDISTURBED: usize = 16;

/// Room for the calls of one switch.
const CALLS_USUAL: usize = 1 << 10;
