//! Study 002: the shortest of 100 round trips over pipes, TCP and a bounded buffer.
//!
//! The same exchanges are timed by both clocks. Table I says no placement, table II was pinned to
//! one core while it was timed, and the conclusion speaks of different cores: all three are
//! measured. Beside the paper's buffer, which it filled byte by byte, stands one that is copied at
//! once.

use super::{KB, Line};
use crate::Study;
use crate::bench_plan::Shape;
use crate::conditions::PinChoice;
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;

pub(super) fn lines(layout: &StudyPlacement) -> Vec<Line> {
    let mut lines = Vec::new();
    let sizes = if layout.quick { &SIZES[..7] } else { &SIZES[..] };
    for (mechanism, method) in METHODS {
        let round_trips = Line::latency(STUDY, mechanism, method, Shape::Echo).by_two_clocks();
        for spot in [PinChoice::Unpinned, PinChoice::OneCpu, PinChoice::OfRun] {
            lines.extend(round_trips.at(spot).lines(sizes, ROUND_TRIPS));
        }
        lines.extend(round_trips.at(PinChoice::Unpinned).lines(&MANY_SIZES, MANY));
        let stream = Line::throughput(STUDY, mechanism, method).at(PinChoice::Unpinned);
        lines.extend(stream.lines(sizes, MESSAGES));
    }
    lines
}

const STUDY: Study = Study::WisconsinLatency;

const BUFFER: &str = "shm_bounded_buffer_pthread_mutex_cond";

const BUFFER_MEMCPY: &str = "shm_bounded_buffer_pthread_mutex_cond:memcpy";

const METHODS: [(&str, Method); 4] = [
    ("pipe", Method::Pipe),
    ("tcp_nodelay", Method::Tcp),
    (BUFFER, Method::CondvarBytes),
    (BUFFER_MEMCPY, Method::CondvarMemcpy),
];

const SIZES: [u64; 10] = [4, 16, 64, 256, KB, 4 * KB, 16 * KB, 64 * KB, 256 * KB, 512 * KB];

const ROUND_TRIPS: u32 = 100;

/// Sizes beside the paper's with so many round trips that the first can be held against the rest.
const MANY_SIZES: [u64; 2] = [8, 512];

const MANY: u32 = 2_000;

/// The paper only says that the channel is saturated: more than any buffer holds from 1 KB on.
const MESSAGES: u32 = 5_000;
