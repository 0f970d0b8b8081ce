//! Study 000: round trips of calls by an event-driven platform, and what shared memory would save.
//!
//! Silent in the thesis, chosen here: 2,000 calls up to 64 KB and 200 above ("a large number");
//! both not pinned and on one CPU, the latter closest to its device with a single core: tables show
//! the former, claims are judged by the latter. The thesis' method is empty and has two arguments;
//! here there is one, which is made and read within the measured time, as with every mechanism.

use nearcall_channel::Mechanism;
use nearcall_results::route::Route;

use super::{KB, Line};
use crate::Study;
use crate::bench_plan::Shape;
use crate::conditions::PinChoice;
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;

pub(super) fn lines(layout: &StudyPlacement) -> Vec<Line> {
    let mut lines = Vec::new();
    let sizes: [u64; SIZES] = std::array::from_fn(|doublings| KB << doublings);
    for spot in [PinChoice::Unpinned, PinChoice::OneCpu] {
        for series in all() {
            let series = series.at(spot);
            let (small, large) = sizes.split_at(SMALL_SIZES);
            lines.extend(series.lines(small, if layout.quick { 200 } else { CALLS_SMALL }));
            lines.extend(series.lines(large, if layout.quick { 20 } else { CALLS_LARGE }));
        }
        let socket = Line::latency(STUDY, "uds_poll_no_shm", Method::SocketPoll, Shape::Sink);
        lines.push(socket.at(spot).line(8 * KB, CALLS_SMALL));
    }
    let direct = Line::call(STUDY, "function_call_by_reference", Route::Typed);
    // Nothing to move: the thesis passes a reference. For a time, since it is a few nanoseconds.
    lines.push(direct.at(PinChoice::Unpinned).line(0, 0));
    // What the thesis suspects behind its figures; nothing of it is printed there.
    let allocation = Line::latency(STUDY, "shm_alloc", Method::AllocAlone, Shape::Sink);
    lines.push(allocation.at(PinChoice::Unpinned).line(8 * KB, CALLS_SMALL));
    lines
}

fn all() -> [Line; 7] {
    let method = |mechanism, method| Line::latency(STUDY, mechanism, method, Shape::Sink);
    let socket = Route::Blocking(Mechanism::UnixStream);
    [
        Line::call(STUDY, "uds_eventloop_marshalled", socket),
        Line::call(STUDY, "short_circuit_same_process", Route::Bytes),
        method("shm_boost+uds_eventloop", Method::AllocLoop),
        method("shm_boost+signals", Method::AllocSignal),
        method("shm_boost+boost_mq", Method::AllocQueue),
        method("shm_boost+uds_blocking", Method::AllocSocket),
        method("shm_boost+uds_poll", Method::AllocPoll),
    ]
}

const STUDY: Study = Study::Motorola;

/// From 1 KB to 1 MB.
const SIZES: usize = 11;

/// How many of these have many calls.
const SMALL_SIZES: usize = 7;

/// A "large number" of the thesis; our choice.
const CALLS_SMALL: u32 = 2_000;

/// The same of large messages.
const CALLS_LARGE: u32 = 200;
