//! What the studies printed: their figures and what they claim.
//!
//! Read from `data/*.csv`, which are part of the program; a row is one printed figure. A
//! figure that the paper itself gives as `NA` has no value. Claims are in our words. Verdicts
//! on them are in `claims.rs`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Study;
use crate::evidence::Load;

/// One printed figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperRow {
    /// Where it was printed.
    pub study: Study,
    /// The table, figure or section in it: "table1", "text_3.6.3".
    pub table: String,
    /// The mechanism by the paper's name.
    pub mechanism: String,
    /// Where both ends ran.
    pub placement: Placement,
    /// What ran beside them; nothing where the study says nothing.
    pub load: Load,
    /// Payload bytes; `None` if there are none or the paper does not say.
    pub message_bytes: Option<u64>,
    /// What was measured: "round_trip_mean".
    pub metric: String,
    /// Its unit: "us", "ns", "bytes/s".
    pub unit: String,
    /// The figure; `None` where the paper prints NA.
    pub value: Option<f64>,
}

impl PaperRow {
    /// The figure in nanoseconds, bytes, or bytes per second; counts and percent as they are.
    #[must_use]
    pub fn value_base(&self) -> Option<f64> {
        let factor = match self.unit.as_str() {
            "us" => 1e3,
            "KB" => 1024.0,
            "MB/s" | "MHz" => 1e6,
            _ => 1.0,
        };
        self.value.map(|value| value * factor)
    }
}

/// Where a study says that both ends ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It does not say.
    NotStated,
    /// There are no ends.
    NotApplicable,
    /// In one process.
    SameProcess,
    /// A figure of the whole machine.
    System,
    /// Pinned; it does not say where.
    Pinned,
    /// Pinned to one CPU, as it says; whether the peer was too, it does not say.
    PinnedOneCpu,
    /// On one CPU, client and server.
    SameCpu(u16, u16),
    /// On two hardware threads of one core.
    SmtSibling(u16, u16),
    /// On two cores; which ones, if it says so.
    CrossCore(Option<(u16, u16)>),
}

/// What a study claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Claim {
    /// "T01" to "T15" (motorola), "E01" to "E25", "W01" to "W10" (wisconsin-latency), "V01" to
    /// "V10" (wisconsin-evaluation), "S01" to "S07", "X01" to "X03" (between studies).
    pub id: String,
    /// The name of the study, or [`CROSS_STUDY`].
    pub study: String,
    /// Where it stands there.
    pub source: String,
    /// The claim, in our words.
    pub statement: String,
    /// What the study itself shows of it.
    pub paper_evidence: String,
    /// What is needed to judge it beyond the mechanisms that it names.
    pub needs: String,
}

/// Stands for a study in claims that compare studies.
pub const CROSS_STUDY: &str = "cross-study";

/// All figures of a study, in the order of its tables.
#[must_use]
pub fn rows(study: Study) -> &'static [PaperRow] {
    &ROWS[study as usize]
}

/// The rows of one table of a study.
pub fn table(study: Study, table: &str) -> impl Iterator<Item = &'static PaperRow> {
    rows(study).iter().filter(move |row| row.table == table)
}

/// The first row of `table` for this mechanism and size. Where a table has several placements of
/// one mechanism, use [`table`].
#[must_use]
pub fn find(
    study: Study,
    table_name: &str,
    mechanism: &str,
    message_bytes: Option<u64>,
) -> Option<&'static PaperRow> {
    table(study, table_name)
        .find(|row| row.mechanism == mechanism && row.message_bytes == message_bytes)
}

/// All claims, in the order in which they are judged.
#[must_use]
pub fn claims() -> &'static [Claim] {
    &CLAIMS
}

/// In the order of [`Study::ALL`].
static ROWS: LazyLock<[Vec<PaperRow>; 5]> = LazyLock::new(|| {
    let files = [
        include_str!("../data/motorola.csv"),
        include_str!("../data/enea.csv"),
        include_str!("../data/wisconsin-latency.csv"),
        include_str!("../data/wisconsin-evaluation.csv"),
        include_str!("../data/short-comparison.csv"),
    ];
    files.map(|text| records::<Raw>(text).into_iter().map(figure).collect())
});

static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| records(include_str!("../data/claims.csv")));

/// A row as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
struct Raw {
    study: String,
    table: String,
    mechanism: String,
    placement: String,
    load: String,
    message_bytes: Option<u64>,
    metric: String,
    unit: String,
    value: String,
}

fn figure(raw: Raw) -> PaperRow {
    let value = match raw.value.as_str() {
        "NA" => None,
        number => Some(number.parse().expect("a figure is a number or NA")),
    };
    PaperRow {
        study: raw.study.parse().expect("a row belongs to a study"),
        placement: placement(&raw.placement).expect("a placement is one of those known"),
        load: load(&raw.load).expect("a load is one of those known"),
        table: raw.table,
        mechanism: raw.mechanism,
        message_bytes: raw.message_bytes,
        metric: raw.metric,
        unit: raw.unit,
        value,
    }
}

fn placement(text: &str) -> Option<Placement> {
    let (class, cpus) = match text.split_once(':') {
        Some((class, cpus)) => (class, Some(cpus.split_once('-')?)),
        None => (text, None),
    };
    let cpus = match cpus {
        Some((client, server)) => Some((client.parse().ok()?, server.parse().ok()?)),
        None => None,
    };
    match (class, cpus) {
        ("not_stated", None) => Some(Placement::NotStated),
        ("n/a", None) => Some(Placement::NotApplicable),
        ("same_process", None) => Some(Placement::SameProcess),
        ("system", None) => Some(Placement::System),
        ("pinned", None) => Some(Placement::Pinned),
        ("pinned_one_cpu_as_stated", None) => Some(Placement::PinnedOneCpu),
        ("same_cpu", Some((client, server))) => Some(Placement::SameCpu(client, server)),
        ("smt_sibling", Some((client, server))) => Some(Placement::SmtSibling(client, server)),
        ("cross_core", cpus) => Some(Placement::CrossCore(cpus)),
        _ => None,
    }
}

fn load(text: &str) -> Option<Load> {
    match text {
        "not_stated" | "n/a" | "none" | "idle" => Some(Load::Idle),
        "stress_cpu_mem_io" => Some(Load::Stress),
        "cpu_35_percent" => Some(Load::Duty35),
        _ => None,
    }
}

/// The files are part of the program, and a test reads each of them.
fn records<T: DeserializeOwned>(text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().expect("a file of ours has all its columns")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_printed_figure_is_there() {
        let counts = Study::ALL.map(|study| rows(study).len());
        assert_eq!(counts, [84, 134, 97, 27, 6]);
        assert_eq!(claims().len(), 70);
        for study in Study::ALL {
            assert!(rows(study).iter().all(|row| row.study == study));
            assert!(rows(study).iter().all(|row| row.value.is_none_or(f64::is_finite)));
        }
        let absent = rows(Study::Enea).iter().filter(|row| row.value.is_none()).count();
        assert_eq!(absent, 8, "the spun-on flag on one CPU, idle and loaded");
    }

    #[test]
    fn figures_are_found_by_table_mechanism_and_size() {
        let row = find(Study::Motorola, "table7", "shm_boost+uds_blocking", Some(8192)).unwrap();
        assert_eq!((row.value, row.value_base()), (Some(936.86), Some(936_860.0)));
        assert_eq!(row.placement, Placement::NotStated);
        let pairs: Vec<_> =
            table(Study::Enea, "table2").filter(|row| row.mechanism == "pipe").collect();
        assert_eq!(pairs.len(), 16);
        assert_eq!(pairs[2].placement, Placement::CrossCore(Some((0, 2))));
        assert_eq!((pairs[2].load, pairs[2].value), (Load::Stress, Some(25.0)));
        assert_eq!(find(Study::Enea, "table1", "pigeon", None), None);
    }

    #[test]
    fn claims_are_complete_and_have_ids_of_their_own() {
        let ids: BTreeSet<&str> = claims().iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids.len(), 70);
        for claim in claims() {
            let known = claim.study.parse::<Study>().is_ok() || claim.study == CROSS_STUDY;
            assert!(known && !claim.source.is_empty(), "{claim:?}");
            assert!(claim.statement.len() > 20 && !claim.paper_evidence.is_empty(), "{claim:?}");
        }
        let of = |study: &str| claims().iter().filter(|claim| claim.study == study).count();
        assert_eq!(Study::ALL.map(|study| of(study.name())), [15, 25, 10, 10, 7]);
    }
}
