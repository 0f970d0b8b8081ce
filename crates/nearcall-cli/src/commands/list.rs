//! `nearcall list`: the servers of this user that listen by name.
//!
//! **Not here:** finding and asking them, which is `nearcall::observe::names`.

use clap::Args;
use nearcall::control::{DescribeReply, MechanismUse, Object};
use nearcall::observe::{NameEntry, NameProblem, PeerIdentity};
use nearcall::server::Health;
use nearcall_channel::runtime_dir;
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::number::MISSING;
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;
use serde::Serialize;

use super::End;
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// List the servers that listen by name: objects, process, use
///
/// Asks each server of this user over its own socket, for a second at most. One that does not
/// answer is a row with the reason: it was killed, it is stopped, or the name is another
/// user's.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<End> {
    let names: Vec<_> = nearcall::observe::names()?.iter().map(Row::of).collect();
    let directory = runtime_dir::path();
    let has_directory = directory.exists();
    let directory = directory.display().to_string();
    if names.is_empty() {
        output::diagnostic(&match has_directory {
            true => format!(
                "no server of this user listens by name in {directory}, chosen by {}",
                runtime_dir::chosen_by()
            ),
            false => format!(
                "no server of this user has listened by name yet: the runtime directory \
                 {directory}, chosen by {}, is not there",
                runtime_dir::chosen_by()
            ),
        });
    }
    if args.format.json {
        output::json(&Document { schema: SCHEMA, directory, names })?;
    } else if !names.is_empty() {
        output::result(&text(&names, style()))?;
    }
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    directory: String,
    names: Vec<Row>,
}

/// One name.
#[derive(Serialize)]
struct Row {
    name: String,
    /// Null: it is not known, because of `problem`.
    server: Option<ServerRow>,
    problem: Option<Problem>,
}

/// What a server says of itself.
#[derive(Serialize)]
struct ServerRow {
    /// As the kernel reports it here. Null: it cannot be seen from here.
    pid: Option<i32>,
    /// The number that the server gives its process: another one in another PID namespace.
    own_pid: Option<i32>,
    uid: Option<u32>,
    version: String,
    uptime_ms: u64,
    addresses: Vec<String>,
    health: &'static str,
    objects: Vec<ObjectRow>,
    mechanisms: Vec<MechanismRow>,
}

#[derive(Serialize)]
struct ObjectRow {
    interface: String,
    /// Null: the only object with its interface.
    instance: Option<String>,
    health: &'static str,
}

#[derive(Serialize)]
struct MechanismRow {
    name: String,
    offered: bool,
    connections: Option<u32>,
}

#[derive(Serialize)]
struct Problem {
    /// `stale`, `other-user` or `no-answer`.
    kind: &'static str,
    text: String,
}

impl Row {
    fn of(entry: &NameEntry) -> Self {
        let (server, problem) = match &entry.server {
            Ok(server) => (Some(ServerRow::of(server, entry.process.as_ref())), None),
            Err(problem) => (None, Some(Problem::of(problem))),
        };
        Self { name: entry.name.clone(), server, problem }
    }
}

impl ServerRow {
    fn of(server: &DescribeReply, process: Option<&PeerIdentity>) -> Self {
        let object = |object: &Object| ObjectRow {
            interface: object.interface.clone(),
            instance: Some(object.instance.clone()).filter(|instance| !instance.is_empty()),
            health: health_name(object.health()),
        };
        let mechanism = |mechanism: &MechanismUse| MechanismRow {
            name: mechanism.name.clone(),
            offered: mechanism.offered,
            connections: mechanism.connections,
        };
        Self {
            pid: process.map_or(server.pid, |process| process.pid),
            own_pid: server.pid,
            uid: server.uid,
            version: server.version.clone(),
            uptime_ms: server.uptime_ms,
            addresses: server.addresses.clone(),
            health: health_name(server.health()),
            objects: server.objects.iter().map(object).collect(),
            mechanisms: server.mechanisms.iter().map(mechanism).collect(),
        }
    }
}

impl ServerRow {
    /// Whether the server knows its process by another number than the kernel here.
    fn is_elsewhere(&self) -> bool {
        self.own_pid.is_some() && self.pid != self.own_pid
    }
}

impl Problem {
    fn of(problem: &NameProblem) -> Self {
        let kind = match problem {
            NameProblem::Stale => "stale",
            NameProblem::OtherUser(_) => "other-user",
            _ => "no-answer",
        };
        Self { kind, text: problem.to_string() }
    }
}

fn health_name(health: Health) -> &'static str {
    match health {
        Health::Unknown => "unknown",
        Health::Serving => SERVING,
        Health::NotServing => "not serving",
        Health::Draining => "draining",
    }
}

fn text(names: &[Row], style: Style) -> String {
    let mut out = document::Document::default();
    let mut grid = Grid::new(&HEAD).compact();
    let answered: Vec<_> =
        names.iter().filter_map(|row| Some((row, row.server.as_ref()?))).collect();
    for (row, server) in &answered {
        if server.objects.is_empty() {
            grid.row(cells(&row.name, server, None));
        }
        for object in &server.objects {
            grid.row(cells(&row.name, server, Some(object)));
            if object.health != SERVING {
                grid.paint(HEALTH, Ink::Bad);
            }
        }
    }
    if !answered.is_empty() {
        out.grid(grid);
        if answered.iter().any(|(_, server)| server.is_elsewhere()) {
            out.note(format!("* in another PID namespace: {ELSEWHERE}"));
        }
        out.blank();
    }
    let unknown = names.iter().filter_map(|row| Some((&row.name, row.problem.as_ref()?)));
    let unknown: Vec<_> = unknown.collect();
    if !unknown.is_empty() {
        out.title("Not known");
        let width = unknown.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, problem) in unknown {
            out.wrap(&format!("  {name:<width$}  "), printable(&problem.text));
        }
    }
    out.answer(format!("{} of {} names have a server that answers.", answered.len(), names.len()));
    out.text(style)
}

fn cells(name: &str, server: &ServerRow, object: Option<&ObjectRow>) -> Vec<String> {
    // A server chooses the names that it replies with.
    let or_missing = |text: Option<String>| match text {
        Some(text) => printable(&text),
        None => MISSING.to_owned(),
    };
    let used = server.mechanisms.iter().filter(|it| it.connections.is_some_and(|count| count > 0));
    let used: Vec<_> = used.map(|it| it.name.as_str()).collect();
    let mark = if server.is_elsewhere() { "*" } else { "" };
    let clients = server.mechanisms.iter().filter_map(|it| it.connections);
    vec![
        name.to_owned(),
        or_missing(object.map(|object| object.interface.clone())),
        or_missing(object.and_then(|object| object.instance.clone())),
        format!("{}{mark}", or_missing(server.pid.map(|pid| pid.to_string()))),
        or_missing(server.uid.map(|uid| uid.to_string())),
        or_missing(Some(used.join(",")).filter(|used| !used.is_empty())),
        clients.map(u64::from).sum::<u64>().to_string(),
        uptime(server.uptime_ms),
        object.map_or(server.health, |object| object.health).to_owned(),
    ]
}

/// Writes a time with its two largest units.
pub(super) fn uptime(ms: u64) -> String {
    let (s, min) = (ms / 1000, ms / 60_000);
    let (h, days) = (min / 60, min / (24 * 60));
    match (days, h, min) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{min} min {} s", s % 60),
        (0, ..) => format!("{h} h {} min", min % 60),
        _ => format!("{days} d {} h", h % 24),
    }
}

const SCHEMA: &str = "nearcall.list/1";

/// What numbers of processes of another PID namespace are worth.
pub(super) const ELSEWHERE: &str =
    "the number is the kernel's here; those that its programs print are others";

const SERVING: &str = "serving";

const HEAD: [(&str, Align, usize); 9] = [
    ("", Align::Left, 0),
    ("interface", Align::Left, 0),
    ("instance", Align::Left, 0),
    ("pid", Align::Right, 0),
    ("uid", Align::Right, 0),
    ("mechanisms\nin use", Align::Left, 0),
    ("clients", Align::Right, 0),
    ("uptime", Align::Right, 0),
    ("health", Align::Left, 0),
];

/// The column of the health.
const HEALTH: usize = 8;

const EXAMPLES: &str = "\
Examples:
  nearcall list
  nearcall list --json | jq -r '.names[] | [.name, .server.pid] | @tsv'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uptime_has_two_units() {
        let cases = [
            (999, "0 s"),
            (59_999, "59 s"),
            (61_000, "1 min 1 s"),
            (7_380_000, "2 h 3 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(uptime(ms), text);
        }
    }

    #[test]
    fn what_a_server_says_does_no_harm_to_a_terminal() {
        let escape = "\u{1b}[2J\n".to_owned();
        let object = Object { interface: escape.clone(), ..Object::default() };
        let server = DescribeReply { objects: vec![object], ..DescribeReply::default() };
        let server = Some(ServerRow::of(&server, None));
        let problem = Problem { kind: "no-answer", text: escape };
        let names = [
            Row { name: "one".to_owned(), server, problem: None },
            Row { name: "other".to_owned(), server: None, problem: Some(problem) },
        ];
        let text = text(&names, Style::PLAIN);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("1 of 2 names"), "{text}");
    }
}
