//! Study 001: throughput and ping-pong latency of rings, pipes and sockets, idle and under load.
//!
//! Its figures 4 to 13 are pictures without numbers, and most of their sizes are not named: 64,
//! 8192 and 65536 bytes stand for the three of figures 4 to 6. 100,000 messages per point as there,
//! or as many as fit in the time of a cell. Chosen here: `stress` with a worker for each CPU, one
//! for memory and one for the disk; latency with 128 bytes, 10,000 times, 100 times on one CPU, as
//! the tool's own script has it. TCP has
//! Nagle's delay, as the tool's `tcp` has; the tool has another test without it.
//! Payload is made and verified within the measured time, as with the tool's flags -w and -v.

use super::{KB, Line};
use crate::Study;
use crate::bench_plan::Shape;
use crate::conditions::{Load, PinChoice};
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;

pub(super) fn lines(layout: &StudyPlacement) -> Vec<Line> {
    let mut lines = Vec::new();
    latency(layout, &mut lines);
    throughput(layout, &mut lines);
    one_cpu(&mut lines);
    siblings(layout, &mut lines);
    signals(&mut lines);
    lines
}

/// Tables 1 and 2: every ordered pair of CPUs that stands for one of the paper's.
fn latency(layout: &StudyPlacement, lines: &mut Vec<Line>) {
    let cpus: Vec<u16> = layout.cpus().into_iter().flatten().collect();
    let mut pairs: Vec<[u16; 2]> = Vec::new();
    for &client in &cpus {
        pairs.extend(cpus.iter().map(|&server| [client, server]));
    }
    pairs.extend(layout.far);
    for load in [Load::default(), Load::STRESS] {
        for &[client, server] in &pairs {
            for (mechanism, method) in PINGED {
                // Two that spin on one CPU wait for each other's time slice; the paper prints NA.
                if client == server && method.needs_two_cpus() {
                    continue;
                }
                let series = Line::latency(STUDY, mechanism, method, Shape::Echo);
                let series = series.at(PinChoice::Pair { client, server }).beside(load);
                let exchanges = if client == server { PINGS_ON_ONE_CPU } else { PINGS };
                lines.push(series.line(PING_BYTES, exchanges));
            }
        }
    }
}

/// Figures 4 to 9: across two cores.
fn throughput(layout: &StudyPlacement, lines: &mut Vec<Line>) {
    let sizes: &[u64] = if layout.quick { &QUICK_SIZES } else { &SWEEP };
    for load in [Load::default(), Load::STRESS] {
        for (mechanism, method) in STREAMED {
            let series = Line::throughput(STUDY, mechanism, method).beside(load);
            lines.extend(series.lines(sizes, MESSAGES));
        }
    }
    // The claims about drops of the pipe need finer steps, and a pipe that is not full at 64 KiB.
    let pipe = Line::throughput(STUDY, "pipe", Method::Pipe);
    lines.extend(pipe.lines(&FINE, MESSAGES));
    let wide = Line::throughput(STUDY, "pipe:1M", Method::Pipe1M);
    lines.extend(wide.lines(&AROUND_CAPACITY, MESSAGES));
}

/// Figure 11: both on one CPU.
fn one_cpu(lines: &mut Vec<Line>) {
    for (mechanism, method) in STREAMED {
        let series = Line::throughput(STUDY, mechanism, method).at(PinChoice::OneCpu);
        lines.extend(series.lines(&NARROW, MESSAGES));
    }
}

/// Figure 10: on two threads of one core.
fn siblings(layout: &StudyPlacement, lines: &mut Vec<Line>) {
    if let (Some(client), Some(server)) = (layout.first, layout.first_sibling) {
        for (mechanism, method) in STREAMED {
            let series = Line::throughput(STUDY, mechanism, method);
            lines.extend(series.at(PinChoice::Pair { client, server }).lines(&NARROW, MESSAGES));
        }
    }
}

/// Figure 13: signals of a framework beside the bare mechanism that carries them.
fn signals(lines: &mut Vec<Line>) {
    for (mechanism, method) in [
        ("lfs_fifo_sig", Method::SignalFifo),
        ("lfs_socket_sig", Method::SignalSocket),
        ("fifo", Method::Fifo),
    ] {
        lines.extend(Line::throughput(STUDY, mechanism, method).lines(&SIGNALLED, MESSAGES));
    }
}

const STUDY: Study = Study::Enea;

const PINGED: [(&str, Method); 4] = [
    ("mempipe_lat(shm_flag_spin)", Method::Flag),
    ("pipe", Method::Pipe),
    ("tcp", Method::TcpNagle),
    ("unix", Method::Unix),
];

const STREAMED: [(&str, Method); 6] = [
    ("mempipe", Method::Mempipe),
    ("mempipe_spin", Method::MempipeSpin),
    ("shmem_pipe", Method::ShmemPipe),
    ("pipe", Method::Pipe),
    ("tcp", Method::TcpNagle),
    ("unix", Method::Unix),
];

/// What the tool sends unless told otherwise.
const PING_BYTES: u64 = 128;
const PINGS: u32 = 10_000;
const PINGS_ON_ONE_CPU: u32 = 100;

/// "100000 send-receive iterations".
const MESSAGES: u32 = 100_000;

const SWEEP: [u64; 14] = [
    64,
    128,
    256,
    512,
    KB,
    2 * KB,
    4 * KB,
    8 * KB,
    16_000,
    16 * KB,
    32 * KB,
    64 * KB,
    96 * KB,
    128 * KB,
];

const QUICK_SIZES: [u64; 3] = [64, 8 * KB, 64 * KB];

/// Before and after the pipe's capacity, and around 100 KB.
const FINE: [u64; 9] =
    [60 * KB, 68 * KB, 86 * KB, 90 * KB, 94 * KB, 98 * KB, 102 * KB, 106 * KB, 110 * KB];

const AROUND_CAPACITY: [u64; 2] = [60 * KB, 68 * KB];

const NARROW: [u64; 4] = [64, KB, 8 * KB, 16_000];

const SIGNALLED: [u64; 5] = [64, 512, 4 * KB, 16 * KB, 64 * KB];
