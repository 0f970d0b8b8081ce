//! The figures of a cell: for each its name in the flat table, its unit, its values, how a table
//! shows it, and which way is better.
//!
//! The headline of a cell (`run/key.rs`), the flat table (`dataset/rows`), the columns of every
//! table (`report/columns.rs`), curves and answers read these rows, so that a figure is defined
//! once.
//!
//! **Invariants:** a name and what it means never change.
//!
//! **Not here:** how figures come about (`nearcall-bench`).

use super::{Cell, EndCounts, PaceFacts, RttNs, StartFacts};
use crate::report::number::{Measured, Unit};

/// One figure that cells may have.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// Its column in the flat table, with the unit at the end; empty where it has none.
    pub name: &'static str,
    /// What it is, in words.
    pub about: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Its head in a table.
    pub head: &'static str,
    /// Its least width in a terminal.
    pub least: usize,
    /// Which way is better.
    pub better: Better,
    /// Whether it counts from when an exchange was due: of a cell that fell behind its rate it says
    /// only by how much.
    pub is_response: bool,
    /// Its value and interval.
    pub of: fn(&Cell) -> Option<Measured>,
    /// One value per launch, in the order of launches; empty where launches are not stored.
    pub launches: fn(&Cell) -> &[f64],
}

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Of times, costs and ratios.
    Less,
    /// Of rates.
    More,
}

impl Fact {
    /// Returns the figure of a cell, unless it says nothing because the cell fell behind its rate.
    #[must_use]
    pub fn valid(&self, cell: &Cell) -> Option<Measured> {
        (self.of)(cell).filter(|_| !(self.is_response && cell.is_behind()))
    }

    /// A time in nanoseconds.
    const fn time(head: &'static str, of: Of) -> Self {
        Self {
            name: "",
            about: "",
            unit: Unit::Time,
            head,
            least: 7,
            better: Better::Less,
            is_response: false,
            of,
            launches: |_| &[],
        }
    }

    /// A time of the distribution of a cell.
    const fn quantile(head: &'static str, of: Of) -> Self {
        Self { is_response: true, ..Self::time(head, of).wide(8) }
    }

    /// A rate.
    const fn rate(head: &'static str, of: Of) -> Self {
        Self { unit: Unit::MessageRate, better: Better::More, ..Self::time(head, of).wide(8) }
    }

    /// A multiple of another figure.
    const fn ratio(head: &'static str, of: Of) -> Self {
        Self { unit: Unit::Ratio, ..Self::time(head, of).wide(5) }
    }

    /// A plain number per message.
    const fn count(head: &'static str, of: Of) -> Self {
        Self { unit: Unit::Plain, ..Self::time(head, of) }
    }

    /// The same with a column in the flat table.
    const fn stored(self, name: &'static str, about: &'static str) -> Self {
        Self { name, about, ..self }
    }

    const fn wide(self, least: usize) -> Self {
        Self { least, ..self }
    }

    const fn by_launch(self, launches: fn(&Cell) -> &[f64]) -> Self {
        Self { launches, ..self }
    }
}

/// The value and interval of a figure in a cell.
type Of = fn(&Cell) -> Option<Measured>;

/// A figure without an interval.
fn bare(value: Option<f64>) -> Option<Measured> {
    value.map(|value| Measured { value, ci95: None })
}

fn with(value: Option<f64>, ci95: Option<[f64; 2]>) -> Option<Measured> {
    value.map(|value| Measured { value, ci95 })
}

fn of_times(cell: &Cell, of: fn(&RttNs) -> Option<f64>) -> Option<Measured> {
    bare(cell.rtt_ns.as_ref().and_then(of))
}

fn median(times: &RttNs) -> Option<Measured> {
    with(times.p50, times.p50_ci95)
}

/// The median time, which stands for a cell of latency.
pub const P50: Fact = Fact::quantile("median", |cell| median(cell.rtt_ns.as_ref()?))
    .stored("p50_ns", "The median")
    .by_launch(|cell| &cell.launch_medians_ns);

/// The time that 90 % of the exchanges do not exceed.
pub const P90: Fact = Fact::quantile("p90", |cell| of_times(cell, |times| times.p90))
    .stored("p90_ns", "90 % are shorter");

/// The time that 99 % of the exchanges do not exceed.
pub const P99: Fact = Fact::quantile("p99", |cell| of_times(cell, |times| times.p99))
    .stored("p99_ns", "99 % are shorter");

/// The time that 99.9 % of the exchanges do not exceed.
pub const P999: Fact = Fact::quantile("p99.9", |cell| of_times(cell, |times| times.p999))
    .stored("p999_ns", "99.9 % are shorter");

/// The time that 99.99 % of the exchanges do not exceed.
pub const P9999: Fact = Fact::quantile("p99.99", |cell| of_times(cell, |times| times.p9999))
    .stored("p9999_ns", "99.99 % are shorter");

/// The arithmetic mean.
pub const MEAN: Fact = Fact::quantile("mean", |cell| of_times(cell, |times| times.mean))
    .stored("mean_ns", "The arithmetic mean; pauses of the machine move it a lot");

/// Messages per second, which stand for a cell of throughput.
pub const MESSAGES: Fact =
    Fact::rate("messages", |cell| with(cell.messages_per_s, cell.messages_per_s_ci95))
        .stored("messages_per_s", "Messages per second, one way")
        .by_launch(|cell| &cell.launch_messages_per_s);

/// Payload bytes per second.
pub const BYTES: Fact = Fact {
    unit: Unit::ByteRate,
    ..Fact::rate("bytes", |cell| with(cell.bytes_per_s, cell.bytes_per_s_ci95))
        .stored("bytes_per_s", "Payload bytes per second, one way")
        .wide(9)
};

/// Payload bits per second of CPU time of both ends.
pub const BITS_PER_CPU: Fact = Fact {
    unit: Unit::Bits,
    ..Fact::rate("b/CPU-s", |cell| bare(cell.bits_per_cpu_s))
        .stored("bits_per_cpu_s", "Payload bits that one second of CPU time of both ends moves")
        .wide(7)
};

/// Calls per second of all clients, which stand for a cell of many clients.
pub const CALLS: Fact = Fact::rate("calls", |cell| {
    let clients = cell.clients.as_ref()?;
    with(clients.calls_per_s, clients.calls_per_s_ci95)
})
.stored("calls_per_s", "Calls per second of all clients")
.by_launch(|cell| cell.clients.as_ref().map_or(&[], |clients| &clients.launch_calls_per_s));

/// CPU time of the client per message.
pub const CPU_CLIENT: Fact = Fact::time("client", |cell| bare(cell.cpu_ns_per_message.client))
    .stored("client_cpu_ns_per_message", "CPU time of the client per message or round trip")
    .wide(8);

/// CPU time of the server per message.
pub const CPU_SERVER: Fact = Fact::time("server", |cell| bare(cell.cpu_ns_per_message.server))
    .stored("server_cpu_ns_per_message", "CPU time of the server per message or round trip")
    .wide(8);

/// CPU time of both ends per message.
pub const CPU: Fact =
    Fact::time("CPU", |cell| bare(cell.cpu_ns())).by_launch(|cell| &cell.launch_cpu_ns);

/// Sleeps of the client per message, each of which the other end or the kernel has to end.
pub const SLEEPS_CLIENT: Fact =
    Fact::count("sleeps", |cell| bare(sleeps(cell, &cell.counts.client)))
        .stored("client_sleeps_per_message", "Times that the client slept, per message");

/// Sleeps of the server per message.
pub const SLEEPS_SERVER: Fact =
    Fact::count("sleeps", |cell| bare(sleeps(cell, &cell.counts.server)))
        .stored("server_sleeps_per_message", "Times that the server slept, per message");

/// Sleeps of both ends per message.
pub const SLEEPS: Fact = Fact::count("sleeps", |cell| {
    let [client, server] = [&cell.counts.client, &cell.counts.server];
    bare(sleeps(cell, client).zip(sleeps(cell, server)).map(|(one, other)| one + other))
});

fn sleeps(cell: &Cell, end: &EndCounts) -> Option<f64> {
    (cell.count > 0).then_some(end.voluntary_switches? as f64 / cell.count as f64)
}

/// The cost as a multiple of the floor's.
pub const TO_FLOOR: Fact =
    Fact::ratio("to floor", |cell| with(cell.ratio_to_floor, cell.ratio_to_floor_ci95))
        .stored("ratio_to_floor", "How many times the floor's cost it is");

/// The time of a call as a multiple of its bare exchange.
pub const TO_BARE: Fact = Fact::ratio("ratio", |cell| {
    let call = cell.call.as_ref()?;
    with(call.ratio_to_bare, call.ratio_to_bare_ci95)
})
.stored("ratio_to_bare", "Of a call: to the bare exchange of the same run");

/// The time of the bare exchange beside a call.
pub const BARE: Fact = Fact::time("bare", |cell| bare(cell.call.as_ref()?.bare_ns));

/// The time of one message, or the inverse of the rate.
pub const PER_MESSAGE: Fact = Fact {
    is_response: true,
    ..Fact::time("call", |cell| match cell.kind {
        super::Kind::Latency => (P50.of)(cell),
        super::Kind::Throughput => {
            let ci95 = cell.messages_per_s_ci95.map(|[low, high]| [1e9 / high, 1e9 / low]);
            with(cell.messages_per_s.map(|rate| 1e9 / rate), ci95)
        }
    })
};

/// The median time of a burst, divided by its messages.
pub const PER_BURST_MESSAGE: Fact = Fact::time("per message", |cell| {
    let burst = cell.burst.as_ref()?;
    with(burst.per_message_ns, burst.per_message_ns_ci95)
})
.wide(8);

/// The calls of the slowest client, to those of the mean one.
pub const SLOWEST_SHARE: Fact = Fact {
    better: Better::More,
    ..Fact::ratio("slowest", |cell| bare(cell.clients.as_ref()?.slowest_share)).wide(7)
};

/// The median time from when an exchange began.
pub const SERVICE: Fact = Fact::time("service", |cell| of_service(cell, |times| times.p50));

/// The 99th percentile of the same.
pub const SERVICE_P99: Fact =
    Fact::time("its p99", |cell| of_service(cell, |times| times.p99)).wide(8);

fn of_service(cell: &Cell, of: fn(&RttNs) -> Option<f64>) -> Option<Measured> {
    let kept = |pace: &&PaceFacts| pace.kept;
    bare(cell.pace.as_ref().filter(kept).and_then(|pace| of(&pace.service_ns)))
}

/// Setting up the first connection of two new processes.
pub const SET_UP: Fact =
    Fact::time("set-up", |cell| of_start(cell, |start| &start.fresh_set_up_ns));

/// The first round trip on that connection.
pub const FRESH_FIRST: Fact =
    Fact::time("first", |cell| of_start(cell, |start| &start.fresh_first_message_ns));

/// The first round trip on each of the other connections.
pub const FIRST: Fact = Fact::time("again", |cell| of_start(cell, |start| &start.first_message_ns));

/// Closing, for the client.
pub const CLOSE: Fact = Fact::time("close", |cell| of_start(cell, |start| &start.close_ns));

/// From before the client closes until the server has noticed.
pub const TEAR_DOWN: Fact = Fact::time("gone", |cell| of_start(cell, |start| &start.tear_down_ns));

fn of_start(cell: &Cell, of: fn(&StartFacts) -> &RttNs) -> Option<Measured> {
    cell.start.as_ref().and_then(|start| median(of(start)))
}

/// The longest time between the ends of two calls while a connection moves.
pub const PAUSE: Fact = Fact::time("pause", |cell| median(&cell.switch.as_ref()?.pause_ns));
