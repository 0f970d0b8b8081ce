//! Beginnings and ends of connections, again and again: set-up, first message, tear-down.
//!
//! ```text
//! client                              server
//!   "next"                -->         listens already
//!                         <--         "ready", and sleeps until somebody connects
//!   connects, first round trip <-->
//!   closes
//!                         <--         "gone", as soon as it has noticed
//! ```
//!
//! The words go over a line beside the channel. All times are the client's; that of a tear-down
//! has one word in it, which is measured by itself. The first connection of a launch is that of
//! new processes and is told apart from the others.

use std::time::Duration;

use nearcall_channel::{
    Address, Deadline, Listener, Mechanism, MechanismSet, Options, ReceiveError, connect,
};
use nearcall_os::clock;

use crate::exchange::channel::ChannelEnd;
use crate::exchange::client::Exchange;
use crate::exchange::count::Counts;
use crate::exchange::exact::present;
use crate::exchange::gapped::since;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, OfTraffic, Starts};
use crate::exchange::{Cause, End, Failure, Got};
use crate::floor::meeting::{MEET_TIMEOUT, Meeting};
use crate::launch::{LaunchRequest, WorkerMessage};
use crate::payload::Verifier;
use crate::session::{self, GOODBYE, READY};

/// The end that connects and closes.
pub(crate) fn client(
    mechanism: Mechanism,
    connects: u32,
    request: &LaunchRequest,
) -> Result<(), Failure> {
    let meeting = Meeting::connect(&request.meet_at)?;
    session::measure_all(request, (None, Vec::new()), |job| {
        measure(mechanism, connects, request, &meeting, job)
    })?;
    meeting.say(GOODBYE)
}

/// The end that accepts and notices.
pub(crate) fn server(request: &LaunchRequest) -> Result<(), Failure> {
    let listener = Listener::bind(&channel_address(request))?;
    let meeting = Meeting::accept(&request.meet_at, || session::write(&WorkerMessage::Ready))?;
    let options = Options { wait: Some(request.wait), ..Options::offering(MechanismSet::ALL) };
    let Some(&cell) = request.cells.first() else { return Ok(()) };
    let (requests, replies) = (cell.requests(request.seed), cell.replies(request.seed));
    loop {
        match meeting.hear()?.as_str() {
            GOODBYE => return Ok(()),
            WORD => meeting.say(WORD)?,
            _ => {
                session::misbehave(request.fault)?;
                meeting.say(READY)?;
                let until = Deadline::after(MEET_TIMEOUT);
                let mut end = ChannelEnd::new(listener.accept(until, &options)?)?;
                let mut verifier = Verifier::new(&requests, 0);
                if end.receive(&mut verifier)? != Got::Message {
                    return Err(Failure::other("no message on a new connection"));
                }
                end.send(&replies, 0)?;
                match end.receive(&mut verifier) {
                    Err(failure) if failure.text == ReceiveError::PeerGone.to_string() => {}
                    Err(failure) => return Err(failure),
                    Ok(_) => return Err(Failure::other("a message where a close was due")),
                }
                meeting.say(GONE)?;
            }
        }
    }
}

fn measure(
    mechanism: Mechanism,
    connects: u32,
    request: &LaunchRequest,
    meeting: &Meeting,
    job: &Job,
) -> Result<Measured, Failure> {
    let address = channel_address(request);
    let options = Options { wait: Some(request.wait), ..Options::default() };
    let (mut set_ups, mut firsts) = (present(), present());
    let (mut closes, mut tear_downs, mut words) = (present(), present(), present());
    let (mut fresh, mut made) = (None, 0);
    let before = Counts::before()?;
    let begin_ns = clock::monotonic_ns();
    while made < connects.max(CONNECTS_MIN) {
        // What takes long on some machine has a limit.
        if made >= CONNECTS_MIN && clock::monotonic_ns() - begin_ns > job.budget_ns {
            break;
        }
        words.record(word_ns(meeting)?);
        say_and_hear(meeting, NEXT, READY)?;
        clock::pause(SETTLE);
        let start_ns = clock::monotonic_ns();
        let endpoint = connect(&address, mechanism, &options)?;
        let set_up_ns = since(start_ns);
        let mut end = ChannelEnd::new(endpoint)?;
        let first_ns = first_ns(&mut end, job)?;
        let start_ns = clock::monotonic_ns();
        drop(end);
        let close_ns = since(start_ns);
        hear(meeting, GONE)?;
        let tear_down_ns = since(start_ns);
        made += 1;
        closes.record(close_ns);
        tear_downs.record(tear_down_ns);
        if fresh.is_none() {
            fresh = Some([set_up_ns, first_ns]);
        } else {
            set_ups.record(set_up_ns);
            firsts.record(first_ns);
        }
    }
    let elapsed_ns = since(begin_ns);
    let client = before.report(0, u64::from(made))?;
    let [fresh_set_up_ns, fresh_first_ns] = fresh.unwrap_or_default();
    Ok(Measured {
        client,
        messages: u64::from(made),
        elapsed_ns,
        first_message_ns: Some(fresh_first_ns),
        traffic: Some(OfTraffic::Start(Box::new(Starts {
            connects: made,
            fresh_set_up_ns,
            fresh_first_ns,
            firsts: firsts.to_stored(),
            closes: closes.to_stored(),
            tear_downs: tear_downs.to_stored(),
            word_ns: words.median_ns().map(|ns| ns / 2.0),
        }))),
        ..Measured::of(&set_ups)
    })
}

fn first_ns(end: &mut ChannelEnd, job: &Job) -> Result<u64, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    Exchange::new(end, job, &payload, &replies).timed_ns()
}

/// A round trip of the line beside the channel.
fn word_ns(meeting: &Meeting) -> Result<u64, Failure> {
    let start_ns = clock::monotonic_ns();
    say_and_hear(meeting, WORD, WORD)?;
    Ok(since(start_ns))
}

fn say_and_hear(meeting: &Meeting, text: &str, expected: &str) -> Result<(), Failure> {
    meeting.say(text)?;
    hear(meeting, expected)
}

fn hear(meeting: &Meeting, expected: &str) -> Result<(), Failure> {
    match meeting.hear()? {
        text if text == expected => Ok(()),
        text => Err(Failure {
            cause: Cause::Other,
            text: format!("{text:?} where {expected:?} was due"),
        }),
    }
}

fn channel_address(request: &LaunchRequest) -> Address {
    Address::Abstract(format!("{}-channel", request.meet_at))
}

const NEXT: &str = "next";
const WORD: &str = "word";
const GONE: &str = "gone";

/// The server sleeps in its `accept` by then.
const SETTLE: Duration = Duration::from_micros(200);

/// The first, and as many others as a median needs.
const CONNECTS_MIN: u32 = 22;
