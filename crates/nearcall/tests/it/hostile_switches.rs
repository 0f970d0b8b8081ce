//! Servers that misuse what a client does for them: asks to switch, and invitations to a meeting.
//!
//! **Invariants:** each is a server by hand, which answers calls all the while, so that the client
//! can show that it goes on.
//! **Not here:** clients that misuse a server (`half_switches.rs`), processes that come uninvited
//! (`tests/faults/meetings.rs`).

use std::thread::{self, JoinHandle};

use nearcall_channel::{
    Address, Endpoint, Invitation, Invited, Listener, MechanismSet, Options, ReceiveError,
};
use nearcall_wire::{Frame, Payload, SwitchReason, SwitchStep};

use crate::half_switches::{frame, send, step_of};
use crate::raw_frames::echo_object;
use crate::stage::prelude::*;
use crate::support::hello;

/// What such a server has counted when its client has gone.
#[derive(Debug, Default)]
struct Counts {
    asks: u64,
    /// Asks that the client has begun to follow.
    begun: u64,
    /// Asks that the client has declined because they come too often.
    too_often: u64,
    /// Times that the client has asked for an invitation.
    meets: u64,
}

/// Makes the body of an answer to a request for this invitation.
type Invite = fn(&Invitation) -> Vec<u8>;

/// One client of a server by hand.
struct ByHand {
    endpoint: Endpoint,
    /// Of the mechanism to ask for.
    mechanism: u32,
    asks_per_call: u64,
    invitation: Invite,
    /// It refuses each switch that the client begins. Otherwise it says nothing.
    refuses: bool,
    counts: Counts,
}

impl ByHand {
    /// Serves the client until it has gone.
    fn serve(mut self) -> Counts {
        let mut invited = Vec::new();
        send(&mut self.endpoint, &hello(1, 2));
        while let Some(message) = self.receive() {
            match Frame::decode(&message, message.len()) {
                Ok(Frame::Call { id, object, .. }) if object == echo_object() => {
                    (0..self.asks_per_call).for_each(|_| self.ask());
                    self.reply(Frame::Reply { id, payload: Payload::EMPTY }, &[]);
                }
                Ok(Frame::Call { id, .. }) => {
                    self.counts.meets += 1;
                    let guest = *message.last_chunk().unwrap();
                    invited.push(Invited::new(guest, None).unwrap());
                    let body = (self.invitation)(invited.last().unwrap().invitation());
                    let payload = Payload::new(0, body.len()).unwrap();
                    self.reply(Frame::Reply { id, payload }, &body);
                }
                Ok(Frame::Switch { number, step: SwitchStep::Begin { .. } }) => self.refuse(number),
                _ => {}
            }
        }
        self.counts
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.endpoint.receive(Deadline::after(PATIENCE)) {
            Ok(mut message) => message.read_to_end(&mut bytes).unwrap(),
            Err(ReceiveError::PeerGone) => return None,
            Err(error) => panic!("neither a message nor an end: {error}"),
        }
        Some(bytes)
    }

    fn reply(&mut self, head: Frame, body: &[u8]) {
        send(&mut self.endpoint, &[&head.encode()[..], body].concat());
    }

    /// Asks, and receives the answer.
    fn ask(&mut self) {
        self.counts.asks += 1;
        let step = SwitchStep::Ask { mechanism: self.mechanism };
        send(&mut self.endpoint, &frame(self.counts.asks, step));
        loop {
            let message = self.receive().expect("the client goes on");
            match (step_of(&message), Frame::decode(&message, message.len())) {
                (Some(SwitchStep::Decline(reason)), _) => {
                    self.counts.too_often += u64::from(reason == SwitchReason::TooOften);
                    return;
                }
                (Some(SwitchStep::Begin { .. }), Ok(Frame::Switch { number, .. })) => {
                    self.counts.begun += 1;
                    return self.refuse(number);
                }
                _ => {}
            }
        }
    }

    fn refuse(&mut self, number: u64) {
        if self.refuses {
            // Takes the line and closes it.
            drop(self.endpoint.serve_switch(&Options::default()));
            let refusal = SwitchStep::Refuse(SwitchReason::Failed);
            send(&mut self.endpoint, &frame(number, refusal));
        }
    }
}

/// Starts such a server, for one client.
fn start(
    address: &str,
    make: impl FnOnce(Endpoint) -> ByHand + Send + 'static,
) -> (Address, JoinHandle<Counts>) {
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    let at = listener.address().clone();
    let thread = thread::spawn(move || {
        let options = Options { offered: MechanismSet::ALL, ..Options::default() };
        make(listener.accept(Deadline::after(PATIENCE), &options).unwrap()).serve()
    });
    (at, thread)
}

/// The number of a mechanism in an ask.
fn mechanism_id(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Asks that a client follows within a minute.
const FOLLOWED_MAX: u64 = 600;

#[timed]
fn a_client_follows_so_many_asks_of_a_flood_and_goes_on() {
    for (name, in_loop) in [("pipe", false), ("pipe", true), ("no such", false)] {
        let (at, server) = start(&unique_address(), move |endpoint| ByHand {
            endpoint,
            mechanism: mechanism_id(name),
            asks_per_call: 250,
            invitation: |_| Vec::new(),
            refuses: true,
            counts: Counts::default(),
        });
        let event_loop = EventLoop::new().unwrap();
        let client = if in_loop { Client::in_loop(&event_loop) } else { Client::new() };
        let echo = EchoCaller::new(&client, &format!("{at}?via=shm")).unwrap();
        for _ in 0..4 {
            echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&()).unwrap();
        }
        let connection = &client.connections()[0];
        assert_eq!(connection.mechanism, Mechanism::Shm);
        assert!(connection.switches.len() <= 8, "{}", connection.switches.len());
        drop((echo, client));
        let counts = server.join().unwrap();
        assert_eq!(counts.asks, 1_000, "{name}: {counts:?}");
        // A few more, if the flood lasts for seconds.
        let taken = counts.asks - counts.too_often;
        assert!((FOLLOWED_MAX..900).contains(&taken), "{name}: {counts:?}");
        let followed = if name == "pipe" { taken } else { 0 };
        assert_eq!(counts.begun, followed, "{name}: {counts:?}");
    }
}

/// Requests for an invitation that one connection makes at most.
const MEETS_MAX: u64 = 4;

/// Calls in whose waits the client could take all steps of its tries.
const CALLS: u64 = 200;

#[timed]
fn a_client_whose_server_invites_it_in_vain_stays_on_tcp_and_goes_on() {
    let cases: [(&str, Invite, bool); 5] = [
        ("silent at a meeting", encoded, false),
        ("refuses what it has asked for", encoded, true),
        ("no meeting", |real| encoded(&Invitation { number: [0; 16], ..*real }), false),
        ("another place", |real| encoded(&Invitation { place: 7, ..*real }), false),
        ("no invitation", |_| vec![0xff; 40], false),
    ];
    for (what, invitation, refuses) in cases {
        let (at, server) = start("tcp://127.0.0.1:0", move |endpoint| ByHand {
            endpoint,
            mechanism: 0,
            asks_per_call: 0,
            invitation,
            refuses,
            counts: Counts::default(),
        });
        let client = Client::new();
        let echo = EchoCaller::new(&client, &at.to_string()).unwrap();
        for _ in 0..CALLS {
            echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&()).unwrap();
        }
        let connection = &client.connections()[0];
        assert_eq!(connection.mechanism, Mechanism::Tcp, "{what}");
        assert!(connection.switches.len() as u64 <= MEETS_MAX, "{what}: {connection:?}");
        drop((echo, client));
        let counts = server.join().unwrap();
        assert!((1..=MEETS_MAX).contains(&counts.meets), "{what}: {counts:?}");
    }
}

/// As it travels.
fn encoded(invitation: &Invitation) -> Vec<u8> {
    let place = invitation.place.to_le_bytes();
    [&[0x0a, 16][..], &invitation.number, &[0x11], &place].concat()
}
