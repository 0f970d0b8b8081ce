//! The client's loop for bursts: some messages right after each other, then their one reply.
//!
//! The server counts and replies once per burst, without payload, as a consumer does that works off
//! what has come and then says so. A time is that of a whole burst, from before its first message
//! is sent until the reply is there. A burst that has no room in the channel holds up the client
//! until the server has read some of it; that is part of its time.

use std::hint::black_box;

use crate::exchange::count::Counts;
use crate::exchange::exact::present;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::{End, Failure};
use crate::payload::Payload;
use crate::warmup::{Warmup, WarmupState};

/// Measures bursts of `messages`. The server has said that it is ready.
pub(crate) fn bursts<E: End>(end: &mut E, job: &Job, messages: u32) -> Result<Measured, Failure> {
    let payload = job.payload();
    let messages = u64::from(messages);
    let mut sending = Sending { end, job, payload: &payload, number: 0, messages };
    let first_ns = sending.timed_ns()?;
    let mut warmup = Warmup::new(job.warmup_rule(first_ns, messages));
    let mut spent_ns = 0;
    let mut state = WarmupState::Warming;
    while state == WarmupState::Warming {
        let ns = sending.timed_ns()?;
        spent_ns += ns;
        state = warmup.push(ns);
    }
    let mut times = present();
    let budget_ns = job.measured_ns(spent_ns);
    sending.mark()?;
    let before = Counts::before()?;
    let begin = job.stamps.start();
    let (mut bursts, mut sum_ns) = (0, 0);
    while bursts < BURSTS_MIN || sum_ns < budget_ns {
        let ns = sending.timed_ns()?;
        times.record(ns);
        bursts += 1;
        sum_ns += ns;
    }
    let elapsed_ns = job.stamps.since_ns(begin);
    let client = before.report(black_box(sending.number), 0)?;
    sending.mark()?;
    Ok(Measured {
        client,
        messages: bursts * messages,
        elapsed_ns,
        median_ns: times.median_ns(),
        times: Some(times.to_stored()),
        messages_per_sample: 1,
        warmup_samples: warmup.samples(),
        warmup_capped: state == WarmupState::Capped,
        ..Measured::default()
    })
}

struct Sending<'a, E> {
    end: &'a mut E,
    job: &'a Job,
    payload: &'a Payload,
    number: u64,
    messages: u64,
}

impl<E: End> Sending<'_, E> {
    #[inline]
    fn timed_ns(&mut self) -> Result<u64, Failure> {
        let start = self.job.stamps.start();
        for _ in 0..self.messages {
            self.end.send(self.payload, self.number)?;
            self.number += 1;
        }
        self.end.receive_empty()?;
        Ok(self.job.stamps.since_ns(start))
    }

    fn mark(&mut self) -> Result<(), Failure> {
        if self.end.send_mark(self.payload, self.number)? {
            self.number += 1;
        }
        self.end.receive_empty()
    }
}

/// Fewer bursts have no median worth the name.
const BURSTS_MIN: u64 = 20;
