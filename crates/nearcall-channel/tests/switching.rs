//! Changes to another mechanism that fail leave the connection in use, and nothing behind.
//!
//! A program of its own, because other tests open descriptors as well.
//! **Not here:** changes that succeed (`it/conformance/switching.rs`, `it/switch.rs`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::{
    Address, BadOptions, CannotSwitch, Deadline, Endpoint, Handshake, HandshakeError, Listener,
    Mechanism, MechanismSet, Options, ReceiveError, Refusal, Rendezvous, SendError, Violation,
    WaitPolicy, accept_over, connect, connect_over,
};
use nearcall_os::capacity::Capacity;
use nearcall_os::descriptor::{self, receive_with_fds, send_with_fds};
use nearcall_os::socket::{self, Kind, unix_pair};
use nearcall_os::{fork, pipe};

/// Each counts what the process has, and some fork.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// First byte of the packet that passes a line.
const LINE: u8 = 0xD9;

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
const PATIENCE: Duration = Duration::from_secs(12);

/// Two ends of a connection within this process, and what it had before they met.
struct Connection {
    server: Endpoint,
    client: Endpoint,
    accounts: Accounts,
    charged: [u64; 3],
    open: usize,
}

fn all() -> Options {
    Options::offering(MechanismSet::ALL)
}

fn charged(accounts: &Accounts) -> [u64; 3] {
    [Resource::Descriptors, Resource::Mappings, Resource::Bytes].map(|it| accounts.used(it).0)
}

fn meet(mechanism: Mechanism, options: Options) -> (Endpoint, Endpoint) {
    let (ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || accept_over(ours, &options));
        let client = connect_over(theirs, mechanism, &Options::default());
        (server.join().unwrap().unwrap(), client.unwrap())
    })
}

impl Connection {
    fn open(mechanism: Mechanism) -> Self {
        Self::open_within(mechanism, 1 << 20)
    }

    /// Opens a connection whose server has room for so many descriptors of the client.
    fn open_within(mechanism: Mechanism, descriptors: u64) -> Self {
        // Half is for others.
        let capacity = Capacity { descriptors: 2 * descriptors, mappings: 1 << 20, bytes: 1 << 40 };
        let accounts = Accounts::new(&capacity);
        let account = Some(accounts.user(Some(7)));
        // The thread that watches for deaths has a descriptor, and stays.
        drop(meet(Mechanism::ShmFutex, all()));
        let (mut server, mut client) = meet(mechanism, Options { account, ..all() });
        // What carries longer messages is made for the first.
        talk(&mut server, &mut client);
        let (charged, open) = (charged(&accounts), descriptor::open_count().unwrap());
        Self { server, client, accounts, charged, open }
    }

    /// The options of the server's part in a change.
    fn served(&self) -> Options {
        Options { account: self.server.account().cloned(), ..all() }
    }

    /// Demands that all is as it was, and that a change succeeds.
    #[track_caller]
    fn expect_unchanged(mut self) {
        self.expect_in_use();
        let handshake = self.client.begin_switch(Mechanism::UnixStream, &all()).unwrap();
        let served = self.server.serve_switch(&self.served()).unwrap();
        let (server, client) = complete(served, handshake);
        let (mut server, mut client) = (server.unwrap(), client.unwrap());
        talk(&mut server, &mut client);
        drop((server, client));
        self.expect_in_use();
    }

    #[track_caller]
    fn expect_in_use(&mut self) {
        talk(&mut self.server, &mut self.client);
        assert_eq!(charged(&self.accounts), self.charged, "charged");
        assert_eq!(descriptor::open_count().unwrap(), self.open, "open descriptors");
    }

    /// Passes the server something as the line of a handshake.
    fn pass_raw(&self, fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        send_with_fds(self.client.control_fd(), &[LINE], &fds).unwrap();
    }
}

#[track_caller]
fn talk(one: &mut Endpoint, other: &mut Endpoint) {
    for (number, len) in (0_u8..).zip([0, 1, 500, 3000]) {
        let bytes = vec![number; len];
        tell(one, other, &bytes);
        tell(other, one, &bytes);
    }
}

#[track_caller]
fn tell(from: &mut Endpoint, to: &mut Endpoint, bytes: &[u8]) {
    from.send(bytes, Deadline::after(PATIENCE)).unwrap();
    let mut received = Vec::new();
    let mut message = to.receive(Deadline::after(PATIENCE)).unwrap();
    message.read_to_end(&mut received).unwrap();
    assert_eq!(received, bytes);
}

type Outcome = Result<Endpoint, HandshakeError>;

/// Lets both advance by turns, without any wait, until both are over.
#[track_caller]
fn complete(server: Handshake, client: Handshake) -> (Outcome, Outcome) {
    let mut ends = [(Some(server), None), (Some(client), None)];
    for _ in 0..20 {
        for (handshake, outcome) in &mut ends {
            let Some(under_way) = handshake else { continue };
            if let Some(over) = under_way.advance().transpose() {
                *outcome = Some(over);
                *handshake = None;
            }
        }
    }
    let [(_, server), (_, client)] = ends;
    (server.unwrap(), client.unwrap())
}

#[track_caller]
fn expect_cannot(outcome: Result<Handshake, HandshakeError>, expected: &CannotSwitch) {
    match outcome.err().unwrap() {
        HandshakeError::CannotSwitch(reason) => assert_eq!(reason, *expected),
        error => panic!("{error}"),
    }
}

/// A stranger's end of a pair, made in a process of its own.
fn pair_of_another_process() -> (OwnedFd, OwnedFd) {
    let (here, there) = unix_pair(Kind::Seqpacket).unwrap();
    let made = fork::run_in_child(|| {
        let (a, b) = unix_pair(Kind::Seqpacket).unwrap();
        let sent = send_with_fds(&there, b"pair", &[a.as_fd(), b.as_fd()]);
        u8::from(sent.is_err())
    });
    assert_eq!(made.unwrap(), 0);
    let received = receive_with_fds(&here, &mut [0; 8], 2).unwrap();
    let [a, b] = received.fds.try_into().unwrap();
    (a, b)
}

#[test]
fn a_mechanism_that_is_not_offered() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let handshake = connection.client.begin_switch(Mechanism::Pipe, &all()).unwrap();
    let options = Options { offered: MechanismSet::BY_DEFAULT, ..connection.served() };
    let served = connection.server.serve_switch(&options).unwrap();
    let (server, client) = complete(served, handshake);
    assert!(matches!(server, Err(HandshakeError::NotOffered { .. })));
    let Err(HandshakeError::Refused { code, .. }) = client else { panic!("not refused") };
    assert_eq!(code, Refusal::NotOffered);
    connection.expect_unchanged();
}

#[test]
fn options_that_cannot_be_had() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let bad = [
        Options { buffer_bytes: 1, ..all() },
        Options { message_bytes_max: u32::MAX, ..all() },
        Options { wait: Some(WaitPolicy::Poll), ..all() },
    ];
    for options in &bad {
        let refused = connection.client.begin_switch(Mechanism::ShmFutex, options).err().unwrap();
        assert!(matches!(refused, HandshakeError::BadOptions(_)), "{refused}");
        expect_cannot(connection.server.serve_switch(&all()), &CannotSwitch::NoLine);
    }
    for options in bad {
        let handshake = connection.client.begin_switch(Mechanism::ShmFutex, &all()).unwrap();
        let options = Options { account: connection.served().account, ..options };
        let served = connection.server.serve_switch(&options).unwrap();
        let (server, client) = complete(served, handshake);
        assert!(matches!(
            server,
            Err(HandshakeError::BadOptions(
                BadOptions::Buffer { .. }
                    | BadOptions::MessageLimit { .. }
                    | BadOptions::WaitPolicy { .. }
            ))
        ));
        let Err(HandshakeError::Refused { code, .. }) = client else { panic!("not refused") };
        assert_eq!(code, Refusal::Limits);
    }
    connection.expect_unchanged();
}

#[test]
fn the_smaller_limit_wins_again() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let asked = Options { message_bytes_max: 9000, buffer_bytes: 16_384, ..all() };
    let handshake = connection.client.begin_switch(Mechanism::Shm, &asked).unwrap();
    let options = Options { message_bytes_max: 5000, ..connection.served() };
    let served = connection.server.serve_switch(&options).unwrap();
    let (server, client) = complete(served, handshake);
    let (server, client) = (server.unwrap(), client.unwrap());
    for end in [&server, &client] {
        assert_eq!((end.message_bytes_max(), end.buffer_bytes()), (5000, 16_384));
        let (old, new) = (connection.server.peer(), end.peer());
        let number = |peer: &nearcall_channel::Peer| peer.process().map(|it| (it.pid, it.uid));
        assert_eq!(number(old), number(new));
        assert_eq!(old.process().unwrap().pidfd.is_some(), new.process().unwrap().pidfd.is_some());
    }
    drop((server, client));
    connection.expect_unchanged();
}

#[test]
fn an_account_without_room_for_the_line() {
    let _alone = alone();
    let held = Connection::open(Mechanism::UnixStream).charged[0];
    let mut connection = Connection::open_within(Mechanism::UnixStream, held);
    for _ in 0..3 {
        let mut handshake = connection.client.begin_switch(Mechanism::Shm, &all()).unwrap();
        let refused = connection.server.serve_switch(&connection.served()).err().unwrap();
        assert!(matches!(refused, HandshakeError::Exceeded(_)), "{refused}");
        let gone = handshake.advance().err().unwrap();
        assert!(matches!(gone, HandshakeError::PeerGone), "{gone}");
    }
    connection.expect_in_use();
}

#[test]
fn an_account_without_room_for_the_mechanism() {
    let _alone = alone();
    let held = Connection::open(Mechanism::UnixStream).charged[0];
    let mut connection = Connection::open_within(Mechanism::UnixStream, held + 1);
    let handshake = connection.client.begin_switch(Mechanism::Shm, &all()).unwrap();
    let served = connection.server.serve_switch(&connection.served()).unwrap();
    let (server, client) = complete(served, handshake);
    assert!(matches!(server, Err(HandshakeError::Exceeded(_))));
    let Err(HandshakeError::Refused { code, .. }) = client else { panic!("not refused") };
    assert_eq!(code, Refusal::Exhausted);
    connection.expect_in_use();
}

#[test]
fn either_end_gives_up_at_each_step() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    for step in 0..4 {
        // The client does; its line is taken or replaced.
        let mut client = connection.client.begin_switch(Mechanism::ShmUnix, &all()).unwrap();
        if step == 0 {
            drop(client);
            let client = connection.client.begin_switch(Mechanism::ShmUnix, &all()).unwrap();
            drop(client);
            let mut served = connection.server.serve_switch(&connection.served()).unwrap();
            assert!(matches!(served.advance(), Err(HandshakeError::PeerGone)));
            let mut served = connection.server.serve_switch(&connection.served()).unwrap();
            assert!(matches!(served.advance(), Err(HandshakeError::PeerGone)));
        } else {
            let mut served = connection.server.serve_switch(&connection.served()).unwrap();
            assert!(served.advance().unwrap().is_none());
            if step > 1 {
                assert!(client.advance().unwrap().is_none());
            }
            drop(client);
            match served.advance() {
                Err(error) => assert!(matches!(error, HandshakeError::PeerGone), "{error}"),
                // Its word that it is ready was sent before the client had gone.
                Ok(endpoint) => drop(endpoint),
            }
        }
        connection.expect_in_use();
        // The server does.
        let mut client = connection.client.begin_switch(Mechanism::ShmUnix, &all()).unwrap();
        let mut served = connection.server.serve_switch(&connection.served()).unwrap();
        for _ in 1..step {
            assert!(served.advance().unwrap().is_none());
        }
        match step % 2 {
            0 => drop(served),
            _ => served.refuse(Refusal::Draining, "no time"),
        }
        let error = loop {
            if let Err(error) = client.advance() {
                break error;
            }
        };
        let is_expected = matches!(error, HandshakeError::PeerGone)
            || matches!(error, HandshakeError::Refused { code: Refusal::Draining, .. });
        assert!(is_expected, "step {step}: {error}");
        drop(client);
        connection.expect_in_use();
    }
    connection.expect_unchanged();
}

#[test]
fn garbage_on_the_line() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    for garbage in [&b"GET / HTTP/1.1"[..], b"NEARCALL", &[4], &[0; 300]] {
        let (ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
        connection.pass_raw(&[&theirs]);
        socket::send(&ours, garbage).unwrap();
        let mut served = connection.server.serve_switch(&connection.served()).unwrap();
        let error = served.advance().err().unwrap();
        assert!(matches!(error, HandshakeError::PeerBroken(Violation::BadPacket)), "{error}");
    }
    connection.expect_unchanged();
}

#[test]
fn a_second_line_and_what_is_no_line_end_the_connection() {
    let _alone = alone();
    let (ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
    let (stream, _other) = unix_pair(Kind::Stream).unwrap();
    let (tcp, _tcp) = socket::tcp_pair().unwrap();
    let pipe = pipe::create().unwrap();
    let packets: [&[&OwnedFd]; 5] =
        [&[&theirs], &[&pipe.read], &[&stream], &[&tcp], &[&theirs, &theirs]];
    for fds in packets {
        let mut connection = Connection::open(Mechanism::Shm);
        if fds.len() == 1 {
            // It is still unread, and its other end open.
            connection.pass_raw(&[&theirs]);
            let none = connection.server.take_descriptors(Deadline::NOW).err().unwrap();
            assert!(matches!(none, ReceiveError::Empty), "{none}");
        }
        connection.pass_raw(fds);
        let broken = connection.server.take_descriptors(Deadline::NOW).err().unwrap();
        assert!(
            matches!(broken, ReceiveError::PeerBroken(Violation::BadPacket)),
            "{fds:?}: {broken}"
        );
    }
    for fd in [&pipe.read, &stream, &tcp] {
        let mut connection = Connection::open(Mechanism::Shm);
        connection.pass_raw(&[fd]);
        let broken = connection.server.serve_switch(&all()).err().unwrap();
        assert!(matches!(broken, HandshakeError::PeerBroken(Violation::BadPacket)), "{broken}");
    }
    drop(ours);
}

#[test]
fn a_line_that_its_client_has_closed_gives_way_to_the_next() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::UnixStream);
    for _ in 0..3 {
        drop(connection.client.begin_switch(Mechanism::Shm, &all()).unwrap());
        let none = connection.server.take_descriptors(Deadline::NOW).err().unwrap();
        assert!(matches!(none, ReceiveError::Empty), "{none}");
    }
    let handshake = connection.client.begin_switch(Mechanism::Shm, &all()).unwrap();
    let none = connection.server.take_descriptors(Deadline::NOW).err().unwrap();
    assert!(matches!(none, ReceiveError::Empty), "{none}");
    let used = charged(&connection.accounts)[0];
    assert_eq!(used, connection.charged[0] + 1, "the one that is kept is charged");
    let served = connection.server.serve_switch(&connection.served()).unwrap();
    let (server, client) = complete(served, handshake);
    drop((server.unwrap(), client.unwrap()));
    connection.expect_unchanged();
}

#[test]
fn lines_and_descriptors_of_the_users_do_not_disturb_each_other() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let pipe = pipe::create().unwrap();
    let one = [pipe.read.as_fd()];
    connection.client.pass_descriptors(&one).unwrap();
    let handshake = connection.client.begin_switch(Mechanism::UnixStream, &all()).unwrap();
    connection.client.pass_descriptors(&[one[0]; 2]).unwrap();
    let served = connection.server.serve_switch(&connection.served()).unwrap();
    let (server, client) = complete(served, handshake);
    drop((server.unwrap(), client.unwrap()));
    for count in [1, 2] {
        let fds = connection.server.take_descriptors(Deadline::NOW).unwrap();
        assert_eq!(fds.len(), count);
    }
    drop(pipe);
    connection.expect_unchanged();
}

#[test]
fn a_line_of_another_process_is_refused() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let (ours, theirs) = pair_of_another_process();
    connection.pass_raw(&[&theirs]);
    expect_cannot(connection.server.serve_switch(&all()), &CannotSwitch::OtherProcess);
    // Not a byte was sent there.
    let mut byte = [0];
    drop(theirs);
    assert_eq!(socket::try_recv(&ours, &mut byte).unwrap(), Some(0));
    drop(ours);
    // A fork of the client, which has its control line.
    let code = fork::run_in_child(|| {
        let refused = connection.client.begin_switch(Mechanism::Shm, &all()).is_err();
        let (_ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
        connection.pass_raw(&[&theirs]);
        u8::from(!refused)
    });
    assert_eq!(code.unwrap(), 0, "a forked process has begun a handshake");
    expect_cannot(connection.server.serve_switch(&all()), &CannotSwitch::OtherProcess);
    expect_cannot(connection.server.serve_switch(&all()), &CannotSwitch::NoLine);
    connection.expect_unchanged();
}

#[test]
fn an_answer_of_another_process_is_refused() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let mut handshake = connection.client.begin_switch(Mechanism::UnixStream, &all()).unwrap();
    let received = receive_with_fds(connection.server.control_fd(), &mut [0; 8], 1).unwrap();
    let [line] = received.fds.try_into().unwrap();
    let mut line = Some(line);
    let code = fork::run_in_child(|| {
        let served = Handshake::serve(Rendezvous::Local, line.take().unwrap(), &all());
        u8::from(served.unwrap().advance().unwrap().is_some())
    });
    assert_eq!(code.unwrap(), 0);
    let error = handshake.advance().err().unwrap();
    let other = HandshakeError::CannotSwitch(CannotSwitch::OtherProcess);
    assert_eq!(error.to_string(), other.to_string());
    drop((handshake, line));
    connection.expect_unchanged();
}

#[test]
fn each_end_has_its_part() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let begun = connection.server.begin_switch(Mechanism::Shm, &all());
    expect_cannot(begun, &CannotSwitch::NotTheClient);
    expect_cannot(connection.client.serve_switch(&all()), &CannotSwitch::NotTheServer);
    expect_cannot(connection.server.serve_switch(&all()), &CannotSwitch::NoLine);
    connection.expect_in_use();
    // A client takes no line.
    let (_ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
    send_with_fds(connection.server.control_fd(), &[LINE], &[theirs.as_fd()]).unwrap();
    let broken = connection.client.take_descriptors(Deadline::NOW).err().unwrap();
    assert!(matches!(broken, ReceiveError::PeerBroken(Violation::BadPacket)), "{broken}");
}

#[test]
fn a_control_line_that_is_full() {
    let _alone = alone();
    let mut connection = Connection::open(Mechanism::Shm);
    let pipe = pipe::create().unwrap();
    let mut passed = 0;
    let full = loop {
        match connection.client.pass_descriptors(&[pipe.read.as_fd()]) {
            Ok(()) => passed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, SendError::Full), "{full}");
    let begun = connection.client.begin_switch(Mechanism::Shm, &all());
    expect_cannot(begun, &CannotSwitch::LineFull);
    for _ in 0..passed {
        connection.server.take_descriptors(Deadline::NOW).unwrap();
    }
    drop(pipe);
    connection.expect_unchanged();
}

#[test]
fn over_tcp_there_is_no_line() {
    let _alone = alone();
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse::<Address>().unwrap()).unwrap();
    let address = listener.address().clone();
    let client = std::thread::spawn(move || connect(&address, Mechanism::Tcp, &all()).unwrap());
    let mut server = listener.accept(Deadline::after(PATIENCE), &all()).unwrap();
    let mut client = client.join().unwrap();
    for refused in [client.begin_switch(Mechanism::Tcp, &all()), server.serve_switch(&all())] {
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("unsupported over tcp://"), "{text}");
    }
    talk(&mut server, &mut client);
}
