//! Two connections and a link between them, in memory and with its own time.
//!
//! The link delays messages by a given time, keeps their order, and has little room if asked. Each
//! [`Side`] keeps its own books of calls, so that an end that comes twice or never fails the test.
//! Items, half-closes and replies carry numbers beside their headers, so that an item that is lost,
//! doubled or out of its order fails it too.
//! **Not here:** who does what when (`pair.rs`, `simulation.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nearcall_wire::{
    CallProtocol, Code, End, Event, Frame, HEADER_BYTES, Head, IncomingCall, ItemError, Limits,
    OutgoingCall, Payload, ProtocolError, Request, Shape, StartError, StreamCall, SwitchError,
    SwitchEvent, SwitchReason, SwitchState, Switching, Time, is_last, item_cost, needs_time,
};

/// Takes a message, and sees to it that the short way for plain messages comes to the same.
pub(crate) fn both_ways(
    connection: &mut CallProtocol,
    now: Time,
    head: &[u8],
    message_bytes: usize,
) -> Result<Option<Event>, ProtocolError> {
    let before = connection.clone();
    let outcome = connection.handle_message(now, head, message_bytes);
    let mut short = before.clone();
    let event = short.handle_plain(head, message_bytes).map(|plain| plain.event());
    match event {
        Some(_) => assert_eq!((Ok(event), &short), (outcome, &*connection)),
        None => assert_eq!(short, before, "a refusal changes nothing"),
    }
    outcome
}

/// A message on its way. Of the bytes behind the header only the number matters here.
struct Message {
    arrives: Time,
    head: Head,
    message_bytes: usize,
    /// Of an item: how many its sender had sent before. Of a half-close or an answer: in all.
    items: Option<u64>,
}

/// An open call that streams, as one end sees it.
pub(crate) struct StreamBook {
    shape: Shape,
    is_caller: bool,
    sent: u64,
    received: u64,
    /// Costs of the items that were received and not consumed.
    held: VecDeque<u32>,
    sent_end: bool,
    received_end: bool,
}

impl StreamBook {
    fn new(shape: Shape, is_caller: bool) -> Self {
        let (held, sent_end, received_end) = (VecDeque::new(), false, false);
        Self { shape, is_caller, sent: 0, received: 0, held, sent_end, received_end }
    }

    /// Whether the peer may send items, as far as this end knows.
    pub(crate) fn receives(&self) -> bool {
        !self.received_end
            && if self.is_caller {
                self.shape.callee_streams()
            } else {
                self.shape.caller_streams()
            }
    }

    /// Whether the peer has sent its last item, and the call goes on.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.received_end
    }

    fn sends(&self) -> bool {
        !self.sent_end
            && if self.is_caller {
                self.shape.caller_streams()
            } else {
                self.shape.callee_streams()
            }
    }
}

/// One end with its books.
pub(crate) struct Side {
    pub(crate) connection: CallProtocol,
    /// Our calls that have not ended.
    pub(crate) open: BTreeSet<OutgoingCall>,
    /// The peer's calls that have not ended.
    pub(crate) serving: BTreeSet<IncomingCall>,
    pub(crate) events: Vec<Event>,
    pub(crate) is_drained: bool,
    /// Open calls that stream.
    pub(crate) streams: BTreeMap<StreamCall, StreamBook>,
    /// Credits that ended a wait.
    pub(crate) credits: u64,
    pub(crate) half_closes: u64,
    /// Calls of either end of which headers were sent, or have come.
    headers: BTreeSet<StreamCall>,
    /// Headers that have come.
    pub(crate) headers_received: u64,
    /// What the peer may send here in a stream and what may be sent to it, in bytes.
    pub(crate) window: u32,
    peer_window: u32,
    inbox: VecDeque<Message>,
    /// What has come on the new channel before the old one has ended.
    next_inbox: VecDeque<Message>,
    pub(crate) switching: Switches,
}

/// The switches of an end: which channels it uses, by the number of the switch that made them.
#[derive(Default)]
pub(crate) struct Switches {
    is_client: bool,
    sends_on: u64,
    receives_on: u64,
    /// The switch that is under way.
    number: u64,
    asked: u64,
    pub(crate) moves: u64,
    pub(crate) declined: u64,
    pub(crate) rejected: u64,
    pub(crate) refused: u64,
}

impl Side {
    fn new(instance: u8, limits: Limits, window: u32, peer_window: u32) -> Self {
        let switching = match (limits.switching, instance) {
            (Switching::Never, _) => Switching::Never,
            (_, 1) => Switching::Client,
            _ => Switching::Server,
        };
        let limits = Limits { stream_window_bytes: window, switching, ..limits };
        let is_client = switching == Switching::Client;
        Self {
            connection: CallProtocol::new([instance; 16], limits),
            open: BTreeSet::new(),
            serving: BTreeSet::new(),
            events: Vec::new(),
            is_drained: false,
            streams: BTreeMap::new(),
            credits: 0,
            half_closes: 0,
            headers: BTreeSet::new(),
            headers_received: 0,
            window,
            peer_window,
            inbox: VecDeque::new(),
            next_inbox: VecDeque::new(),
            switching: Switches { is_client, ..Switches::default() },
        }
    }

    /// What the connection counts is what its events and answers told.
    pub(crate) fn check_books(&self) {
        let counts = self.connection.counts();
        assert_eq!(counts.outgoing_open, self.open.len());
        assert_eq!(counts.incoming_open, self.serving.len());
        for stream in self.streams.keys() {
            assert!(match stream {
                StreamCall::Outgoing(call) => self.open.contains(call),
                StreamCall::Incoming(call) => self.serving.contains(call),
            });
        }
    }

    /// `items` is what the message of the event says of them.
    fn note(&mut self, event: Event, items: Option<u64>) {
        match event {
            Event::Call { call, shape, .. } => {
                assert!(self.serving.insert(call), "{call:?} came twice");
                if shape != Shape::Unary {
                    self.streams.insert(call.into(), StreamBook::new(shape, false));
                }
            }
            Event::Cancelled { call, .. } => {
                assert!(self.serving.remove(&call), "{call:?} had ended before");
                self.streams.remove(&call.into());
            }
            Event::Item { call, payload } => self.note_item(call, payload, items),
            Event::HalfClosed { call } => {
                let book = self.streams.get_mut(&call.into()).expect("an open stream");
                assert!(!std::mem::replace(&mut book.received_end, true), "{call:?}");
                assert_eq!(items, Some(book.received), "items of {call:?} are lost");
                self.half_closes += 1;
            }
            Event::Headers { call, .. } => {
                assert!(self.open.contains(&call));
                let items = self.streams.get(&call.into()).map_or(0, |book| book.received);
                assert_eq!(items, 0, "headers precede the items");
                assert!(self.headers.insert(call.into()), "headers of {call:?} came twice");
                self.headers_received += 1;
            }
            Event::Credit { call } => {
                assert!(self.streams.contains_key(&call));
                self.credits += 1;
            }
            Event::Ended { call, end } => {
                assert!(self.open.remove(&call), "{call:?} had ended before");
                // An error of the peer comes behind its items as well.
                if let Some(book) = self.streams.remove(&call.into())
                    && (items.is_some() || matches!(end, End::Reply(_)))
                {
                    assert_eq!(items, Some(book.received), "items of {call:?} are lost");
                }
                assert!(self.connection.release(call).is_some(), "{call:?} was released before");
            }
            Event::Drained => assert!(!std::mem::replace(&mut self.is_drained, true)),
            Event::Switch(event) => self.note_switch(event),
            Event::Opened(_) | Event::Oneway { .. } | Event::Pong { .. } => {}
            Event::PeerDrains | Event::PeerDrained => {}
        }
        self.events.push(event);
    }

    fn note_switch(&mut self, event: SwitchEvent) {
        let books = &mut self.switching;
        match event {
            SwitchEvent::PeerLast { number } => {
                assert_eq!(number, books.number);
                assert!(self.inbox.is_empty(), "something follows the last message");
                self.inbox = std::mem::take(&mut self.next_inbox);
                books.receives_on = number;
                books.moves += 1;
                match books.is_client {
                    true => self.connection.finish_switch().unwrap(),
                    false => self.connection.end_channel().unwrap(),
                }
            }
            SwitchEvent::Begun { number, .. } => books.number = number,
            SwitchEvent::Asked { number, .. } => books.asked = number,
            SwitchEvent::Declined { .. } => books.declined += 1,
            SwitchEvent::Rejected { .. } => books.rejected += 1,
            SwitchEvent::Refused { .. } => books.refused += 1,
            SwitchEvent::Step { number } | SwitchEvent::Ready { number } => {
                assert_eq!(number, books.number);
            }
            SwitchEvent::Done { .. } => {}
        }
    }

    /// Does what an end can do for a switch now, if it can do something.
    fn switch(&mut self, choice: u8) {
        let (connection, books) = (&mut self.connection, &mut self.switching);
        let result = match (connection.switch_state(), books.is_client) {
            (SwitchState::Asked, true) if choice.is_multiple_of(4) => {
                connection.refuse_ask(books.asked, SwitchReason::NotAllowed)
            }
            (SwitchState::Idle | SwitchState::Asked, true) => {
                connection.begin_switch().map(|number| books.number = number)
            }
            (SwitchState::Idle | SwitchState::Asked, false) => connection.ask_switch(7).map(drop),
            (SwitchState::Handshaking, _) | (SwitchState::Ready, true) if choice < 30 => {
                connection.refuse_switch(SwitchReason::TimedOut)
            }
            (SwitchState::Handshaking, false) if choice >= 100 => connection.ready_switch(),
            (SwitchState::Handshaking, _) => connection.step_switch(),
            (SwitchState::Ready, true) => connection.end_channel(),
            _ => return,
        };
        assert_ne!(result, Err(SwitchError::WrongState));
    }

    fn note_item(&mut self, call: StreamCall, payload: Payload, items: Option<u64>) {
        let book = self.streams.get_mut(&call).expect("an open stream");
        assert!(!book.received_end, "{call:?}");
        assert_eq!(items, Some(book.received), "items of {call:?} are lost, doubled or reordered");
        book.received += 1;
        book.held.push_back(item_cost(payload.message_bytes(), self.window));
        let held: u32 = book.held.iter().sum();
        assert!(held <= self.window, "{call:?} holds {held}: its credit is negative");
    }

    /// Consumes the first item of a call that is held, if there is one.
    pub(crate) fn consume(&mut self, call: StreamCall) -> bool {
        let book = self.streams.get_mut(&call).expect("an open stream");
        let Some(cost) = book.held.pop_front() else { return false };
        self.connection.consume(call, cost.into());
        true
    }
}

/// Both ends, the link and the clock.
pub(crate) struct Link {
    pub(crate) now: Time,
    pub(crate) sides: [Side; 2],
    /// What each direction takes before it is full.
    pub(crate) room: usize,
    pub(crate) delay_ns: u64,
}

impl Link {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_windows(limits, [limits.stream_window_bytes; 2])
    }

    /// Two ends with a window each.
    pub(crate) fn with_windows(limits: Limits, [first, second]: [u32; 2]) -> Self {
        Self {
            now: Time::from_ns(1_000),
            sides: [Side::new(1, limits, first, second), Side::new(2, limits, second, first)],
            room: usize::MAX,
            delay_ns: 0,
        }
    }

    /// A link whose ends have greeted each other.
    pub(crate) fn open(limits: Limits) -> Self {
        let mut link = Self::new(limits);
        link.settle();
        link
    }

    /// A request without metadata and with 100 bytes of arguments.
    pub(crate) fn request(deadline: Time) -> Request {
        let payload = Payload { metadata_bytes: 0, body_bytes: 100, ..Payload::EMPTY };
        Request { object: 7, method: 3, deadline, payload, shape: Shape::Unary }
    }

    pub(crate) fn has_room(&self, from: usize) -> bool {
        let to = &self.sides[1 - from];
        match self.sides[from].switching.sends_on == to.switching.receives_on {
            true => to.inbox.len() < self.room,
            false => to.next_inbox.len() < self.room,
        }
    }

    /// Does something for a switch at one end.
    pub(crate) fn switch(&mut self, side: usize, choice: u8) {
        self.sides[side].switch(choice);
    }

    /// Both ends use the same channel, and no switch is under way.
    pub(crate) fn check_channel(&self) {
        let [client, server] = &self.sides;
        let used = |side: &Side| (side.switching.sends_on, side.switching.receives_on);
        assert_eq!(used(client), used(server));
        assert_eq!(client.switching.sends_on, client.switching.receives_on);
        assert_eq!(client.switching.moves, server.switching.moves);
        for side in &self.sides {
            assert_eq!(side.connection.switch_state(), SwitchState::Idle);
            assert!(side.next_inbox.is_empty());
        }
    }

    fn send(&mut self, from: usize, head: Head, message_bytes: usize, items: Option<u64>) {
        let channel = self.sides[from].switching.sends_on;
        let to = &mut self.sides[1 - from];
        let inbox = match channel == to.switching.receives_on {
            true => &mut to.inbox,
            false => &mut to.next_inbox,
        };
        // Order is kept: nothing overtakes, however the delay changes.
        let last = inbox.back().map_or(self.now, |message| message.arrives);
        let arrives = self.now.after_ns(self.delay_ns).max(last);
        inbox.push_back(Message { arrives, head, message_bytes, items });
    }

    /// Sends what the connection itself wants to say, as far as there is room.
    pub(crate) fn flush(&mut self, from: usize) {
        while self.has_room(from) && self.sides[from].connection.has_transmit() {
            let head = self.sides[from].connection.poll_transmit().unwrap();
            self.send(from, head, HEADER_BYTES, None);
            if is_last(&head) {
                let switching = &mut self.sides[from].switching;
                switching.sends_on = switching.number;
            }
        }
        let connection = &mut self.sides[from].connection;
        assert!(connection.has_transmit() || connection.poll_transmit().is_none());
    }

    /// Starts a call and sends it. The link must have room.
    pub(crate) fn call(
        &mut self,
        from: usize,
        request: &Request,
    ) -> Result<OutgoingCall, StartError> {
        self.flush(from);
        let now = if request.deadline == Time::NEVER { Time::from_ns(0) } else { self.now };
        let (call, head) = self.sides[from].connection.start_call(now, request)?;
        assert!(self.sides[from].connection.is_open());
        assert!(self.sides[from].open.iter().all(|open| open.slot() != call.slot()));
        assert!(self.sides[from].open.insert(call), "{call:?} was given out twice");
        if request.shape != Shape::Unary {
            let book = StreamBook::new(request.shape, true);
            self.sides[from].streams.insert(call.into(), book);
        }
        self.send(from, head, request.payload.message_bytes(), None);
        Ok(call)
    }

    pub(crate) fn oneway(&mut self, from: usize, request: &Request) -> Result<(), StartError> {
        self.flush(from);
        let head = self.sides[from].connection.start_oneway(self.now, request)?;
        self.send(from, head, request.payload.message_bytes(), None);
        Ok(())
    }

    /// Sends headers of a call of the peer, if it may still have some. The link must have room.
    pub(crate) fn headers(&mut self, from: usize, call: IncomingCall, metadata_bytes: u16) {
        self.flush(from);
        let Side { connection, streams, headers, .. } = &mut self.sides[from];
        let is_begun = streams.get(&call.into()).is_some_and(|book| book.sent > 0);
        if is_begun || headers.contains(&call.into()) {
            return;
        }
        if let Ok(head) = connection.send_headers(call, metadata_bytes) {
            headers.insert(call.into());
            let payload = Payload { metadata_bytes, ..Payload::EMPTY };
            self.send(from, head, payload.message_bytes(), None);
        }
    }

    /// Sends an item. The link must have room.
    pub(crate) fn item(
        &mut self,
        from: usize,
        call: StreamCall,
        body_bytes: u32,
    ) -> Result<(), ItemError> {
        let Side { connection, streams, peer_window: window, .. } = &mut self.sides[from];
        let payload = Payload { body_bytes, ..Payload::EMPTY };
        let left = connection.credit_left(call);
        assert!(left.is_none_or(|left| left <= *window));
        let book = streams.get_mut(&call).expect("an open stream");
        assert_eq!(left.is_some(), book.sends(), "{call:?}");
        let cost = item_cost(payload.message_bytes(), *window);
        let head = connection.send_item(call, payload);
        assert_eq!(head.is_ok(), left >= Some(cost), "{head:?}");
        let head = head?;
        let rest = left.and_then(|left| left.checked_sub(cost));
        assert!(rest.is_some(), "credit is never negative");
        assert_eq!(connection.credit_left(call), rest);
        // What could not be sent costs nothing.
        connection.refund_item(call, payload);
        assert_eq!(connection.credit_left(call), left);
        assert_eq!(connection.send_item(call, payload), Ok(head));
        let items = book.sent;
        book.sent += 1;
        self.send(from, head, payload.message_bytes(), Some(items));
        Ok(())
    }

    /// Everything was delivered and consumed, so whoever sends has credit for any item.
    pub(crate) fn check_credit(&mut self) {
        for side in &mut self.sides {
            let most = item_cost(usize::MAX, side.peer_window);
            for &call in side.streams.keys() {
                let left = side.connection.credit_left(call);
                assert!(left.is_none_or(|left| left >= most), "{call:?} starves: {left:?}");
            }
        }
    }

    /// Delivers a frame to a side that the other has not sent.
    pub(crate) fn forge(
        &mut self,
        to: usize,
        frame: Frame,
    ) -> Result<Option<Event>, ProtocolError> {
        let (head, message_bytes) = (frame.encode(), frame.payload().message_bytes());
        both_ways(&mut self.sides[to].connection, self.now, &head, message_bytes)
    }

    /// Half-closes a call. The link must have room.
    pub(crate) fn half_close(&mut self, from: usize, call: OutgoingCall) -> Result<(), ItemError> {
        let side = &mut self.sides[from];
        let head = side.connection.half_close(call)?;
        let book = side.streams.get_mut(&call.into()).expect("an open stream");
        assert!(!std::mem::replace(&mut book.sent_end, true));
        let items = book.sent;
        self.send(from, head, HEADER_BYTES, Some(items));
        Ok(())
    }

    /// Answers a call of the peer, if there is room. An error if the status is not OK.
    pub(crate) fn answer(&mut self, from: usize, call: IncomingCall, status: Code) {
        self.flush(from);
        if !self.has_room(from) {
            return;
        }
        let side = &mut self.sides[from];
        let payload = Payload { metadata_bytes: 5, body_bytes: 9, ..Payload::EMPTY };
        let head = match status {
            Code::Ok => side.connection.reply(call, payload),
            status => side.connection.fail(call, status, payload),
        };
        if let Ok(head) = head {
            assert!(side.serving.remove(&call), "{call:?} had ended before");
            let items = side.streams.remove(&call.into()).map(|book| book.sent);
            self.send(from, head, payload.message_bytes(), items);
        } else {
            assert!(!side.serving.contains(&call), "{call:?} was refused: {head:?}");
        }
    }

    pub(crate) fn cancel(&mut self, from: usize, call: OutgoingCall) {
        let side = &mut self.sides[from];
        let was_open = side.open.remove(&call);
        side.streams.remove(&call.into());
        assert_eq!(side.connection.cancel(call).is_ok(), was_open, "{call:?}");
    }

    /// Delivers the next message to a side, if one has arrived.
    pub(crate) fn deliver(&mut self, to: usize) -> bool {
        let side = &mut self.sides[to];
        if side.inbox.front().is_none_or(|message| message.arrives > self.now) {
            return false;
        }
        let Message { head, message_bytes, items, .. } = side.inbox.pop_front().unwrap();
        // A driver that need not read its clock may say anything.
        let now = if needs_time(&head) { self.now } else { Time::NEVER };
        let event = both_ways(&mut side.connection, now, &head, message_bytes);
        if let Some(event) = event.unwrap() {
            side.note(event, items);
        }
        true
    }

    /// Gives a side the time and takes its events.
    pub(crate) fn turn(&mut self, side: usize) {
        let books = &mut self.sides[side];
        if books.connection.poll_timeout().is_some_and(|time| time <= self.now) {
            books.connection.handle_timeout(self.now);
        }
        while let Some(event) = books.connection.poll_event() {
            books.note(event, None);
        }
        assert!(books.connection.poll_timeout().is_none_or(|time| time > self.now));
        self.flush(side);
        while let Some(event) = self.sides[side].connection.poll_event() {
            self.sides[side].note(event, None);
        }
        self.sides[side].check_books();
    }

    /// When something is going to happen by itself.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let arrivals = self.sides.iter().filter_map(|side| side.inbox.front());
        let deadlines = self.sides.iter().filter_map(|side| side.connection.poll_timeout());
        arrivals.map(|message| message.arrives).chain(deadlines).min()
    }

    /// Delivers everything that arrives by now, and what follows from it.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut moved = false;
            self.turn(0);
            self.turn(1);
            for side in [0, 1] {
                moved |= self.deliver(side);
            }
            if !moved {
                break;
            }
        }
    }

    /// Lets time pass until nothing more happens by itself.
    pub(crate) fn run_out(&mut self) {
        self.settle();
        while let Some(time) = self.next_time() {
            self.now = self.now.max(time);
            self.settle();
        }
    }

    /// The channel dies. Each side still gets what had been sent to it, as far as `delivered` goes.
    pub(crate) fn die(&mut self, delivered: [usize; 2]) {
        self.now = self
            .sides
            .iter()
            .flat_map(|side| side.inbox.iter().map(|m| m.arrives))
            .fold(self.now, Time::max);
        for side in [0, 1] {
            for _ in 0..delivered[side] {
                self.deliver(side);
            }
            self.sides[side].inbox.clear();
            self.sides[side].next_inbox.clear();
            self.sides[side].connection.handle_closed();
        }
        for side in [0, 1] {
            while let Some(event) = self.sides[side].connection.poll_event() {
                self.sides[side].note(event, None);
            }
        }
    }
}
