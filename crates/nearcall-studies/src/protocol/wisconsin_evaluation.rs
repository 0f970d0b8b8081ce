//! Study 003: mean latency, longest latency and throughput of pipes, TCP and shared memory.
//!
//! Throughput is one large message and an acknowledgement, size by round trip. "A large number" of
//! round trips is 5,000 here, 1,000 from 64 KB on. Times are whole round trips, the paper's halves;
//! TCP has Nagle's delay, as the study does not say that it switched it off.

use super::{KB, Line};
use crate::Study;
use crate::bench_plan::Shape;
use crate::conditions::PinChoice;
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;

pub(super) fn lines(layout: &StudyPlacement) -> Vec<Line> {
    let mut lines = Vec::new();
    let fewer = if layout.quick { 10 } else { 1 };
    for (mechanism, method) in METHODS {
        let echo = Line::latency(STUDY, mechanism, method, Shape::Echo);
        lines.extend(echo.lines(&SMALL, ROUND_TRIPS / fewer));
        lines.extend(echo.lines(&[64 * KB], ROUND_TRIPS_LARGE / fewer));
        let acknowledged = Line::latency(STUDY, mechanism, method, Shape::Sink);
        lines.extend(acknowledged.lines(&ACKNOWLEDGED, ROUND_TRIPS_LARGE / fewer));
    }
    // Figure 4: pipes on one core beside pipes on two.
    let pipe = Line::latency(STUDY, "pipe", Method::Pipe, Shape::Echo);
    lines.extend(pipe.lines(&LARGE, ROUND_TRIPS_LARGE / fewer));
    for sizes in [&BOTH[..], &LARGE[..]] {
        lines.extend(pipe.at(PinChoice::OneCpu).lines(sizes, ROUND_TRIPS_LARGE / fewer));
    }
    lines
}

const STUDY: Study = Study::WisconsinEvaluation;

const METHODS: [(&str, Method); 3] =
    [("pipe", Method::Pipe), ("tcp", Method::TcpNagle), ("shm_semaphore", Method::Semaphore)];

const ROUND_TRIPS: u32 = 5_000;

const ROUND_TRIPS_LARGE: u32 = 1_000;

/// Figure 1 up to where one round trip takes long.
const SMALL: [u64; 10] = [4, 8, 16, 64, 256, KB, 4 * KB, 8 * KB, 16 * KB, 32 * KB];

/// Figure 2.
const ACKNOWLEDGED: [u64; 11] =
    [512, KB, 2 * KB, 4 * KB, 8 * KB, 16 * KB, 32 * KB, 64 * KB, 128 * KB, 256 * KB, 512 * KB];

/// Figure 4, sizes that figure 1 has too.
const BOTH: [u64; 9] = [4, 8, 16, 64, 256, KB, 4 * KB, 16 * KB, 64 * KB];

/// Figure 4, beyond figure 1.
const LARGE: [u64; 3] = [128 * KB, 256 * KB, 512 * KB];
