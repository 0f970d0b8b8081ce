//! Puts candidates in order by what they cost.
//!
//! A cost is the product of a candidate's ratios to another, each to the power of its weight. Where
//! launches were made in rounds, ratios are those within a round, so that the machine's drift
//! cancels.
//!
//! **Invariants:** the order does not depend on units, and the same rows give the same order. What
//! the measurement cannot tell apart, by the interval of the ratio, is a tie, and of a tie what
//! burdens the user least is the choice. Where both are as much of a burden, the choice never
//! measured more than [`TIE_MAX`] worse than the other.
//!
//! **Invariant:** an advised mechanism that servers do not offer by default comes with what the
//! server must do, and is never chosen where the intervals do not tell it from one that they offer
//! and that sleeps as it does, or from `shm` as it comes. *Checked by*
//! `of_what_cannot_be_told_apart_the_least_burden_is_chosen`.

use super::candidates::{Candidate, OURS};
use super::interpolation::Value;
use super::requirements::{Objective, Weights};
use crate::noise::Grade;
use crate::stats;
use nearcall_channel::{Mechanism, WaitPolicy};

/// A candidate with its figures.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) candidate: Candidate,
    /// In the order of [`Objective::ALL`].
    pub(super) values: [Option<Value>; 5],
    pub(super) grade: Option<Grade>,
    pub(super) first_look: bool,
}

impl Row {
    pub(super) fn value(&self, objective: Objective) -> Option<&Value> {
        let index = Objective::ALL.iter().position(|&one| one == objective)?;
        self.values[index].as_ref()
    }
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    /// Which row.
    pub(super) row: usize,
    /// The natural logarithm of its cost over that of the cheapest; the cheapest has 0.
    pub(super) cost: f64,
    /// Half the width of the 95 % interval of it; `None` without evidence.
    pub(super) half: Option<f64>,
    /// The measurement cannot tell it from the cheapest; of the cheapest, from the first.
    pub(super) tied: bool,
}

/// Orders rows, the first choice first. Each row has a value of each objective that counts. Empty
/// if all were dropped after a first look: none of them is a choice.
pub(super) fn rank(rows: &[Row], weights: &Weights) -> Vec<Position> {
    let full: Vec<usize> = (0..rows.len()).filter(|&row| !rows[row].first_look).collect();
    let main = &full;
    let Some(cheapest) = cheapest(rows, main, weights) else { return Vec::new() };
    let mut standings: Vec<Position> = (0..rows.len())
        .map(|row| {
            let (cost, half) = match row == cheapest {
                true => (0.0, Some(0.0)),
                false => difference(&rows[row], &rows[cheapest], weights),
            };
            let main = main.contains(&row);
            // Without an interval nothing says that what measured clearly worse may be as good.
            let tied = main && cost <= half.unwrap_or(TIE_MAX.ln());
            Position { row, cost, half, tied }
        })
        .collect();
    standings.sort_by(|a, b| {
        let dropped = |one: &Position| !main.contains(&one.row);
        dropped(a).cmp(&dropped(b)).then(a.cost.total_cmp(&b.cost)).then(a.row.cmp(&b.row))
    });
    if let Some(choice) = choice(rows, &standings, main) {
        if !standings[choice].tied {
            // The cheapest is told from what is chosen instead of it.
            standings.iter_mut().for_each(|one| one.tied &= one.row != cheapest);
        }
        standings[..=choice].rotate_right(1);
    }
    standings
}

/// Returns the place of the choice among `standings`, of which those of `main` may be chosen: of
/// what cannot be told from the cheapest, or is as good as it, what burdens the user least, and of
/// several such, one that is as good as the cheapest of them.
fn choice(rows: &[Row], standings: &[Position], main: &[usize]) -> Option<usize> {
    let row = |at: usize| &rows[standings[at].row];
    let least = Burden::of(row(0).candidate);
    let is_equal = |at: &usize| {
        let Position { row: index, cost, tied, .. } = standings[*at];
        let spares_burden = Burden::of(row(*at).candidate) < least;
        let is_near = cost <= ALIKE_MAX.ln() || (tied && (cost <= TIE_MAX.ln() || spares_burden));
        main.contains(&index) && is_near
    };
    let equals: Vec<usize> = (0..standings.len()).filter(is_equal).collect();
    let burden = |at: &usize| Burden::of(row(*at).candidate);
    let lightest = equals.iter().map(burden).min()?;
    let mut equals = equals.into_iter().filter(|at| burden(at) == lightest).peekable();
    let cheapest = standings[*equals.peek()?].cost;
    equals
        .filter(|&at| standings[at].cost - cheapest <= TIE_MAX.ln())
        .min_by(|&a, &b| tie_break(row(a), row(b)))
}

/// What a choice asks of the user beside its cost; less is better, the first field first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Burden {
    /// It is not what a program gets that asks for nothing.
    pub(super) is_no_default: bool,
    /// It keeps a CPU busy while it waits.
    pub(super) spins: bool,
    /// Servers refuse it unless they are told to offer it.
    pub(super) must_be_offered: bool,
    /// A hostile peer can interfere.
    trusts_peer: bool,
    /// An end that is killed can leave a lock or an object behind.
    needs_care: bool,
}

impl Burden {
    pub(super) fn of(candidate: Candidate) -> Self {
        let can = candidate.mechanism.capabilities();
        Self {
            is_no_default: !is_default(candidate),
            spins: candidate.spins(),
            must_be_offered: !candidate.mechanism.offered_by_default(),
            trusts_peer: !can.isolation,
            needs_care: !can.kill_safe || !can.vanishes_with_both,
        }
    }
}

/// Nearcall's own channel as it comes.
fn is_default(candidate: Candidate) -> bool {
    candidate.mechanism == OURS && candidate.wait == WaitPolicy::Adaptive
}

/// The row of the least cost. Rows are compared with one of them, then with the cheapest of those.
fn cheapest(rows: &[Row], of: &[usize], weights: &Weights) -> Option<usize> {
    let mut base = *of.first()?;
    for _ in 0..ROUNDS_MAX {
        let cost = |row: usize| match row == base {
            true => 0.0,
            false => difference(&rows[row], &rows[base], weights).0,
        };
        let found = of.iter().copied().min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
        if found == base {
            break;
        }
        base = found;
    }
    Some(base)
}

/// How much more `row` costs than `base`, as a natural logarithm, and half its interval's width.
fn difference(row: &Row, base: &Row, weights: &Weights) -> (f64, Option<f64>) {
    let (mut cost, mut variance) = (0.0, Some(0.0));
    for objective in weights.wanted() {
        let weight = weights.of(objective);
        let (Some(own), Some(other)) = (row.value(objective), base.value(objective)) else {
            return (f64::INFINITY, None);
        };
        let (ratio, half) = ratio(own, other);
        // Of rates more is better.
        let sign = if objective == Objective::Throughput { -1.0 } else { 1.0 };
        cost += weight * sign * ratio;
        variance = variance.zip(half).map(|(sum, half): (f64, f64)| sum + (weight * half).powi(2));
    }
    (cost, variance.map(f64::sqrt))
}

/// The logarithm of a ratio and half its interval's width: by the rounds that both have. A run that
/// ran out of time ends within a round.
fn ratio(own: &Value, other: &Value) -> (f64, Option<f64>) {
    let rounds = own.launches.len().min(other.launches.len());
    if rounds >= PAIRS_MIN {
        let ratios: Vec<f64> =
            own.launches.iter().zip(&other.launches).map(|(a, b)| (a / b).ln()).collect();
        let middle = match rounds >= MEDIAN_MIN {
            true => stats::median(&ratios),
            false => stats::mean_and_deviation(&ratios).map(|(mean, _)| mean),
        };
        let deviation = stats::mean_and_deviation(&ratios).map(|(_, deviation)| deviation);
        let t = stats::student_t_975(rounds - 1);
        if let (Some(middle), Some(deviation), Some(t)) = (middle, deviation, t) {
            return (middle, Some(t * deviation / (rounds as f64).sqrt()));
        }
    }
    let width = |[below, above]: [f64; 2]| (above - below) / 2.0;
    let half = own.spread.zip(other.spread).map(|(a, b)| width(a).hypot(width(b)));
    ((own.value / other.value).ln(), half)
}

/// Orders two that cost the same and burden the user as much: what takes less CPU time, then what
/// stands first in the table of mechanisms.
fn tie_break(a: &Row, b: &Row) -> std::cmp::Ordering {
    let cpu = |row: &Row| row.value(Objective::Cpu).map_or(f64::INFINITY, |cpu| cpu.value);
    let place = |row: &Row| {
        let Candidate { mechanism, wait } = row.candidate;
        let among = mechanism.waits().iter().position(|&one| one == wait);
        (Mechanism::all().position(|one| one == mechanism), among)
    };
    cpu(a).total_cmp(&cpu(b)).then(place(a).cmp(&place(b)))
}

/// A smaller difference in cost does not matter.
const ALIKE_MAX: f64 = 1.03;

/// What cannot be told from the cheapest, and spares the user no burden, is chosen instead only if
/// it costs no more than this: within a wide interval the figure is still the best guess.
pub(super) const TIE_MAX: f64 = 1.05;

/// Fewer rounds give no interval that is worth it.
const PAIRS_MIN: usize = 3;

/// From so many rounds on one odd round shall not decide.
const MEDIAN_MIN: usize = 5;

/// The cheapest is found at once unless ratios by rounds go in a circle.
const ROUNDS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: f64, launches: &[f64]) -> Value {
        Value { value, spread: Some([-0.02, 0.02]), launches: launches.to_vec() }
    }

    fn row(mechanism: Mechanism, wait: WaitPolicy, latency: Value) -> Row {
        let cpu = Some(value(latency.value * 2.0, &[]));
        Row {
            candidate: Candidate { mechanism, wait },
            values: [Some(latency), None, None, cpu, None],
            grade: None,
            first_look: false,
        }
    }

    fn names(rows: &[Row], weights: &Weights) -> Vec<&'static str> {
        rank(rows, weights).iter().map(|one| rows[one.row].candidate.mechanism.name()).collect()
    }

    fn rows() -> Vec<Row> {
        vec![
            row(Mechanism::Pipe, WaitPolicy::Block, value(5_000.0, &[])),
            row(Mechanism::ShmFutex, WaitPolicy::Block, value(2_000.0, &[])),
            row(Mechanism::Tcp, WaitPolicy::Block, value(9_000.0, &[])),
        ]
    }

    #[test]
    fn the_cheapest_comes_first() {
        let weights = Weights::only(Objective::Latency);
        assert_eq!(names(&rows(), &weights), ["shm-futex", "pipe", "tcp"]);
        let found = rank(&rows(), &weights);
        assert_eq!(found[0].cost, 0.0);
        assert!(!found[1].tied && (found[1].cost - 2.5_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn scaling_all_values_leaves_the_order() {
        let mut rng = fastrand::Rng::with_seed(3);
        let weights: Weights = "latency=0.6,cpu=0.4".parse().unwrap();
        for _ in 0..100 {
            let mut rows = rows();
            for row in &mut rows {
                let ns = 100.0 + 1e4 * rng.f64();
                row.values[0] = Some(value(ns, &[]));
                row.values[3] = Some(value(ns * rng.f64() + 1.0, &[]));
            }
            let before = names(&rows, &weights);
            assert_eq!(before, names(&rows, &weights));
            let factor = 0.01 + 100.0 * rng.f64();
            for row in &mut rows {
                for value in row.values.iter_mut().flatten() {
                    value.value *= factor;
                }
            }
            assert_eq!(before, names(&rows, &weights));
        }
    }

    #[test]
    fn drift_of_the_machine_cancels_within_rounds() {
        // Five rounds of a machine that becomes slower and slower; one is 8 % cheaper in each.
        let drift = [1_000.0, 1_500.0, 2_200.0, 3_000.0, 4_000.0];
        let cheaper: Vec<f64> = drift.iter().map(|ns| ns * 0.92).collect();
        let rows = vec![
            row(Mechanism::Pipe, WaitPolicy::Block, value(2_200.0, &drift)),
            row(Mechanism::Fifo, WaitPolicy::Block, value(2_200.0, &cheaper)),
        ];
        let found = rank(&rows, &Weights::only(Objective::Latency));
        assert_eq!(found[0].row, 1);
        assert!(!found[1].tied, "{found:?}");
        // The time was over before the other's last launch.
        let mut short = rows;
        short[1].values[0].as_mut().unwrap().launches.pop();
        let found = rank(&short, &Weights::only(Objective::Latency));
        assert!(found[0].row == 1 && (found[1].cost + 0.92_f64.ln()).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn of_equal_ones_the_tie_break_decides_and_of_unequal_ones_never() {
        let weights = Weights::only(Objective::Latency);
        let two = |ours: f64| {
            vec![
                row(Mechanism::ShmSpin, WaitPolicy::Spin, value(1_000.0, &[])),
                row(Mechanism::Shm, WaitPolicy::Adaptive, value(ours, &[])),
            ]
        };
        assert_eq!(names(&two(1_020.0), &weights), ["shm", "shm-spin"]);
        assert_eq!(names(&two(1_200.0), &weights), ["shm-spin", "shm"]);
        let mut vague = two(1_200.0);
        vague[1].values[0].as_mut().unwrap().spread = Some([-0.5, 0.5]);
        // Servers offer it, and it sleeps.
        let found = rank(&vague, &weights);
        assert!(found[0].row == 1 && found[1].tied, "{found:?}");
        // No interval, so nothing says that it may be as good.
        vague[1].values[0].as_mut().unwrap().spread = None;
        assert_eq!(rank(&vague, &weights)[0].row, 0);
    }

    #[test]
    fn of_what_cannot_be_told_apart_the_least_burden_is_chosen() {
        use Mechanism::{Cma, Pipe, Shm, ShmSpin, UnixDgram, UnixStream, Vmsplice};
        use WaitPolicy::{Adaptive, Block, Spin};
        let weights = Weights::only(Objective::Latency);
        let vague = |mechanism, wait, ns: f64| {
            let spread = Some([-0.9, 0.9]);
            row(mechanism, wait, Value { value: ns, spread, launches: Vec::new() })
        };
        let choice = |rows: &[Row]| rows[rank(rows, &weights)[0].row].candidate.to_string();
        // What a program gets that asks for nothing, before all else.
        for (other, wait) in [(Shm, Spin), (ShmSpin, Spin), (UnixStream, Block), (Cma, Block)] {
            let rows = [vague(other, wait, 1_000.0), vague(Shm, Adaptive, 1_400.0)];
            assert_eq!(choice(&rows), "shm adaptive");
        }
        // Then what sleeps, whether it has to be named or not.
        assert_eq!(
            choice(&[vague(Shm, Spin, 1_000.0), vague(Vmsplice, Block, 1_400.0)]),
            "vmsplice block"
        );
        // Then what servers offer.
        assert_eq!(
            choice(&[vague(Cma, Block, 1_000.0), vague(UnixStream, Block, 1_400.0)]),
            "unix-stream block"
        );
        assert_eq!(choice(&[vague(ShmSpin, Spin, 1_000.0), vague(Shm, Spin, 1_400.0)]), "shm spin");
        // Of as light ones what measured better, unless that is next to nothing.
        let offered = [
            vague(Cma, Block, 900.0),
            vague(UnixDgram, Block, 1_000.0),
            vague(UnixStream, Block, 1_030.0),
        ];
        assert_eq!(choice(&offered), "unix-dgram block");
        // What is told apart is no tie.
        assert_eq!(choice(&[vague(Cma, Block, 1_000.0), vague(Pipe, Block, 9_000.0)]), "cma block");
    }

    #[test]
    fn a_difference_that_can_be_told_is_no_tie_even_if_it_does_not_matter() {
        let sharp = |ns: f64| Value { value: ns, spread: Some([-1e-4, 1e-4]), launches: vec![] };
        let rows = vec![
            row(Mechanism::ShmSpin, WaitPolicy::Spin, sharp(1_000.0)),
            row(Mechanism::Shm, WaitPolicy::Adaptive, sharp(1_020.0)),
        ];
        let found = rank(&rows, &Weights::only(Objective::Latency));
        assert_eq!((found[0].row, found[1].cost), (1, 0.0));
        assert!(!found[0].tied && !found[1].tied, "{found:?}");
    }

    #[test]
    fn what_was_dropped_after_a_first_look_comes_last_and_is_never_the_choice() {
        let mut rows = rows();
        rows[1].first_look = true;
        let weights = Weights::only(Objective::Latency);
        assert_eq!(names(&rows, &weights), ["pipe", "tcp", "shm-futex"]);
        rows.iter_mut().for_each(|row| row.first_look = true);
        assert_eq!(names(&rows, &weights), [""; 0]);
    }
}
