//! What of a run is published, and what the run is called in a data set: its machine, its day, its
//! kind and a hash.
//!
//! **Invariants:** the name follows from what is published of the run and this program knows, and
//! from nothing else. The same run with and without its host name, or with the path it was stored
//! at, has one name. The hash distinguishes runs and proves nothing. The published text keeps
//! fields that this program does not know, and the digits of every number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::report::number;
use crate::run::{Run, UNKNOWN, fnv1a};

/// `<machine id>/<date>-<kind>-<hash>.json`, with `/` between: where the run lies in a data set.
///
/// Costs as much as writing the run.
#[must_use]
pub fn place(run: &Run) -> String {
    let date = number::date(run.started_unix_s);
    let day = date.split(' ').next().unwrap_or(UNKNOWN);
    format!("{}/{day}-{}-{}.json", run.machine.id, kind_of_run(run), run_id(run))
}

/// A hash of the run without what is not published: 12 hexadecimal digits.
///
/// Costs as much as [`place`].
#[must_use]
pub fn run_id(run: &Run) -> String {
    let mut run = run.clone();
    UNKNOWN.clone_into(&mut run.machine.state.host_name);
    for argument in &mut run.settings.arguments {
        *argument = without_directories(argument);
    }
    format!("{:012x}", fnv1a(run.to_json().as_bytes()) >> 16)
}

/// What the run is a run of, in one word: "tour", "calls", "budgets", "waits", "matrix", "pace",
/// "gap", "burst", "clients", "threads", "start", "switches", "studies", "libraries"; "empty"
/// without a cell.
#[must_use]
pub fn kind_of_run(run: &Run) -> &'static str {
    let first = run.cells.first().or(run.study_cells.first()).or(run.floors.first());
    let Some(cell) = first.or(run.library_cells.first()) else {
        return "empty";
    };
    match run {
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
        _ if cell.switch.is_some() => "switches",
        _ if cell.pace.is_some() => "pace",
        _ if cell.call.is_some() => "calls",
        _ => "tour",
    }
}

/// The text of a run as it goes into a data set: without the host's name, unless `keep_host_name`,
/// and without the directories of paths among the arguments.
///
/// # Errors
///
/// That of the JSON, which [`Run::parse`] would have found.
pub(super) fn published(text: &str, keep_host_name: bool) -> Result<String, serde_json::Error> {
    let mut run: Fields = serde_json::from_str(text)?;
    if !keep_host_name {
        within(&mut run, "machine", |machine: &mut Fields| {
            within(machine, "state", |state: &mut Fields| {
                within(state, "host_name", |name: &mut String| {
                    UNKNOWN.clone_into(name);
                    Ok(())
                })
            })
        })?;
    }
    within(&mut run, "settings", |settings: &mut Fields| {
        within(settings, "arguments", |arguments: &mut Vec<String>| {
            arguments.iter_mut().for_each(|one| *one = without_directories(one));
            Ok(())
        })
    })?;
    Ok(serde_json::to_string(&run)? + "\n")
}

/// An object whose values are kept as text.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Changes a field if there is one.
fn within<T: for<'de> Deserialize<'de> + Serialize>(
    fields: &mut Fields,
    name: &str,
    change: impl FnOnce(&mut T) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    let Some(value) = fields.get_mut(name) else { return Ok(()) };
    let mut inside: T = serde_json::from_str(value.get())?;
    change(&mut inside)?;
    *value = to_raw_value(&inside)?;
    Ok(())
}

/// The argument, with only the last part of an absolute path: `--out=/srv/me/a.json` becomes
/// `--out=a.json`, and `-o/srv/me/a.json` becomes `-oa.json`.
fn without_directories(argument: &str) -> String {
    let letters = argument.strip_prefix('-').and_then(|rest| rest.split_once('/'));
    let start = match letters {
        _ if argument.starts_with('/') => Some(0),
        Some((short, _)) if short.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Some(1 + short.len())
        }
        _ => argument.find("=/").map(|at| at + 1),
    };
    let Some(start) = start else { return argument.to_owned() };
    let (option, path) = argument.split_at(start);
    let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    format!("{option}{last}")
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
    fn the_place_follows_from_what_is_published() {
        let place = place(&run());
        assert!(place.starts_with("0123456789abcdef/2026-11-21-tour-"), "{place}");
        assert_eq!(place.len(), "0123456789abcdef/2026-11-21-tour-0123456789ab.json".len());
        let id = |change: fn(&mut Run)| {
            let mut run = run();
            change(&mut run);
            run_id(&run)
        };
        let same = id(|_| {});
        assert_eq!(id(|run| run.machine.state.host_name = "alice-laptop".into()), same);
        assert_ne!(id(|run| run.cells[0].count = 1), same);
        let stored = id(|run| run.settings.arguments = vec!["/srv/alice/a.json".into()]);
        assert_eq!(id(|run| run.settings.arguments = vec!["/tmp/a.json".into()]), stored);
    }

    #[test]
    fn only_the_host_name_and_directories_are_taken_out() {
        let text = r#"{"new": 1.10, "machine": {"b": 2e3, "state": {"host_name": "alice",
            "uptime_s": 5}}, "settings": {"arguments": ["--out", "/srv/alice/x.json"]}}"#;
        let found = published(text, false).unwrap();
        for part in ["\"new\":1.10", "2e3", "\"uptime_s\": 5", "[\"--out\",\"x.json\"]"] {
            let part = part.replace(": 5", ":5");
            assert!(found.contains(&part), "no {part} in {found}");
        }
        assert!(!found.contains("alice") && published(text, true).unwrap().contains("alice"));
        assert_eq!(published(&found, false).unwrap(), found);
        assert_eq!(published("{ }", false).unwrap(), "{}\n");
    }

    #[test]
    fn only_absolute_paths_lose_their_directories() {
        for (argument, expected) in [
            ("/tmp/a.json", "a.json"),
            ("--out=/srv/me/a.json", "--out=a.json"),
            ("/tmp/dir/", "dir"),
            ("/", ""),
            ("-o/srv/me/x.json", "-ox.json"),
            ("-qo/srv/me/x.json", "-qox.json"),
            ("--set=K=/srv/me/y", "--set=K=y"),
            ("-rate=a/b", "-rate=a/b"),
            ("docs/a.json", "docs/a.json"),
            ("--time=30s", "--time=30s"),
        ] {
            assert_eq!(without_directories(argument), expected);
        }
    }
}
