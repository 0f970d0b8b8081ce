//! What is fast on a machine: one figure per question, taken from its cells.
//!
//! **Invariants:** an answer compares cells of one exchange only (same shape, size, definition,
//! placement and caller), none beside a load or at a set rate, and of mechanisms that may be
//! advised. What to use is the advice of `advise.rs` for that exchange, and the figure is that of
//! the recommended mechanism; without a figure there is no advice.

use std::collections::BTreeMap;

use nearcall_channel::Mechanism;
use serde::Serialize;

use super::text;
use crate::advise::{Need, Objective, Pattern, Placement, Requirements, Weights, advise};
use crate::noise::Grade;
use crate::report::hosts::{Entry, Host};
use crate::report::number;
use crate::report::table::class_words;
use crate::run::{CellKey, Definition, Kind, List, Rhythm};
use crate::stats;

/// The best of what was measured for one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The question, short.
    pub question: &'static str,
    /// What was found; `None` if nothing was measured for it that can be used.
    pub found: Option<Found>,
    /// What to use, by the advice for such messages.
    pub advice: Advised,
}

/// The advice, in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advised {
    /// Use this.
    Use {
        /// The mechanism's name.
        mechanism: String,
        /// How the client waits.
        wait: String,
        /// What a client puts into its program, for a service called NAME.
        address: String,
        /// What the server listens at.
        server_address: String,
        /// What the server has to do so that a client gets the mechanism; `null` where servers
        /// offer it by default.
        server_must: Option<String>,
        /// How far to trust it: "low", "medium", "high".
        confidence: &'static str,
        /// The reasons, the most important first.
        reasons: Vec<String>,
    },
    /// Nothing can be advised, for this reason.
    Refused(String),
}

/// The best cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The mechanism's name.
    pub mechanism: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// Where it lies with 95 % confidence.
    pub ci95: Option<[f64; 2]>,
    /// "ns", "/s" or "bytes/s".
    pub unit: &'static str,
    /// How undisturbed it was.
    pub grade: Option<Grade>,
    /// What was exchanged and where, in words.
    pub what: String,
    /// What one time or rate means.
    pub definition: Definition,
    /// The first mechanism whose interval overlaps; if there is none, the one that came next. With
    /// its figure in words.
    pub runner_up: Option<String>,
    /// How many other mechanisms have an interval that overlaps, so that the order is open.
    pub close: usize,
}

impl Found {
    /// The figure for a person; the range where launches leave more than a factor of two open.
    #[must_use]
    pub fn figure(&self) -> String {
        match self.range() {
            Some(ci95) => text::interval(Some(ci95), self.unit),
            None => number::in_unit(self.value, self.unit),
        }
    }

    /// The interval, if it is too wide for one figure to stand for it.
    fn range(&self) -> Option<[f64; 2]> {
        self.ci95.filter(|[low, high]| high.is_finite() && *high > RANGE_FACTOR * low)
    }

    /// Interval and the grade of the tails for a person.
    #[must_use]
    pub fn trust(&self) -> String {
        let tails = format!("tails: {}", text::grade(self.grade));
        match self.ci95 {
            _ if self.range().is_some() => {
                format!("95 % interval, launches differ too much for one figure, {tails}")
            }
            Some(ci95) => format!("95 %: {}, {tails}", text::interval(Some(ci95), self.unit)),
            None => format!("no interval, {tails}"),
        }
    }

    /// What came next, one sentence.
    #[must_use]
    pub fn next(&self) -> String {
        match &self.runner_up {
            Some(next) if self.close == 1 => {
                format!("Not told apart from {next}: the intervals overlap.")
            }
            Some(next) if self.close > 1 => {
                let more = self.close - 1;
                format!("Not told apart from {next} and {more} more: the intervals overlap.")
            }
            Some(next) => format!("Next: {next}."),
            None => "Nothing else was measured for it.".to_owned(),
        }
    }
}

/// Answers every question from the cells of `host`.
pub(super) fn answers(host: &Host<'_>) -> Vec<Answer> {
    QUESTIONS.iter().map(|question| question.answer(host)).collect()
}

struct Question {
    words: &'static str,
    /// What is asked of the advice, but for size, rate and placement, which are those of the
    /// figure.
    requirements: fn() -> Requirements,
    wanted: fn(&CellKey) -> bool,
    /// Which of the groups that were measured is asked about: the greatest counts.
    group: fn(&CellKey) -> i64,
}

impl Question {
    fn answer(&self, host: &Host<'_>) -> Answer {
        let asked = |entry: &&Entry<'_>| is_plain(&entry.key) && (self.wanted)(&entry.key);
        let cells: Vec<&Entry<'_>> = host.entries.iter().filter(asked).collect();
        let mut group = self.find(&cells);
        let mut advice = match group.first() {
            Some((best, _)) => self.advised(&best.key, host),
            None => Advised::Refused("nothing that was measured answers the question".to_owned()),
        };
        // The figure is that of what is advised, also where another one measured a little better.
        if let Advised::Use { mechanism, wait, .. } = &advice {
            let is_it = |entry: &Entry<'_>| entry.key.mechanism == *mechanism;
            let waits = |entry: &Entry<'_>| entry.key.wait.split('/').next() == Some(wait);
            let exact = group.iter().position(|(entry, _)| is_it(entry) && waits(entry));
            match exact.or_else(|| group.iter().position(|(entry, _)| is_it(entry))) {
                Some(at) => group[..=at].rotate_right(1),
                None => advice = Advised::Refused(unmeasured(mechanism)),
            }
        }
        let found = found(&group);
        Answer { question: self.words, found, advice }
    }

    /// The advice for the exchange whose figure stands beside it.
    fn advised(&self, key: &CellKey, host: &Host<'_>) -> Advised {
        let requirements = Requirements {
            message_bytes: key.message_bytes.max(1),
            reply_bytes: (key.shape == "echo" && key.kind == Kind::Latency)
                .then_some(key.message_bytes),
            placement: match key.class.as_str() {
                "unpinned" => Placement::Unpinned,
                _ => Placement::Cross,
            },
            ..(self.requirements)()
        };
        match advise(&requirements, &host.runs) {
            Ok(advice) => Advised::Use {
                mechanism: advice.choice.mechanism.name().to_owned(),
                wait: advice.choice.wait.name().to_owned(),
                address: advice.address,
                server_address: advice.server_address,
                server_must: advice.server_must,
                confidence: advice.confidence.name(),
                reasons: advice.reasons,
            },
            Err(refusal) => Advised::Refused(refusal.to_string()),
        }
    }

    /// The cells of the exchange that is asked about, the best first.
    fn find<'e>(&self, cells: &[&'e Entry<'e>]) -> Vec<(&'e Entry<'e>, f64)> {
        let mut groups: BTreeMap<Exchange<'_>, Vec<(&'e Entry<'e>, f64)>> = BTreeMap::new();
        for &entry in cells.iter().filter(|entry| may_be_advised(&entry.key)) {
            if let Some((value, ..)) = text::figure(entry.cell) {
                groups.entry(same_exchange(&entry.key)).or_default().push((entry, value));
            }
        }
        // One pair of CPUs of many stands for none of the others. Of equal ones the first, which
        // is the last of the other way round.
        let rank = |group: &Vec<(&Entry<'_>, f64)>| {
            let (first, _) = group.first()?;
            Some(((self.group)(&first.key), first.key.pair.is_none(), group.len()))
        };
        let Some(mut group) = groups.into_values().rev().max_by_key(rank) else {
            return Vec::new();
        };
        let more_is_better = group.iter().any(|(entry, _)| entry.key.kind == Kind::Throughput);
        group
            .sort_by(|(_, a), (_, b)| if more_is_better { b.total_cmp(a) } else { a.total_cmp(b) });
        group
    }
}

fn unmeasured(mechanism: &str) -> String {
    format!("{mechanism} is advised, and was not measured in this exchange")
}

fn found(group: &[(&Entry<'_>, f64)]) -> Option<Found> {
    let (best, value) = *group.first()?;
    let (_, ci95, unit) = text::figure(best.cell)?;
    let mut names = vec![best.key.mechanism.as_str()];
    let (mut next, mut overlapping, mut close) = (None, None, 0);
    for (entry, value) in &group[1..] {
        if names.contains(&entry.key.mechanism.as_str()) {
            continue;
        }
        names.push(&entry.key.mechanism);
        next = next.or(Some((entry, value)));
        let other = text::figure(entry.cell).and_then(|(_, ci95, _)| ci95);
        if ci95.zip(other).is_some_and(|(a, b)| stats::agree(a, b)) {
            overlapping = overlapping.or(Some((entry, value)));
            close += 1;
        }
    }
    Some(Found {
        mechanism: text::plain(&best.key.mechanism),
        value,
        ci95,
        unit,
        grade: best.cell.grade,
        what: exchange(&best.key),
        definition: best.key.definition,
        runner_up: overlapping.or(next).map(|(entry, value)| {
            format!(
                "{} ({}, {}, {})",
                text::plain(&entry.key.mechanism),
                text::wait(&entry.key.wait),
                number::in_unit(*value, unit),
                text::grade(entry.cell.grade),
            )
        }),
        close,
    })
}

/// What was exchanged, how both ends waited and where they ran.
fn exchange(key: &CellKey) -> String {
    let size = number::size(key.message_bytes);
    let what = match (key.kind, key.shape.as_str(), key.message_bytes) {
        (Kind::Throughput, _, _) => format!("messages of {size}, one way"),
        (_, "call", 0) => "an empty call and its reply".to_owned(),
        (_, "call", _) => format!("a call with {size} and its reply"),
        (_, "echo", _) => format!("{size} there and back"),
        (_, "sink", _) => format!("{size} there and an empty reply"),
        (_, other, _) => format!("{} of {size}", text::plain(other)),
    };
    format!("{what}; {}; {}", text::wait(&key.wait), class_words(&key.class))
}

/// A message between two processes on two CPUs with nothing special about it.
fn is_plain(key: &CellKey) -> bool {
    let between_processes = matches!(key.caller.as_str(), "" | "blocking" | "loop");
    let usual = key.load == "idle" && key.class != "same_cpu" && key.rhythm == Rhythm::Steady;
    key.list == List::Cells && usual && between_processes && !key.by_reference
}

/// Whether it is for use at all, and by any number of clients.
fn may_be_advised(key: &CellKey) -> bool {
    key.mechanism
        .parse::<Mechanism>()
        .map_or(true, |mechanism| !mechanism.measured_only() && !mechanism.one_client_in_a_loop())
}

/// What cells have in common that are compared with each other.
type Exchange<'a> = ((Kind, Definition, u64, Rhythm), [&'a str; 3], Option<[u32; 2]>);

fn same_exchange(key: &CellKey) -> Exchange<'_> {
    let what = (key.kind, key.definition, key.message_bytes, key.rhythm);
    (what, [&key.shape, &key.class, &key.caller], key.pair)
}

fn is_small_round_trip(key: &CellKey) -> bool {
    let small = key.message_bytes <= SMALL_BYTES_MAX && matches!(&*key.shape, "call" | "echo");
    small && key.definition == Definition::Rtt
}

/// Calls before bare messages, the smallest first.
fn smallest(key: &CellKey) -> i64 {
    let bytes = i64::try_from(key.message_bytes).unwrap_or(i64::MAX);
    i64::from(key.shape == "call") * i64::from(u32::MAX) - bytes
}

/// The largest first; of those calls before bare messages, and an empty reply before a full one.
fn largest(key: &CellKey) -> i64 {
    let bytes = i64::try_from(key.message_bytes).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let shape = match key.shape.as_str() {
        "call" => 2,
        "sink" => 1,
        _ => 0,
    };
    bytes * 3 + shape
}

fn sleeps(key: &CellKey) -> bool {
    matches!(key.wait.as_str(), "block" | "poll" | "block/poll")
}

const QUESTIONS: [Question; 4] = [
    Question {
        words: "Small messages, as fast as it gets",
        requirements: Requirements::default,
        wanted: is_small_round_trip,
        group: smallest,
    },
    Question {
        words: "Small messages, when both ends sleep",
        requirements: || Requirements { needs: vec![Need::NoSpin], ..Requirements::default() },
        wanted: |key| is_small_round_trip(key) && sleeps(key),
        group: smallest,
    },
    Question {
        words: "Large messages, until they are there",
        requirements: Requirements::default,
        wanted: |key| key.message_bytes >= LARGE_BYTES_MIN && key.definition == Definition::Rtt,
        group: largest,
    },
    Question {
        words: "Bytes in a stream",
        requirements: || Requirements {
            pattern: Pattern::OneWay,
            optimise: Weights::only(Objective::Throughput),
            ..Requirements::default()
        },
        wanted: |key| key.message_bytes >= text::IN_BYTES_MIN && key.kind == Kind::Throughput,
        group: largest,
    },
];

/// An interval whose ends differ by more is a range.
const RANGE_FACTOR: f64 = 2.0;

/// Fits in one or two lines of cache.
const SMALL_BYTES_MAX: u64 = 128;

/// From here on copying decides.
const LARGE_BYTES_MIN: u64 = 64 << 10;
