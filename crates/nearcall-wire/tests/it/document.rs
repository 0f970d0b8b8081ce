//! The book's `reference/protocol.md` against this crate: its tables of kinds and codes, and
//! its golden bytes.
//!
//! **Invariants:** two ends in memory make each frame of the document, byte for byte, and take it.
//! **Not here:** the handshake, and servers (the tests of the crates above).

use nearcall_wire::limits::{
    CALLS_MAX_DEFAULT, GREETING_BYTES_MAX, MESSAGE_BYTES_MAX_DEFAULT, METADATA_BYTES_MAX_DEFAULT,
    STREAM_WINDOW_BYTES_DEFAULT,
};
use nearcall_wire::{
    CallProtocol, Code, Event, Frame, HEADER_BYTES, Head, Hello, IncomingCall, Kind, Limits,
    OutgoingCall, Request, StreamCall, SwitchReason, SwitchStep, Switching, Time, VERSION,
    VERSION_MAX, grant_bytes, item_cost,
};

use crate::golden::{PROTOCOL, Turn, block};

/// The sessions of the document, each of which follows the greetings.
const SESSIONS: [&str; 3] = ["thermostat", "brewer", "archive"];

/// The messages of one end, whose fragments are put together.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut whole, mut message) = (bytes, Vec::new(), Vec::new());
    while let Some((header, later)) = rest.split_first_chunk::<8>() {
        let header = u64::from_le_bytes(*header);
        let (bytes, is_last) = ((header >> 32 & 0x07ff_ffff) as usize, header >> 63 == 1);
        let (fragment, later) = later.split_at(bytes);
        message.extend(fragment);
        assert_eq!(is_last, message.len() as u64 == header & 0xffff_ffff);
        if is_last {
            whole.push(std::mem::take(&mut message));
        }
        rest = later;
    }
    assert!(rest.is_empty() && message.is_empty(), "cut off: {rest:02x?}, {message:02x?}");
    whole
}

fn messages_of(turn: &Turn) -> Vec<Vec<u8>> {
    messages(&turn.to_send())
}

#[test]
fn every_frame_of_the_document_is_encoded_as_it_stands_there() {
    for message in block("greetings").iter().flat_map(messages_of) {
        let hello = Hello::decode(&message, message.len()).unwrap();
        assert_eq!(hello.encode()[..], message[..]);
    }
    let mut kinds = Vec::new();
    for message in SESSIONS.iter().flat_map(|name| block(name)).flat_map(|turn| messages_of(&turn))
    {
        let frame = Frame::decode(&message, message.len()).unwrap();
        assert_eq!(frame.encode()[..], message[..HEADER_BYTES], "{frame:?}");
        kinds.push(frame.kind() as u8);
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11], "each kind but one-way and later versions");
}

/// Both ends of a session, and the calls that each has open or has had last.
struct Session {
    client: CallProtocol,
    server: CallProtocol,
    made: Option<OutgoingCall>,
    taken: Option<IncomingCall>,
}

const NOW: Time = Time::from_ns(0);

impl Session {
    fn new() -> Self {
        let small = Limits { calls_in_max: 0, stream_window_bytes: 96, ..Limits::default() };
        let switching = Limits { switching: Switching::Server, ..Limits::default() };
        Self {
            client: CallProtocol::new(*b"plain client 001", small),
            server: CallProtocol::new([0; 16], switching),
            made: None,
            taken: None,
        }
    }

    /// Has one end make the header of this frame.
    fn send(&mut self, is_client: bool, frame: &Frame) -> Head {
        let end = if is_client { &mut self.client } else { &mut self.server };
        let stream = match is_client {
            true => self.made.map(StreamCall::Outgoing),
            false => self.taken.map(StreamCall::Incoming),
        };
        match *frame {
            Frame::Call { object, method, timeout_ns, payload, shape, .. } => {
                let deadline = if timeout_ns == 0 { Time::NEVER } else { NOW.after_ns(timeout_ns) };
                let request = Request { object, method, deadline, payload, shape };
                let (call, head) = end.start_call(NOW, &request).unwrap();
                self.made = Some(call);
                return head;
            }
            Frame::Reply { payload, .. } => {
                return end.reply(self.taken.unwrap(), payload).unwrap();
            }
            Frame::Error { status, payload, .. } => {
                return end.fail(self.taken.unwrap(), status, payload).unwrap();
            }
            Frame::Item { payload, .. } => return end.send_item(stream.unwrap(), payload).unwrap(),
            Frame::End { .. } => return end.half_close(self.made.unwrap()).unwrap(),
            Frame::Cancel { .. } => end.cancel(self.made.unwrap()).unwrap(),
            Frame::Credit { bytes, .. } => end.consume(stream.unwrap(), bytes),
            Frame::Ping { .. } => end.ping(NOW).unwrap(),
            Frame::GoAway if is_client => end.drain(),
            _ => {}
        }
        end.poll_transmit().unwrap()
    }

    /// Has the other end take this message.
    fn take(&mut self, is_client: bool, message: &[u8]) {
        let end = if is_client { &mut self.server } else { &mut self.client };
        match end.handle_message(NOW, message, message.len()).unwrap() {
            Some(Event::Call { call, .. }) => self.taken = Some(call),
            Some(Event::Ended { call, .. }) => drop(self.client.release(call)),
            _ => {}
        }
    }
}

#[test]
fn both_ends_send_and_take_the_sessions_of_the_document() {
    for name in SESSIONS {
        let mut session = Session::new();
        for turn in block("greetings") {
            let end = if turn.is_client { &mut session.client } else { &mut session.server };
            assert_eq!(end.poll_transmit().unwrap()[..], messages_of(&turn)[0][..]);
        }
        for turn in block("greetings").into_iter().chain(block(name)) {
            for message in messages_of(&turn) {
                if let Ok(frame) = Frame::decode(&message, message.len()) {
                    let head = session.send(turn.is_client, &frame);
                    assert_eq!(head[..], message[..HEADER_BYTES], "{name}: {frame:?}");
                }
                session.take(turn.is_client, &message);
            }
        }
    }
}

/// The rows of the table that begins with this heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = PROTOCOL.split_once(heading).unwrap();
    let lines = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_tables_of_the_document_have_the_numbers_of_the_code() {
    let name_of = |text: &'static str| text.split(':').next().unwrap();
    let mut codes: Vec<(u16, &str)> = Vec::new();
    for row in rows("| code | name | code | name | code | name |") {
        let pairs = row.chunks(2).filter(|pair| !pair[0].is_empty());
        codes.extend(pairs.map(|pair| (pair[0].parse::<u16>().unwrap(), name_of(pair[1]))));
    }
    codes.sort_unstable();
    let known: Vec<_> = Code::ALL[1..].iter().map(|it| (it.number().into(), it.name())).collect();
    assert_eq!(codes, known);

    let kinds = rows("| kind | name | sent by | uses, beside id | flags | meaning |");
    let kinds: Vec<_> = kinds.iter().map(|row| (row[0].parse().unwrap(), row[1])).collect();
    let known = [
        (Kind::Call, "CALL"),
        (Kind::Oneway, "ONEWAY"),
        (Kind::Reply, "REPLY"),
        (Kind::Error, "ERROR"),
        (Kind::Cancel, "CANCEL"),
        (Kind::Ping, "PING"),
        (Kind::Pong, "PONG"),
        (Kind::GoAway, "GOAWAY"),
        (Kind::Item, "ITEM"),
        (Kind::End, "END"),
        (Kind::Credit, "CREDIT"),
        (Kind::Switch, "SWITCH"),
        (Kind::Headers, "HEADERS"),
    ];
    assert_eq!(kinds, known.map(|(kind, name)| (kind as u8, name)));

    let steps = rows("| step | name | sent by | meaning |");
    let steps: Vec<_> = steps.iter().map(|row| (row[0].parse().unwrap(), row[1])).collect();
    let reason = SwitchReason::Busy;
    let known = [
        (SwitchStep::Ask { mechanism: 0 }, "ASK"),
        (SwitchStep::Begin { ask: 0 }, "BEGIN"),
        (SwitchStep::Step, "STEP"),
        (SwitchStep::Last, "LAST"),
        (SwitchStep::Done, "DONE"),
        (SwitchStep::Refuse(reason), "REFUSE"),
        (SwitchStep::Decline(reason), "DECLINE"),
        (SwitchStep::Ready, "READY"),
    ];
    assert_eq!(steps, known.map(|(step, name)| (step.number(), name)));
}

/// A number of the document: digits with commas.
fn number(text: &str) -> u32 {
    text.split(", and").next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn the_limits_of_the_document_are_those_of_the_code() {
    let rows = rows("| field | meaning | default of this library |");
    let default = |field: &str| rows.iter().find(|row| row[0].contains(field)).unwrap()[2];
    assert_eq!(default("version_min"), format!("{VERSION}, {VERSION_MAX}"));
    assert_eq!(number(default("`message_bytes_max`")), MESSAGE_BYTES_MAX_DEFAULT);
    assert_eq!(number(default("metadata_bytes_max")), METADATA_BYTES_MAX_DEFAULT.into());
    assert_eq!(number(default("calls_in_max")), CALLS_MAX_DEFAULT.into());
    assert_eq!(number(default("stream_window_bytes")), STREAM_WINDOW_BYTES_DEFAULT);
    assert!(PROTOCOL.contains("A greeting has 40 to 1,024 bytes"));
    assert_eq!((HEADER_BYTES, GREETING_BYTES_MAX), (40, 1024));
    // "at most three quarters of the window, rounded up", and a quarter is given back at once.
    for window in [1, 2, 3, 96, 97, 98, 99, 4 << 20] {
        assert_eq!(item_cost(usize::MAX, window), window - window / 4);
        assert_eq!(item_cost(usize::MAX, window), (3 * window).div_ceil(4));
        assert_eq!(grant_bytes(window), (window / 4).max(1));
    }
}

#[test]
fn the_page_of_the_codes_has_all_of_them() {
    let page = include_str!("../../../../docs/book/src/reference/codes.md");
    let table = page.split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(" | `")).collect();
    assert_eq!(rows.len(), Code::ALL.len());
    for (row, code) in rows.iter().zip(Code::ALL) {
        let start = format!("| {} | `{}` | ", code.number(), code.name());
        assert!(row.starts_with(&start), "{row}: not {start}");
    }
}
