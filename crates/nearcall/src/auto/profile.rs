//! What calls cost over the mechanisms of this machine: a table of measured costs, interpolated.
//!
//! **Invariants:** a mechanism of which nothing is known in a situation has no cost there.
//! **Not here:** where the table is stored (`nearcall-channel`), what is decided (`decide.rs`).

use nearcall_channel::Mechanism;
use nearcall_channel::spin::tuning::{EndPlacement, MeasuredCost, Pace};

use crate::connection::traffic::{MessageCounts, Traffic};
use crate::limits::{AUTO_CPU_WEIGHT, AUTO_LATENCY_WEIGHT};

/// How much the time of a call counts, and how much the CPU time of both ends for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights {
    pub(crate) latency: f64,
    pub(crate) cpu: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { latency: AUTO_LATENCY_WEIGHT, cpu: AUTO_CPU_WEIGHT }
    }
}

impl Weights {
    /// Returns weights whose sum is 1.
    pub(crate) fn of(latency: f64, cpu: f64) -> Self {
        let plain = |weight: f64| if weight.is_finite() { weight.max(0.0) } else { 0.0 };
        let (latency, cpu) = (plain(latency), plain(cpu));
        let sum = latency + cpu;
        match sum > 0.0 && sum.is_finite() {
            true => Self { latency: latency / sum, cpu: cpu / sum },
            false => Self::default(),
        }
    }
}

/// The cost of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    pub(super) latency_ns: f64,
    /// Of both ends.
    pub(super) cpu_ns: f64,
}

impl Cost {
    const NONE: Self = Self { latency_ns: 0.0, cpu_ns: 0.0 };

    /// Returns it as one number, in nanoseconds.
    pub(super) fn score(self, weights: Weights) -> f64 {
        weights.latency * self.latency_ns + weights.cpu * self.cpu_ns
    }

    fn plus(self, other: Self, factor: f64) -> Self {
        Self {
            latency_ns: self.latency_ns + factor * other.latency_ns,
            cpu_ns: self.cpu_ns + factor * other.cpu_ns,
        }
    }
}

/// What the cost of a call depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    pub(super) placement: EndPlacement,
    /// The share of calls before which both ends have slept.
    pub(super) rare_share: f64,
    /// Requests of each size class, for one call.
    requests: [f64; MessageCounts::CLASSES],
    /// Replies of each size class, for one call.
    replies: [f64; MessageCounts::CLASSES],
}

impl Situation {
    /// Returns the situation in which `traffic` was, if it has at least one request.
    pub(super) fn of(traffic: &Traffic, rare_share: f64, placement: EndPlacement) -> Option<Self> {
        let calls = traffic.sent.messages();
        let shares = |counts: &MessageCounts| counts.by_size.map(|n| n as f64 / calls as f64);
        let (requests, replies) = (shares(&traffic.sent), shares(&traffic.received));
        (calls > 0).then_some(Self { placement, rare_share, requests, replies })
    }
}

/// The measured costs of mechanisms.
#[derive(Debug)]
pub(super) struct Profile {
    curves: Vec<Curve>,
}

/// The costs of one mechanism in one situation, by the size of the request.
#[derive(Debug)]
struct Curve {
    mechanism: Mechanism,
    placement: EndPlacement,
    pace: Pace,
    /// Ascending by bytes, at least one.
    points: Vec<(f64, Cost)>,
}

impl Profile {
    /// Makes the table of measured costs. `None`: there are none of mechanisms that are known.
    pub(super) fn of(costs: &[MeasuredCost]) -> Option<Self> {
        let mut curves: Vec<Curve> = Vec::new();
        for cost in costs {
            let Ok(mechanism) = cost.mechanism.parse::<Mechanism>() else { continue };
            let &MeasuredCost { placement, pace, message_bytes, latency_ns, cpu_ns, .. } = cost;
            let value = Cost { latency_ns: latency_ns as f64, cpu_ns: cpu_ns as f64 };
            let point = (message_bytes as f64, value);
            let key = (mechanism, placement, pace);
            let is_it = |it: &&mut Curve| (it.mechanism, it.placement, it.pace) == key;
            match curves.iter_mut().find(is_it) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve { mechanism, placement, pace, points: vec![point] }),
            }
        }
        for curve in &mut curves {
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve.points.dedup_by(|a, b| a.0 <= b.0);
        }
        (!curves.is_empty()).then_some(Self { curves })
    }

    /// Returns the mechanisms of which something is known, each once.
    pub(super) fn mechanisms(&self) -> Vec<Mechanism> {
        let mut all: Vec<Mechanism> = self.curves.iter().map(|curve| curve.mechanism).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns what a call costs over a mechanism.
    pub(super) fn call(&self, mechanism: Mechanism, situation: &Situation) -> Option<Cost> {
        let rare = situation.rare_share.clamp(0.0, 1.0);
        let mut sum = Cost::NONE;
        for (pace, share) in [(Pace::Busy, 1.0 - rare), (Pace::Rare, rare)] {
            if share <= 0.0 {
                continue;
            }
            let curve = self.curve(mechanism, situation.placement, pace)?;
            sum = sum.plus(curve.call(situation), share);
        }
        Some(sum)
    }

    /// Returns the mechanism to begin with while nothing is known of the traffic: the best by the
    /// product over everything that was measured.
    pub(super) fn first(&self, weights: Weights, placement: EndPlacement) -> Option<Mechanism> {
        let all = self.curves.iter().filter(|curve| curve.placement == placement);
        let points_max = all.clone().map(|curve| curve.points.len()).max()?;
        let product = |mechanism: Mechanism| {
            let own = all.clone().filter(|curve| curve.mechanism == mechanism);
            // Of one that was measured in fewer situations less is known.
            let whole: Vec<&Curve> = own.filter(|it| it.points.len() == points_max).collect();
            let points = whole.iter().flat_map(|curve| &curve.points);
            let logs: f64 = points.map(|(_, cost)| cost.score(weights).max(1.0).ln()).sum();
            (whole.len() == Pace::ALL.len()).then_some(logs)
        };
        let known = self.mechanisms().into_iter().filter_map(|it| Some((it, product(it)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(mechanism, _)| mechanism)
    }

    fn curve(&self, mechanism: Mechanism, placement: EndPlacement, pace: Pace) -> Option<&Curve> {
        let key = (mechanism, placement, pace);
        self.curves.iter().find(|it| (it.mechanism, it.placement, it.pace) == key)
    }
}

impl Curve {
    /// Returns the cost of the requests of a call, and of what its replies add to empty ones.
    fn call(&self, situation: &Situation) -> Cost {
        let empty = self.points[0].1;
        let mut sum = Cost::NONE;
        for class in 0..MessageCounts::CLASSES {
            let (requests, replies) = (situation.requests[class], situation.replies[class]);
            if requests == 0.0 && replies == 0.0 {
                continue;
            }
            let cost = self.at(typical_bytes(class));
            sum = sum.plus(cost, requests).plus(cost.plus(empty, -1.0), replies);
        }
        sum
    }

    /// Interpolates between the points, as straight lines of logarithms. Below the first point a
    /// message costs as much as there, above the last in proportion to its bytes.
    fn at(&self, bytes: f64) -> Cost {
        let after = self.points.partition_point(|(at, _)| *at < bytes);
        let Some(&(above, high)) = self.points.get(after) else {
            let (last, cost) = self.points[self.points.len() - 1];
            return Cost::NONE.plus(cost, bytes / last);
        };
        let Some(&(below, low)) = after.checked_sub(1).map(|index| &self.points[index]) else {
            return high;
        };
        let share = (bytes / below).ln() / (above / below).ln();
        let between = |low: f64, high: f64| low * (high / low).powf(share);
        Cost {
            latency_ns: between(low.latency_ns, high.latency_ns),
            cpu_ns: between(low.cpu_ns, high.cpu_ns),
        }
    }
}

/// The bytes that stand for a size class: its middle, by logarithms.
fn typical_bytes(class: usize) -> f64 {
    MessageCounts::class_bytes_max(class) as f64 / std::f64::consts::SQRT_2
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Weights = Weights { latency: 0.5, cpu: 0.5 };

    fn cost(line: &str) -> MeasuredCost {
        let text = format!("nearcall.tuning/1\nmachine = m\nwake_up_ns = 5000\ncost = {line}\n");
        tuning_of(&text)
    }

    fn tuning_of(text: &str) -> MeasuredCost {
        let tuning = nearcall_channel::spin::tuning::Tuning::parse(text).unwrap();
        tuning.costs.into_iter().next().unwrap()
    }

    fn situation(request: usize, reply: usize, rare_share: f64) -> Situation {
        let mut traffic = Traffic::default();
        traffic.sent.count(request);
        traffic.received.count(reply);
        Situation::of(&traffic, rare_share, EndPlacement::TwoCpus).unwrap()
    }

    #[test]
    fn costs_lie_between_those_that_were_measured() {
        let lines = ["shm two-cpus busy 64 100 200", "shm two-cpus busy 65536 6400 12800"];
        let profile = Profile::of(&lines.map(cost)).unwrap();
        let of = |request, reply| {
            profile.call(Mechanism::Shm, &situation(request, reply, 0.0)).unwrap().latency_ns
        };
        assert!((of(40, 40) - 100.0).abs() < 1.0, "{}", of(40, 40));
        assert!((100.0..6_400.0).contains(&of(4_000, 40)));
        assert!(of(40, 4_000) > of(40, 1_000) && of(1 << 20, 40) > 50_000.0);
        assert!((of(40, 4_000) - of(4_000, 40)).abs() < 1.0, "a reply costs as a request");
        // Nothing is known of calls after a pause.
        assert!(profile.call(Mechanism::Shm, &situation(40, 40, 0.5)).is_none());
        assert!(profile.call(Mechanism::Pipe, &situation(40, 40, 0.0)).is_none());
    }

    #[test]
    fn the_first_mechanism_is_the_best_over_all() {
        let lines = [
            "shm two-cpus busy 64 100 100",
            "shm two-cpus rare 64 900 900",
            "shm-unix two-cpus busy 64 800 800",
            "shm-unix two-cpus rare 64 800 800",
            "unix-dgram two-cpus busy 64 1 1",
            "a-later-one two-cpus rare 64 1 1",
        ];
        let profile = Profile::of(&lines.map(cost)).unwrap();
        assert_eq!(profile.first(HALF, EndPlacement::TwoCpus), Some(Mechanism::Shm));
        assert_eq!(profile.first(HALF, EndPlacement::OneCpu), None);
        assert!(Profile::of(&[cost("a-later-one two-cpus rare 64 1 1")]).is_none());
    }
}
