//! True, false or open: what an interval says of a bound, and what several such answers say
//! together.
//!
//! A comparison is true if the whole interval is on the right side of its bound, false if it is
//! wholly on the wrong side, otherwise open. One round has no interval and is open unless it is off
//! by a factor of two. That all of several hold needs no correction for their number: each is asked
//! for. That one of them fails is what chance gives where there are many, so it counts only if it
//! fails at 5 % divided by their number (Bonferroni, which is Holm's first step). A [`Finding`]
//! keeps the words of the comparison that decided. What is compared is not known here.

use crate::figure::Figure;

/// What is known of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    Open,
    False,
}

/// What a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    Above(f64),
}

/// An answer with its reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) truth: Truth,
    /// How far on the right side the deciding comparison is, on a scale without unit; negative on
    /// the wrong side.
    margin: f64,
    /// How likely a figure that just meets its bound would be as far from it.
    p_value: f64,
    /// The deciding comparison.
    words: String,
    /// How many comparisons were true, open and false.
    counts: [usize; 3],
    /// What should be told beside it.
    notes: Vec<String>,
}

/// Why there is no answer: what was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) String);

/// An answer, or what it lacks.
pub(crate) type Answer = Result<Finding, Missing>;

impl Finding {
    /// What `figure` says of `bound`.
    pub(crate) fn new(figure: &Figure, bound: Bound) -> Self {
        Self::tested(figure, bound, figure.p_value(bound.limit()))
    }

    /// What `figure` says of `bound`, if `p_value` says how likely one that just meets it would be
    /// as far from it.
    pub(crate) fn tested(figure: &Figure, bound: Bound, p_value: f64) -> Self {
        let placed = figure.placed();
        let claimed = bound.words(figure);
        let Some(interval) = figure.interval() else {
            let words = format!("{placed}: no round has a value, claimed {claimed}");
            return Self::leaf(Truth::Open, 0.0, 1.0, words);
        };
        let center = figure.show(interval.center);
        let (truth, measured) = match interval.ci95 {
            Some([low, high]) => {
                let ends = format!("{center} ({} to {})", figure.show(low), figure.show(high));
                (bound.truth_of_ends([low, high]), ends)
            }
            None => (bound.truth_of_one(interval.center), format!("{center} (one launch)")),
        };
        let truth = match truth {
            Truth::False if p_value > SIGNIFICANCE => Truth::Open,
            other => other,
        };
        let margin = bound.margin(interval.center, figure.signed);
        Self::leaf(truth, margin, p_value, format!("{placed}: {measured}, claimed {claimed}"))
    }

    fn leaf(truth: Truth, margin: f64, p_value: f64, words: String) -> Self {
        let counts = match truth {
            Truth::True => [1, 0, 0],
            Truth::Open => [0, 1, 0],
            Truth::False => [0, 0, 1],
        };
        Self { truth, margin, p_value, words, counts, notes: Vec::new() }
    }

    /// Adds something to tell.
    pub(crate) fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The evidence in words: how many comparisons, the deciding one, and the notes.
    pub(crate) fn evidence(&self) -> String {
        let [yes, open, no] = self.counts;
        let total = yes + open + no;
        let mut text = match self.truth {
            _ if total == 1 => self.words.clone(),
            Truth::True => format!("all {total} hold; closest: {}", self.words),
            Truth::False => format!("{no} of {total} fail; worst: {}", self.words),
            Truth::Open if no > 0 => format!(
                "{no} of {total} fail, none surely enough for so many ({yes} hold, {open} open); \
                 worst: {}",
                self.words
            ),
            Truth::Open => {
                format!("{yes} of {total} hold, {open} open; for one: {}", self.words)
            }
        };
        for note in &self.notes {
            text.push_str("; ");
            text.push_str(note);
        }
        text
    }
}

impl Bound {
    fn limit(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::Below(limit) => limit,
            Self::AtLeast(limit) | Self::Above(limit) => limit,
        }
    }

    fn is_upper(self) -> bool {
        matches!(self, Self::AtMost(_) | Self::Below(_))
    }

    fn keeps(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::Below(limit) => value < limit,
            Self::AtLeast(limit) => value >= limit,
            Self::Above(limit) => value > limit,
        }
    }

    fn truth_of_ends(self, ends: [f64; 2]) -> Truth {
        match ends.map(|end| self.keeps(end)) {
            [true, true] => Truth::True,
            [false, false] => Truth::False,
            _ => Truth::Open,
        }
    }

    /// Nothing is known of the spread, so only a factor of two counts.
    fn truth_of_one(self, value: f64) -> Truth {
        let limit = self.limit();
        // A factor from zero, or from below it, means nothing.
        if limit <= 0.0 {
            return Truth::Open;
        }
        let (far_below, far_above) =
            (value * SINGLE_FACTOR <= limit, value >= limit * SINGLE_FACTOR);
        match (far_below, far_above, self.is_upper()) {
            (true, _, true) | (_, true, false) => Truth::True,
            (true, _, false) | (_, true, true) => Truth::False,
            _ => Truth::Open,
        }
    }

    fn margin(self, value: f64, signed: bool) -> f64 {
        let limit = self.limit();
        let above = if !signed && value > 0.0 && limit > 0.0 {
            (value / limit).ln()
        } else {
            (value - limit) / value.abs().max(limit.abs()).max(f64::MIN_POSITIVE)
        };
        if self.is_upper() { -above } else { above }
    }

    fn words(self, figure: &Figure) -> String {
        let relation = match self {
            Self::AtMost(_) => "at most",
            Self::Below(_) => "below",
            Self::AtLeast(_) => "at least",
            Self::Above(_) => "above",
        };
        format!("{relation} {}", figure.show(self.limit()))
    }
}

/// Whether `figure` lies from `low` to `high`. It cannot be beyond both, so the two are one
/// comparison.
pub(crate) fn within(figure: &Figure, low: f64, high: f64) -> Finding {
    let ends = [Bound::AtLeast(low), Bound::AtMost(high)].map(|end| Finding::new(figure, end));
    merged(ends, Truth::False, |a, b| a < b).into_one()
}

/// True if all are, false if one is, and surely enough for so many. Told by the comparison that is
/// the furthest from holding among those that decide.
pub(crate) fn all(findings: impl IntoIterator<Item = Finding>) -> Finding {
    let findings: Vec<Finding> = findings.into_iter().collect();
    let count = findings.len() as f64;
    let mut all = merged(findings, Truth::False, |a, b| a < b);
    if all.truth == Truth::False {
        all.p_value = (all.p_value * count).min(1.0);
        if all.p_value > SIGNIFICANCE {
            all.truth = Truth::Open;
        }
    }
    all
}

/// True if one is, false if all are. Told by the comparison that is the nearest to holding.
pub(crate) fn any(findings: impl IntoIterator<Item = Finding>) -> Finding {
    merged(findings, Truth::True, |a, b| a > b).into_one()
}

/// True if both are certain and differ.
pub(crate) fn differ(what: &str, a: &Finding, b: &Finding) -> Finding {
    let truth = match (a.truth, b.truth) {
        (Truth::Open, _) | (_, Truth::Open) => Truth::Open,
        (a, b) if a == b => Truth::False,
        _ => Truth::True,
    };
    let margin = if truth == Truth::False { -1.0 } else { 1.0 };
    // Certain of both sides, or of none.
    let p_value = a.p_value.max(b.p_value);
    let [a, b] = [a, b].map(|finding| finding.words.split(", claimed").next().unwrap_or_default());
    Finding::leaf(truth, margin, p_value, format!("{what}: {a}; {b}"))
}

impl Finding {
    /// The same answer, counted as one comparison.
    fn into_one(self) -> Self {
        let notes = self.notes;
        Self { notes, ..Self::leaf(self.truth, self.margin, self.p_value, self.words) }
    }
}

/// `strong` decides by itself; without one, an open one does. Nothing to compare leaves it open.
fn merged(
    findings: impl IntoIterator<Item = Finding>,
    strong: Truth,
    before: fn(f64, f64) -> bool,
) -> Finding {
    let mut findings: Vec<Finding> = findings.into_iter().collect();
    let truth = [strong, Truth::Open]
        .into_iter()
        .find(|truth| findings.iter().any(|finding| finding.truth == *truth))
        .or_else(|| findings.first().map(|finding| finding.truth))
        .unwrap_or(Truth::Open);
    let (mut counts, mut notes) = ([0; 3], Vec::new());
    for finding in &mut findings {
        for (sum, count) in counts.iter_mut().zip(finding.counts) {
            *sum += count;
        }
        notes.append(&mut finding.notes);
    }
    // Of those that all have to be so, the least certain one; of those of which one decides, the
    // most certain.
    let p_values = findings.iter().filter(|one| one.truth == truth).map(|one| one.p_value);
    let p_value = match truth == strong {
        true => p_values.fold(1.0, f64::min),
        false => p_values.fold(0.0, f64::max),
    };
    let deciding = findings
        .into_iter()
        .filter(|finding| finding.truth == truth)
        .reduce(|best, next| if before(next.margin, best.margin) { next } else { best });
    let (margin, words) = match deciding {
        Some(finding) => (finding.margin, finding.words),
        None => (0.0, "there was nothing to compare".to_owned()),
    };
    Finding { truth, margin, p_value, words, counts, notes }
}

/// How often what holds may be found to fail, over all comparisons of a claim.
const SIGNIFICANCE: f64 = 0.05;

/// How far off one launch must be to say anything.
const SINGLE_FACTOR: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Series, Unit};

    fn ratio(name: &str, values: &[f64]) -> Figure {
        Figure::new(name, "", Unit::Ratio, &Series(values.to_vec()))
    }

    fn check(values: &[f64], bound: Bound, expected: Truth) {
        let finding = Finding::new(&ratio("a", values), bound);
        assert_eq!(finding.truth, expected, "{}", finding.evidence());
    }

    #[test]
    fn the_whole_interval_must_be_on_one_side() {
        check(&[0.9, 0.91, 0.9], Bound::Below(1.0), Truth::True);
        check(&[1.1, 1.11, 1.1], Bound::Below(1.0), Truth::False);
        check(&[0.9, 1.1, 1.0], Bound::Below(1.0), Truth::Open);
        check(&[1.0, 1.0], Bound::Below(1.0), Truth::False);
        check(&[1.0, 1.0], Bound::AtMost(1.0), Truth::True);
        check(&[1.0, 1.0], Bound::AtLeast(1.0), Truth::True);
        check(&[1.0, 1.0], Bound::Above(1.0), Truth::False);
    }

    #[test]
    fn one_launch_counts_only_by_a_factor_of_two() {
        check(&[0.6], Bound::Below(1.0), Truth::Open);
        check(&[0.5], Bound::Below(1.0), Truth::True);
        check(&[2.0], Bound::Below(1.0), Truth::False);
        check(&[5.9], Bound::AtLeast(3.0), Truth::Open);
        check(&[6.0], Bound::AtLeast(3.0), Truth::True);
        check(&[1.5], Bound::AtLeast(3.0), Truth::False);
        check(&[9.0], Bound::Above(0.0), Truth::Open);
        check(&[f64::NAN], Bound::Above(1.0), Truth::Open);
    }

    fn leaf(truth: Truth, margin: f64) -> Finding {
        Finding::leaf(truth, margin, 0.0, format!("margin {margin}"))
    }

    /// Six rounds of noise of 20 % around a ratio.
    fn noisy(rng: &mut fastrand::Rng, truth: f64) -> Figure {
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let values: Vec<f64> = (0..6).map(|_| truth * (0.2 * normal()).exp()).collect();
        ratio("a", &values)
    }

    #[test]
    fn one_of_a_hundred_that_just_hold_refutes_nothing() {
        let mut rng = fastrand::Rng::with_seed(4);
        let refuted = (0..300).filter(|_| {
            let hundred = (0..100).map(|_| Finding::new(&noisy(&mut rng, 1.0), Bound::AtMost(1.0)));
            all(hundred.collect::<Vec<_>>()).truth == Truth::False
        });
        let refuted = refuted.count();
        assert!(refuted <= 24, "{refuted} of 300 worlds in which all hold");
    }

    #[test]
    fn one_that_clearly_fails_refutes_a_hundred() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut hundred: Vec<Finding> =
            (0..99).map(|_| Finding::new(&noisy(&mut rng, 0.5), Bound::AtMost(1.0))).collect();
        hundred.push(Finding::new(&noisy(&mut rng, 4.0), Bound::AtMost(1.0)));
        let found = all(hundred);
        assert_eq!(found.truth, Truth::False, "{}", found.evidence());
    }

    #[test]
    fn what_fails_by_chance_is_said_to() {
        let weak = Finding { p_value: 0.03, ..leaf(Truth::False, -1.0) };
        let found = all([leaf(Truth::True, 1.0), weak.clone()]);
        assert_eq!(found.truth, Truth::Open);
        assert_eq!(
            found.evidence(),
            "1 of 2 fail, none surely enough for so many (1 hold, 0 open); worst: margin -1"
        );
        assert_eq!(all([weak]).truth, Truth::False);
    }

    #[test]
    fn one_false_makes_all_false_and_one_true_makes_any_true() {
        use Truth::{False, Open, True};
        let cases = [
            (vec![True, True], True, True),
            (vec![True, Open], Open, True),
            (vec![True, Open, False], False, True),
            (vec![Open, False], False, Open),
            (vec![False, False], False, False),
            (vec![], Open, Open),
        ];
        for (truths, of_all, of_any) in cases {
            let findings = || truths.iter().map(|&truth| leaf(truth, 1.0));
            assert_eq!(all(findings()).truth, of_all, "{truths:?}");
            assert_eq!(any(findings()).truth, of_any, "{truths:?}");
        }
    }

    #[test]
    fn the_worst_comparison_is_told() {
        let finding =
            all([leaf(Truth::True, 1.0), leaf(Truth::False, -1.0), leaf(Truth::False, -2.0)]);
        assert_eq!(finding.evidence(), "2 of 3 fail; worst: margin -2");
        let finding = all([leaf(Truth::True, 2.0), leaf(Truth::True, 1.0)]).noted("fine");
        assert_eq!(finding.evidence(), "all 2 hold; closest: margin 1; fine");
        let finding = any([leaf(Truth::False, -2.0), leaf(Truth::False, -1.0)]);
        assert_eq!(finding.evidence(), "margin -1");
    }

    #[test]
    fn a_change_of_sides_needs_two_certain_sides() {
        let (yes, no, open) =
            (leaf(Truth::True, 1.0), leaf(Truth::False, 1.0), leaf(Truth::Open, 1.0));
        assert_eq!(differ("", &yes, &no).truth, Truth::True);
        assert_eq!(differ("", &no, &no).truth, Truth::False);
        assert_eq!(differ("", &yes, &open).truth, Truth::Open);
    }

    #[test]
    fn the_words_have_the_figure_its_interval_and_its_bound() {
        let finding =
            Finding::new(&ratio("pipe / tcp", &[2.0, 2.0]).at("at 1 KiB"), Bound::AtMost(1.5));
        let words = "pipe / tcp at 1 KiB: 2.00× (2.00× to 2.00×), claimed at most 1.50×";
        assert_eq!(finding.evidence(), words);
        let finding = within(&ratio("a", &[1.0, 1.0]), 0.8, 1.25);
        assert_eq!((finding.truth, finding.counts), (Truth::True, [1, 0, 0]));
    }
}
