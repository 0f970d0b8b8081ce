//! Two ends that mean well meet: what they agree on, and what they are told when they cannot.
//!
//! **Not here:** ends that mean harm (`hostile_region.rs`), killed servers' traffic
//! (`killed_peer.rs`).

use nearcall_channel::Version;
use nearcall_os::socket::{self, Kind, UnixAddress};

use crate::support::prelude::*;
use crate::support::raw::{OFFER, REFUSAL, RawLine, good_hello, hello};

type Met = (Result<Endpoint, HandshakeError>, Result<Endpoint, HandshakeError>);

/// Lets a server and a client meet within this process.
fn meet(server: &Options, client: &Options, mechanism: Mechanism) -> Met {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(move || accept_over(ours, server));
        let client = connect_over(theirs, mechanism, client);
        (server.join().unwrap(), client)
    })
}

fn random_name() -> String {
    format!("nearcall-test-{:016x}", fastrand::u64(..))
}

#[test]
fn the_smaller_limit_wins() {
    let small = Options { message_bytes_max: 1000, buffer_bytes: 8192, ..offering_all() };
    let large = Options { message_bytes_max: 9000, buffer_bytes: 16_384, ..offering_all() };
    for (server, client) in [(&small, &large), (&large, &small)] {
        let (server, client) = meet(server, client, Mechanism::ShmFutex);
        for endpoint in [server.unwrap(), client.unwrap()] {
            assert_eq!(endpoint.message_bytes_max(), 1000);
            assert_eq!(endpoint.buffer_bytes(), 8192);
        }
    }
}

#[test]
fn each_end_waits_as_it_likes() {
    let spin = Options { wait: Some(WaitPolicy::Spin), ..offering_all() };
    let (server, client) = meet(&spin, &offering_all(), Mechanism::ShmSpin);
    assert_eq!(server.unwrap().wait_policy(), WaitPolicy::Spin);
    assert_eq!(client.unwrap().wait_policy(), WaitPolicy::Spin);
}

#[test]
fn a_wait_policy_that_cannot_be_had_is_named() {
    let poll = Options { wait: Some(WaitPolicy::Poll), ..offering_all() };
    let (_server, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let error = expect_err!(
        connect_over(theirs, Mechanism::ShmFutex, &poll),
        HandshakeError::BadOptions(_)
    );
    assert!(error.to_string().contains("only by block"), "{error}");
    let (server, client) = meet(&poll, &offering_all(), Mechanism::ShmFutex);
    assert!(matches!(server, Err(HandshakeError::BadOptions(_))));
    let Err(HandshakeError::Refused { text, .. }) = client else { panic!("not refused") };
    assert!(text.contains("only by block"), "{text}");
}

#[test]
fn an_older_or_newer_minor_version_is_welcome() {
    for minor in [0, 7, u16::MAX] {
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let server = thread::spawn(move || accept_over(ours, &offering_all()));
        let line = RawLine { socket: theirs, mechanism: Mechanism::ShmFutex };
        let version = Version { major: VERSION.major, minor };
        line.send(&hello(version, 4096, 4096, b"shm-spin"), &[]);
        assert_eq!(line.receive().0[0], OFFER);
        drop(line);
        assert!(matches!(server.join().unwrap(), Err(HandshakeError::PeerGone)));
    }
}

/// What a client says of a server that answers its greeting with `answer`.
fn client_of(answer: &[u8], fds: &[OwnedFd]) -> HandshakeError {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let answer = answer.to_vec();
    thread::scope(|scope| {
        scope.spawn(move || {
            let line = RawLine { socket: ours, mechanism: Mechanism::ShmFutex };
            assert_eq!(line.receive().0[..8], *b"NEARCALL");
            line.send(&answer, fds);
            // Until the client has gone.
            while !line.receive().0.is_empty() {}
        });
        let options = Options { message_bytes_max: 5000, ..offering_all() };
        let options = Options { handshake_timeout: PATIENCE, ..options };
        connect_over(theirs, Mechanism::ShmFutex, &options).err().unwrap()
    })
}

/// An offer with these terms and nothing else.
fn offer(version: Version, limit: u32, buffer: u32) -> Vec<u8> {
    let greeting = hello(version, limit, buffer, b"");
    [&[OFFER], &greeting[9..]].concat()
}

#[test]
fn a_client_checks_the_greeting_of_a_server() {
    let broken =
        |error: &HandshakeError| matches!(error, HandshakeError::PeerBroken(Violation::BadPacket));
    for answer in [
        offer(VERSION, 5001, 4096),
        offer(VERSION, 5000, 1 << 30),
        offer(VERSION, 5000, 0),
        offer(VERSION, 5000, 4096)[..9].to_vec(),
        good_hello(Mechanism::ShmFutex),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0x80; 1500],
    ] {
        let error = client_of(&answer, &[]);
        assert!(broken(&error), "{error:?} after {answer:?}");
    }
    let error = client_of(&offer(Version { major: 3, minor: 1 }, 5000, 4096), &[]);
    let text = error.to_string();
    assert!(text.contains("3.1") && text.contains("1.0"), "{text}");
    let error = client_of(&offer(VERSION, 5000, 4096), &[]);
    assert!(matches!(error, HandshakeError::Open(Mechanism::ShmFutex, _)), "{error:?}");
    let error = client_of(&[REFUSAL, 77, b'n', b'o'], &[]);
    assert!(
        matches!(&error, HandshakeError::Refused { code: Refusal::Other, text } if text == "no"),
        "{error:?}"
    );
    // What it says does not act on a terminal.
    let error =
        client_of(&[&[REFUSAL, 5][..], "\u{1b}[2Jit's \u{202e}\"ü\"\n".as_bytes()].concat(), &[]);
    let text = "the other end refused: \\u{1b}[2Jit's \\u{202e}\"ü\"\\n";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_silent_server_is_given_up() {
    let (_silent, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let timeout = Duration::from_millis(50);
    let options = Options { handshake_timeout: timeout, ..offering_all() };
    let started = clock::now();
    expect_err!(connect_over(theirs, Mechanism::ShmFutex, &options), HandshakeError::TimedOut);
    let took = clock::now() - started;
    assert!((timeout..PATIENCE).contains(&took), "{took:?}");
}

#[test]
fn an_address_has_one_listener() {
    let address: Address = format!("unix:@{}", random_name()).parse().unwrap();
    expect_err!(
        connect(&address, Mechanism::ShmFutex, &offering_all()),
        HandshakeError::NoListener(_)
    );
    let first = Listener::bind(&address).unwrap();
    expect_err!(Listener::bind(&address), HandshakeError::AddressInUse(..));
    expect_err!(first.accept(Deadline::NOW, &offering_all()), HandshakeError::TimedOut);
    drop(first);
    // A process that another test forks has a copy until its `exec`.
    let end = clock::now() + PATIENCE;
    while let Err(error) = Listener::bind(&address) {
        let is_taken = matches!(error, HandshakeError::AddressInUse(..));
        assert!(is_taken && clock::now() < end, "{error:?}");
        clock::pause(Duration::from_millis(1));
    }
}

#[test]
fn the_path_of_a_dead_server_is_taken_over_and_nothing_else() {
    let path = std::env::temp_dir().join(random_name());
    let address: Address = format!("unix:{}", path.display()).parse().unwrap();
    // A server that was killed leaves its socket.
    let dead = socket::unix_listen(UnixAddress::Path(&path), 1).unwrap();
    // A process that another test forks has a copy until its `exec`.
    socket::shutdown(&dead, socket::Half::Both).unwrap();
    drop(dead);
    assert!(path.exists());
    let listener = Listener::bind(&address).unwrap();
    expect_err!(Listener::bind(&address), HandshakeError::AddressInUse(..));
    drop(listener);
    assert!(!path.exists());
    fs::write(&path, "not a socket").unwrap();
    assert!(Listener::bind(&address).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "not a socket");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_connection_outlives_its_listener() {
    let address: Address = format!("unix:@{}", random_name()).parse().unwrap();
    let listener = Listener::bind(&address).unwrap();
    let mut client = thread::scope(|scope| {
        let options = offering_all();
        let client = scope.spawn(|| connect(&address, Mechanism::ShmFutex, &offering_all()));
        let mut server = listener.accept(patient(), &options).unwrap();
        drop(listener);
        server.send(b"last words", patient()).unwrap();
        client.join().unwrap().unwrap()
    });
    assert_eq!(client.receive(patient()).unwrap().len(), 10);
    expect_err!(client.receive(patient()), ReceiveError::PeerGone);
}

#[test]
fn a_silent_client_holds_refused_but_the_thread_that_meets_it() {
    let address: Address = format!("unix:@{}", random_name()).parse().unwrap();
    let listener = Listener::bind(&address).unwrap();
    assert!(listener.accept_socket().unwrap().is_none());
    let name = UnixAddress::Abstract(address_name(&address));
    let _silent = socket::unix_connect(name, Some(Duration::from_secs(5))).unwrap();
    let waiting = listener.accept_socket().unwrap().unwrap();
    let credentials = socket::peer_credentials(&waiting).unwrap();
    assert_eq!(credentials.uid, process::user_id());
    let meeting = listener.rendezvous();
    let timeout = Duration::from_millis(300);
    let options = Options { handshake_timeout: timeout, ..offering_all() };
    let silent = thread::spawn(move || meeting.open(waiting, &options).err().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| connect(&address, Mechanism::ShmFutex, &offering_all()).unwrap());
        drop(listener.accept(patient(), &offering_all()).unwrap());
    });
    let error = silent.join().unwrap();
    assert!(matches!(error, HandshakeError::TimedOut), "{error:?}");
}

fn address_name(address: &Address) -> &[u8] {
    match address {
        Address::Abstract(name) => name.as_bytes(),
        _ => panic!("{address} is not abstract"),
    }
}

#[test]
fn an_endpoint_outlives_the_thread_that_opened_it() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let server = thread::spawn(move || accept_over(ours, &offering_all()));
        let client = thread::spawn(move || connect_over(theirs, mechanism, &offering_all()));
        // Both threads have ended.
        let (mut server, mut client) =
            (server.join().unwrap().unwrap(), client.join().unwrap().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    let mut message = [0; 8];
                    let bytes = server.receive_into(&mut message, patient()).unwrap();
                    server.send(&message[..bytes], patient()).unwrap();
                }
            });
            for turn in 0..10u8 {
                client.send(&[turn], patient()).unwrap();
                let mut answer = [0; 8];
                assert_eq!(client.receive_into(&mut answer, patient()).unwrap(), 1, "{mechanism}");
                assert_eq!(answer[0], turn, "{mechanism}");
            }
        });
    }
}
