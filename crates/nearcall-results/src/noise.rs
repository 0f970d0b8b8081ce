//! How far a cell can be trusted, as two grades that a person can read.
//!
//! The grade of the median is that of its interval, since nothing that is observed around a cell
//! predicts how much its launches differ. The grade of the tails is a judgement of facts that the
//! runner gathers around each cell, with the reasons: what interrupts an end now and then moves
//! high percentiles and hardly the median. A fact that the machine does not give is `None` and does
//! not count. Nothing is read or measured here.

use serde::{Deserialize, Serialize};

use crate::report::number::Measured;
use crate::words::words;

/// How far a figure can be trusted. The order is from best to worst, so the worst is `max`. What
/// the letters say of tails is said here; those of medians are by width: `of_median`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Grade {
    /// Undisturbed, as on an isolated CPU.
    A,
    /// An ordinary quiet machine: timer ticks and little else.
    B,
    /// Disturbed: high percentiles are partly those of the disturbance.
    C,
    /// Something else ran on the same CPU: high percentiles say nothing of the cell.
    D,
}

/// How many there are of each grade, in words: `3 of grade B, 1 not graded`. Empty for none.
pub(crate) fn count_words(grades: impl Iterator<Item = Option<Grade>> + Clone) -> String {
    let all = Grade::ALL.into_iter().map(Some).chain([None]);
    let words = all.filter_map(|wanted| {
        let name = wanted.map_or("not graded".to_owned(), |grade| format!("of grade {grade}"));
        let count = grades.clone().filter(|grade| *grade == wanted).count();
        (count > 0).then(|| format!("{count} {name}"))
    });
    words.collect::<Vec<_>>().join(", ")
}

words! { Grade: A => "A", B => "B", C => "C", D => "D" }

/// What was observed on the CPUs of one cell, over `observed_ns` of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoiseFacts {
    /// How long the gap detector watched one CPU.
    pub observed_ns: u64,
    /// Gaps above 5 µs that it saw.
    pub gaps: Option<u64>,
    /// The sum of those gaps: time that was taken away.
    pub gap_ns: Option<u64>,
    /// Time that the hypervisor gave to others (steal in `/proc/stat`) during `cell_ns`.
    pub steal_ns: Option<u64>,
    /// How long the cell ran, for the facts below and for steal.
    pub cell_ns: u64,
    /// How often the kernel took the CPU from either end. Leave it out where both ends share a
    /// CPU: there they take it from each other.
    pub involuntary_switches: Option<u64>,
    /// How long an end was runnable and waited for its CPU. Leave it out where they share one.
    pub run_delay_ns: Option<u64>,
    /// How long any task of the system waited for a CPU (the total of "some" in PSI).
    pub psi_cpu_some_ns: Option<u64>,
    /// How long the control group was throttled.
    pub throttled_ns: Option<u64>,
    /// Other runnable tasks per CPU of the cell, on average.
    pub run_queue_others: Option<f64>,
}

/// A grade and why it is not better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graded {
    /// The worst of the grades that the facts give.
    pub grade: Grade,
    /// One phrase for each fact that is worse than A, the worst first.
    pub reasons: Vec<String>,
}

/// Grades a cell by the worst of its facts. `None` if no fact is known.
#[must_use]
pub fn grade(facts: &NoiseFacts) -> Option<Graded> {
    let mut found: Vec<(Grade, String)> =
        RULES.iter().filter_map(|rule| rule.judge(facts)).collect();
    // A stable sort: facts of equal grade keep the order of the rules.
    found.sort_by_key(|(grade, _)| std::cmp::Reverse(*grade));
    let worst = found.first()?.0;
    let reasons = found.into_iter().filter(|(grade, _)| *grade > Grade::A);
    Some(Graded { grade: worst, reasons: reasons.map(|(_, reason)| reason).collect() })
}

/// The grade of a median or a rate, by its interval: A within ±2 %, B ±5 %, C ±25 %, D more. `None`
/// without an interval.
pub(crate) fn of_median(measured: Measured) -> Option<Grade> {
    Some(by_limits(measured.half_width()?, MEDIAN_MAX))
}

/// The grade of a value that is A, B and C up to these limits.
fn by_limits(value: f64, limits: [f64; 3]) -> Grade {
    Grade::ALL[limits.iter().filter(|limit| value > **limit).count()]
}

/// The widest interval of a median for A, B and C, as the share by which it may be off either way.
const MEDIAN_MAX: [f64; 3] = [0.02, 0.05, 0.25];

/// The grade of several parts together: the worst one. `None` if none is known.
#[must_use]
pub fn worst_of(grades: impl IntoIterator<Item = Option<Grade>>) -> Option<Grade> {
    grades.into_iter().flatten().max()
}

/// What a fixed loop that reads the clock saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// From the first reading to the last.
    pub observed_ns: u64,
    /// Steps longer than [`GAP_NS`].
    pub count: u64,
    /// The sum of those steps.
    pub total_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

impl Gaps {
    /// Takes the time between two successive readings. Costs a comparison; usable in the loop
    /// itself.
    pub fn step(&mut self, step_ns: u64) {
        self.observed_ns = self.observed_ns.saturating_add(step_ns);
        if step_ns > GAP_NS {
            self.count += 1;
            self.total_ns = self.total_ns.saturating_add(step_ns);
            self.longest_ns = self.longest_ns.max(step_ns);
        }
    }
}

/// A longer step of a loop that only reads the clock means that something else ran.
pub const GAP_NS: u64 = 5_000;

/// One fact: how to get it from all facts, and up to which value it is A, B and C.
struct Rule {
    value: fn(&NoiseFacts) -> Option<f64>,
    limits: [f64; 3],
    says: &'static str,
}

impl Rule {
    fn judge(&self, facts: &NoiseFacts) -> Option<(Grade, String)> {
        let value = (self.value)(facts).filter(|value| value.is_finite())?;
        let digits = if value < 10.0 { 1 } else { 0 };
        Some((by_limits(value, self.limits), format!("{value:.digits$}{}", self.says)))
    }
}

/// Shares are in percent. Where the third limit is infinite, the fact alone never makes a D: it
/// shows that others were active, not that they took time from the cell.
const RULES: [Rule; 8] = [
    // Ticks of 2 to 5 µs at 250 Hz take 0.1 %; on a virtual machine they take 1 to 2 %. A burner
    // on the same CPU takes half.
    Rule {
        value: |facts| percent(facts.gap_ns, facts.observed_ns),
        limits: [0.1, 2.0, 20.0],
        says: " % of the CPU taken by gaps",
    },
    // A tick at 1,000 Hz that leaves the virtual machine is a gap each time; that is still quiet.
    Rule {
        value: |facts| per_second(facts.gaps, facts.observed_ns),
        limits: [50.0, 1_200.0, f64::INFINITY],
        says: " gaps above 5 µs per second",
    },
    // Steal on a shared machine is normal up to a few percent and comes in ticks of 10 ms.
    Rule {
        value: |facts| percent(facts.steal_ns, facts.cell_ns),
        limits: [0.1, 2.0, 20.0],
        says: " % stolen by the hypervisor",
    },
    Rule {
        value: |facts| percent(facts.run_delay_ns, facts.cell_ns),
        limits: [0.1, 2.0, 20.0],
        says: " % waiting for the CPU",
    },
    // A slice is about 3 ms, so a burner that shares the CPU switches 150 to 300 times per second.
    Rule {
        value: |facts| per_second(facts.involuntary_switches, facts.cell_ns),
        limits: [5.0, 50.0, f64::INFINITY],
        says: " involuntary switches per second",
    },
    // The whole system, so also tasks on other CPUs.
    Rule {
        value: |facts| percent(facts.psi_cpu_some_ns, facts.cell_ns),
        limits: [1.0, 10.0, f64::INFINITY],
        says: " % of the time some task waited for a CPU",
    },
    // Throttling stops the cell for tens of milliseconds at a time: never A or B.
    Rule {
        value: |facts| percent(facts.throttled_ns, facts.cell_ns),
        limits: [0.0, 0.0, 5.0],
        says: " % throttled by the control group",
    },
    Rule {
        value: |facts| facts.run_queue_others,
        limits: [0.1, 0.5, f64::INFINITY],
        says: " other runnable tasks per CPU",
    },
];

fn percent(part_ns: Option<u64>, whole_ns: u64) -> Option<f64> {
    (whole_ns > 0).then_some(part_ns? as f64 * 100.0 / whole_ns as f64)
}

fn per_second(count: Option<u64>, over_ns: u64) -> Option<f64> {
    (over_ns > 0).then_some(count? as f64 * 1e9 / over_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn facts() -> NoiseFacts {
        NoiseFacts { observed_ns: SECOND_NS, cell_ns: SECOND_NS, ..NoiseFacts::default() }
    }

    /// The gap detector on a CPU where every `period_ns` something takes `gap_ns`.
    fn detector(period_ns: u64, gap_ns: u64) -> NoiseFacts {
        let mut gaps = Gaps::default();
        while gaps.observed_ns < SECOND_NS {
            let ran_ns = period_ns - gap_ns;
            (0..ran_ns / 1_000).for_each(|_| gaps.step(1_000));
            gaps.step(gap_ns);
        }
        NoiseFacts {
            observed_ns: gaps.observed_ns,
            gaps: Some(gaps.count),
            gap_ns: Some(gaps.total_ns),
            ..facts()
        }
    }

    #[test]
    fn a_burner_on_the_same_cpu_makes_grade_d() {
        for slice_ns in [1_000_000, 3_000_000, 4_000_000] {
            let graded = grade(&detector(2 * slice_ns, slice_ns)).unwrap();
            assert_eq!(graded.grade, Grade::D);
            assert!(graded.reasons[0].starts_with("50 % of the CPU"), "{:?}", graded.reasons);
        }
        let waited = NoiseFacts { run_delay_ns: Some(SECOND_NS / 2), ..facts() };
        assert_eq!(grade(&waited).unwrap().grade, Grade::D);
    }

    #[test]
    fn a_quiet_machine_is_not_d() {
        assert_eq!(grade(&detector(4_000_000, 3_000)).unwrap().grade, Grade::A);
        assert_eq!(grade(&detector(4_000_000, 8_000)).unwrap().grade, Grade::B);
        assert_eq!(grade(&detector(1_000_000, 15_000)).unwrap().grade, Grade::B);
        let steals = NoiseFacts { steal_ns: Some(30_000_000), ..detector(1_000_000, 30_000) };
        assert_eq!(grade(&steals).unwrap().grade, Grade::C);
    }

    #[test]
    fn the_worst_fact_decides_and_comes_first() {
        let graded = grade(&NoiseFacts {
            gaps: Some(200),
            gap_ns: Some(1_000_000),
            involuntary_switches: Some(80),
            run_queue_others: Some(0.0),
            ..facts()
        });
        let reasons = vec![
            "80 involuntary switches per second".to_owned(),
            "200 gaps above 5 µs per second".to_owned(),
        ];
        assert_eq!(graded.unwrap(), Graded { grade: Grade::C, reasons });
    }

    #[test]
    fn throttling_is_never_harmless() {
        let of = |throttled_ns| {
            grade(&NoiseFacts { throttled_ns: Some(throttled_ns), ..facts() }).unwrap().grade
        };
        assert_eq!((of(0), of(1), of(SECOND_NS / 10)), (Grade::A, Grade::C, Grade::D));
    }

    #[test]
    fn no_known_fact_gives_no_grade() {
        assert_eq!(grade(&NoiseFacts::default()), None);
        assert_eq!(grade(&NoiseFacts { gaps: Some(5), ..NoiseFacts::default() }), None);
        assert_eq!(worst_of([None, Some(Grade::A), Some(Grade::C)]), Some(Grade::C));
        assert_eq!(worst_of([None]), None);
    }

    #[test]
    fn a_median_has_the_grade_of_its_interval() {
        let of = |low, high| of_median(Measured { value: 100.0, ci95: Some([low, high]) });
        let found = [of(99.0, 101.0), of(96.0, 104.0), of(82.0, 120.0), of(50.0, 200.0)];
        assert_eq!(found, [Grade::A, Grade::B, Grade::C, Grade::D].map(Some));
        assert_eq!(of_median(Measured { value: 100.0, ci95: None }), None);
    }

    #[test]
    fn gaps_are_steps_above_5_microseconds() {
        let mut gaps = Gaps::default();
        [5_000, 5_001, 0, 20_000].into_iter().for_each(|step| gaps.step(step));
        let expected = Gaps { observed_ns: 30_001, count: 2, total_ns: 25_001, longest_ns: 20_000 };
        assert_eq!(gaps, expected);
    }
}
