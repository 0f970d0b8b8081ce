//! What a run is called in a data set: its machine, its day, its kind and a hash of its content.
//!
//! Always true: the name follows from what is published of the run and from nothing else. The same
//! run with and without its host name, or with the path it was stored at, has one name. All fields
//! of a file count, also those that this program does not know, so versions agree on the name; a
//! field that is `null` counts as one that is not there. The hash tells runs apart and proves
//! nothing: who finds two of one hash compares their contents (`dataset/store.rs`).

use super::{canonical, redact};
use crate::report::number;
use crate::run::{Run, UNKNOWN, fnv1a};

/// `<machine id>/<date>-<kind>-<hash>.json`, with `/` between: where the run lies in a data set.
///
/// Costs several times as much as writing the run.
#[must_use]
pub fn place(run: &Run) -> String {
    Content::of_run(run).place(run)
}

/// A hash of the content of the run, without what is not published: 12 hexadecimal digits.
///
/// Costs as much as [`place`].
#[must_use]
pub fn run_id(run: &Run) -> String {
    Content::of_run(run).hash()
}

/// What is published of a run, in one form whatever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content(String);

impl Content {
    /// Takes a small multiple of the text's size for as long as it works.
    ///
    /// # Errors
    ///
    /// That of the JSON, which [`Run::parse`] would have found.
    pub(super) fn of(text: &str) -> Result<Self, serde_json::Error> {
        let published = redact::redacted(text, false)?;
        canonical::json(&redact::without_archive_name(&published)?).map(Self)
    }

    fn of_run(run: &Run) -> Self {
        Self::of(&run.to_json()).expect("what this program writes is JSON")
    }

    pub(super) fn hash(&self) -> String {
        format!("{:012x}", fnv1a(self.0.as_bytes()) >> 16)
    }

    /// As [`place`], of the run that has this content.
    pub(super) fn place(&self, run: &Run) -> String {
        let date = number::date(run.started_unix_s);
        let day = date.split(' ').next().unwrap_or(UNKNOWN);
        format!("{}/{day}-{}-{}.json", run.machine.id, kind_of_run(run), self.hash())
    }
}

/// What the run is a run of, in one word: "tour", "calls", "budgets", "waits", "matrix", "pace",
/// "gap", "burst", "clients", "threads", "start", "studies", "libraries", "import"; "empty" without
/// a cell.
#[must_use]
pub fn kind_of_run(run: &Run) -> &'static str {
    let first = run.cells.first().or(run.study_cells.first()).or(run.floors.first());
    let Some(cell) = first.or(run.library_cells.first()) else {
        return "empty";
    };
    match run {
        _ if run.imported.is_some() => "import",
        _ if !run.study_cells.is_empty() => "studies",
        _ if !run.library_cells.is_empty() => "libraries",
        _ if !run.budgets.is_empty() => "budgets",
        _ if !run.waits.is_empty() => "waits",
        _ if run.matrix.is_some() => "matrix",
        _ if cell.gap.is_some() => "gap",
        _ if cell.burst.is_some() => "burst",
        _ if cell.clients.as_ref().is_some_and(|facts| facts.loops.is_some()) => "threads",
        _ if cell.clients.is_some() => "clients",
        _ if cell.start.is_some() => "start",
        _ if cell.pace.is_some() => "pace",
        _ if cell.call.is_some() => "calls",
        _ => "tour",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Cell, Kind, Machine, Settings};

    fn run() -> Run {
        let machine = Machine { id: "0123456789abcdef".to_owned(), ..Machine::default() };
        let mut run = Run::new(machine, Settings::default(), 1_795_240_065);
        run.cells.push(Cell::new(Kind::Latency, "pipe", 8));
        run
    }

    #[test]
    fn the_place_follows_from_the_content() {
        let place = place(&run());
        assert!(place.starts_with("0123456789abcdef/2026-11-21-tour-"), "{place}");
        assert_eq!(place.len(), "0123456789abcdef/2026-11-21-tour-0123456789ab.json".len());
        let mut other = run();
        other.cells[0].count = 1;
        assert_ne!(run_id(&run()), run_id(&other));
    }

    #[test]
    fn host_name_and_folders_are_no_part_of_the_identity() {
        let mut other = run();
        other.machine.state.host_name = "alice-laptop".to_owned();
        other.settings.arguments = vec!["--out".into(), "/srv/alice/a.json".into()];
        let mut same = run();
        same.settings.arguments = vec!["--out".into(), "/tmp/a.json".into()];
        assert_eq!(run_id(&other), run_id(&same));
    }

    #[test]
    fn the_order_of_fields_and_what_is_null_are_no_part_of_the_identity() {
        let hash = |text: &str| Content::of(text).unwrap().hash();
        let first = hash(r#"{"a": 1, "b": {"c": 2.0, "d": [null, "x"]}}"#);
        assert_eq!(hash(r#"{"b":{"d":[null,"x"],"c":2,"later":null},"a":1}"#), first);
        for other in [
            r#"{"a": 1, "b": {"c": 2.5, "d": [null, "x"]}}"#,
            r#"{"a": 1, "b": {"c": 2.0, "d": ["x"]}}"#,
            r#"{"a": 1, "b": {"c": 2.0, "d": [null, "x"]}, "later": false}"#,
        ] {
            assert_ne!(hash(other), first, "{other}");
        }
    }

    #[test]
    fn fields_of_later_versions_are_part_of_the_identity() {
        let text = run().to_json();
        let later = text.replacen('{', "{\"later\":1,", 1);
        assert_ne!(Content::of(&text).unwrap(), Content::of(&later).unwrap());
    }
}
