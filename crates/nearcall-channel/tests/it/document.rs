//! The book's `reference/protocol.md` against this crate: a client that connects
//! sends the golden bytes of the handshake and takes those of a server, and fragments are what the
//! document says.
//!
//! **Not here:** servers, which answer the same bytes in the tests of `nearcall-examples`; frames
//! (the tests of `nearcall-wire`).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use nearcall_os::descriptor::{receive_with_fds, send_with_fds};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{self, Kind};

use crate::golden::{PROTOCOL, Turn, block};
use crate::support::prelude::*;
use crate::support::raw::{CONSUMED, FRAMES, LAYOUT};

/// Has `ours`, the server's end of a control line, answer a client as the document does. Returns
/// the server's end of the stream.
fn answer(ours: &OwnedFd, handshake: &[Turn]) -> OwnedFd {
    let (stream, theirs) = socket::unix_pair(Kind::Stream).unwrap();
    let mut theirs = Some(theirs);
    for turn in handshake {
        if !turn.is_client {
            let passed: Vec<OwnedFd> =
                theirs.take_if(|_| turn.descriptors > 0).into_iter().collect();
            let passed: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
            send_with_fds(ours, &turn.to_send(), &passed).unwrap();
            continue;
        }
        poll_one(ours, Interest::Readable, Some(PATIENCE)).unwrap().expect("a packet");
        let mut packet = [0; 2048];
        let received = receive_with_fds(ours, &mut packet, 8).unwrap();
        turn.expect(&packet[..received.bytes]);
        assert_eq!(received.fds.len(), turn.descriptors);
    }
    stream
}

#[test]
fn a_client_of_a_unix_socket_sends_and_takes_what_the_document_says() {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let (mechanism, options) = (Mechanism::UnixStream, Options::default());
    thread::scope(|scope| {
        let client = scope.spawn(|| connect_over(theirs, mechanism, &options).unwrap());
        let stream = answer(&ours, &block("unix-handshake"));
        let mut client = client.join().unwrap();
        check_fragments(&mut client, UnixStream::from(stream));
    });
}

#[test]
fn a_client_of_a_port_sends_and_takes_what_the_document_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    thread::scope(|scope| {
        let client = || connect(&address, Mechanism::Tcp, &Options::default()).unwrap();
        let client = scope.spawn(client);
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let [hello, answer] = &block("tcp-handshake")[..] else { panic!("two turns") };
        let mut greeting = vec![0; hello.bytes.len()];
        stream.read_exact(&mut greeting).unwrap();
        hello.expect(&greeting);
        stream.write_all(&answer.to_send()).unwrap();
        check_fragments(&mut client.join().unwrap(), stream);
    });
}

/// What the document says of fragments, over an open channel.
fn check_fragments(client: &mut Endpoint, mut stream: impl Read + Write) {
    assert_eq!((client.message_bytes_max(), client.buffer_bytes()), (4 << 20, 256 << 10));
    // "ABORT: drop what has come of this message", and one of two fragments.
    let header = |whole: u32, word: u32| [whole.to_le_bytes(), word.to_le_bytes()].concat();
    let mut bytes = header(9, 3);
    bytes.extend(b"abc");
    bytes.extend(header(9, 1 << 30));
    bytes.extend(header(5, 2));
    bytes.extend(b"ab");
    bytes.extend(header(5, 3 | 1 << 31));
    bytes.extend(b"cde");
    stream.write_all(&bytes).unwrap();
    let mut message = Vec::new();
    let aborted = client.receive(patient()).unwrap().read_to_end(&mut message);
    expect_err!(aborted, ReceiveError::Aborted);
    message.clear();
    client.receive(patient()).unwrap().read_to_end(&mut message).unwrap();
    assert_eq!(message, b"abcde");
    // "at most 65,528 in one"
    let long = vec![7; 65_529];
    thread::scope(|scope| {
        scope.spawn(|| client.send(&long, patient()).unwrap());
        let mut bytes = vec![0; 65_529 + 16];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..8], header(65_529, 65_528));
        assert_eq!(bytes[8 + 65_528..][..8], header(65_529, 1 | 1 << 31));
    });
}

#[test]
fn the_reasons_of_a_refusal_have_the_numbers_of_the_document() {
    use Refusal::{
        Draining, Exhausted, Limits, NotAllowed, NotOffered, Other, Parts, UnknownMechanism,
        Unsupported, Version,
    };
    let reasons = [
        Other,
        Version,
        UnknownMechanism,
        Unsupported,
        Limits,
        Parts,
        NotOffered,
        NotAllowed,
        Exhausted,
        Draining,
    ];
    for (number, expected) in (0..).zip(reasons) {
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let packet = [&[5, number][..], "no room".as_bytes()].concat();
        send_with_fds(&ours, &packet, &[]).unwrap();
        match connect_over(theirs, Mechanism::UnixStream, &Options::default()).map(drop) {
            Err(HandshakeError::Refused { code, text }) => {
                assert_eq!((code, &*text), (expected, "no room"));
            }
            other => panic!("{number}: {other:?}"),
        }
    }
}

/// What the tests of hostile memory know of it, which a server takes.
#[test]
fn the_picture_of_shared_memory_is_the_one_of_the_document() {
    for text in [
        format!("layout version u32 = {LAYOUT}"),
        format!("{CONSUMED}  consumed u64"),
        format!("{FRAMES}  ring: ring_bytes"),
    ] {
        assert!(PROTOCOL.contains(&text), "reference/protocol.md does not have `{text}`");
    }
}
