//! Bursts as exchanges of the client's loop: some messages right after each other, then their one
//! reply.
//!
//! The server counts and replies once per burst, without payload, as a consumer does that works off
//! what has come and then says so. A time is that of a whole burst, from before its first message
//! is sent until the reply is there. A burst that has no room in the channel holds up the client
//! until the server has read some of it; that is part of its time.

use crate::bench_plan::Shape;
use crate::exchange::client;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::{End, Failure};
use crate::payload::Payload;

/// Measures bursts of `messages`. The server has said that it is ready.
pub(crate) fn bursts<E: End>(end: &mut E, job: &Job, messages: u32) -> Result<Measured, Failure> {
    let mut job = *job;
    job.cell.shape = Shape::Sink;
    let burst_messages = u64::from(messages);
    let mut end = Burst { end, messages, number: 0 };
    let of_bursts = client::latency_of(&mut end, &job, burst_messages)?;
    Ok(Measured {
        messages: of_bursts.messages * burst_messages,
        // That would be the first burst.
        first_message_ns: None,
        ..of_bursts
    })
}

/// Sends many messages where one is asked for.
struct Burst<'a, E> {
    end: &'a mut E,
    messages: u32,
    /// Of the next message.
    number: u64,
}

impl<E: End> End for Burst<'_, E> {
    #[inline]
    fn send(&mut self, payload: &Payload, _burst: u64) -> Result<(), Failure> {
        for _ in 0..self.messages {
            self.end.send(payload, self.number)?;
            self.number += 1;
        }
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.end.receive_empty()
    }

    fn send_mark(&mut self, payload: &Payload, _burst: u64) -> Result<bool, Failure> {
        self.number += u64::from(self.end.send_mark(payload, self.number)?);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Got;
    use crate::exchange::stamps::SCRIPTED_NS;
    use crate::payload::Verifier;
    use crate::run::Kind;

    /// Each burst takes as long, however many messages it has.
    struct Even;

    impl End for Even {
        fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
            Ok(())
        }

        fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
            Ok(Got::Mark)
        }

        fn receive_empty(&mut self) -> Result<(), Failure> {
            SCRIPTED_NS.set(SCRIPTED_NS.get() + BURST_NS);
            Ok(())
        }
    }

    #[test]
    fn the_warm_up_counts_messages_and_not_bursts() {
        let job = Job::scripted(Kind::Latency, Shape::Echo, 300_000_000);
        let warmed = |messages| bursts(&mut Even, &job, messages).unwrap().warmup_samples;
        assert!(warmed(1) >= 512, "{}", warmed(1));
        assert!(warmed(512) < 512, "{}", warmed(512));
    }

    /// Long enough that three windows have fewer samples than a slow start has messages.
    const BURST_NS: u64 = 150_000;
}
