//! Messages of the call protocol by hand, over a channel that was opened as it should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall::control::{DescribeReply, ServerCaller};
use nearcall::prost::Message as _;
use nearcall::{Deadline, Mechanism};
use nearcall_channel::{Address, Endpoint, Listener, Options, ReceiveError, connect};
use nearcall_wire::{CallId, Code, Frame, HEADER_BYTES, Hello, Payload, Shape};

use crate::echo::EchoCaller;
use crate::observed::PATIENCE;
use crate::support::hello;

/// A channel to the server, on which the server has greeted.
pub fn channel_at(place: &Address, mechanism: Mechanism) -> Endpoint {
    let mut endpoint = connect(place, mechanism, &Options::default()).unwrap();
    let greeting = receive(&mut endpoint).expect("the server greets");
    Hello::decode(&greeting, greeting.len()).unwrap();
    endpoint
}

/// A channel on which both have greeted.
pub fn greeted_at(place: &Address, mechanism: Mechanism) -> Endpoint {
    let mut endpoint = channel_at(place, mechanism);
    endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
    endpoint
}

/// The next message, unless the server has closed.
pub fn receive(endpoint: &mut Endpoint) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match endpoint.receive(Deadline::after(PATIENCE)) {
        Ok(mut message) => message.read_to_end(&mut bytes).unwrap(),
        Err(ReceiveError::PeerGone) => return None,
        Err(error) => panic!("neither a message nor an end: {error}"),
    }
    Some(bytes)
}

/// Demands that the server closes, after a few messages at most.
#[track_caller]
pub fn expect_closed(mut endpoint: Endpoint, what: &str) {
    let mut rest = 0;
    while let Some(message) = receive(&mut endpoint) {
        rest += 1;
        assert!(rest < 10, "{what}: the server goes on with {message:?}");
    }
}

pub fn echo_object() -> u64 {
    // FNV-1a of the name, as the protocol says.
    "echo.v1.Echo".bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn method(name: &str) -> u32 {
    let methods = EchoCaller::INTERFACE.methods;
    methods.iter().find(|method| method.name == name).unwrap().id
}

/// A server of another version, until it is dropped: it greets with a version of the protocol, and
/// has one method of `nearcall.v1.Server`, `Describe`, or none.
pub struct OtherVersion {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OtherVersion {
    pub fn serve(address: &str, version: u16, describes: Option<DescribeReply>) -> Self {
        let listener = Listener::bind(&address.parse().unwrap()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let serve = move || {
            while !ends.load(Ordering::Relaxed) {
                let soon = Deadline::after(Duration::from_millis(20));
                let Ok(mut client) = listener.accept(soon, &Options::default()) else { continue };
                let describes = describes.clone();
                thread::spawn(move || {
                    let greets = hello(version, version);
                    // The client may have gone at any time.
                    let mut sent = client.send(&greets, Deadline::after(PATIENCE));
                    while sent.is_ok()
                        && let Some(message) = receive(&mut client)
                    {
                        let answer = answer(&message, describes.as_ref());
                        if !answer.is_empty() {
                            sent = client.send(&answer, Deadline::after(PATIENCE));
                        }
                    }
                });
            }
        };
        Self { is_over, thread: Some(thread::spawn(serve)) }
    }
}

impl Drop for OtherVersion {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a server that can only describe itself says to a message; empty: nothing.
fn answer(message: &[u8], describes: Option<&DescribeReply>) -> Vec<u8> {
    let methods = ServerCaller::INTERFACE.methods;
    let describe = methods.iter().find(|it| it.name == "Describe").unwrap().id;
    match Frame::decode(message, message.len()) {
        Ok(Frame::Call { id, method, .. }) => {
            let (head, body) = match describes {
                Some(reply) if method == describe => {
                    let body = reply.encode_to_vec();
                    (Frame::Reply { id, payload: Payload::new(0, body.len()).unwrap() }, body)
                }
                _ => {
                    let body = b"there is no such method".to_vec();
                    let payload = Payload::new(0, body.len()).unwrap();
                    (Frame::Error { id, status: Code::Unimplemented, payload }, body)
                }
            };
            [&head.encode()[..], &body].concat()
        }
        Ok(Frame::Ping { number }) => Frame::Pong { number }.encode().to_vec(),
        _ => Vec::new(),
    }
}

/// A call of `Echo` with this slot and generation.
pub fn call(id: u64, name: &str, metadata: &[u8], body: &[u8]) -> Vec<u8> {
    let frame = Frame::Call {
        id: CallId::from_word(id),
        object: echo_object(),
        method: method(name),
        timeout_ns: 0,
        payload: Payload::new(metadata.len(), body.len()).unwrap(),
        shape: Shape::Unary,
    };
    [&frame.encode()[..], metadata, body].concat()
}

/// A `Note` of `Echo` with this number below 128.
pub fn note(number: u8) -> Vec<u8> {
    let body = [0x10, number];
    let frame = Frame::Oneway {
        object: echo_object(),
        method: method("Note"),
        timeout_ns: 0,
        payload: Payload::new(0, body.len()).unwrap(),
    };
    [&frame.encode()[..], &body].concat()
}

fn with_byte(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    frame
}

/// Frames that end a connection, each for a reason of its own.
pub fn violations() -> Vec<(&'static str, Vec<u8>)> {
    let nothing = || call(1 << 16, "Nothing", &[], &[]);
    let id = CallId::from_word(7 << 16 | 3);
    let payload = Payload { metadata_bytes: 0, body_bytes: 0, ..Payload::EMPTY };
    vec![
        ("no bytes", vec![]),
        ("half a header", nothing()[..HEADER_BYTES / 2].to_vec()),
        ("a header but a byte", nothing()[..HEADER_BYTES - 1].to_vec()),
        ("another version", with_byte(nothing(), 0, 9)),
        ("an unknown kind", with_byte(nothing(), 1, 99)),
        ("a stream's item", with_byte(nothing(), 1, 9)),
        ("reserved flags", with_byte(nothing(), 2, 1)),
        ("a status in a call", with_byte(nothing(), 6, 1)),
        ("a deadline in eternity", with_byte(nothing(), 39, 0xff)),
        ("more announced than sent", with_byte(nothing(), 8, 1)),
        ("more sent than announced", [nothing(), vec![0]].concat()),
        ("a second greeting", hello(1, 1)),
        ("a reply to nothing", Frame::Reply { id, payload }.encode().to_vec()),
        ("an error for nothing", {
            Frame::Error { id, status: Code::Internal, payload }.encode().to_vec()
        }),
        ("a cancel of nothing", Frame::Cancel { id }.encode().to_vec()),
        ("a pong for nothing", Frame::Pong { number: 4 }.encode().to_vec()),
        ("too much metadata", call(1 << 16, "Nothing", &[0; (8 << 10) + 1], &[])),
        ("a slot beyond the table", call(1 << 16 | 999, "Nothing", &[], &[])),
    ]
}
