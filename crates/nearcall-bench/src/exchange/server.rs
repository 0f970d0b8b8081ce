//! The server's loops: answer every message until the marks, count between them.

use std::time::Duration;

use nearcall_os::clock;

use crate::bench_plan::Shape;
use crate::cell::CellSpec;
use crate::conditions::Traffic;
use crate::exchange::count::{Counts, EndReport};
use crate::exchange::{End, Failure, Got};
use crate::launch::Fault;
use crate::payload::{Payload, Verifier};
use crate::run::Kind;

/// Serves one cell from its first message to its second mark.
pub(crate) fn serve<E: End>(
    end: &mut E,
    cell: &CellSpec,
    seed: u64,
    fault: Fault,
) -> Result<EndReport, Failure> {
    let payload = cell.requests(seed);
    let replies = cell.replies(seed);
    let replies = if fault == Fault::Corrupt { replies.with_damage() } else { replies };
    let mut serving = Serving {
        verifier: Verifier::new(&payload, 0),
        replies: &replies,
        replied: 0,
        received: 0,
        slow_left: if fault == Fault::SlowStart { SLOW_MESSAGES } else { 0 },
        stalls: None,
    };
    let in_a_row = matches!(cell.conditions.traffic, Traffic::Burst { messages } if messages > 1);
    end.expect_many(cell.kind == Kind::Throughput || in_a_row);
    serving.until_mark(end, cell)?;
    let before = Counts::before()?;
    let received = serving.received;
    end.send_empty()?;
    serving.stalls = Stalls::new(fault);
    serving.until_mark(end, cell)?;
    let digest = std::hint::black_box(serving.verifier.digest());
    // The client's clock runs until this is there.
    let stopped = before.stop()?;
    end.send_empty()?;
    Ok(before.report_of(&stopped, digest, serving.received - received))
}

struct Serving<'a> {
    verifier: Verifier<'a>,
    replies: &'a Payload,
    replied: u64,
    received: u64,
    /// Messages that are still answered late, in a test of the warm-up.
    slow_left: u32,
    /// Sleeps that are made on purpose.
    stalls: Option<Stalls>,
}

impl Serving<'_> {
    fn until_mark<E: End>(&mut self, end: &mut E, cell: &CellSpec) -> Result<(), Failure> {
        match (cell.kind, cell.conditions.traffic, cell.shape) {
            (Kind::Throughput, ..) => self.answer(end, |_, _, _| Ok(())),
            (Kind::Latency, Traffic::Burst { messages }, _) => {
                self.answer(end, |_, end, received| {
                    *received += 1;
                    let is_last = *received % u64::from(messages.max(1)) == 0;
                    if is_last { end.send_empty() } else { Ok(()) }
                })
            }
            (Kind::Latency, _, Shape::Sink | Shape::Oneway | Shape::Stream) => {
                self.answer(end, |_, end, _| end.send_empty())
            }
            (Kind::Latency, _, Shape::Echo | Shape::Call | Shape::Send) => {
                self.answer(end, |replies, end, replied| {
                    let number = *replied;
                    *replied += 1;
                    end.send(replies, number)
                })
            }
        }
    }

    #[inline]
    fn answer<E: End>(
        &mut self,
        end: &mut E,
        mut reply: impl FnMut(&Payload, &mut E, &mut u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while end.receive(&mut self.verifier)? == Got::Message {
            self.received += 1;
            if self.slow_left > 0 {
                self.slow_left -= 1;
                let until = clock::monotonic_ns() + SLOW_NS;
                while clock::monotonic_ns() < until {}
            }
            if let Some(stalls) = &mut self.stalls {
                stalls.sleep_if_due();
            }
            reply(self.replies, end, &mut self.replied)?;
        }
        Ok(())
    }
}

/// A receiver that sleeps now and then, in a test of the method.
struct Stalls {
    ns: u64,
    next_ns: u64,
}

impl Stalls {
    fn new(fault: Fault) -> Option<Self> {
        let Fault::Stall { ns } = fault else { return None };
        Some(Self { ns, next_ns: clock::monotonic_ns().saturating_add(ns) })
    }

    fn sleep_if_due(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns >= self.next_ns {
            clock::pause(Duration::from_nanos(self.ns));
            self.next_ns = now_ns.saturating_add(self.ns.saturating_mul(STALL_PERIODS));
        }
    }
}

/// A stall is a tenth of the time: enough for a 99th percentile to see it, too little for a median.
const STALL_PERIODS: u64 = 10;

/// As long as `docs/book/src/guides/measuring.md` wants a slow start to be.
const SLOW_MESSAGES: u32 = 500;

/// Many times what an exchange by spinning takes, and little enough that warming up outlasts them.
const SLOW_NS: u64 = 20_000;
