//! Study 001 rates four mechanisms by eight properties in three colours; here the same table from
//! what one machine measured.
//!
//! The paper states no thresholds. Ours stand in [`RatedProperty::thresholds`] and compare each
//! group with the best of the four in the same run. What times cannot tell (data integrity,
//! monitoring) is judged by what the mechanisms are, and says so. Always true: a field without
//! evidence has no colour, and names the command that would give it; cells of grade D are no
//! evidence. How figures are picked is in `ratings/measured.rs`.

mod measured;
mod nature;
mod paper;

use serde::{Deserialize, Serialize};

use self::measured::{Evidence, Found, Wanted};
use crate::noise::Grade;
use crate::report::hosts::Host;
use crate::report::number;
use crate::run::Kind;

pub use self::paper::Rating;

/// The study that has the ratings, as stored runs name it.
const ENEA: &str = "enea";

/// Rates the mechanisms by the runs of one machine.
#[must_use]
pub fn recompute(host: &Host<'_>) -> Ratings {
    let measured = PROPERTIES.iter().map(|property| by_figures(host, property));
    let properties: Vec<RatedProperty> = measured.chain(nature::properties()).collect();
    let fields = || properties.iter().flat_map(|property| &property.fields);
    let rated = fields().filter(|field| field.here.is_some()).count();
    let agreeing = fields().filter(|field| field.here == Some(field.paper)).count();
    let fields = fields().count();
    Ratings { machine_id: host.machine.id.clone(), properties, fields, rated, agreeing }
}

/// The table of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratings {
    /// The machine's id.
    pub machine_id: String,
    /// The rows, in the paper's order.
    pub properties: Vec<RatedProperty>,
    /// How many fields there are.
    pub fields: usize,
    /// How many of them have a colour here.
    pub rated: usize,
    /// How many of those have the paper's.
    pub agreeing: usize,
}

/// One property of all four mechanisms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatedProperty {
    /// The paper's name: "latency_same_core".
    pub property: String,
    /// The same for a heading.
    pub title: String,
    /// What is compared, in words.
    pub figure: String,
    /// When it is green, yellow and red, in words.
    pub thresholds: String,
    /// Whether it comes from times and rates; otherwise from what the mechanisms are.
    pub measured: bool,
    /// One per group, in the order of [`GROUPS`].
    pub fields: Vec<RatedField>,
}

/// One property of one mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatedField {
    /// The group.
    pub group: Group,
    /// What the paper rates.
    pub paper: Rating,
    /// What this machine gives; `null` without evidence.
    pub here: Option<Rating>,
    /// The figure in words: "87.6 µs (study-pipe, 128 B), 302× the best".
    pub shown: String,
    /// Nanoseconds, bytes per second, or how many times as long it takes under load.
    pub value: Option<f64>,
    /// The unit of it: "ns", "bytes/s", "ratio"; empty where nothing is measured.
    pub unit: String,
    /// How many times as long as the best group takes; 1 for the best.
    pub times_best: Option<f64>,
    /// How undisturbed it was; of two cells the worse.
    pub grade: Option<Grade>,
    /// When the run began that it comes from, in seconds since 1970 (UTC).
    pub run_started_unix_s: Option<u64>,
    /// Why there is no colour.
    pub missing: Option<Missing>,
}

/// Evidence that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Why.
    pub reason: String,
    /// What would measure it.
    pub command: String,
}

/// What the paper rates: kinds of mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Rings in shared memory, by the best of them.
    SharedMemory,
    /// Anonymous pipes.
    Pipe,
    /// Unix stream sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
}

impl Group {
    /// The paper's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedMemory => "shared_memory",
            Self::Pipe => "pipe",
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }

    /// What the paper rates it.
    fn paper(self, property: &str) -> Rating {
        let row = paper::ratings()
            .iter()
            .find(|row| row.mechanism == self.name() && row.property == property);
        row.expect("the paper rates each group by each property; a test walks them all").rating
    }
}

/// The columns.
pub const GROUPS: [Group; 4] = [Group::SharedMemory, Group::Pipe, Group::Unix, Group::Tcp];

/// A property that figures tell.
struct Property {
    name: &'static str,
    title: &'static str,
    figure: &'static str,
    thresholds: &'static str,
    /// Up to how many times the best's time it is green, and yellow.
    limits: [f64; 2],
    wanted: Wanted,
    command: &'static str,
}

fn by_figures(host: &Host<'_>, property: &Property) -> RatedProperty {
    let evidence = measured::evidence(host, &property.wanted);
    let fields = GROUPS.into_iter().map(|group| match evidence.found.get(&group) {
        Some(found) => rated(group, property, found),
        None => missing(group, property, &evidence),
    });
    RatedProperty {
        property: property.name.to_owned(),
        title: property.title.to_owned(),
        figure: property.figure.to_owned(),
        thresholds: property.thresholds.to_owned(),
        measured: true,
        fields: fields.collect(),
    }
}

fn rated(group: Group, property: &Property, found: &Found<'_>) -> RatedField {
    let [green, yellow] = property.limits;
    let here = match found.times_best {
        times if times <= green => Rating::Green,
        times if times <= yellow => Rating::Yellow,
        _ => Rating::Red,
    };
    let (unit, value) = match (found.loaded, property.wanted.kind) {
        (Some(_), _) => ("ratio", format!("{} the time under load", number::ratio(found.value))),
        (None, Kind::Latency) => ("ns", number::time(found.value)),
        (None, Kind::Throughput) => ("bytes/s", number::byte_rate(found.value)),
    };
    let key = &found.idle.key;
    let of_best = match found.times_best {
        times if times > 1.0 => {
            let of = if found.loaded.is_some() { "factor" } else { "time" };
            format!("{} the best's {of}", number::ratio(times))
        }
        _ => "the best".to_owned(),
    };
    let size = number::size(key.message_bytes);
    RatedField {
        group,
        paper: group.paper(property.name),
        here: Some(here),
        shown: format!("{value} ({}, {size}), {of_best}", key.mechanism),
        value: Some(found.value),
        unit: unit.to_owned(),
        times_best: Some(found.times_best),
        grade: [Some(found.idle), found.loaded]
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.cell.grade)
            .max(),
        run_started_unix_s: Some(found.idle.run.started_unix_s),
        missing: None,
    }
}

fn missing(group: Group, property: &Property, evidence: &Evidence<'_>) -> RatedField {
    let reason = if evidence.too_noisy.contains(&group) {
        "measured, but something else ran on the same CPU (grade D)"
    } else if group == Group::SharedMemory && property.wanted.one_cpu {
        "not measured: the study's flag is spun on, which needs two CPUs; the paper has NA here"
    } else {
        "not measured beside the others in one run"
    };
    RatedField {
        group,
        paper: group.paper(property.name),
        here: None,
        shown: number::MISSING.to_owned(),
        value: None,
        unit: String::new(),
        times_best: None,
        grade: None,
        run_started_unix_s: None,
        missing: Some(Missing { reason: reason.to_owned(), command: property.command.to_owned() }),
    }
}

/// The limits of latency are those between which the paper's own table 1 gives the paper's colours
/// across cores: pipe and unix take 23 to 26 times the time of shared memory there, tcp 48 times.
const LATENCY_LIMITS: [f64; 2] = [2.0, 35.0];
const LATENCY_WORDS: &str = "green: up to 2 times the best group's time; yellow: up to 35 times; \
                             red: above";

/// The paper prints no figures; half and a tenth of the best are what a user notices.
const THROUGHPUT_LIMITS: [f64; 2] = [2.0, 10.0];
const THROUGHPUT_WORDS: &str =
    "green: at least half of the best group's rate; yellow: at least a tenth; red: below";

/// Two loaded figures vary more than one: a fifth more is no difference.
const LOAD_LIMITS: [f64; 2] = [1.25, 2.5];
const LOAD_WORDS: &str = "green: load costs up to 1.25 times the factor of the least sensitive \
                          group; yellow: up to 2.5 times; red: above";

/// 128 bytes is what the study sends; up to 1 KiB copies cost nothing beside the rest.
const PING_BYTES: (u64, u64, u64) = (1, 128, 1 << 10);
const SMALL_BYTES: (u64, u64, u64) = (1, 64, 1 << 10);
const LARGE_BYTES: (u64, u64, u64) = (16_000, 64 << 10, 1 << 20);

const PROPERTIES: [Property; 6] = [
    Property {
        name: "latency_same_core",
        title: "Latency on one core",
        figure: "median round trip of a small message, both ends on one CPU, idle",
        thresholds: LATENCY_WORDS,
        limits: LATENCY_LIMITS,
        wanted: Wanted { kind: Kind::Latency, one_cpu: true, bytes: PING_BYTES, loaded: false },
        command: "nearcall bench latency --mechanism shm,pipe,unix-stream,tcp --size 128 \
                  --placement same",
    },
    Property {
        name: "latency_different_cores",
        title: "Latency across cores",
        figure: "median round trip of a small message, across two CPUs, idle",
        thresholds: LATENCY_WORDS,
        limits: LATENCY_LIMITS,
        wanted: Wanted { kind: Kind::Latency, one_cpu: false, bytes: PING_BYTES, loaded: false },
        command: "nearcall reproduce enea",
    },
    Property {
        name: "throughput_small_packets",
        title: "Throughput of small messages",
        figure: "payload bytes per second, one way, messages of at most 1 KiB, across two CPUs",
        thresholds: THROUGHPUT_WORDS,
        limits: THROUGHPUT_LIMITS,
        wanted: Wanted {
            kind: Kind::Throughput,
            one_cpu: false,
            bytes: SMALL_BYTES,
            loaded: false,
        },
        command: "nearcall reproduce enea",
    },
    Property {
        name: "throughput_larger_packets",
        title: "Throughput of large messages",
        figure: "payload bytes per second, one way, messages of about 64 KiB, across two CPUs",
        thresholds: THROUGHPUT_WORDS,
        limits: THROUGHPUT_LIMITS,
        wanted: Wanted {
            kind: Kind::Throughput,
            one_cpu: false,
            bytes: LARGE_BYTES,
            loaded: false,
        },
        command: "nearcall reproduce enea",
    },
    Property {
        name: "throughput_sensitivity_to_load",
        title: "How throughput bears load",
        figure: "how many times as long messages of about 64 KiB take under workers for CPU, \
                 memory and disk",
        thresholds: LOAD_WORDS,
        limits: LOAD_LIMITS,
        wanted: Wanted { kind: Kind::Throughput, one_cpu: false, bytes: LARGE_BYTES, loaded: true },
        command: "nearcall reproduce enea",
    },
    Property {
        name: "latency_sensitivity_to_load",
        title: "How latency bears load",
        figure: "how many times as long a small round trip takes across two CPUs under workers \
                 for CPU, memory and disk",
        thresholds: LOAD_WORDS,
        limits: LOAD_LIMITS,
        wanted: Wanted { kind: Kind::Latency, one_cpu: false, bytes: PING_BYTES, loaded: true },
        command: "nearcall reproduce enea",
    },
];

#[cfg(test)]
mod tests;
