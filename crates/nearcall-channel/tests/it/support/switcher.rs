//! An end that talks all the time while its connection changes to another mechanism.
//!
//! Both ends take part in the same number of rounds. In each, an end sends some messages and then
//! receives those of the other end's round, so that messages are under way both ways.
//!
//! **Invariants:** each message has its number and bytes that follow from it; both ends judge both.
//! **Not here:** which mechanisms, and what is left behind (`switching.rs` of the cases).

use nearcall_channel::{Deadline, Endpoint, Handshake, HandshakeError, Mechanism, Options};

use super::bytes::{expect_pattern, pattern};
use super::patient;

/// Rounds that a change takes at most: each step of the handshake is heard of in the next round.
const ROUNDS: u64 = 9;
const LARGE_BYTES: usize = 100 << 10;
/// A message begins with what it is and its number.
const HEADER_BYTES: usize = 9;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    /// The last of a round.
    Round,
    /// The line of a handshake was passed.
    Begin,
    /// The sender has advanced.
    Step,
    /// The last of the sender on the old channel.
    Last,
    /// The old channel may go.
    Done,
}

const KINDS: [Kind; 6] = [Kind::Data, Kind::Round, Kind::Begin, Kind::Step, Kind::Last, Kind::Done];

/// One end of a connection that changes its mechanism.
pub(crate) struct Switcher {
    is_client: bool,
    options: Options,
    old: Endpoint,
    new: Option<Endpoint>,
    sends_new: bool,
    receives_new: bool,
    handshake: Option<Handshake>,
    /// The server's, until the client has left it.
    retired: Option<Endpoint>,
    words: Vec<Kind>,
    sent: u64,
    received: u64,
    switches: usize,
}

impl Switcher {
    pub(crate) fn new(endpoint: Endpoint, is_client: bool, options: &Options) -> Self {
        Self {
            is_client,
            options: options.clone(),
            old: endpoint,
            new: None,
            sends_new: false,
            receives_new: false,
            handshake: None,
            retired: None,
            words: Vec::new(),
            sent: 0,
            received: 0,
            switches: 0,
        }
    }

    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.old
    }

    /// Changes to `mechanism`, which both ends do at the same time, and talks meanwhile.
    #[track_caller]
    pub(crate) fn switch_to(&mut self, mechanism: Mechanism, with_large: bool) {
        let (switches, from) = (self.switches, self.old.mechanism());
        if self.is_client {
            let begun = self.old.begin_switch(mechanism, &self.options);
            self.handshake = Some(begun.unwrap_or_else(|error| panic!("{mechanism}: {error}")));
            self.words.push(Kind::Begin);
        }
        for round in 0..ROUNDS {
            self.round(with_large && (round % 2 == 0) == self.is_client);
        }
        let is_over = self.new.is_none() && self.handshake.is_none() && self.retired.is_none();
        assert!(is_over && self.switches == switches + 1, "from {from} to {mechanism}: not over");
        assert_eq!(self.old.mechanism(), mechanism);
    }

    /// Sends some messages, with a large one among them, and receives those of the other end.
    #[track_caller]
    pub(crate) fn round(&mut self, with_large: bool) {
        for word in std::mem::take(&mut self.words) {
            self.send_data(self.len_of_next());
            self.send(word, &[]);
            if word == Kind::Last {
                self.sender().flush(patient()).unwrap();
                self.sends_new = true;
                self.move_over();
            }
        }
        self.send_data(self.len_of_next());
        if with_large {
            self.send_data(LARGE_BYTES);
        }
        self.send(Kind::Round, &[]);
        self.sender().flush(patient()).unwrap();
        while self.receive() != Kind::Round {}
    }

    fn len_of_next(&self) -> usize {
        (self.sent * 7 % 190) as usize
    }

    fn send_data(&mut self, len: usize) {
        let bytes = pattern(self.sent, len);
        self.send(Kind::Data, &bytes);
    }

    fn send(&mut self, kind: Kind, bytes: &[u8]) {
        let mut message = vec![kind as u8];
        message.extend(self.sent.to_le_bytes());
        message.extend(bytes);
        self.sent += 1;
        self.sender().send(&message, patient()).unwrap();
    }

    fn sender(&mut self) -> &mut Endpoint {
        match (&mut self.new, self.sends_new) {
            (Some(new), true) => new,
            _ => &mut self.old,
        }
    }

    fn receive(&mut self) -> Kind {
        let receiver = match (&mut self.new, self.receives_new) {
            (Some(new), true) => new,
            _ => &mut self.old,
        };
        let mut message = Vec::new();
        receiver.receive(patient()).unwrap().read_to_end(&mut message).unwrap();
        let (header, bytes) = message.split_at(HEADER_BYTES);
        let number = u64::from_le_bytes(header[1..].try_into().unwrap());
        assert_eq!(number, self.received, "lost, repeated or overtaken");
        self.received += 1;
        let kind = KINDS[usize::from(header[0])];
        match kind {
            Kind::Data => expect_pattern(bytes, number, bytes.len()),
            Kind::Round => {}
            Kind::Begin => {
                self.handshake = Some(self.old.serve_switch(&self.options).unwrap());
                self.advance();
            }
            Kind::Step => self.advance(),
            Kind::Last => {
                self.receives_new = true;
                if !self.is_client {
                    self.words.push(Kind::Last);
                }
                self.move_over();
            }
            Kind::Done => self.retired = None,
        }
        kind
    }

    /// Takes the steps of the handshake that it may take now.
    fn advance(&mut self) {
        let Some(handshake) = &mut self.handshake else { return };
        let outcome: Result<_, HandshakeError> = handshake.advance();
        let is_done = match outcome.unwrap() {
            Some(endpoint) => {
                self.handshake = None;
                self.new = Some(endpoint);
                true
            }
            None => false,
        };
        let is_last = self.is_client && is_done;
        self.words.push(if is_last { Kind::Last } else { Kind::Step });
    }

    /// Leaves the old channel once both directions have moved.
    fn move_over(&mut self) {
        if !(self.sends_new && self.receives_new) {
            return;
        }
        let old = std::mem::replace(&mut self.old, self.new.take().unwrap());
        (self.sends_new, self.receives_new) = (false, false);
        self.switches += 1;
        if self.is_client {
            drop(old);
            self.words.push(Kind::Done);
        } else {
            self.retired = Some(old);
        }
    }

    /// Demands that nothing more comes.
    #[track_caller]
    pub(crate) fn expect_nothing_more(&mut self) {
        assert!(self.old.receive(Deadline::NOW).is_err());
    }
}
