//! Whether a connection stays on its mechanism: a function of what was seen at looks, without
//! clocks or connections.
//!
//! A switch begins when two looks in a row expect a gain above a threshold, the connection has
//! stayed for a while, and the minute has had few switches; the last of a minute leads only to what
//! is best over the last minute. Then the times of calls after it are compared with those before,
//! where the traffic is still the same: a switch that made them longer than was expected is taken
//! back, and not tried again in this situation for some minutes. The CPU time is not judged: that
//! of a thread has the work of its program in it.
//! **Invariants:** at most [`AUTO_SWITCHES_MAX`] switches begin within a minute, whatever is seen.
//! **Not here:** what calls cost (`profile.rs`), what is observed (`sampler.rs`).

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::EndPlacement;

use super::profile::{Cost, Profile, Situation, Weights};
use crate::connection::traffic::Traffic;
use crate::limits::{
    AUTO_AVOID, AUTO_AVOID_MAX, AUTO_AVOIDED_MAX, AUTO_GAIN_LOADED_MIN, AUTO_GAIN_MIN,
    AUTO_LOOKS_MIN, AUTO_MINUTE, AUTO_PAYBACK, AUTO_STAY_MIN, AUTO_SWITCH_COST_NS,
    AUTO_SWITCHES_MAX, AUTO_TRIAL_LOOKS, AUTO_WORSE_MIN,
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
    /// How long a call took before it, in nanoseconds; `None`: none was timed.
    before_ns: Option<f64>,
    /// How many times as long as before calls may take by what is stored, at least 1.
    expected: f64,
    looks: u32,
    /// The sum of the logarithms of the times since, of how many looks, and of how many calls.
    sum: f64,
    timed_looks: u32,
    timed_calls: u64,
    is_return: bool,
    /// What was seen and expected.
    note: String,
}

/// What there is to say of a switch.
#[derive(Debug, Clone)]
pub(crate) struct SwitchNote {
    pub(crate) from: Mechanism,
    pub(crate) to: Mechanism,
    pub(crate) text: String,
}

/// The times of calls at the last looks in one situation.
#[derive(Debug)]
struct Recent {
    mechanism: Mechanism,
    regime: Regime,
    /// The mean of their logarithms.
    mean: f64,
    looks: u32,
}

/// A mechanism that made things worse or cannot be had, and until when it is not tried again.
#[derive(Debug)]
struct Avoided {
    mechanism: Mechanism,
    /// Where it made things worse. `None`: it cannot be had, in any situation.
    regime: Option<Regime>,
    until_ns: u64,
    span_ns: u64,
    /// How much longer a call took.
    lost_ns: f64,
    /// Why, in words.
    why: String,
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
    /// Why it does not move to what would be better by what is stored.
    held_back: Option<String>,
    note: Option<SwitchNote>,
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
            held_back: None,
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
        let _ = write!(self.seen, "; expected: {} {}", current, Shown(now));
        // Whatever is stored of it, it was worse here.
        let lost_ns = self.lost_over(current, regime, seen.now_ns);
        let (best, cost) = self.best(&situation, regime, seen.now_ns, (current, now), lost_ns);
        if best == current {
            return Some(Choice {
                best,
                current,
                gain: 0.0,
                saved_ns: 0.0,
                expected: 1.0,
                lost_ns,
            });
        }
        let _ = write!(self.seen, ", {best} {}", Shown(cost));
        if let Some(saved_ns) = lost_ns {
            let _ = write!(self.seen, "; but {current} made calls longer here");
            return Some(Choice { best, current, gain: 1.0, saved_ns, expected: 1.0, lost_ns });
        }
        let saved_ns = now.score(self.weights) - cost.score(self.weights);
        let gain = saved_ns / now.score(self.weights).max(1.0);
        let _ = write!(self.seen, ": {:.0} % less", 100.0 * gain);
        let expected = (cost.latency_ns / now.latency_ns.max(1.0)).max(1.0);
        Some(Choice { best, current, gain, saved_ns, expected, lost_ns })
    }

    /// Returns the best of what is not avoided, and notes what is better and avoided.
    fn best(
        &mut self,
        situation: &Situation,
        regime: &Regime,
        now_ns: u64,
        current: (Mechanism, Cost),
        lost_ns: Option<f64>,
    ) -> (Mechanism, Cost) {
        let score = |cost: Cost| cost.score(self.weights);
        let mut best = lost_ns.is_none().then_some(current);
        let mut avoided: Option<(&Avoided, Cost)> = None;
        for mechanism in self.profile.mechanisms() {
            let other = self.profile.call(mechanism, situation).filter(|_| mechanism != current.0);
            let Some(cost) = other else { continue };
            match self.avoided(mechanism, regime, now_ns) {
                None if best.is_none_or(|best| score(cost) < score(best.1)) => {
                    best = Some((mechanism, cost));
                }
                Some(it) if avoided.is_none_or(|that| score(cost) < score(that.1)) => {
                    avoided = Some((it, cost));
                }
                _ => {}
            }
        }
        let best = best.unwrap_or(current);
        let better = avoided.filter(|(_, cost)| score(*cost) < score(best.1));
        self.held_back = better.map(|(it, _)| it.why.clone());
        best
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
        let is_best = choice.lost_ns.is_some() || self.best_of_long_run() == Some(choice.best);
        if is_last && !is_best {
            return Err("keeps the last switch of this minute for what is best over all of it");
        }
        Ok(())
    }

    fn begin_trial(&mut self, choice: &Choice, from: Mechanism, regime: Regime, is_return: bool) {
        let is_before = |it: &&Recent| it.mechanism == from && it.regime.is_like(&regime);
        self.trial = Some(Trial {
            from,
            to: choice.best,
            regime,
            before_ns: self.recent.as_ref().filter(is_before).map(|recent| recent.mean.exp()),
            expected: choice.expected,
            looks: 0,
            sum: 0.0,
            timed_looks: 0,
            timed_calls: 0,
            is_return,
            note: self.seen.clone(),
        });
        self.favourite = None;
    }

    /// Judges a switch by the times of the calls since. Returns where to go back to, if it made
    /// them longer.
    fn judge_trial(
        &mut self,
        seen: &Observation,
        current: Mechanism,
        regime: &Regime,
    ) -> Option<Choice> {
        let trial = self.trial.as_mut()?;
        if current != trial.to {
            return self.end_trial("moved by others before it was judged");
        }
        if !regime.is_like(&trial.regime) {
            return self.end_trial("the traffic has changed before it was judged");
        }
        trial.looks += 1;
        // The first has calls of both mechanisms.
        if let Some(latency_ns) = seen.latency_ns.filter(|_| trial.looks > 1) {
            trial.sum += latency_ns.max(1.0).ln();
            trial.timed_looks += 1;
            trial.timed_calls += seen.calls;
        }
        if trial.looks <= AUTO_TRIAL_LOOKS {
            return None;
        }
        let is_timed = trial.timed_looks >= AUTO_LOOKS_MIN;
        let (Some(before_ns), true) = (trial.before_ns, is_timed) else {
            return self.end_trial("too few calls were timed to judge it by");
        };
        let after_ns = (trial.sum / f64::from(trial.timed_looks)).exp();
        let is_worse = after_ns > before_ns * trial.expected * AUTO_WORSE_MIN && !trial.is_return;
        let (to, from, regime) = (trial.to, trial.from, trial.regime);
        let change = 100.0 * (after_ns / before_ns - 1.0);
        let calls = trial.timed_calls;
        self.end_trial(&format!("worth: {change:+.0} % of the time of a call, by {calls} calls"));
        is_worse.then(|| {
            let (gain, saved_ns) = (1.0 - before_ns / after_ns, after_ns - before_ns);
            self.avoid(to, regime, seen.now_ns, saved_ns);
            let lost_ns = Some(saved_ns);
            Choice { best: from, current: to, gain, saved_ns, expected: 1.0, lost_ns }
        })
    }

    /// Ends a trial, and says how.
    fn end_trial(&mut self, how: &str) -> Option<Choice> {
        let trial = self.trial.take()?;
        let text = format!("{}; {how}", trial.note);
        self.note = Some(SwitchNote { from: trial.from, to: trial.to, text });
        None
    }

    /// Goes back after a switch that made things worse, if this minute has a switch left.
    fn take_back(&mut self, back: Choice, seen: &Observation) -> Advice {
        self.seen.clear();
        self.held_back = None;
        let percent = 100.0 * back.gain;
        let _ = write!(
            self.seen,
            "{}; measured: calls over {} take {percent:.0} % less time than over {}",
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
    pub(super) fn failed(&mut self, to: Mechanism, now_ns: u64, why: String, span: Duration) {
        self.trial = None;
        let until_ns = now_ns.saturating_add(ns(span));
        let (span_ns, lost_ns) = (0, 0.0);
        let one = Avoided { mechanism: to, regime: None, until_ns, span_ns, lost_ns, why };
        self.remember(one, now_ns);
    }

    /// Writes why the connection is where it is.
    pub(super) fn explain(&self, into: &mut String) {
        into.clear();
        let _ = write!(into, "{}: {}", self.reason, self.seen);
        if let Some(why) = &self.held_back {
            let _ = write!(into, "; {why}");
        }
    }

    /// Returns what there is to say of the last switch, once.
    pub(super) fn take_note(&mut self) -> Option<SwitchNote> {
        self.note.take()
    }

    /// Returns what was seen and expected of the switch that is to be judged.
    pub(super) fn trial_note(&self) -> Option<SwitchNote> {
        let trial = self.trial.as_ref()?;
        Some(SwitchNote { from: trial.from, to: trial.to, text: trial.note.clone() })
    }

    /// Returns why a mechanism is left alone in this situation.
    fn avoided(&self, mechanism: Mechanism, regime: &Regime, now_ns: u64) -> Option<&Avoided> {
        self.avoided.iter().find(|it| {
            it.mechanism == mechanism
                && now_ns < it.until_ns
                && it.regime.is_none_or(|there| there.is_like(regime))
        })
    }

    /// Returns how much longer calls took over a mechanism, if it made things worse here.
    fn lost_over(&self, mechanism: Mechanism, regime: &Regime, now_ns: u64) -> Option<f64> {
        let is_here = |it: &&Avoided| {
            it.mechanism == mechanism
                && now_ns < it.until_ns
                && it.regime.is_some_and(|there| there.is_like(regime))
        };
        self.avoided.iter().find(is_here).map(|it| it.lost_ns)
    }

    fn avoid(&mut self, mechanism: Mechanism, regime: Regime, now_ns: u64, lost_ns: f64) {
        let is_it = |it: &&Avoided| {
            it.mechanism == mechanism && it.regime.is_some_and(|there| there.is_like(&regime))
        };
        let before = self.avoided.iter().find(is_it).map_or(0, |it| it.span_ns);
        let span_ns = before.saturating_mul(2).clamp(ns(AUTO_AVOID), ns(AUTO_AVOID_MAX));
        let until_ns = now_ns.saturating_add(span_ns);
        let (why, regime) = (format!("{mechanism} made calls longer here"), Some(regime));
        self.remember(Avoided { mechanism, regime, until_ns, span_ns, lost_ns, why }, now_ns);
    }

    fn remember(&mut self, one: Avoided, now_ns: u64) {
        self.avoided.retain(|it| {
            let is_same = it.mechanism == one.mechanism
                && match (&it.regime, &one.regime) {
                    (Some(old), Some(new)) => old.is_like(new),
                    (old, new) => old.is_some() == new.is_some(),
                };
            // What has ended is needed for a while: the next span is twice as long.
            !is_same && now_ns < it.until_ns.saturating_add(ns(AUTO_AVOID_MAX))
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

    /// Notes how long calls take: a mean of the last looks.
    fn note_recent(&mut self, seen: &Observation, mechanism: Mechanism, regime: Regime) {
        let Some(latency_ns) = seen.latency_ns else { return };
        let log = latency_ns.max(1.0).ln();
        match &mut self.recent {
            Some(it) if it.mechanism == mechanism && it.regime.is_like(&regime) => {
                it.looks = (it.looks + 1).min(AUTO_TRIAL_LOOKS);
                it.mean += (log - it.mean) / f64::from(it.looks);
            }
            recent => *recent = Some(Recent { mechanism, regime, mean: log, looks: 1 }),
        }
    }
}

/// The best mechanism for what was seen.
struct Choice {
    best: Mechanism,
    current: Mechanism,
    /// What is saved of the cost, as a share of it.
    gain: f64,
    /// The same for each call, in nanoseconds of the weighted cost.
    saved_ns: f64,
    /// How many times as long as now calls may take, at least 1.
    expected: f64,
    /// How much longer a call took over the current mechanism, if it made things worse here.
    lost_ns: Option<f64>,
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

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
