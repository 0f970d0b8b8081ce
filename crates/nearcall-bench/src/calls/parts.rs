//! Measures parts of an empty call by themselves, within one process.
//!
//! Each is the runtime's own code on its own data, warm, again and again. **Not here:** what is
//! made of them (`breakdown.rs`), the part that needs two processes (`send_ns` of `peer.rs`).

use std::hint::black_box;

use nearcall::Message;
use nearcall_wire::{CallProtocol, End, Event, Limits, Payload as Lengths, Request, Shape, Time};

use crate::calls::part::Part;
use crate::calls::route::frame_bytes;
use crate::exchange::Failure;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::floor::alone;
use crate::payload::{Payload, Verifier};

/// Measures a part: what it takes per call, both ways.
pub(super) fn measure(part: Part, job: &Job) -> Result<Measured, Failure> {
    match part {
        Part::Marshal => batches(job, || {
            let mut buffer = [0_u8; 8];
            for message in [black_box(()), black_box(())] {
                let bytes = message.encoded_len();
                message.encode(&mut &mut buffer[..bytes]).map_err(Failure::other)?;
            }
            black_box(&buffer);
            Ok(())
        }),
        Part::Unmarshal => batches(job, || {
            let empty: &[u8] = black_box(&[]);
            for _ in 0..2 {
                <()>::decode(black_box(empty)).map_err(Failure::other)?;
            }
            Ok(())
        }),
        Part::Protocol => protocol(job),
        Part::Payload => payload(job),
    }
}

fn batches(job: &Job, mut act: impl FnMut() -> Result<(), Failure>) -> Result<Measured, Failure> {
    alone::measure(job, CALLS_PER_SAMPLE, || (0..CALLS_PER_SAMPLE).try_for_each(|_| act()))
}

/// Calls between two connections that hand each other their headers.
fn protocol(job: &Job) -> Result<Measured, Failure> {
    let now = Time::from_ns(0);
    let mut client = CallProtocol::new([1; 16], Limits::default());
    let mut server = CallProtocol::new([2; 16], Limits::default());
    while let Some(head) = client.poll_transmit() {
        server.handle_message(now, &head, head.len()).map_err(Failure::other)?;
    }
    while let Some(head) = server.poll_transmit() {
        client.handle_message(now, &head, head.len()).map_err(Failure::other)?;
    }
    let (deadline, payload, shape) = (Time::NEVER, Lengths::EMPTY, Shape::Unary);
    let request = Request { object: 7, method: 3, deadline, payload, shape };
    batches(job, || {
        let (ours, head) = client.start_call(now, black_box(&request)).map_err(Failure::other)?;
        let head = black_box(head);
        let event = server.handle_message(now, &head, head.len()).map_err(Failure::other)?;
        let Some(Event::Call { call, .. }) = event else {
            return Err(Failure::other("a call did not come as one"));
        };
        let head = black_box(server.reply(call, Lengths::EMPTY).map_err(Failure::other)?);
        match client.handle_message(now, &head, head.len()).map_err(Failure::other)? {
            Some(Event::Ended { end: End::Reply(_), .. }) => {
                client.release(ours);
                Ok(())
            }
            _ => Err(Failure::other("a reply did not end its call")),
        }
    })
}

/// What `exchange/` does with the bytes of a request and a reply.
fn payload(job: &Job) -> Result<Measured, Failure> {
    let bytes = usize::try_from(frame_bytes(0)).unwrap_or(usize::MAX);
    let payload = Payload::headers(job.seed, bytes);
    let mut verifier = Verifier::new(&payload, 0);
    let mut piece = vec![0; bytes];
    batches(job, || {
        for _ in 0..2 {
            payload.fill(verifier.next(), 0, &mut piece);
            verifier.whole(black_box(&piece))?;
        }
        Ok(())
    })
}

/// Some nanoseconds each.
const CALLS_PER_SAMPLE: u64 = 1_000;
