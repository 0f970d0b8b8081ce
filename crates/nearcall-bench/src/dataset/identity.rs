//! What a run is called in a data set: its machine, its day, its kind and a hash of its content.
//!
//! Always true: the name follows from what is published of the run and from nothing else. The same
//! run with and without its host name, or with the path it was stored at, has one name.

use crate::report::number;
use crate::run::{Run, UNKNOWN, fnv1a};

/// `<machine id>/<date>-<kind>-<hash>.json`, with `/` between: where the run lies in a data set.
///
/// Costs as much as writing the run.
#[must_use]
pub fn place(run: &Run) -> String {
    let date = number::date(run.started_unix_s);
    let day = date.split(' ').next().unwrap_or(UNKNOWN);
    format!("{}/{day}-{}-{}.json", run.machine.id, kind_of_run(run), identity(run))
}

/// A hash of the content of the run, without what [`publish`] takes out: 12 hexadecimal digits.
#[must_use]
pub fn identity(run: &Run) -> String {
    let mut published = run.clone();
    publish(&mut published, false);
    if let Some(imported) = &mut published.imported {
        // The same archive under another name is the same run.
        imported.file.clear();
        published.settings.arguments.clear();
    }
    let hash = fnv1a(published.to_json().as_bytes());
    // Two different runs of one name are told apart by their content (`dataset/store.rs`).
    format!("{:012x}", hash >> 16)
}

/// Takes out what says something about people rather than machines: the host's name unless it
/// shall be kept, and folders of paths among the arguments.
pub(crate) fn publish(run: &mut Run, keep_host_name: bool) {
    if !keep_host_name {
        UNKNOWN.clone_into(&mut run.machine.state.host_name);
    }
    for argument in &mut run.settings.arguments {
        *argument = without_folders(argument);
    }
}

/// The argument, with only the last part of an absolute path: `--out=/srv/me/a.json` becomes
/// `--out=a.json`.
pub(crate) fn without_folders(argument: &str) -> String {
    let start = match argument.split_once('=') {
        _ if argument.starts_with('/') => 0,
        Some((option, path)) if path.starts_with('/') => option.len() + 1,
        _ => return argument.to_owned(),
    };
    let (option, path) = argument.split_at(start);
    let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    format!("{option}{last}")
}

/// What the run is a run of, in one word: "tour", "calls", "budgets", "waits", "matrix", "pace",
/// "gap", "burst", "clients", "start", "studies", "import"; "empty" without a cell.
#[must_use]
pub fn kind_of_run(run: &Run) -> &'static str {
    let Some(cell) = run.cells.first().or(run.study_cells.first()).or(run.floors.first()) else {
        return "empty";
    };
    match run {
        _ if run.imported.is_some() => "import",
        _ if !run.study_cells.is_empty() => "studies",
        _ if !run.budgets.is_empty() => "budgets",
        _ if !run.waits.is_empty() => "waits",
        _ if run.matrix.is_some() => "matrix",
        _ if cell.gap.is_some() => "gap",
        _ if cell.burst.is_some() => "burst",
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
        assert_ne!(identity(&run()), identity(&other));
    }

    #[test]
    fn host_name_and_folders_are_no_part_of_the_identity() {
        let mut other = run();
        other.machine.state.host_name = "alice-laptop".to_owned();
        other.settings.arguments = vec!["--out".into(), "/srv/alice/a.json".into()];
        let mut same = run();
        same.settings.arguments = vec!["--out".into(), "/tmp/a.json".into()];
        assert_eq!(identity(&other), identity(&same));
    }

    #[test]
    fn only_absolute_paths_lose_their_folders() {
        let cases = [
            ("/tmp/a.json", "a.json"),
            ("--out=/srv/me/a.json", "--out=a.json"),
            ("/tmp/dir/", "dir"),
            ("/", ""),
            ("docs/a.json", "docs/a.json"),
            ("64KiB", "64KiB"),
            ("--time=30s", "--time=30s"),
        ];
        for (argument, expected) in cases {
            assert_eq!(without_folders(argument), expected);
        }
    }
}
