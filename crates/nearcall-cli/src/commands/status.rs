//! `nearcall status`: what the services of a host do, or a gateway that runs without one.
//!
//! **Not here:** what the host knows, which is `nearcall_host`.

mod gateways;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use nearcall::{Address, CallOptions};
use nearcall_host::proto::{HostCaller, HostStatusReply, HostStatusRequest, HostedService};
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use nearcall_results::report::number::MISSING;
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;
use serde::Serialize;

use self::gateways::Figures;
use super::End;
use super::asked_server::{self, AskedHostArgs};
use super::list::uptime;
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// Show what the services of a host do, and what gateways have counted
///
/// Exit code: 0 the host, or the gateway, has answered; 1 it has not; 2 usage error.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Only this gateway, by its name; it may run without a host
    #[arg(value_name = "GATEWAY")]
    pub(crate) gateway: Option<Address>,

    #[command(flatten)]
    pub(crate) asked: AskedHostArgs,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<End> {
    let (client, address) = (asked_server::client(), &args.asked.host);
    if let Some(gateway) = &args.gateway {
        let name = gateway.to_string();
        let figures = gateways::ask(&client, &name).map_err(asked_server::failure)?;
        return show_gateway(name, figures, args.format.json);
    }
    let host = HostCaller::new(&client, &address.to_string())?;
    let options = CallOptions::new().deadline(ANSWER_MAX);
    let reply = host
        .with(options)
        .status(&HostStatusRequest {})
        .map_err(|status| asked_server::host_failure(status, address))?;
    let process = asked_server::process_of(&client);
    let claimed = i32::try_from(reply.pid).ok();
    let is_elsewhere = asked_server::is_elsewhere(process.as_ref(), claimed);
    let pid = process.map_or(claimed, |process| process.pid);
    // One that forwards only has nothing more to report than other services.
    let is_asked = |it: &&HostedService| it.run == GATEWAY && it.group.is_empty() && it.pid != 0;
    let asked = reply.services.iter().filter(is_asked);
    let figures = asked.filter_map(|service| {
        Some((service.name.clone(), gateways::ask(&client, &service.listen).ok()?))
    });
    let figures: Vec<(String, Figures)> = figures.collect();
    if args.format.json {
        output::json(&Document::of(reply, pid, is_elsewhere, figures))?;
    } else {
        output::result(&text(&reply, pid, is_elsewhere, &figures, style()))?;
    }
    Ok(End::Done)
}

/// Prints what one gateway has counted.
fn show_gateway(name: String, figures: Figures, as_json: bool) -> anyhow::Result<End> {
    if as_json {
        output::json(&GatewayDocument { schema: GATEWAY_SCHEMA, name, figures })?;
    } else {
        let mut out = document::Document::default();
        gateways::table(&mut out, &[(name, figures)]);
        output::result(&out.text(style()))?;
    }
    Ok(End::Done)
}

/// What `--json` prints for one gateway.
#[derive(Serialize)]
struct GatewayDocument {
    schema: &'static str,
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Longest wait for an answer of the host, which never waits for a service.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// As the kernel reports it here. Null: it cannot be seen from here.
    pid: Option<i32>,
    /// The host is in another PID namespace: the numbers of its services are those of there.
    other_pid_namespace: bool,
    uptime_ms: u64,
    version: String,
    file: String,
    stopping: bool,
    /// Processes that were replaced and finish their calls.
    retiring: u32,
    services: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    listen: String,
    run: String,
    /// Null: it shares its process with no other.
    group: Option<String>,
    state: String,
    /// Null: no process serves it.
    pid: Option<u32>,
    uptime_ms: u64,
    restarts: u64,
    failures: u32,
    restart: String,
    /// Null: it has not ended.
    last_end: Option<String>,
    last_lines: Vec<String>,
    unresponsive: bool,
    missed: u64,
    /// Null: it is no gateway, or does not answer.
    gateway: Option<Figures>,
}

impl Document {
    fn of(
        reply: HostStatusReply,
        pid: Option<i32>,
        other_pid_namespace: bool,
        figures: Vec<(String, Figures)>,
    ) -> Self {
        let mut figures: BTreeMap<String, Figures> = figures.into_iter().collect();
        let mut row = |service: HostedService| {
            let gateway = figures.remove(&service.name);
            Row { gateway, ..Row::of(service) }
        };
        Self {
            schema: SCHEMA,
            pid,
            other_pid_namespace,
            uptime_ms: reply.uptime_ms,
            version: reply.version,
            file: reply.file,
            stopping: reply.is_stopping,
            retiring: reply.retiring,
            services: reply.services.into_iter().map(&mut row).collect(),
        }
    }
}

impl Row {
    fn of(service: HostedService) -> Self {
        Self {
            name: service.name,
            listen: service.listen,
            run: service.run,
            group: Some(service.group).filter(|group| !group.is_empty()),
            state: service.state,
            pid: Some(service.pid).filter(|pid| *pid != 0),
            uptime_ms: service.uptime_ms,
            restarts: service.restarts,
            failures: service.failures,
            restart: service.restart,
            last_end: Some(service.last_end).filter(|end| !end.is_empty()),
            last_lines: service.last_lines,
            unresponsive: service.is_unresponsive,
            missed: service.missed,
            gateway: None,
        }
    }
}

fn text(
    reply: &HostStatusReply,
    pid: Option<i32>,
    is_elsewhere: bool,
    figures: &[(String, Figures)],
    style: Style,
) -> String {
    let mut out = document::Document::default();
    let mut grid = Grid::new(&HEAD).compact();
    for service in &reply.services {
        grid.row(cells(service));
        if service.state != UP || service.is_unresponsive {
            grid.paint(STATE, Ink::Bad);
        }
    }
    out.grid(grid);
    if is_elsewhere {
        out.note("the host is in another PID namespace, and these numbers are those of there");
    }
    out.blank();
    if !figures.is_empty() {
        gateways::table(&mut out, figures);
        out.blank();
    }
    for service in reply.services.iter().filter(|service| !service.last_end.is_empty()) {
        let label = format!("  {}  ", printable(&service.name));
        out.wrap(&label, printable(&format!("{} {}", service.name, service.last_end)));
        for line in &service.last_lines {
            out.wrap("    | ", printable(line));
        }
    }
    let up = reply.services.iter().filter(|service| service.state == UP).count();
    let stopping = if reply.is_stopping { ", and it is stopping" } else { "" };
    let retiring = match reply.retiring {
        0 => String::new(),
        count => format!(", and {count} replaced processes finish their calls"),
    };
    out.answer(format!(
        "{up} of {} services are up. Host{} of {} runs for {}{retiring}{stopping}.",
        reply.services.len(),
        pid.map_or_else(String::new, |pid| format!(" {pid}")),
        printable(&reply.file),
        uptime(reply.uptime_ms)
    ));
    out.text(style)
}

fn cells(service: &HostedService) -> Vec<String> {
    let or_missing = |text: String| if text.is_empty() { MISSING.to_owned() } else { text };
    let is_up = service.state == UP;
    let state = match service.is_unresponsive {
        true => "no answer".to_owned(),
        false => service.state.clone(),
    };
    vec![
        service.name.clone(),
        state,
        or_missing(if service.pid == 0 { String::new() } else { service.pid.to_string() }),
        or_missing(if is_up { uptime(service.uptime_ms) } else { String::new() }),
        service.restarts.to_string(),
        service.run.clone(),
        or_missing(service.group.clone()),
        service.listen.clone(),
    ]
}

const SCHEMA: &str = "nearcall.status/1";

const GATEWAY_SCHEMA: &str = "nearcall.gateway/1";

const UP: &str = "up";

/// How a gateway runs.
const GATEWAY: &str = "gateway";

const HEAD: [(&str, Align, usize); 8] = [
    ("", Align::Left, 0),
    ("state", Align::Left, 0),
    ("pid", Align::Right, 0),
    ("uptime", Align::Right, 0),
    ("restarts", Align::Right, 0),
    ("run", Align::Left, 0),
    ("group", Align::Left, 0),
    ("listen", Align::Left, 0),
];

/// The column of the state.
const STATE: usize = 1;

const EXAMPLES: &str = "\
Examples:
  nearcall status
  nearcall status front                          the gateway of this name
  nearcall status --json | jq -r '.services[] | select(.state != \"up\") | .name'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_has_written_does_no_harm_to_a_terminal() {
        let escape = "\u{1b}[2J".to_owned();
        let service = HostedService {
            name: "room".to_owned(),
            state: "failed".to_owned(),
            last_end: format!("was killed {escape}"),
            last_lines: vec![escape],
            ..HostedService::default()
        };
        let reply = HostStatusReply { services: vec![service], ..HostStatusReply::default() };
        let text = text(&reply, Some(1), false, &[], Style::PLAIN);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("0 of 1 services"), "{text}");
    }
}
