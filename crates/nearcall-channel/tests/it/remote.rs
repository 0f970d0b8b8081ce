//! Two ends meet over `tcp://`, and other processes that come to the port are refused.
//!
//! **Not here:** the mechanism `tcp` of one machine (`conformance.rs`), addresses as text.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use nearcall_channel::Peer;
use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::limits::{BUFFER_BYTES_DEFAULT, CONNECTION_BYTES};
use nearcall_os::capacity::Capacity;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{eventfd, socket};

use crate::support::prelude::*;

/// The time of an end that is to be given up.
const SHORT: Duration = Duration::from_millis(100);

/// Judges what is said of an end.
type Expected = dyn Fn(&HandshakeError) -> bool;

fn listen(host: &str) -> Listener {
    let listener = Listener::bind(&format!("tcp://{host}:0").parse().unwrap()).unwrap();
    assert!(!listener.address().to_string().ends_with(":0"), "{}", listener.address());
    listener
}

fn port(listener: &Listener) -> u16 {
    match listener.address() {
        Address::Tcp { port, .. } => *port,
        other => panic!("{other}"),
    }
}

fn meet(server: &Options, client: &Options) -> (Endpoint, Endpoint) {
    let listener = listen("127.0.0.1");
    thread::scope(|scope| {
        let met = scope.spawn(|| connect(listener.address(), Mechanism::Tcp, client).unwrap());
        (listener.accept(patient(), server).unwrap(), met.join().unwrap())
    })
}

#[test]
fn messages_of_all_sizes_go_both_ways_under_each_policy() {
    for wait in [WaitPolicy::Block, WaitPolicy::Poll, WaitPolicy::Spin] {
        let options = Options { wait: Some(wait), ..Options::default() };
        let (mut server, mut client) = meet(&options, &options);
        let sizes = [0, 1, 64, 65_537, 1 << 20];
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = Vec::new();
                for _ in sizes {
                    bytes.clear();
                    server.receive(patient()).unwrap().read_to_end(&mut bytes).unwrap();
                    server.send(&bytes, Deadline::NEVER).unwrap();
                }
            });
            for (number, size) in (0..).zip(sizes) {
                let mut bytes = Vec::new();
                client.send(&pattern(number, size), Deadline::NEVER).unwrap();
                client.receive(patient()).unwrap().read_to_end(&mut bytes).unwrap();
                expect_pattern(&bytes, number, size);
            }
        });
        drop(server);
        expect_err!(client.receive(patient()), ReceiveError::PeerGone);
    }
}

#[test]
fn an_end_knows_where_the_other_is_and_no_more() {
    let small = Options { message_bytes_max: 1000, buffer_bytes: 8192, ..Options::default() };
    let (mut server, mut client) = meet(&small, &Options::default());
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    for endpoint in [&mut server, &mut client] {
        assert_eq!((endpoint.message_bytes_max(), endpoint.buffer_bytes()), (1000, 8192));
        assert_eq!(endpoint.mechanism(), Mechanism::Tcp);
        let Peer::Remote(address) = endpoint.peer() else { panic!("{:?}", endpoint.peer()) };
        assert!(address.ip().is_loopback(), "{address}");
        let refused = expect_err!(endpoint.pass_descriptors(&[bell.as_fd()]), SendError::Os(_));
        assert!(refused.to_string().contains("do not travel over tcp://"), "{refused}");
        expect_err!(endpoint.take_descriptors(Deadline::NEVER), ReceiveError::Os(_));
    }
    let hung_up = |timeout| poll_one(client.control_fd(), Interest::HangUp, Some(timeout)).unwrap();
    assert!(hung_up(Duration::ZERO).is_none());
    drop(server);
    assert!(hung_up(PATIENCE).unwrap().hung_up);
}

#[test]
fn names_and_ipv6_addresses_work_where_the_machine_has_them() {
    for host in ["localhost", "[::1]"] {
        let address: Address = format!("tcp://{host}:0").parse().unwrap();
        let listener = match Listener::bind(&address) {
            Ok(listener) => listener,
            // Without IPv6 or without a hosts file.
            Err(HandshakeError::CannotListen(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        let address: Address = listener.address().to_string().parse().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| connect(&address, Mechanism::Tcp, &Options::default()).unwrap());
            drop(listener.accept(patient(), &Options::default()).unwrap());
        });
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_is_sent() {
    let listener = listen("127.0.0.1");
    let options = Options::default();
    let error = expect_err!(
        connect(listener.address(), Mechanism::ShmFutex, &options),
        HandshakeError::BadOptions(_)
    );
    assert!(error.to_string().contains("only the mechanism tcp"), "{error}");
    assert!(listener.accept_socket().unwrap().is_none());
    expect_err!(Listener::bind(listener.address()), HandshakeError::AddressInUse(..));
    let address = listener.address().clone();
    // A process that another test forks has a copy until its `exec`.
    socket::shutdown(&listener, socket::Half::Both).unwrap();
    drop(listener);
    let refused =
        expect_err!(connect(&address, Mechanism::Tcp, &options), HandshakeError::NoListener(_));
    assert!(refused.to_string().contains("start its server"), "{refused}");
}

/// What a client begins with.
fn hello(major: u16, limit: u32, buffer: u32) -> Vec<u8> {
    let mut hello = b"NEARCALC".to_vec();
    hello.extend(major.to_le_bytes());
    hello.extend(0u16.to_le_bytes());
    hello.extend(limit.to_le_bytes());
    hello.extend(buffer.to_le_bytes());
    hello.extend(0u32.to_le_bytes());
    hello
}

#[test]
fn a_server_refuses_other_protocols_and_goes_on() {
    let listener = listen("127.0.0.1");
    let within = |timeout: Duration| Options { handshake_timeout: timeout, ..Options::default() };
    let mut random = fastrand::Rng::with_seed(11);
    let noise: Vec<u8> = (0..5000).map(|_| random.u8(..)).collect();
    let check_within = |timeout: Duration, bytes: &[u8], stays: bool, expected: &Expected| {
        let mut other = TcpStream::connect(("127.0.0.1", port(&listener))).unwrap();
        other.write_all(bytes).unwrap();
        let other = stays.then_some(other);
        let error = listener.accept(patient(), &within(timeout)).err().unwrap();
        assert!(expected(&error), "{error:?} after {bytes:?}");
        drop(other);
    };
    let check = |bytes: &[u8], stays: bool, expected: &Expected| {
        check_within(PATIENCE, bytes, stays, expected);
    };
    let broken =
        |error: &HandshakeError| matches!(error, HandshakeError::PeerBroken(Violation::BadPacket));
    let gone = |error: &HandshakeError| matches!(error, HandshakeError::PeerGone);
    let late = |error: &HandshakeError| matches!(error, HandshakeError::TimedOut);
    check(b"GET / HTTP/1.1\r\n\r\n", true, &broken);
    check(&noise, true, &broken);
    check(&[0x16, 3, 1], true, &broken);
    check(b"NEARCALL\x01", true, &broken);
    check(b"NEARCALS", true, &broken);
    for cut in [0, 1, 8, 23] {
        check(&hello(1, 4096, 4096)[..cut], false, &gone);
        check_within(SHORT, &hello(1, 4096, 4096)[..cut], true, &late);
    }
    let version = |error: &HandshakeError| match error {
        HandshakeError::Version { theirs, .. } => theirs.major == 9,
        _ => false,
    };
    check(&hello(9, 4096, 4096), true, &version);
    let limits = |error: &HandshakeError| matches!(error, HandshakeError::BadOptions(_));
    check(&hello(1, u32::MAX, 4096), true, &limits);
    check(&hello(1, 4096, 0), true, &limits);
    let mut odd = hello(1, 4096, 4096);
    odd[20] = 1;
    check(&odd, true, &broken);
    // One byte at a time does not win time for the whole greeting.
    thread::scope(|scope| {
        let mut slow = TcpStream::connect(("127.0.0.1", port(&listener))).unwrap();
        scope.spawn(move || {
            // Slow enough that it is not complete when a busy machine accepts late.
            for byte in hello(1, 4096, 4096) {
                if slow.write_all(&[byte]).is_err() {
                    break;
                }
                clock::pause(SHORT);
            }
        });
        let error = listener.accept(patient(), &within(SHORT * 3)).err().unwrap();
        assert!(late(&error), "{error:?}");
        scope.spawn(|| connect(listener.address(), Mechanism::Tcp, &Options::default()).unwrap());
        drop(listener.accept(patient(), &Options::default()).unwrap());
    });
}

/// What a client that waits so long says of a server that answers with these bytes.
fn client_within(timeout: Duration, answer: &[u8]) -> HandshakeError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 24]).unwrap();
            stream.write_all(answer).unwrap();
            // Until the client has gone.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let address = Address::Tcp { host: "127.0.0.1".into(), port };
        let options =
            Options { message_bytes_max: 5000, handshake_timeout: timeout, ..Options::default() };
        connect(&address, Mechanism::Tcp, &options).err().unwrap()
    })
}

fn client_of(answer: &[u8]) -> HandshakeError {
    client_within(PATIENCE, answer)
}

fn answer(major: u16, limit: u32, buffer: u32, refusal: u32) -> Vec<u8> {
    let mut answer = hello(major, limit, buffer);
    answer[7] = b'S';
    answer[20..].copy_from_slice(&refusal.to_le_bytes());
    answer
}

#[test]
fn a_client_judges_its_server() {
    let broken =
        |error: &HandshakeError| matches!(error, HandshakeError::PeerBroken(Violation::BadPacket));
    for bytes in [
        hello(1, 5000, 4096),
        answer(1, 5001, 4096, 0),
        answer(1, 5000, 1 << 30, 0),
        answer(1, 5000, 0, 0),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"SSH-2.0-x\r\n".to_vec(),
    ] {
        let error = client_of(&bytes);
        assert!(broken(&error), "{error:?} after {bytes:?}");
    }
    let error = client_within(SHORT, &answer(1, 5000, 4096, 0)[..23]);
    assert!(matches!(error, HandshakeError::TimedOut), "{error:?}");
    let error = client_of(&answer(3, 5000, 4096, 1));
    assert!(matches!(error, HandshakeError::Version { .. }), "{error:?}");
    let error = client_of(&answer(1, 5000, 4096, 2));
    assert!(matches!(error, HandshakeError::Refused { code: Refusal::Limits, .. }), "{error:?}");
    let error = client_of(&answer(1, 5000, 4096, 77));
    assert!(matches!(error, HandshakeError::Refused { code: Refusal::Other, .. }), "{error:?}");
}

/// Where the address is for the process that will be killed.
const VICTIM_OF: &str = "NEARCALL_TEST_REMOTE_VICTIM_OF";

/// Where that process begins; nothing when the harness runs it.
#[test]
fn victim() {
    let Ok(address) = std::env::var(VICTIM_OF) else { return };
    let address: Address = address.parse().unwrap();
    let mut endpoint = connect(&address, Mechanism::Tcp, &Options::default()).unwrap();
    endpoint.send(b"last words", patient()).unwrap();
    clock::pause(PATIENCE);
}

#[test]
fn a_killed_peer_is_noticed() {
    let listener = listen("127.0.0.1");
    for sends in [false, true] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["remote::victim", "--exact"]).stdout(std::process::Stdio::null());
        command.env(VICTIM_OF, listener.address().to_string());
        let mut victim = process::Child::spawn(&mut command).unwrap();
        let mut endpoint = listener.accept(patient(), &Options::default()).unwrap();
        let mut into = [0; 16];
        assert_eq!(endpoint.receive_into(&mut into, patient()).unwrap(), 10);
        let killer = thread::spawn(move || {
            clock::pause(Duration::from_millis(20));
            victim.kill().unwrap();
            clock::now()
        });
        if sends {
            while endpoint.send(&[5; 10_000], patient()).is_ok() {}
            expect_err!(endpoint.send(b"x", Deadline::NEVER), SendError::PeerGone);
        } else {
            expect_err!(endpoint.receive(Deadline::NEVER), ReceiveError::PeerGone);
        }
        let noticed = clock::now();
        let took = noticed.saturating_duration_since(killer.join().unwrap());
        assert!(took < DEATH_NOTICED, "{took:?}");
    }
}

#[test]
fn a_connection_is_charged_as_one_of_this_machine_and_refused_beyond_the_share() {
    // Of which one user may have half: a connection, and not a second one.
    let bytes = 3 * (BUFFER_BYTES_DEFAULT as usize + CONNECTION_BYTES) as u64;
    let accounts = Accounts::new(&Capacity { descriptors: 100, mappings: 100, bytes });
    let options = Options { account: Some(accounts.user(None)), ..Options::default() };
    let kept = meet(&options, &Options::default());
    assert_eq!(accounts.used(Resource::Bytes).0, bytes / 3);
    let listener = listen("127.0.0.1");
    let (server, client) = thread::scope(|scope| {
        let client = || connect(listener.address(), Mechanism::Tcp, &Options::default());
        let client = scope.spawn(client);
        (listener.accept(patient(), &options).map(drop), client.join().unwrap().map(drop))
    });
    assert!(matches!(server, Err(HandshakeError::Exceeded(_))), "{server:?}");
    let Err(HandshakeError::Refused { code: Refusal::Other, text }) = client else {
        panic!("{client:?}")
    };
    assert!(text.contains("too many clients"), "{text}");
    drop(kept);
    assert_eq!(accounts.used(Resource::Bytes).0, 0);
    assert_eq!(accounts.used(Resource::Descriptors).0, 0);
}
