//! Clients that lie about what they lend, while a good client of the same server calls.

use nearcall_channel::{
    Endpoint, Lender, Mechanism, Options, Place, ReceiveError, SendError, connect,
};
use nearcall_wire::{CallId, Frame, HEADER_BYTES, Hello, Kind, Payload, Reference, Shape};
use prost::Message;

use super::*;
use crate::observed::{PATIENCE, while_a_good_client_calls};
use crate::stage::prelude::*;
use crate::support::hello;

/// A channel on which both have greeted, and what it lends.
fn channel(server: &Served, mechanism: Mechanism) -> (Endpoint, Option<Lender>) {
    let place = server.address.parse().unwrap();
    let mut endpoint = connect(&place, mechanism, &Options::default()).unwrap();
    let greeting = receive(&mut endpoint).expect("the server greets");
    Hello::decode(&greeting, greeting.len()).unwrap();
    endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
    let lender = endpoint.arena().map(|(lender, _)| lender);
    (endpoint, lender)
}

/// The connection ends. A call may get the reason before, and nothing else.
#[track_caller]
fn expect_closed(endpoint: &mut Endpoint, is_call: bool, what: &str) {
    let mut answer = receive(endpoint);
    if let Some(notice) = answer.as_ref().filter(|_| is_call) {
        let frame = Frame::decode(notice, notice.len()).unwrap();
        assert!(matches!(frame, Frame::Error { .. }), "{what}: {frame:?}");
        let text = String::from_utf8_lossy(&notice[HEADER_BYTES..]);
        assert!(text.starts_with("the connection is closed: this peer"), "{what}: {text}");
        answer = receive(endpoint);
    }
    assert!(answer.is_none(), "{what}: {answer:?}");
}

/// The next message, unless the server has closed.
fn receive(endpoint: &mut Endpoint) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match endpoint.receive(Deadline::after(PATIENCE)) {
        Ok(mut message) => message.read_to_end(&mut bytes).unwrap(),
        Err(ReceiveError::PeerGone) => return None,
        Err(error) => panic!("neither a message nor an end: {error}"),
    }
    Some(bytes)
}

fn method(name: &str) -> u32 {
    let methods = StoreCaller::INTERFACE.methods;
    methods.iter().find(|method| method.name == name).unwrap().id
}

/// A message to the store with this body, which has references.
fn message(is_call: bool, body: &[u8]) -> Vec<u8> {
    // FNV-1a of the name, as the protocol says.
    let object = "echo.v1.Store".bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let payload = Payload { references: true, ..Payload::new(0, body.len()).unwrap() };
    let timeout_ns = 0;
    let frame = match is_call {
        true => {
            let (id, method) = (CallId::from_word(1 << 16), method("Put"));
            Frame::Call { id, object, method, timeout_ns, payload, shape: Shape::Unary }
        }
        false => Frame::Oneway { object, method: method("Drop"), timeout_ns, payload },
    };
    [&frame.encode()[..], body].concat()
}

/// A body with these references, in front of `rest`.
fn body(count: u8, references: &[Reference], rest: &[u8]) -> Vec<u8> {
    let mut body = vec![count];
    for reference in references {
        let (row, bytes) = reference.encode();
        body.extend(&row[..bytes]);
    }
    body.extend_from_slice(rest);
    body
}

/// A field `data` of this length, up to its bytes.
fn field(bytes: usize) -> Vec<u8> {
    let mut field = vec![1 << 3 | 2];
    prost::encoding::encode_varint(bytes as u64, &mut field);
    field
}

fn reference(place: Place, position: usize) -> Reference {
    let Place { slot, segment, offset, bytes } = place;
    Reference { position: u32::try_from(position).unwrap(), slot, segment, offset, bytes }
}

/// Bodies that end the connection, each for a reason of its own, from one that is right.
fn lies(place: Place) -> Vec<(&'static str, Vec<u8>)> {
    let rest = field(4096);
    let right = reference(place, rest.len());
    let one = |change: &dyn Fn(&mut Reference)| {
        let mut wrong = right;
        change(&mut wrong);
        body(1, &[wrong], &rest)
    };
    vec![
        ("no table", vec![]),
        ("a count alone", vec![1]),
        ("half a row", vec![1, 3, 0]),
        ("a number without end", vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("no references", body(0, &[], &rest)),
        ("more announced than there are", body(5, &[right], &rest)),
        ("more than a message may have", body(65, &[right; 65], &rest)),
        ("a slot that cannot be", one(&|it| it.slot = 64)),
        ("a segment that was never made", one(&|it| it.segment = 77)),
        ("an offset outside", one(&|it| it.offset = 1)),
        ("an offset far outside", one(&|it| it.offset = u32::MAX)),
        ("more bytes than the slot has", one(&|it| it.bytes += 1)),
        ("no bytes", one(&|it| it.bytes = 0)),
        ("more bytes than any message has", one(&|it| it.bytes = u32::MAX)),
        ("a position behind the body", one(&|it| it.position += 1)),
        ("a position far behind the body", one(&|it| it.position = u32::MAX)),
        ("the same place twice at once", body(2, &[right; 2], &rest)),
        ("places out of order", {
            let later = Reference { position: right.position + 4096, ..right };
            body(2, &[later, right], &rest)
        }),
        ("more than a message may have in all", {
            let wide = Reference { bytes: 4096, ..right };
            let many = (0..64).map(|at| Reference { position: at << 20, ..wide });
            body(64, &many.collect::<Vec<_>>(), &vec![0; 5 << 20][..4 << 19])
        }),
    ]
}

#[test]
fn lies_about_lent_memory_end_the_connection_and_no_other() {
    for trust in ["", TRUSTED] {
        let server = serve(trust);
        while_a_good_client_calls(&server.address, || {
            for number in 0..lies(Place { slot: 0, segment: 0, offset: 0, bytes: 4096 }).len() {
                for is_call in [true, false] {
                    let (mut endpoint, lender) = channel(&server, Mechanism::Shm);
                    let mut lender = lender.unwrap();
                    let loan = lender.loan(4096).unwrap().freeze();
                    let place = lender.find(&loan).unwrap();
                    let (what, body) = lies(place).swap_remove(number);
                    endpoint.send(&message(is_call, &body), Deadline::after(PATIENCE)).unwrap();
                    expect_closed(&mut endpoint, is_call, &format!("{trust} {what}"));
                }
            }
        });
    }
}

#[test]
fn the_right_message_beside_those_lies_is_served() {
    for (trust, trusted) in [("", false), (TRUSTED, true)] {
        let server = serve(trust);
        let (mut endpoint, lender) = channel(&server, Mechanism::Shm);
        let mut lender = lender.unwrap();
        let loan = lender.loan(4096).unwrap().freeze();
        let place = lender.find(&loan).unwrap();
        lender.pass(place);
        let rest = field(4096);
        let body = body(1, &[reference(place, rest.len())], &rest);
        endpoint.send(&message(true, &body), Deadline::after(PATIENCE)).unwrap();
        let reply = receive(&mut endpoint).unwrap();
        assert_eq!(reply[1], Kind::Reply as u8);
        let receipt = Receipt::decode(&reply[HEADER_BYTES..]).unwrap();
        assert_eq!((receipt.trusted, lies_in_segment(receipt.addresses[0])), (trusted, trusted));
    }
}

#[test]
fn references_where_nothing_can_be_lent_end_the_connection() {
    let server = serve(TRUSTED);
    for mechanism in [Mechanism::UnixStream, Mechanism::ShmFutex] {
        let (mut endpoint, lender) = channel(&server, mechanism);
        assert!(lender.is_none());
        let place = Place { slot: 0, segment: 0, offset: 0, bytes: 4096 };
        let body = body(1, &[reference(place, 3)], &field(4096));
        endpoint.send(&message(true, &body), Deadline::after(PATIENCE)).unwrap();
        expect_closed(&mut endpoint, true, &mechanism.to_string());
    }
}

#[test]
fn what_is_lent_and_makes_no_sense_as_a_message_fails_the_call_only() {
    for trust in ["", TRUSTED] {
        let server = serve(trust);
        let (mut endpoint, lender) = channel(&server, Mechanism::Shm);
        let mut lender = lender.unwrap();
        let mut loan = lender.loan(4096).unwrap();
        loan.fill(0xff);
        let loan = loan.freeze();
        let place = lender.find(&loan).unwrap();
        lender.pass(place);
        // The message begins with what is lent.
        let body = body(1, &[reference(place, 0)], &[]);
        endpoint.send(&message(true, &body), Deadline::after(PATIENCE)).unwrap();
        let reply = receive(&mut endpoint).unwrap();
        assert_eq!((reply[1], reply[6]), (Kind::Error as u8, 13), "{trust}: INTERNAL");
    }
}

#[test]
fn a_tiny_message_of_references_leaves_room_for_the_next_one() {
    let server = serve("");
    let (mut endpoint, lender) = channel(&server, Mechanism::Shm);
    let mut lender = lender.unwrap();
    let loan = lender.loan(4096).unwrap().freeze();
    let place = lender.find(&loan[..1]).unwrap();
    lender.pass(place);
    let tiny = message(false, &body(1, &[reference(place, 0)], &[]));
    endpoint.send(&tiny, Deadline::after(PATIENCE)).unwrap();
    // As long as what is put together on the stack, and not plain: it has a deadline.
    let (id, timeout_ns) = (CallId::from_word(1 << 16), 1 << 40);
    let payload = Payload::new(0, 128 - HEADER_BYTES).unwrap();
    let next = Frame::Call { id, object: 7, method: 7, timeout_ns, payload, shape: Shape::Unary };
    let next = [&next.encode()[..], &[0; 128 - HEADER_BYTES]].concat();
    endpoint.send(&next, Deadline::after(PATIENCE)).unwrap();
    let reply = receive(&mut endpoint).expect("the server lives");
    assert_eq!(reply[1], Kind::Error as u8);
}

#[test]
fn an_endless_lender_is_held_by_the_limit_of_what_it_may_make() {
    let server = serve(TRUSTED);
    let (mut endpoint, lender) = channel(&server, Mechanism::Shm);
    let mut lender = lender.unwrap();
    let mut loans = Vec::new();
    let refused = loop {
        match lender.loan(1 << 20) {
            Ok(loan) => loans.push(loan),
            Err(error) => break error,
        }
    };
    assert_eq!(loans.len(), 64, "{refused}");
    let sent = endpoint.send(&[0; 10], Deadline::after(PATIENCE));
    assert!(matches!(sent, Ok(()) | Err(SendError::PeerGone)));
}

#[test]
fn a_reply_with_bad_references_ends_its_call() {
    let address = unique_address();
    let listener = nearcall_channel::Listener::bind(&address.parse().unwrap()).unwrap();
    let (done, wait) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let accepted = listener.accept(Deadline::after(PATIENCE), &Options::default());
            let mut endpoint = accepted.unwrap();
            endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
            receive(&mut endpoint).unwrap();
            let call = receive(&mut endpoint).unwrap();
            let id = CallId::from_word(u64::from_le_bytes(call[16..24].try_into().unwrap()));
            let body = body(5, &[], &[]);
            let payload = Payload { references: true, ..Payload::new(0, body.len()).unwrap() };
            let reply = [&Frame::Reply { id, payload }.encode()[..], &body].concat();
            endpoint.send(&reply, Deadline::after(PATIENCE)).unwrap();
            // The call must end by the reply, not by the end of this connection.
            let _ = wait.recv_timeout(PATIENCE);
        });
        let store = StoreCaller::new(&Client::new(), &format!("{address}?via=shm")).unwrap();
        expect_code(store.get(&Span::default()), Code::Internal);
        drop(done);
    });
}
