//! Connections that choose their mechanism by themselves: `?via=auto`.
//!
//! A client samples a few of its calls, and now and then compares what it saw with what calls cost
//! on this machine, as `nearcall advise --profile` has stored it. Where another mechanism would
//! cost clearly less, the connection moves to it; one that turns out worse is left again.
//! **Invariants:** a connection that is not automatic never comes here; the clock is read for one
//! call in some tens, and where the thread has slept; at most
//! [`AUTO_SWITCHES_MAX`](crate::limits::AUTO_SWITCHES_MAX) switches begin in a minute.
//! **Not here:** moving a connection (`connection/switching.rs`), when a look is due
//! (`clients/automatic.rs`).

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::{self, EndPlacement};
use nearcall_os::cpu_load;

mod decide;
mod profile;
mod sampler;

pub(crate) use self::decide::SwitchNote;
use self::decide::{Advice, Decider, Observation};
use self::profile::Profile;
pub(crate) use self::profile::Weights;
use self::sampler::Sampler;
use crate::connection::switch_history::to_note;
use crate::connection::traffic::Traffic;
use crate::limits::{
    AUTO_LOAD_INTERVAL, AUTO_LOOK_INTERVAL, AUTO_MINUTE, AUTO_SAMPLES_MIN, AUTO_UNAVAILABLE,
};
use crate::status::{Code, Status};

/// What a connection has that chooses its mechanism by itself.
pub(crate) struct Chooser {
    sampler: Sampler,
    /// None: nothing is stored of this machine.
    decider: Option<RefCell<Decider>>,
    last: Cell<Last>,
    /// The switch that was begun, and has not ended.
    under_way: Cell<Option<(Mechanism, u64)>>,
    explanation: RefCell<String>,
}

/// The state at the last look.
#[derive(Clone, Copy, Default)]
struct Last {
    at_ns: u64,
    traffic: Traffic,
    load_at_ns: u64,
    is_loaded: bool,
}

/// What only the client can see at a look.
pub(crate) struct Surroundings {
    pub(crate) now_ns: u64,
    pub(crate) traffic: Traffic,
    pub(crate) mechanism: Mechanism,
    pub(crate) placement: EndPlacement,
}

/// What a client does after a look.
pub(crate) enum Verdict {
    Stay,
    /// Begin a switch.
    Switch(Mechanism),
}

/// Returns the mechanism to begin with, as long as nothing is known of the traffic. `None`: nothing
/// is stored of this machine.
pub(crate) fn first_mechanism(weights: Weights) -> Option<Mechanism> {
    // A thread that is pinned to one CPU does not know where the other end runs.
    let placement = if has_one_cpu() { EndPlacement::OneCpu } else { EndPlacement::TwoCpus };
    stored_profile()?.first(weights, placement)
}

/// Returns whether the machine has one CPU.
pub(crate) fn has_one_cpu() -> bool {
    std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|text| text.trim() == "0")
}

/// Returns what is stored of this machine. Reads files at the first call in a process.
fn stored_profile() -> Option<Arc<Profile>> {
    static STORED: OnceLock<Option<Arc<Profile>>> = OnceLock::new();
    let load = || Profile::of(&tuning::stored()?.costs).map(Arc::new);
    STORED.get_or_init(load).clone()
}

impl Chooser {
    /// Creates that of a new connection.
    pub(crate) fn new(weights: Weights) -> Self {
        let decider = stored_profile().map(|profile| RefCell::new(Decider::new(profile, weights)));
        let explanation = match &decider {
            Some(_) => "nothing was seen yet".to_owned(),
            None => "stays, since no costs are stored of this machine: run `nearcall advise \
                     --profile`, with the same user and environment"
                .to_owned(),
        };
        Self {
            sampler: Sampler::default(),
            decider,
            last: Cell::default(),
            under_way: Cell::new(None),
            explanation: RefCell::new(explanation),
        }
    }

    /// Returns whether the clock is to be read for this call: [`begin`](Self::begin).
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.sampler.is_due() && self.decider.is_some()
    }

    /// Begins a call for which the clock was read. Returns when it began, if it is to be timed.
    pub(crate) fn begin(&self, now_ns: u64) -> Option<u64> {
        self.sampler.begin(now_ns)
    }

    /// Ends a call that is timed; `begun_ns` is none of one that was only started. Returns whether
    /// a look is due.
    pub(crate) fn end(&self, begun_ns: Option<u64>, now_ns: u64) -> bool {
        self.sampler.end(begun_ns, now_ns);
        let span_ns = now_ns.saturating_sub(self.last.get().at_ns);
        u128::from(span_ns) >= AUTO_LOOK_INTERVAL.as_nanos()
            && self.sampler.samples() >= AUTO_SAMPLES_MIN
    }

    /// Compares what was seen since the last look with what it would cost otherwise.
    pub(crate) fn look(&self, around: &Surroundings) -> Verdict {
        let Some(decider) = &self.decider else { return Verdict::Stay };
        let sampled = self.sampler.take();
        let mut last = self.last.get();
        let since = around.traffic.since(&last.traffic);
        let elapsed_ns = around.now_ns.saturating_sub(last.at_ns);
        let is_first = last.at_ns == 0;
        let calls = since.sent.messages();
        let load_span_ns = around.now_ns.saturating_sub(last.load_at_ns);
        if u128::from(load_span_ns) >= AUTO_LOAD_INTERVAL.as_nanos() {
            (last.load_at_ns, last.is_loaded) = (around.now_ns, is_loaded());
        }
        last = Last { at_ns: around.now_ns, traffic: around.traffic, ..last };
        self.last.set(last);
        if is_first || calls == 0 {
            return Verdict::Stay;
        }
        let observation = Observation {
            now_ns: around.now_ns,
            elapsed_ns,
            calls,
            traffic: since,
            rare_share: sampled.rare_share,
            latency_ns: sampled.latency_ns,
            placement: around.placement,
            is_loaded: last.is_loaded,
        };
        let mut decider = decider.borrow_mut();
        let advice = decider.look(&observation, around.mechanism);
        decider.explain(&mut self.explanation.borrow_mut());
        match advice {
            Advice::Stay => Verdict::Stay,
            Advice::Switch(to) => Verdict::Switch(to),
        }
    }

    /// Notes that a switch was begun.
    pub(crate) fn begun(&self, to: Mechanism, now_ns: u64) {
        self.under_way.set(Some((to, now_ns)));
        if let Some(decider) = &self.decider {
            decider.borrow_mut().begun(now_ns);
        }
    }

    /// Returns the switch that is under way, and when it was begun.
    pub(crate) fn under_way(&self) -> Option<(Mechanism, u64)> {
        self.under_way.get()
    }

    /// Notes how the switch that was begun has ended.
    pub(crate) fn ended(&self, to: Mechanism, now_ns: u64, why_not: Option<&Status>) {
        self.under_way.set(None);
        if let (Some(decider), Some(why)) = (&self.decider, why_not) {
            let text = to_note(&format!("cannot move to {to}: {}", why.message()));
            // Of one that was refused for the rate of switches, a minute later nothing is left.
            let is_for_now = why.code() == Code::ResourceExhausted;
            let span = if is_for_now { AUTO_MINUTE } else { AUTO_UNAVAILABLE };
            decider.borrow_mut().failed(to, now_ns, text.clone(), span);
            *self.explanation.borrow_mut() = text;
        }
    }

    /// Returns the note for the last switch, if there is something new to say: what was seen and
    /// expected, and what it was worth.
    pub(crate) fn take_note(&self) -> Option<SwitchNote> {
        self.decider.as_ref()?.borrow_mut().take_note()
    }

    /// Returns what was seen and expected of a switch that is to be judged.
    pub(crate) fn trial_note(&self) -> Option<SwitchNote> {
        self.decider.as_ref()?.borrow().trial_note()
    }

    /// Returns why the connection is where it is.
    pub(crate) fn explanation(&self) -> String {
        self.explanation.borrow().clone()
    }
}

/// Returns whether more threads of the machine want to run than it has CPUs, whichever of them this
/// process may use. Reads a file.
fn is_loaded() -> bool {
    static ONLINE: OnceLock<usize> = OnceLock::new();
    let online = *ONLINE.get_or_init(|| cpu_load::cpu_times().len().max(1));
    cpu_load::run_queue().is_some_and(|queue| queue.runnable > online as u64)
}
