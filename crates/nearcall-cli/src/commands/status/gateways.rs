//! What gateways have counted, for `nearcall status`.
//!
//! **Not here:** counting, which is `nearcall_grpc`.

use std::collections::BTreeMap;
use std::time::Duration;

use nearcall::{CallOptions, Client, Code, Status};
use nearcall_grpc::proto::{GatewayCaller, GatewayCountersReply, GatewayCountersRequest};
use nearcall_results::report::document::Document;
use nearcall_results::report::number::memory;
use nearcall_results::report::table::grid::{Align, Grid};
use nearcall_results::run::printable;
use serde::Serialize;

/// What one gateway has counted since it was started.
#[derive(Serialize)]
pub(super) struct Figures {
    addresses: Vec<String>,
    connections: u64,
    connections_total: u64,
    connections_refused: u64,
    handshakes_failed: u64,
    calls: u64,
    /// By the names of the status codes that occurred.
    calls_ended: BTreeMap<String, u64>,
    calls_refused: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Asks the gateway at an address.
pub(super) fn ask(client: &Client, address: &str) -> Result<Figures, Status> {
    let caller = GatewayCaller::new(client, address)
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    let options = CallOptions::new().deadline(ANSWER_MAX);
    caller.with(options).counters(&GatewayCountersRequest {}).map(Figures::of)
}

/// Longest wait for the answer of a gateway, which waits for none of its servers.
const ANSWER_MAX: Duration = Duration::from_secs(2);

impl Figures {
    fn of(counters: GatewayCountersReply) -> Self {
        let ended = (0..).zip(counters.calls_by_code).filter(|(_, count)| *count > 0);
        let name = |code: u16| {
            Code::from_number(code).map_or_else(|| code.to_string(), |code| code.to_string())
        };
        Self {
            addresses: counters.addresses,
            connections: counters.connections,
            connections_total: counters.connections_total,
            connections_refused: counters.connections_refused,
            handshakes_failed: counters.handshakes_failed,
            calls: counters.calls,
            calls_ended: ended.map(|(code, count)| (name(code), count)).collect(),
            calls_refused: counters.calls_refused,
            bytes_in: counters.bytes_in,
            bytes_out: counters.bytes_out,
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let counts = [
            self.connections,
            self.connections_total,
            self.connections_refused,
            self.handshakes_failed,
            self.calls,
            self.calls_ended.values().sum(),
            self.calls_refused,
        ];
        let bytes = [self.bytes_in, self.bytes_out].map(|bytes| memory(bytes as f64));
        let counts = counts.map(|count| count.to_string());
        [vec![name.to_owned()], counts.to_vec(), bytes.to_vec()].concat()
    }
}

/// Writes the table of some gateways, by their names.
pub(super) fn table(out: &mut Document, gateways: &[(String, Figures)]) {
    let mut grid = Grid::new(&HEAD).compact();
    for (name, figures) in gateways {
        grid.row(figures.cells(name));
    }
    out.grid(grid);
    out.blank();
    for (name, figures) in gateways {
        let ended = figures.calls_ended.iter().map(|(code, count)| format!("{count} {code}"));
        let ended = match figures.calls_ended.is_empty() {
            true => "no call has ended".to_owned(),
            false => format!("calls ended: {}", Vec::from_iter(ended).join(", ")),
        };
        let addresses = figures.addresses.join(", ");
        let text = match addresses.is_empty() {
            true => ended,
            false => format!("{addresses}; {ended}"),
        };
        out.wrap(&format!("  {}  ", printable(name)), printable(&text));
    }
}

const HEAD: [(&str, Align, usize); 10] = [
    ("gateway", Align::Left, 0),
    ("connections\nopen", Align::Right, 0),
    ("\nin all", Align::Right, 0),
    ("\nrefused", Align::Right, 0),
    ("handshakes\nfailed", Align::Right, 0),
    ("calls\nunder way", Align::Right, 0),
    ("\nended", Align::Right, 0),
    ("\nrefused", Align::Right, 0),
    ("bytes\nin", Align::Right, 0),
    ("\nout", Align::Right, 0),
];
