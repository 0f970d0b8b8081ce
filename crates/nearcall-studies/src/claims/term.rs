//! Figures as claims name them: what is measured, and what is made of it.
//!
//! A [`Term`] has no values: a way of looking at a machine's figures gives it some, at a [`Point`].
//! A [`Domain`] says at which points.
//! **Invariants:** a figure that was not measured is named, with the reason as far as there is one.
//! **Not here:** what a figure has to be (`rule.rs`).

use std::ops::{Bound, Div, Mul, RangeBounds, Sub};
use std::rc::Rc;

use crate::claims::facts::View;
use crate::claims::verdict::Missing;
use crate::evidence::{Key, Load, Place, Quantity, Unit};
use crate::figure::{Figure, line, rank_correlation};
use crate::report::number;
use crate::stats;

/// A figure, wherever it is taken.
#[derive(Clone)]
pub(crate) struct Term {
    /// The measured figures whose point is that of the term.
    pub(crate) leaves: Vec<Leaf>,
    figure: Rc<Taken>,
}

/// What a view has at a point.
type Taken = dyn Fn(&View<'_>, Point) -> Result<Figure, Missing>;

/// A figure as it was measured.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    mechanism: &'static str,
    /// Without one it is the latency, by the statistic of the view.
    quantity: Option<Quantity>,
    load: Option<Load>,
    place: Option<Place>,
}

/// Where a figure is taken.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) bytes: u64,
    /// CPUs of client and server, instead of the view's placement.
    pair: Option<(u16, u16)>,
}

/// The points at which something is compared or put together.
#[derive(Clone)]
pub(crate) enum Domain {
    /// The one of what surrounds it.
    Here,
    Sizes(Vec<u64>),
    /// Every size in the range at which all was measured, and at least so many.
    Measured(usize, [Bound<u64>; 2]),
    /// The largest so many of them.
    Largest(usize, [Bound<u64>; 2]),
    /// Every pair of CPUs of this class on which all was measured.
    Pairs(fn(Place) -> bool),
    /// The same, of one class.
    PairsOn(Place),
}

/// Makes one figure, of this name, of those at some sizes.
pub(crate) type Aggregate = fn(&str, &[f64], &[Figure]) -> Figure;

pub(crate) const MIN: Aggregate =
    |name, _, parts| Figure::of(name, parts, |round| round.iter().copied().reduce(f64::min));
pub(crate) const MAX: Aggregate =
    |name, _, parts| Figure::of(name, parts, |round| round.iter().copied().reduce(f64::max));
pub(crate) const MEDIAN: Aggregate = |name, _, parts| Figure::of(name, parts, stats::median);
pub(crate) const MEAN: Aggregate = |name, _, parts| {
    let mean = |round: &[f64]| Some(round.iter().sum::<f64>() / round.len() as f64);
    Figure::of(name, parts, mean)
};
/// The slowest by the quickest.
pub(crate) const SPREAD: Aggregate = |name, _, parts| Figure::spread(name, parts);
/// That of the smallest size, and that of the largest.
pub(crate) const FIRST: Aggregate = |_, _, parts| parts[0].clone();
pub(crate) const LAST: Aggregate = |_, _, parts| parts[parts.len() - 1].clone();
/// How far the ranks of sizes and figures agree.
pub(crate) const RANK: Aggregate = |name, sizes, parts| {
    Figure::made(name, Unit::Count, true, parts, |round| rank_correlation(sizes, round))
};
/// The same, whatever its sign is.
pub(crate) const RANK_EITHER_WAY: Aggregate = |name, sizes, parts| {
    let rank = |round: &[f64]| rank_correlation(sizes, round).map(f64::abs);
    Figure::made(name, Unit::Count, true, parts, rank)
};
/// The share of variance that a line over the sizes explains.
pub(crate) const EXPLAINED: Aggregate = |name, sizes, parts| {
    let explained = |round: &[f64]| Some(line(sizes, round)?.correlation.powi(2));
    Figure::made(name, Unit::Count, true, parts, explained)
};
/// The slope of that line.
pub(crate) const SLOPE: Aggregate = |name, sizes, parts| {
    Figure::made(name, Unit::NsPerByte, true, parts, |round| Some(line(sizes, round)?.slope))
};

/// The latency of a mechanism.
pub(crate) fn latency(mechanism: &'static str) -> Term {
    Leaf { mechanism, quantity: None, load: None, place: None }.term()
}

/// Another figure of a mechanism.
pub(crate) fn measured(quantity: Quantity, mechanism: &'static str) -> Term {
    Leaf { mechanism, quantity: Some(quantity), load: None, place: None }.term()
}

/// The throughput of a mechanism.
pub(crate) fn rate(mechanism: &'static str) -> Term {
    measured(Quantity::Throughput, mechanism)
}

/// The throughput of a mechanism beside workers for CPU, memory and disk.
pub(crate) fn loaded(mechanism: &'static str) -> Term {
    rate(mechanism).under(Load::Stress)
}

/// The first figure of this kind, wherever it was measured; without one the latency.
pub(crate) fn alone(quantity: Option<Quantity>, mechanism: &'static str) -> Term {
    Term::new(Vec::new(), move |view, _| {
        view.anywhere(mechanism, quantity.unwrap_or(view.latency_quantity()))
    })
}

/// One figure made of `parts`, each taken at all points of `domain`.
pub(crate) fn many(
    how: Aggregate,
    name: impl Into<String>,
    parts: impl IntoIterator<Item = Term>,
    domain: impl Into<Domain>,
) -> Term {
    let (name, parts, domain) = (name.into(), Vec::from_iter(parts), domain.into());
    let leaves = match domain {
        Domain::Here => parts.iter().flat_map(|part| part.leaves.clone()).collect(),
        _ => Vec::new(),
    };
    Term::new(leaves, move |view, point| {
        let (sizes, figures) = figures(&parts, &domain, view, point)?;
        Ok(how(&name, &sizes, &figures))
    })
}

/// The same, which says over how many of `what` it is.
pub(crate) fn over(
    what: &'static str,
    how: Aggregate,
    name: &'static str,
    parts: impl IntoIterator<Item = Term>,
    domain: Domain,
) -> Term {
    let parts = Vec::from_iter(parts);
    Term::new(Vec::new(), move |view, point| {
        let (sizes, figures) = figures(&parts, &domain, view, point)?;
        Ok(how(name, &sizes, &figures).at(&format!("over {} {what}", figures.len())))
    })
}

/// The figures that `parts` have at all points of `domain`, each with its size.
pub(crate) fn figures(
    parts: &[Term],
    domain: &Domain,
    view: &View<'_>,
    here: Point,
) -> Result<(Vec<f64>, Vec<Figure>), Missing> {
    let (mut sizes, mut figures) = (Vec::new(), Vec::new());
    for part in parts {
        for point in domain.points(view, here, &part.leaves)? {
            sizes.push(point.bytes as f64);
            figures.push(part.figure(view, point)?);
        }
    }
    Ok((sizes, figures))
}

impl Div for Term {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        self.with(other, Figure::over)
    }
}

impl Sub for Term {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, Figure::minus)
    }
}

impl Mul<Term> for f64 {
    type Output = Term;

    fn mul(self, term: Term) -> Term {
        term.map(move |figure, _| figure.times(self))
    }
}

impl Term {
    fn new(
        leaves: Vec<Leaf>,
        figure: impl Fn(&View<'_>, Point) -> Result<Figure, Missing> + 'static,
    ) -> Self {
        Self { leaves, figure: Rc::new(figure) }
    }

    /// Its values at a point.
    pub(crate) fn figure(&self, view: &View<'_>, point: Point) -> Result<Figure, Missing> {
        (self.figure)(view, point)
    }

    fn map(self, change: impl Fn(Figure, Point) -> Figure + 'static) -> Self {
        let leaves = self.leaves.clone();
        Self::new(leaves, move |view, point| Ok(change(self.figure(view, point)?, point)))
    }

    fn with(self, other: Self, join: fn(&Figure, &Figure) -> Figure) -> Self {
        let leaves = [&*self.leaves, &*other.leaves].concat();
        Self::new(leaves, move |view, point| {
            Ok(join(&self.figure(view, point)?, &other.figure(view, point)?))
        })
    }

    /// At this size, whatever the point's is.
    pub(crate) fn at(self, bytes: u64) -> Self {
        Self::new(Vec::new(), move |view, point| self.figure(view, Point { bytes, ..point }))
    }

    /// With both ends at this place, which goes without saying.
    pub(crate) fn on(self, place: Place) -> Self {
        let leaves = self.leaves.iter().map(|leaf| Leaf { place: Some(place), ..*leaf }).collect();
        Self::new(leaves, move |view, point| self.figure(&view.on(place), point))
    }

    /// A measured figure under this load.
    pub(crate) fn under(self, load: Load) -> Self {
        Leaf { load: Some(load), ..self.leaves[0] }.term()
    }

    /// A measured figure at this place, which is said.
    pub(crate) fn placed(self, place: Place) -> Self {
        Leaf { place: Some(place), ..self.leaves[0] }.term()
    }

    /// Only where that was measured too.
    pub(crate) fn given(mut self, other: &Self) -> Self {
        self.leaves.splice(0..0, other.leaves.iter().copied());
        self
    }

    /// In nanoseconds per byte, so many times.
    pub(crate) fn per_byte(self, factor: f64) -> Self {
        self.map(move |figure, _| Figure { unit: Unit::NsPerByte, ..figure.times(factor) })
    }

    /// By another name.
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.map(move |figure, _| figure.named(&name))
    }

    /// Somewhere else, in words; `{point}` stands for those of the point.
    pub(crate) fn said(self, at: impl Into<String>) -> Self {
        let at = at.into();
        self.map(move |figure, point| figure.at(&at.replace("{point}", &point.words())))
    }
}

impl Leaf {
    fn term(self) -> Term {
        Term::new(vec![self], move |view, point| {
            let figure = view.get(&self.key(view, point))?;
            Ok(if point.pair.is_some() { figure.at(&point.words()) } else { figure })
        })
    }

    fn key(&self, view: &View<'_>, point: Point) -> Key {
        let quantity = self.quantity.unwrap_or(view.latency_quantity());
        let mut key = view.key(self.mechanism, point.bytes, quantity);
        let pair = point.pair.map(|(client, server)| Place::Pair(client, server));
        key.place = pair.or(self.place).unwrap_or(key.place);
        key.load = self.load.unwrap_or(key.load);
        key
    }

    /// The points that `wanted` finds in what was measured of it.
    fn points(&self, view: &View<'_>, wanted: impl Fn(&Key, &Key) -> Option<Point>) -> Vec<Point> {
        let own = self.key(view, Point::default());
        let of = |key: &Key| (key.load, key.quantity);
        let measured = view.measured(self.mechanism).filter(|key| of(key) == of(&own));
        measured.filter_map(|key| wanted(key, &own)).collect()
    }

    fn sizes(&self, view: &View<'_>, range: [Bound<u64>; 2]) -> Vec<Point> {
        let range = (range[0], range[1]);
        self.points(view, |key, own| {
            let is_wanted = key.place == own.place && range.contains(&key.message_bytes);
            is_wanted.then_some(Point { bytes: key.message_bytes, pair: None })
        })
    }

    fn pairs(&self, view: &View<'_>, class: &dyn Fn(Place) -> bool) -> Vec<Point> {
        self.points(view, |key, _| {
            let Place::Pair(client, server) = key.place else { return None };
            let is_wanted = class(view.evidence.facts.class(client, server));
            let pair = Some((client, server));
            is_wanted.then_some(Point { bytes: key.message_bytes, pair })
        })
    }
}

impl Point {
    fn words(self) -> String {
        match self.pair {
            Some((client, server)) => Place::Pair(client, server).to_string(),
            None => format!("at {}", number::size(self.bytes)),
        }
    }
}

impl<const N: usize> From<[u64; N]> for Domain {
    fn from(sizes: [u64; N]) -> Self {
        Self::Sizes(sizes.to_vec())
    }
}

impl Domain {
    /// All sizes in `range`, of which there have to be `least`.
    pub(crate) fn measured(least: usize, range: impl RangeBounds<u64>) -> Self {
        Self::Measured(least, [range.start_bound().cloned(), range.end_bound().cloned()])
    }

    /// The `count` largest sizes up to `most`.
    pub(crate) fn largest(count: usize, most: u64) -> Self {
        Self::Largest(count, [Bound::Unbounded, Bound::Included(most)])
    }

    /// Its points for what `leaves` need.
    pub(crate) fn points(
        &self,
        view: &View<'_>,
        here: Point,
        leaves: &[Leaf],
    ) -> Result<Vec<Point>, Missing> {
        match self {
            Self::Here => Ok(vec![here]),
            Self::Sizes(sizes) => Ok(sizes.iter().map(|&bytes| Point { bytes, ..here }).collect()),
            Self::Measured(least, range) => sizes(view, leaves, *least, *range),
            Self::Largest(count, range) => {
                let mut sizes = sizes(view, leaves, *count, *range)?;
                Ok(sizes.split_off(sizes.len() - count))
            }
            Self::Pairs(class) => pairs(view, leaves, class),
            Self::PairsOn(place) => match view.evidence.facts.lacks(*place) {
                Some(reason) => Err(Missing(format!("no latency {place}: {reason}"))),
                None => pairs(view, leaves, &|class| class == *place),
            },
        }
    }
}

/// The points that all of `sets` have.
fn common(sets: &[Vec<Point>]) -> Vec<Point> {
    let in_all = |point: &&Point| sets.iter().all(|set| set.contains(point));
    sets.first().into_iter().flatten().filter(in_all).copied().collect()
}

fn sizes(
    view: &View<'_>,
    leaves: &[Leaf],
    least: usize,
    range: [Bound<u64>; 2],
) -> Result<Vec<Point>, Missing> {
    let sets: Vec<Vec<Point>> = leaves.iter().map(|leaf| leaf.sizes(view, range)).collect();
    let common = common(&sets);
    let keys = leaves.iter().map(|leaf| leaf.key(view, Point::default()));
    // What has the fewest sizes is what to name.
    let fewest = keys.zip(&sets).min_by_key(|(key, set)| (set.len(), key.load));
    let Some((key, _)) = fewest.filter(|_| common.len() < least) else { return Ok(common) };
    let words = words_of_range(range);
    let what = match least {
        1 => format!("{key} at any size{words}"),
        _ => format!("{key} at {least} or more sizes{words}"),
    };
    Err(view.missing(&key, &what))
}

fn pairs(
    view: &View<'_>,
    leaves: &[Leaf],
    class: &dyn Fn(Place) -> bool,
) -> Result<Vec<Point>, Missing> {
    let sets: Vec<Vec<Point>> = leaves.iter().map(|leaf| leaf.pairs(view, class)).collect();
    let common = common(&sets);
    // What is on no pair at all is what to name.
    let least = leaves.iter().zip(&sets).min_by_key(|(leaf, set)| (set.len(), leaf.load));
    match least.filter(|_| common.is_empty()) {
        None => Ok(common),
        Some((leaf, set)) if set.is_empty() => {
            let key = Key { place: Place::None, ..leaf.key(view, Point::default()) };
            Err(view.missing(&key, &format!("{key} on pairs of CPUs")))
        }
        Some((leaf, _)) => {
            let name = leaf.mechanism;
            Err(Missing(format!("no pair of CPUs with {name} both idle and under load")))
        }
    }
}

fn words_of_range([start, end]: [Bound<u64>; 2]) -> String {
    use Bound::{Excluded, Included, Unbounded};
    let from = match start {
        Included(bytes) if bytes > 0 => format!(" from {}", number::size(bytes)),
        Excluded(bytes) => format!(" above {}", number::size(bytes)),
        _ => String::new(),
    };
    let to = match end {
        Included(bytes) => format!(" to {}", number::size(bytes)),
        Excluded(bytes) => format!(" below {}", number::size(bytes)),
        Unbounded => String::new(),
    };
    from + &to
}
