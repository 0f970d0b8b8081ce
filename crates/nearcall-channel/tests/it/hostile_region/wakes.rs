//! Wake-ups that are lost, that come for nothing, and that come all the time; signals likewise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nearcall_os::region::{OwnRegion, PeerRegion};
use nearcall_os::signal::{Caught, Signal, send_to_thread};
use nearcall_os::{futex, socket};

use crate::support::prelude::*;
use crate::support::raw::{ACCEPT, FRAMES, READY, RING_BYTES, RawLine, good_region, hello};

/// A wait that ends by its deadline.
const SHORT: Duration = Duration::from_millis(30);
/// How long a storm lasts.
const STORM: Duration = Duration::from_millis(600);
/// Where an end of a ring says that it sleeps, and where the word is on which it does.
const SLEEP_WORDS: [usize; 2] = [128, 256];

fn listen(play: &Play) -> (String, Options) {
    let options = Options { buffer_bytes: RING_BYTES, ..play.options() };
    (format!("nearcall-wakes-{:016x}", play.seed), options)
}

fn accept(play: &Play) -> Endpoint {
    let (name, options) = listen(play);
    let listener = Listener::bind(&format!("unix:@{name}").parse().unwrap()).unwrap();
    listener.accept(patient(), &options).unwrap()
}

/// A client by hand: its line, its own memory, and what the server has offered.
struct RawClient {
    _line: RawLine,
    own: OwnRegion,
    offered: Vec<OwnedFd>,
}

fn connect_raw(play: &Play) -> RawClient {
    let (name, _) = listen(play);
    let line = RawLine::connect(&name, play.mechanism);
    line.send(&hello(VERSION, 4 << 20, RING_BYTES, play.mechanism.name().as_bytes()), &[]);
    let (_, offered) = line.receive();
    let (own, fd) = good_region();
    line.send(&[ACCEPT], &[fd]);
    assert_eq!(line.receive().0, [READY]);
    RawClient { _line: line, own, offered }
}

/// The first message, of eight bytes, as a frame that lies in the ring whole.
fn publish(own: &mut OwnRegion) {
    own.write(FRAMES + 8, &7_u64.to_le_bytes());
    let word = 8 | 8 << 32 | 1 << 63 | 1 << 60;
    own.word64(FRAMES).store(word, Ordering::Release);
}

#[track_caller]
fn wait_in_vain(endpoint: &mut Endpoint, wait: Duration) {
    let start = clock::now();
    expect_err!(endpoint.receive(Deadline::after(wait)), ReceiveError::Empty);
    let took = start.elapsed();
    assert!(took >= wait, "a wait of {wait:?} ended after {took:?}");
    assert!(took < wait + PATIENCE, "a wait of {wait:?} ended after {took:?}");
}

/// A peer that never wakes us delays its own messages, until the deadline at most, and cannot hide
/// its death.
pub(super) fn r20_a_peer_that_never_wakes_delays_its_own_messages_only(play: &mut Play) {
    if !play.is_first() {
        let mut raw = connect_raw(play);
        play.hear();
        publish(&mut raw.own);
        play.tell(0);
        play.hear();
        play.tell(clock::monotonic_ns());
        drop(raw);
        play.hear();
        return;
    }
    let mut endpoint = accept(play);
    wait_in_vain(&mut endpoint, SHORT);
    play.tell(0);
    // The message may be found before the sleep, at its end, or by the next look: not later.
    let first = endpoint.receive(Deadline::after(SHORT)).map(|message| message.len());
    play.hear();
    match first {
        Ok(bytes) => assert_eq!(bytes, 8),
        Err(ReceiveError::Empty) => {
            assert_eq!(endpoint.receive(Deadline::after(SHORT)).unwrap().len(), 8);
        }
        Err(error) => panic!("{error:?}"),
    }
    play.tell(0);
    let gone = play.hear_of_close();
    expect_err!(endpoint.receive(Deadline::after(PATIENCE)), ReceiveError::PeerGone);
    gone.now("a peer that never woke us", play);
    play.tell(0);
}

/// A peer that wakes us all the time neither ends a wait early nor loses a message of its own.
pub(super) fn r20_wakes_at_full_speed_end_no_wait_early(play: &mut Play) {
    if !play.is_first() {
        let mut raw = connect_raw(play);
        let wakes = storm(&raw, || play.is_told());
        note(&format!("{wakes} wake-ups for nothing"));
        play.hear();
        publish(&mut raw.own);
        storm(&raw, || play.is_told());
        play.hear();
        return;
    }
    let mut endpoint = accept(play);
    let end = clock::now() + STORM;
    while clock::now() < end {
        wait_in_vain(&mut endpoint, SHORT);
    }
    play.tell(0);
    assert_eq!(endpoint.receive(patient()).unwrap().len(), 8);
    play.tell(0);
}

/// Rings whatever doorbell the server has until `is_over`. Returns how often.
fn storm(raw: &RawClient, is_over: impl Fn() -> bool) -> u64 {
    let bytes = raw.own.len();
    let server = PeerRegion::open(&raw.offered[0], bytes..=bytes).unwrap();
    let end = clock::now() + PATIENCE;
    let mut rings = 0;
    while !is_over() && clock::now() < end {
        for _ in 0..1000 {
            for word in SLEEP_WORDS {
                futex::wake(server.futex_word(word), u32::MAX);
            }
            for bell in &raw.offered[1..] {
                let _ = socket::try_send(bell, &[1]);
            }
            rings += 1;
        }
    }
    rings
}

/// Signals that interrupt every system call change nothing that a user sees.
pub(super) fn r20_signals_at_full_speed_end_no_wait_early(play: &mut Play) {
    let mut endpoint = play.meet();
    if !play.is_first() {
        while let Ok(message) = endpoint.receive(Deadline::NEVER).map(|message| message.len()) {
            endpoint.send(&vec![1; message], Deadline::NEVER).unwrap();
        }
        return;
    }
    let caught = Caught::new(Signal::USR1, None::<OwnedFd>).unwrap();
    let (pid, tid, is_over) = (process::pid(), process::tid(), AtomicBool::new(false));
    let before = caught.count();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                send_to_thread(pid, tid, Signal::USR1).unwrap();
            }
        });
        let outcome = calls_and_waits(&mut endpoint);
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    note(&format!("{} signals", caught.count().wrapping_sub(before)));
}

fn calls_and_waits(endpoint: &mut Endpoint) -> Result<(), String> {
    let end = clock::now() + STORM;
    let mut message = Vec::new();
    for length in (0..).map(|round: usize| round * 977 % 40_000) {
        endpoint.send(&vec![7; length], patient()).map_err(|error: SendError| error.to_string())?;
        let received = endpoint.receive(patient()).and_then(|mut it| it.read_to_end(&mut message));
        received.map_err(|error| error.to_string())?;
        let start: Instant = clock::now();
        match endpoint.receive(Deadline::after(SHORT / 10)).map(drop) {
            Err(ReceiveError::Empty) if start.elapsed() >= SHORT / 10 => {}
            other => return Err(format!("{other:?} after {:?}", start.elapsed())),
        }
        if clock::now() >= end {
            return Ok(());
        }
    }
    Ok(())
}
