//! Whether a connection stays on its mechanism: a function of what was seen at looks, without
//! clocks or connections.
//!
//! A switch begins when two looks in a row expect a gain above a threshold, the connection has
//! stayed for a while, and the minute has had few switches; the last of a minute leads only to what
//! is best over the last minute. Then the calls after it are compared with those before, where the
//! traffic is still the same: a switch that made them dearer is taken back, and not tried again in
//! this situation for some minutes.
//! **Invariants:** at most [`AUTO_SWITCHES_MAX`] switches begin within a minute, whatever is seen.
//! **Not here:** what calls cost (`profile.rs`), what is observed (`sampler.rs`).

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::EndPlacement;

use super::profile::{Cost, Profile, Situation, Weights};
use crate::connection::traffic::Traffic;
use crate::limits::{
    AUTO_AVOID, AUTO_AVOID_MAX, AUTO_AVOIDED_MAX, AUTO_GAIN_LOADED_MIN, AUTO_GAIN_MIN,
    AUTO_LOOKS_MIN, AUTO_MINUTE, AUTO_PAYBACK, AUTO_STAY_MIN, AUTO_SWITCH_COST_NS,
    AUTO_SWITCHES_MAX, AUTO_TRIAL_LOOKS, AUTO_UNAVAILABLE, AUTO_WORSE_MIN,
};

/// What was seen between two looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) now_ns: u64,
    pub(super) elapsed_ns: u64,
    /// Messages that this end has sent.
    pub(super) calls: u64,
    pub(super) traffic: Traffic,
    /// The share of calls before which both ends have slept.
    pub(super) rare_share: f64,
    /// The typical time of a call, if calls were timed.
    pub(super) latency_ns: Option<f64>,
    /// CPU time of this end for a call.
    pub(super) own_cpu_ns: f64,
    pub(super) placement: EndPlacement,
    /// More threads want to run than there are CPUs.
    pub(super) is_loaded: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    Stay,
    Switch(Mechanism),
}

/// What makes two observations comparable.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Regime {
    placement: EndPlacement,
    is_rare: bool,
    /// Logarithm to base 2 of the mean bytes of a message.
    log_bytes: f64,
}

impl Regime {
    fn of(seen: &Observation) -> Self {
        let Traffic { sent, received } = &seen.traffic;
        let messages = (sent.messages() + received.messages()).max(1);
        let mean = (sent.bytes + received.bytes) as f64 / messages as f64;
        Self {
            placement: seen.placement,
            is_rare: seen.rare_share > 0.5,
            log_bytes: mean.max(1.0).log2(),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.placement == other.placement
            && self.is_rare == other.is_rare
            && (self.log_bytes - other.log_bytes).abs() < 1.0
    }
}

/// A switch that was begun and is still to be judged.
#[derive(Debug)]
struct Trial {
    from: Mechanism,
    to: Mechanism,
    regime: Regime,
    /// The score of calls before it, as measured; `None`: none was timed.
    before: Option<f64>,
    /// The logarithms of the scores since, and how many looks they are of.
    sum: f64,
    looks: u32,
    is_return: bool,
    /// What was seen and expected.
    note: String,
}

/// The scores of the last looks in one situation, as measured.
#[derive(Debug)]
struct Recent {
    mechanism: Mechanism,
    regime: Regime,
    /// The mean of their logarithms.
    mean: f64,
    looks: u32,
}

/// A mechanism that made things worse, and until when it is not tried again in this situation.
#[derive(Debug)]
struct Avoided {
    mechanism: Mechanism,
    /// `None`: in any.
    regime: Option<Regime>,
    until_ns: u64,
    span_ns: u64,
}

/// The cost of the last minute over one mechanism.
#[derive(Debug)]
struct LongRun {
    mechanism: Mechanism,
    cost: f64,
}

/// Decides about one connection.
pub(super) struct Decider {
    profile: Arc<Profile>,
    weights: Weights,
    /// The mechanism at the last look.
    current: Option<Mechanism>,
    moved_ns: u64,
    /// When the switches of the last minute were begun.
    begun_ns: VecDeque<u64>,
    /// What the last looks have advised, and how many in a row.
    favourite: Option<(Mechanism, u32)>,
    trial: Option<Trial>,
    recent: Option<Recent>,
    avoided: Vec<Avoided>,
    long_run: Vec<LongRun>,
    /// What was seen and expected at the last look.
    seen: String,
    /// Why that led to what it led to.
    reason: &'static str,
    note: Option<String>,
}

impl Decider {
    pub(super) fn new(profile: Arc<Profile>, weights: Weights) -> Self {
        let known = profile.mechanisms().into_iter();
        let long_run = known.map(|mechanism| LongRun { mechanism, cost: 0.0 }).collect();
        Self {
            profile,
            weights,
            current: None,
            moved_ns: 0,
            begun_ns: VecDeque::new(),
            favourite: None,
            trial: None,
            recent: None,
            avoided: Vec::new(),
            long_run,
            seen: String::new(),
            reason: "",
            note: None,
        }
    }

    /// Takes an observation of a connection that is on `current`.
    pub(super) fn look(&mut self, seen: &Observation, current: Mechanism) -> Advice {
        if self.current != Some(current) {
            // By this, by the program or by the server.
            if self.current.replace(current).is_some() {
                self.moved_ns = seen.now_ns;
            }
            self.favourite = None;
        }
        let is_old = |at: &u64| seen.now_ns.saturating_sub(*at) >= ns(AUTO_MINUTE);
        while self.begun_ns.front().is_some_and(is_old) {
            self.begun_ns.pop_front();
        }
        let regime = Regime::of(seen);
        if let Some(back) = self.judge_trial(seen, current, &regime) {
            return self.take_back(back, seen);
        }
        self.note_recent(seen, current, regime);
        let Some(choice) = self.choose(seen, current, &regime) else { return Advice::Stay };
        match self.may_switch(&choice, seen) {
            Err(reason) => {
                self.reason = reason;
                Advice::Stay
            }
            Ok(()) => {
                self.reason = "moves there";
                self.begin_trial(&choice, current, regime, false);
                Advice::Switch(choice.best)
            }
        }
    }

    /// Compares the mechanisms by what the observed calls would cost over each.
    fn choose(
        &mut self,
        seen: &Observation,
        current: Mechanism,
        regime: &Regime,
    ) -> Option<Choice> {
        let situation = Situation::of(&seen.traffic, seen.rare_share, seen.placement)?;
        self.note_long_run(seen, &situation);
        self.seen.clear();
        let _ = write!(self.seen, "{}", Seen(seen));
        let Some(now) = self.profile.call(current, &situation) else {
            self.reason = "no cost of its mechanism is stored for this";
            return None;
        };
        let (mut best, mut cost) = (current, now);
        for mechanism in self.profile.mechanisms() {
            let other = self.profile.call(mechanism, &situation);
            let Some(other) = other.filter(|_| !self.avoids(mechanism, regime, seen.now_ns)) else {
                continue;
            };
            if other.score(self.weights) < cost.score(self.weights) {
                (best, cost) = (mechanism, other);
            }
        }
        let saved_ns = now.score(self.weights) - cost.score(self.weights);
        let gain = saved_ns / now.score(self.weights).max(1.0);
        let _ = write!(self.seen, "; expected: {} {}", current, Shown(now));
        if best != current {
            let percent = 100.0 * gain;
            let _ = write!(self.seen, ", {best} {}: {percent:.0} % less", Shown(cost));
        }
        Some(Choice { best, current, gain, saved_ns })
    }

    /// Returns why a choice does not lead to a switch now.
    fn may_switch(&mut self, choice: &Choice, seen: &Observation) -> Result<(), &'static str> {
        let gain_min = if seen.is_loaded { AUTO_GAIN_LOADED_MIN } else { AUTO_GAIN_MIN };
        if choice.best == choice.current || choice.gain < gain_min {
            self.favourite = None;
            return Err("stays: nothing is clearly better");
        }
        let looks = match self.favourite {
            Some((mechanism, looks)) if mechanism == choice.best => looks + 1,
            _ => 1,
        };
        self.favourite = Some((choice.best, looks));
        if looks < AUTO_LOOKS_MIN {
            return Err("waits for another look");
        }
        let calls_per_ns = seen.calls as f64 / seen.elapsed_ns.max(1) as f64;
        let saved_ns = choice.saved_ns * calls_per_ns * ns(AUTO_PAYBACK) as f64;
        if saved_ns < AUTO_SWITCH_COST_NS as f64 {
            return Err("stays: too few calls to pay for a switch");
        }
        if self.trial.is_some() || seen.now_ns.saturating_sub(self.moved_ns) < ns(AUTO_STAY_MIN) {
            return Err("stays for a while after the last switch");
        }
        if self.begun_ns.len() >= AUTO_SWITCHES_MAX {
            return Err("stays: enough switches within a minute");
        }
        let is_last = self.begun_ns.len() + 1 == AUTO_SWITCHES_MAX;
        if is_last && self.best_of_long_run() != Some(choice.best) {
            return Err("keeps the last switch of this minute for what is best over all of it");
        }
        Ok(())
    }

    fn begin_trial(&mut self, choice: &Choice, from: Mechanism, regime: Regime, is_return: bool) {
        self.trial = Some(Trial {
            from,
            to: choice.best,
            regime,
            before: self.recent.as_ref().map(|recent| recent.mean.exp()),
            sum: 0.0,
            looks: 0,
            is_return,
            note: self.seen.clone(),
        });
        self.favourite = None;
    }

    /// Judges a switch by the calls since. Returns where to go back to, if it made them dearer.
    fn judge_trial(
        &mut self,
        seen: &Observation,
        current: Mechanism,
        regime: &Regime,
    ) -> Option<Choice> {
        let trial = self.trial.as_mut()?;
        if current == trial.from && trial.looks == 0 {
            // It is under way.
            return None;
        }
        let (measured, is_over) =
            (measured(seen, self.weights), current != trial.to || !regime.is_like(&trial.regime));
        if is_over {
            let text = format!("{}; the traffic has changed before it was judged", trial.note);
            self.note = Some(text);
            self.trial = None;
            return None;
        }
        trial.looks += 1;
        // The first has calls of both mechanisms.
        if trial.looks > 1 {
            trial.sum += measured.map_or(0.0, |score| score.max(1.0).ln());
        }
        if trial.looks <= AUTO_TRIAL_LOOKS {
            return None;
        }
        let trial = self.trial.take()?;
        let after = measured.map(|_| (trial.sum / f64::from(trial.looks - 1)).exp());
        let (Some(before), Some(after)) = (trial.before, after) else {
            self.note = Some(format!("{}; no call was timed to judge it by", trial.note));
            return None;
        };
        let change = 100.0 * (after / before - 1.0);
        self.note = Some(format!("{}; worth: {change:+.0} % by {} calls", trial.note, seen.calls));
        let is_worse = after > before * AUTO_WORSE_MIN && !trial.is_return;
        is_worse.then(|| {
            self.avoid(trial.to, Some(trial.regime), seen.now_ns);
            let (gain, saved_ns) = (1.0 - before / after, after - before);
            Choice { best: trial.from, current: trial.to, gain, saved_ns }
        })
    }

    /// Goes back after a switch that made things worse, if this minute has a switch left.
    fn take_back(&mut self, back: Choice, seen: &Observation) -> Advice {
        self.seen.clear();
        let percent = 100.0 * back.gain;
        let _ = write!(
            self.seen,
            "{}; measured: {} costs {percent:.0} % less than {}",
            Seen(seen),
            back.best,
            back.current
        );
        if self.begun_ns.len() >= AUTO_SWITCHES_MAX {
            self.reason = "is worse, and stays: enough switches within a minute";
            return Advice::Stay;
        }
        self.reason = "takes the switch back";
        self.begin_trial(&back, back.current, Regime::of(seen), true);
        Advice::Switch(back.best)
    }

    /// Notes that the switch that was advised has begun.
    pub(super) fn begun(&mut self, now_ns: u64) {
        self.begun_ns.push_back(now_ns);
        self.moved_ns = now_ns;
    }

    /// Notes that it could not be done: the mechanism is left alone for a while.
    pub(super) fn failed(&mut self, to: Mechanism, now_ns: u64) {
        self.trial = None;
        let until_ns = now_ns.saturating_add(ns(AUTO_UNAVAILABLE));
        self.remember(Avoided { mechanism: to, regime: None, until_ns, span_ns: 0 });
    }

    /// Writes why the connection is where it is.
    pub(super) fn explain(&self, into: &mut String) {
        into.clear();
        let _ = write!(into, "{}: {}", self.reason, self.seen);
    }

    /// Returns what there is to say of the last switch, once.
    pub(super) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Returns what was seen and expected of the switch that is to be judged.
    pub(super) fn trial_note(&self) -> Option<String> {
        self.trial.as_ref().map(|trial| trial.note.clone())
    }

    fn avoids(&self, mechanism: Mechanism, regime: &Regime, now_ns: u64) -> bool {
        self.avoided.iter().any(|it| {
            it.mechanism == mechanism
                && now_ns < it.until_ns
                && it.regime.is_none_or(|there| there.is_like(regime))
        })
    }

    fn avoid(&mut self, mechanism: Mechanism, regime: Option<Regime>, now_ns: u64) {
        let is_it = |it: &&Avoided| {
            it.mechanism == mechanism && it.span_ns > 0 && it.regime.is_some() == regime.is_some()
        };
        let before = self.avoided.iter().find(is_it).map_or(0, |it| it.span_ns);
        let span_ns = (2 * before).clamp(ns(AUTO_AVOID), ns(AUTO_AVOID_MAX));
        let until_ns = now_ns.saturating_add(span_ns);
        self.remember(Avoided { mechanism, regime, until_ns, span_ns });
    }

    fn remember(&mut self, one: Avoided) {
        self.avoided.retain(|it| {
            it.mechanism != one.mechanism
                || match (&it.regime, &one.regime) {
                    (Some(old), Some(new)) => !old.is_like(new),
                    (old, new) => old.is_some() != new.is_some(),
                }
        });
        if self.avoided.len() >= AUTO_AVOIDED_MAX {
            self.avoided.remove(0);
        }
        self.avoided.push(one);
    }

    fn note_long_run(&mut self, seen: &Observation, situation: &Situation) {
        let decay = (-(seen.elapsed_ns as f64) / ns(AUTO_MINUTE) as f64).exp();
        for one in &mut self.long_run {
            let cost = self.profile.call(one.mechanism, situation);
            // Of what nothing is known it is not the best.
            let score = cost.map_or(f64::INFINITY, |cost| cost.score(self.weights));
            one.cost = one.cost * decay + score * seen.calls as f64;
        }
    }

    fn best_of_long_run(&self) -> Option<Mechanism> {
        let best = self.long_run.iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
        best.map(|it| it.mechanism)
    }

    /// Notes what calls cost, as measured: a mean of the last looks.
    fn note_recent(&mut self, seen: &Observation, mechanism: Mechanism, regime: Regime) {
        let Some(score) = measured(seen, self.weights) else { return };
        let log = score.max(1.0).ln();
        match &mut self.recent {
            Some(it) if it.mechanism == mechanism && it.regime.is_like(&regime) => {
                it.looks = (it.looks + 1).min(AUTO_TRIAL_LOOKS);
                it.mean += (log - it.mean) / f64::from(it.looks);
            }
            recent => *recent = Some(Recent { mechanism, regime, mean: log, looks: 1 }),
        }
    }
}

/// Returns the score of the calls that were seen, as measured at this end: the other end's CPU time
/// is taken to be as much.
fn measured(seen: &Observation, weights: Weights) -> Option<f64> {
    let cost = Cost { latency_ns: seen.latency_ns?, cpu_ns: 2.0 * seen.own_cpu_ns };
    Some(cost.score(weights))
}

/// The best mechanism for what was seen.
struct Choice {
    best: Mechanism,
    current: Mechanism,
    /// What is saved of the cost, as a share of it.
    gain: f64,
    /// The same for each call, in nanoseconds of the weighted cost.
    saved_ns: f64,
}

/// An observation in words.
struct Seen<'a>(&'a Observation);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.0;
        let per_s = seen.calls as f64 * 1e9 / seen.elapsed_ns.max(1) as f64;
        let Traffic { sent, received } = &seen.traffic;
        let mean = |bytes: u64, messages: u64| bytes.checked_div(messages).unwrap_or(0);
        let (out, back) =
            (mean(sent.bytes, sent.messages()), mean(received.bytes, received.messages()));
        write!(f, "seen: {per_s:.0} calls/s of {out} B and {back} B back, ")?;
        write!(f, "{:.0} % after a pause, ", 100.0 * seen.rare_share)?;
        write!(f, "{}", seen.placement.name())?;
        if seen.is_loaded { f.write_str(", CPUs busy") } else { Ok(()) }
    }
}

/// A cost in words.
struct Shown(Cost);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { latency_ns, cpu_ns } = self.0;
        write!(f, "{:.1} us and {:.1} us CPU", latency_ns / 1e3, cpu_ns / 1e3)
    }
}

fn ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
