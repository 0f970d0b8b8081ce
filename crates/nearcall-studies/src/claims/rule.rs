//! Claims as rows: which figures are compared where, and what they have to be.
//!
//! A [`Rule`] is one claim; a [`Group`] has comparisons at the points of a domain. What an interval
//! says of a bound, and many such answers together, is in `verdict.rs`.

use std::rc::Rc;

use crate::claims::facts::View;
use crate::claims::rising;
use crate::claims::term::{Domain, Leaf, Point, RANK, Term, figures, latency};
use crate::claims::verdict::{Answer, Bound, Finding, Missing, Truth, all, any, differ, within};

/// A claim of one study.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    answer: Box<dyn Fn(&View<'_>) -> Answer>,
}

/// Comparisons at each point of a domain.
#[derive(Clone)]
pub(crate) struct Group {
    domain: Domain,
    checks: Vec<Check>,
}

/// One comparison.
#[derive(Clone)]
pub(crate) struct Check {
    leaves: Vec<Leaf>,
    finding: Rc<Judge>,
}

/// What a view says of a comparison at a point.
type Judge = dyn Fn(&View<'_>, Point) -> Answer;

impl Rule {
    /// Judged by a function of its own.
    pub(crate) fn own(id: &'static str, answer: impl Fn(&View<'_>) -> Answer + 'static) -> Self {
        Self { id, answer: Box::new(answer) }
    }

    /// All of these hold.
    pub(crate) fn all(id: &'static str, groups: impl IntoIterator<Item = Group>) -> Self {
        let groups = Vec::from_iter(groups);
        Self::own(id, move |view| all_of(&groups, view))
    }

    /// All of those hold that can be compared here.
    pub(crate) fn measured(id: &'static str, groups: impl IntoIterator<Item = Group>) -> Self {
        let groups = Vec::from_iter(groups);
        Self::own(id, move |view| Ok(all(where_measured(&groups, view)?)))
    }

    /// One of those holds that can be compared here.
    pub(crate) fn any(id: &'static str, groups: impl IntoIterator<Item = Group>) -> Self {
        let groups = Vec::from_iter(groups);
        Self::own(id, move |view| Ok(any(where_measured(&groups, view)?)))
    }

    /// Reports at how many points `group` compares, and what they are.
    pub(crate) fn points(self, name: &'static str, group: Group) -> Self {
        self.noted(move |view, _| Ok(Some(format!("{} {name}", group.points(view)?.len()))))
    }

    /// Reports a text with these figures in place of each `{}`.
    pub(crate) fn values(self, text: &'static str, terms: impl IntoIterator<Item = Term>) -> Self {
        let terms = Vec::from_iter(terms);
        self.noted(move |view, _| values(text, &terms, view).map(Some))
    }

    /// Reports what it means if it fails.
    pub(crate) fn if_refuted(self, text: &'static str) -> Self {
        self.noted(move |_, truth| Ok((truth == Truth::False).then(|| text.to_owned())))
    }

    fn noted(
        self,
        note: impl Fn(&View<'_>, Truth) -> Result<Option<String>, Missing> + 'static,
    ) -> Self {
        Self::own(self.id, move |view| {
            let finding = self.answer(view)?;
            match note(view, finding.truth)? {
                Some(note) => Ok(finding.noted(note)),
                None => Ok(finding),
            }
        })
    }

    /// What `view` says of it.
    pub(crate) fn answer(&self, view: &View<'_>) -> Answer {
        (self.answer)(view)
    }
}

/// Compares at each point of `domain`.
pub(crate) fn each(domain: impl Into<Domain>, checks: impl IntoIterator<Item = Check>) -> Group {
    Group { domain: domain.into(), checks: checks.into_iter().collect() }
}

/// Compares what has its points within.
pub(crate) fn once(checks: impl IntoIterator<Item = Check>) -> Group {
    each(Domain::Here, checks)
}

pub(crate) fn at_most(limit: f64, term: Term) -> Check {
    is(term, Bound::AtMost(limit))
}

pub(crate) fn at_least(limit: f64, term: Term) -> Check {
    is(term, Bound::AtLeast(limit))
}

pub(crate) fn above(limit: f64, term: Term) -> Check {
    is(term, Bound::Above(limit))
}

pub(crate) fn below(limit: f64, term: Term) -> Check {
    is(term, Bound::Below(limit))
}

pub(crate) fn between(low: f64, high: f64, term: Term) -> Check {
    Check::new(term.leaves.clone(), move |view, point| {
        Ok(within(&term.figure(view, point)?, low, high))
    })
}

/// One is below the other, by their ratio.
pub(crate) fn less(one: Term, other: Term) -> Check {
    below(1.0, one / other)
}

/// Each is below the next.
pub(crate) fn order(terms: impl IntoIterator<Item = Term>) -> Vec<Check> {
    let terms = Vec::from_iter(terms);
    terms.windows(2).map(|pair| less(pair[0].clone(), pair[1].clone())).collect()
}

/// Each of these is at most `factor` times each other one. As differences, which mean something
/// below zero too, and pair by pair: the largest of a round is mostly that of its noise.
pub(crate) fn alike(terms: &[Term], factor: f64, name: &'static str) -> Vec<Check> {
    let others = |one: usize| (0..terms.len()).filter(move |&other| other != one);
    let pairs = (0..terms.len()).flat_map(|one| others(one).map(move |other| (one, other)));
    let beyond = |(one, other): (usize, usize)| terms[one].clone() - factor * terms[other].clone();
    pairs.map(|pair| at_most(0.0, beyond(pair).named(name))).collect()
}

/// The latency of a mechanism rises with the size, as surely as ranks tell it.
pub(crate) fn rises(mechanism: &'static str, domain: Domain) -> Check {
    Check::new(Vec::new(), move |view, point| {
        let (sizes, times) = figures(&[latency(mechanism)], &domain, view, point)?;
        let name = format!("rank correlation of size and time of {mechanism}");
        let ranks = RANK(&name, &sizes, &times);
        let bound = Bound::Above(0.9);
        let certain = Finding::tested(&ranks, bound, 0.0);
        Ok(match certain.truth {
            // Noise lowers the ranks' correlation, so it takes more to refute that times rise.
            Truth::False => Finding::tested(&ranks, bound, rising::p_value(&times)),
            Truth::True | Truth::Open => certain,
        })
    })
}

/// Of two comparisons one holds and the other does not.
pub(crate) fn differs(what: String, one: Check, other: Check) -> Check {
    Check::new([&*one.leaves, &*other.leaves].concat(), move |view, point| {
        Ok(differ(&what, &(one.finding)(view, point)?, &(other.finding)(view, point)?))
    })
}

fn is(term: Term, bound: Bound) -> Check {
    Check::new(term.leaves.clone(), move |view, point| {
        Ok(Finding::new(&term.figure(view, point)?, bound))
    })
}

impl Check {
    fn new(leaves: Vec<Leaf>, finding: impl Fn(&View<'_>, Point) -> Answer + 'static) -> Self {
        Self { leaves, finding: Rc::new(finding) }
    }
}

impl Group {
    fn points(&self, view: &View<'_>) -> Result<Vec<Point>, Missing> {
        let leaves = self.checks.iter().flat_map(|check| check.leaves.clone());
        self.domain.points(view, Point::default(), &Vec::from_iter(leaves))
    }

    fn findings(&self, view: &View<'_>) -> Result<Vec<Finding>, Missing> {
        let points = self.points(view)?.into_iter();
        let checks = points.flat_map(|point| self.checks.iter().map(move |check| (check, point)));
        checks.map(|(check, point)| (check.finding)(view, point)).collect()
    }
}

/// Whether all comparisons of all groups hold.
pub(crate) fn all_of(groups: &[Group], view: &View<'_>) -> Answer {
    let found: Result<Vec<_>, Missing> = groups.iter().map(|group| group.findings(view)).collect();
    Ok(all(found?.into_iter().flatten()))
}

/// The comparisons of those groups that were measured; if none was, what the first lacks.
fn where_measured(groups: &[Group], view: &View<'_>) -> Result<Vec<Finding>, Missing> {
    let (mut found, mut missing) = (Vec::new(), None);
    for group in groups {
        match group.findings(view) {
            Ok(findings) => found.extend(findings),
            Err(lacks) => missing = missing.or(Some(lacks)),
        }
    }
    missing.filter(|_| found.is_empty()).map_or(Ok(found), Err)
}

/// `text` with the typical value of each of `terms` in place of a `{}`.
pub(crate) fn values(text: &str, terms: &[Term], view: &View<'_>) -> Result<String, Missing> {
    let mut text = text.to_owned();
    for term in terms {
        let figure = term.figure(view, Point::default())?;
        let center = figure.interval().map_or_else(String::new, |it| figure.show(it.center));
        text = text.replacen("{}", &center, 1);
    }
    Ok(text)
}
