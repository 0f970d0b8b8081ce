//! Where the time of one empty call goes: the parts, their sum, the whole call, and the rest.
//!
//! A function of the run's cells.
//! **Invariants:** no part is scaled to fit, and what the parts do not explain stands there as the
//! rest, above or below zero.

use crate::calls::part::Part;
use crate::calls::route::Caller;
use crate::run::{Breakdown, Cell, Kind, Part as StoredPart, Run};

/// Adds a breakdown for each mechanism and caller that the run has an empty call of.
pub(crate) fn add(run: &mut Run) {
    let empty = |cell: &&Cell| cell.kind == Kind::Latency && cell.message_bytes == 0;
    let is_remote =
        |cell: &&Cell| cell.call.as_ref().is_some_and(|call| !call.client_wait.is_empty());
    let calls = run.cells.iter().filter(empty).filter(is_remote);
    run.breakdowns = calls.map(|call| breakdown(run, call)).collect();
}

fn breakdown(run: &Run, call: &Cell) -> Breakdown {
    let facts = call.call.clone().unwrap_or_default();
    let send = run.parts.iter().find(|part| {
        let same = |other: &Cell| {
            other.mechanism == call.mechanism && other.wait == call.wait && other.shape == "send"
        };
        same(part) && part.call.as_ref().is_some_and(|call| call.caller == facts.caller)
    });
    let send_ns = send.and_then(p50);
    let part_ns =
        |part: Part| run.parts.iter().find(|cell| cell.mechanism == part.name()).and_then(p50);
    let circuit = run.cells.iter().find(|cell| {
        let is_bytes = cell.call.as_ref().is_some_and(|call| call.caller == Caller::Bytes.name());
        is_bytes && cell.message_bytes == 0
    });
    let (marshal, unmarshal) = (part_ns(Part::Marshal), part_ns(Part::Unmarshal));
    let minus = |whole: Option<f64>, part: Option<f64>| Some(whole? - part?);
    let away_ns = minus(facts.bare_ns, send_ns);
    let dispatch_ns = minus(minus(circuit.and_then(p50), marshal), unmarshal);
    let payload_ns = part_ns(Part::Payload).map(|ns| -ns);
    let parts = vec![
        part("marshal", "request and reply, alone", marshal),
        part("protocol", "headers and call tables of both ends, alone", part_ns(Part::Protocol)),
        part("claim, commit, wake", "bare channel: until the client's send returns", send_ns),
        part("away", "bare channel: transfer, wake-ups, and the way back", away_ns),
        part(
            "less: payload",
            "bare headers are filled in and judged; calls have their own",
            payload_ns,
        ),
        part("unmarshal", "request and reply, alone", unmarshal),
        part("dispatch", "short circuit through bytes, less marshal and unmarshal", dispatch_ns),
    ];
    let sum_ns = parts.iter().map(|part| part.ns).sum::<Option<f64>>();
    let whole_ns = p50(call);
    Breakdown {
        mechanism: call.mechanism.clone(),
        caller: facts.caller,
        wait: call.wait.clone(),
        rest_ns: minus(whole_ns, sum_ns),
        parts,
        sum_ns,
        whole_ns,
    }
}

fn part(name: &str, how: &str, ns: Option<f64>) -> StoredPart {
    StoredPart { name: name.to_owned(), how: how.to_owned(), ns }
}

fn p50(cell: &Cell) -> Option<f64> {
    cell.rtt_ns.as_ref()?.p50
}
