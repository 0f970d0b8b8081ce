//! What hostile clients do: each function is a process that goes on until it is killed.
//!
//! **Invariants:** each reports `begun` when the server has taken its first blow, so that an attack
//! that does nothing fails; each goes on, whatever the server refuses; none of them needs more of
//! this machine than one processor.

use std::collections::VecDeque;

use nearcall::Bytes;
use nearcall_channel::{Endpoint, Handshake, Interest, Options, SendError, connect};
use nearcall_os::process;
use nearcall_os::socket::{UnixAddress, try_send, unix_connect};
use nearcall_wire::{Frame, SwitchReason, SwitchStep};

use crate::echo::{Parcel, Span, StoreCaller};
use crate::raw_frames::call;
use crate::stress::{Job, StressCaller};
use crate::support::hello;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("mechanisms", ask_for_mechanisms),
    ("segments", lend_segments),
    ("nested-waits", wait_below_others),
    ("decoding-bombs", send_bombs),
    ("half-messages", send_halves),
    ("non-readers", read_nothing),
    ("connections", take_descriptors),
    ("control-packets", flood_control),
    ("half-handshakes", greet_nobody),
    ("streams", flood_streams),
    ("switches", begin_switches),
    ("one-ways", flood_oneways),
    ("fast-calls", call_without_pause),
    ("empty-wakes", wake_for_nothing),
];

/// Connections that an attack holds at the same time.
const HELD: usize = 64;
/// Pause between two rounds of an attack whose strength is what it holds.
const ROUND: Duration = Duration::from_millis(20);
/// Longest wait for the server in one step.
const STEP: Duration = Duration::from_secs(1);
/// Descriptors that an attacker may have.
const DESCRIPTORS: u64 = 4096;
/// The longest message by default, but for its header and a few tags.
const LONG: usize = (4 << 20) - 4096;

/// Reports the first blow, once.
#[derive(Default)]
struct Begun(bool);

impl Begun {
    fn note(&mut self) {
        if !std::mem::replace(&mut self.0, true) {
            report("begun");
        }
    }
}

/// A channel on which both have greeted, unless the server refuses.
fn channel(address: &str, mechanism: Mechanism) -> Option<Endpoint> {
    channel_of(address, mechanism, 1)
}

/// Works like [`channel`], with the newest version of the protocol that the client greets by.
fn channel_of(address: &str, mechanism: Mechanism, version: u16) -> Option<Endpoint> {
    let options = Options { handshake_timeout: STEP, ..Options::default() };
    let mut endpoint = connect(&address.parse().unwrap(), mechanism, &options).ok()?;
    let soon = || Deadline::after(STEP);
    let greeting = &mut [0; 4096];
    endpoint.receive_into(greeting, soon()).ok()?;
    endpoint.send(&hello(1, version), soon()).ok()?;
    Some(endpoint)
}

/// Asks for each mechanism there is, calls over those that it gets, reads nothing, and holds them.
fn ask_for_mechanisms(address: &str) {
    let mut begun = Begun::default();
    loop {
        let mut held = Vec::new();
        for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
            if let Some(mut endpoint) = channel(address, mechanism) {
                let _ = endpoint.send(&call(1 << 16, "Nothing", &[], &[]), Deadline::NOW);
                endpoint.discard_unsent();
                held.push(endpoint);
            }
        }
        begun.note();
        clock::pause(ROUND);
    }
}

/// Lends as many segments as it may over as many connections as it may, in messages that name them.
fn lend_segments(address: &str) {
    let _ = process::raise_descriptor_limit(DESCRIPTORS);
    let mut begun = Begun::default();
    loop {
        let mut held = Vec::new();
        for _ in 0..HELD {
            // Each client has a connection of its own.
            let store = StoreCaller::new(&Client::new(), address).unwrap();
            let _ = store.forget(&Span::default());
            let mut parcel = Parcel::default();
            while parcel.more.len() < HELD
                && let Ok(loan) = store.with(CallOptions::new().no_wait()).loan(LONG / HELD)
            {
                parcel.more.push(loan.freeze());
            }
            if store.with(CallOptions::new().no_wait()).start_put(&parcel).ensure_started().is_ok()
            {
                begun.note();
            }
            held.push((store, parcel));
        }
        clock::pause(ROUND);
    }
}

/// Opens streams that the service waits for in its loop, each inside of the one before, and sends
/// nothing.
fn wait_below_others(address: &str) {
    let mut begun = Begun::default();
    loop {
        let client = Client::new();
        let stress = StressCaller::new(&client, address).unwrap();
        let held: Vec<_> = (0..HELD).map_while(|_| stress.upload().ok()).collect();
        if !held.is_empty() {
            begun.note();
        }
        clock::pause(STEP);
        drop(held);
    }
}

/// Sends messages of 4 MiB that become as much as possible when they are decoded.
fn send_bombs(address: &str) {
    let mut begun = Begun::default();
    let store = StoreCaller::new(&Client::new(), address).unwrap();
    // A tag and a length for each.
    let bomb = Parcel { more: vec![Bytes::new(); LONG / 2], ..Parcel::default() };
    loop {
        // Refused or not, the server has looked at it.
        let _ = store.put(&bomb);
        begun.note();
    }
}

/// Sends the first half of long messages over many connections, and never the second.
fn send_halves(address: &str) {
    let mut begun = Begun::default();
    let half = vec![0; LONG / 2];
    loop {
        let mut held = Vec::new();
        for _ in 0..HELD {
            let Some(mut endpoint) = channel(address, Mechanism::UnixStream) else { continue };
            if let Ok(mut claim) = endpoint.claim(LONG, Deadline::after(STEP)) {
                if claim.write(&half).is_ok() {
                    begun.note();
                }
                // Dropping it would tell the server that the rest does not come.
                std::mem::forget(claim);
            }
            endpoint.discard_unsent();
            held.push(endpoint);
        }
        clock::pause(STEP);
    }
}

/// Asks for replies over many connections and reads none. Those whose requests the server reads no
/// more are held, and replaced when it cuts them off.
fn read_nothing(address: &str) {
    let mut begun = Begun::default();
    let mut held: VecDeque<(Endpoint, u64)> = VecDeque::new();
    loop {
        while held.len() < HELD
            && let Some(endpoint) = channel(address, Mechanism::UnixStream)
        {
            held.push_back((endpoint, 0));
        }
        let Some((mut endpoint, mut asked)) = held.pop_front() else { continue };
        // Ids are used in turn: 256 slots, each with a new generation.
        let mut ask = || {
            let id = ((asked / 256 + 1) << 16) | (asked % 256);
            let sent = endpoint.send(&call(id, "Fail", &[], &[0x08, 0x03]), Deadline::NOW);
            asked += u64::from(sent.is_ok());
            sent
        };
        let sent = (0..256).try_for_each(|_| ask());
        begun.note();
        if sent.is_err() {
            clock::pause(ROUND / 20);
        }
        match sent {
            Ok(()) | Err(SendError::Full) => held.push_back((endpoint, asked)),
            Err(_) => endpoint.discard_unsent(),
        }
    }
}

/// Connects as often as the server or this machine lets it, and goes on with the oldest replaced.
fn take_descriptors(address: &str) {
    let _ = process::raise_descriptor_limit(DESCRIPTORS);
    let mut begun = Begun::default();
    let mut held = VecDeque::new();
    loop {
        match channel(address, Mechanism::Shm) {
            Some(endpoint) => {
                held.push_back(endpoint);
                begun.note();
            }
            None => drop(held.pop_front()),
        }
    }
}

/// Sends packets beside the channel as fast as the server takes them.
fn flood_control(address: &str) {
    let mut begun = Begun::default();
    let null = std::fs::File::open("/dev/null").unwrap();
    loop {
        let Some(mut endpoint) = channel(address, Mechanism::Shm) else { continue };
        while matches!(endpoint.pass_descriptors(&[null.as_fd()]), Ok(()) | Err(SendError::Full)) {
            begun.note();
        }
        endpoint.discard_unsent();
    }
}

/// Connects and says nothing, again and again.
fn greet_nobody(address: &str) {
    let mut begun = Begun::default();
    let name = address.strip_prefix("unix:@").unwrap().as_bytes();
    let mut held = VecDeque::new();
    loop {
        if let Ok(socket) = unix_connect(UnixAddress::Abstract(name), ROUND) {
            held.push_back(socket);
        }
        if held.len() > 4 * HELD {
            held.pop_front();
        }
        begun.note();
    }
}

/// Opens streams and sends items into them without reading what comes back.
fn flood_streams(address: &str) {
    let mut begun = Begun::default();
    let item = Job { padding: vec![0; 1024].into(), ..Job::default() };
    loop {
        let client = Client::new();
        let stress = StressCaller::new(&client, &format!("{address}#async")).unwrap();
        let mut held: Vec<_> = (0..HELD).map_while(|_| stress.chat().ok()).collect();
        for number in 0..1000 {
            let item = Job { number, ..item.clone() };
            held.retain_mut(|(requests, _)| requests.try_send(&item).is_ok());
            begun.note();
        }
    }
}

/// Begins switches over many connections, and leaves each where it is: with a line on which nothing
/// is said, with one that is closed, with one that is none, refused again and again, or open and
/// never used.
fn begin_switches(address: &str) {
    let _ = process::raise_descriptor_limit(DESCRIPTORS);
    let mut begun = Begun::default();
    let null = std::fs::File::open("/dev/null").unwrap();
    let all: Vec<_> = Mechanism::all().filter(|it| it.offered_by_default()).collect();
    let mut held = VecDeque::new();
    for number in 0.. {
        let Some(mut old) = channel_of(address, Mechanism::Shm, 2) else {
            drop(held.pop_front());
            continue;
        };
        let to = all[number / 5 % all.len()];
        let (mut opened, mut moved): (Option<Handshake>, Option<Endpoint>) = (None, None);
        match number % 5 {
            0 => opened = begin_switch(&mut old, 1, to),
            1 => drop(begin_switch(&mut old, 1, to)),
            2 => {
                let _ = old.pass_descriptors(&[null.as_fd()]);
                say(&mut old, 1, SwitchStep::Begin { ask: 0 });
            }
            3 => {
                for switch in 1..=HELD as u64 {
                    drop(begin_switch(&mut old, switch, to));
                    say(&mut old, switch, SwitchStep::Refuse(SwitchReason::Failed));
                }
            }
            _ => {
                opened = begin_switch(&mut old, 1, to);
                let _ = old.receive_into(&mut [0; 4096], Deadline::after(ROUND));
                let _ = opened.as_mut().map(Handshake::advance);
                say(&mut old, 1, SwitchStep::Step);
                let _ = old.receive_into(&mut [0; 4096], Deadline::after(ROUND));
                moved = opened.take().and_then(|handshake| handshake.complete().ok());
            }
        }
        begun.note();
        old.discard_unsent();
        held.push_back((old, opened, moved));
        if held.len() > HELD {
            drop(held.pop_front());
        }
    }
}

/// Hands over a line, and says so.
fn begin_switch(old: &mut Endpoint, number: u64, to: Mechanism) -> Option<Handshake> {
    let handshake = old.begin_switch(to, &Options::default()).ok()?;
    say(old, number, SwitchStep::Begin { ask: 0 });
    Some(handshake)
}

fn say(old: &mut Endpoint, number: u64, step: SwitchStep) {
    let _ = old.send(&Frame::Switch { number, step }.encode(), Deadline::after(ROUND));
    let _ = old.flush(Deadline::after(ROUND));
}

/// Sends one-way messages as fast as they go.
fn flood_oneways(address: &str) {
    let mut begun = Begun::default();
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    loop {
        let _ = echo.note(&Words { data: vec![0; 256].into(), ..Words::default() });
        begun.note();
    }
}

/// Rings the doorbell of a connection as fast as it can, and sends nothing.
fn wake_for_nothing(address: &str) {
    let mut begun = Begun::default();
    loop {
        let Some(endpoint) = channel(address, Mechanism::Shm) else { continue };
        let bell = endpoint.readiness(Interest::Receive).unwrap();
        while try_send(bell.fd, &[1]).is_ok() {
            begun.note();
        }
    }
}

/// Calls as fast as it can, and spins for the reply.
fn call_without_pause(address: &str) {
    let mut begun = Begun::default();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &format!("{address}?wait=spin")).unwrap();
    loop {
        let _ = echo.nothing(&());
        begun.note();
    }
}
