//! The client's loop for throughput: one way, until the server confirms the last message.

use std::hint::black_box;

use crate::exchange::count::Counts;
use crate::exchange::job::{Job, Part};
use crate::exchange::measured::Measured;
use crate::exchange::{End, Failure};
use crate::payload::Payload;
use crate::warmup::{Warmup, WarmupState};

/// Measures messages per second. The server has said that it is ready.
///
/// The ramp is cut off: the measured region begins with an empty channel and both ends warm, and it
/// ends when the server has confirmed. `buffer_bytes` is what the channel holds: a region that
/// moves less than four times that would measure the buffer.
pub(crate) fn throughput<E: End>(
    end: &mut E,
    job: &Job,
    buffer_bytes: u64,
) -> Result<Measured, Failure> {
    let payload = job.payload();
    let mut sending = Sending { end, payload: &payload, number: 0, group: group_of(job) };
    let first = job.stamps.start();
    sending.group()?;
    let guess_ns = job.stamps.since_ns(first);
    let mut warmup = Warmup::new(job.warmup_rule(guess_ns, sending.group));
    let mut state = WarmupState::Warming;
    let begin = job.stamps.start();
    let mut last = begin;
    while state == WarmupState::Warming {
        sending.group()?;
        let now = job.stamps.start();
        state = warmup.push(job.stamps.between_ns(last, now));
        last = now;
    }
    let spent_ns = job.stamps.since_ns(begin);
    sending.mark()?;
    let budget_ns = job.measured_ns(spent_ns);
    let buffers_min = if job.part == Part::Whole { BUFFERS_MIN } else { SLICE_BUFFERS_MIN };
    let before = Counts::before()?;
    let from = sending.number;
    let begin = job.stamps.start();
    loop {
        sending.group()?;
        let messages = sending.number - from;
        let enough = messages * job.cell.frame_bytes() >= buffers_min * buffer_bytes;
        if enough && messages >= MESSAGES_MIN && job.stamps.since_ns(begin) >= budget_ns {
            break;
        }
    }
    let messages = sending.number - from;
    sending.mark()?;
    let elapsed_ns = job.stamps.since_ns(begin);
    let client = before.report(black_box(sending.number), 0)?;
    Ok(Measured {
        client,
        messages,
        elapsed_ns,
        messages_per_sample: 1,
        warmup_samples: warmup.samples() * sending.group,
        warmup_capped: state == WarmupState::Capped,
        ..Measured::default()
    })
}

/// Messages between two looks at the clock: looking must cost nothing beside them.
fn group_of(job: &Job) -> u64 {
    (GROUP_BYTES / job.cell.message_bytes).clamp(1, GROUP_MESSAGES_MAX)
}

struct Sending<'a, E> {
    end: &'a mut E,
    payload: &'a Payload,
    number: u64,
    group: u64,
}

impl<E: End> Sending<'_, E> {
    #[inline]
    fn group(&mut self) -> Result<(), Failure> {
        for _ in 0..self.group {
            self.end.send(self.payload, self.number)?;
            self.number += 1;
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<(), Failure> {
        if self.end.send_mark(self.payload, self.number)? {
            self.number += 1;
        }
        self.end.receive_empty()
    }
}

/// Rule R17: with less than this many times the buffer, the figure would be that of the buffer.
const BUFFERS_MIN: u64 = 4;

/// The same for a slice, of which a launch has several: the kernel charges a short message with
/// many times its bytes, so that much fewer fit.
const SLICE_BUFFERS_MIN: u64 = 1;

/// So that the two marks do not count.
const MESSAGES_MIN: u64 = 100;

/// A group takes at least some microseconds.
const GROUP_BYTES: u64 = 16 << 10;

/// At 20 ns each a group of this many takes 5 µs.
const GROUP_MESSAGES_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_plan::Shape;
    use crate::exchange::stamps::SCRIPTED_NS;
    use crate::run::Kind;

    /// Takes 1 µs for each message, and 5 ms to confirm the last one.
    struct SlowReceiver;

    const CONFIRMATION_NS: u64 = 5_000_000;

    impl End for SlowReceiver {
        fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
            SCRIPTED_NS.set(SCRIPTED_NS.get() + 1_000);
            Ok(())
        }

        fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
            Ok(false)
        }

        fn receive_empty(&mut self) -> Result<(), Failure> {
            SCRIPTED_NS.set(SCRIPTED_NS.get() + CONFIRMATION_NS);
            Ok(())
        }
    }

    /// Rule R17.
    #[test]
    fn the_clock_stops_at_the_confirmation_of_the_last_message() {
        let job = Job::scripted(Kind::Throughput, Shape::Sink, 10_000_000);
        let measured = throughput(&mut SlowReceiver, &job, 4_096).unwrap();
        let sent_ns = measured.messages * 1_000;
        assert!(measured.messages >= MESSAGES_MIN, "{measured:?}");
        assert_eq!(measured.elapsed_ns, sent_ns + CONFIRMATION_NS, "{measured:?}");
    }
}
