//! One user has a small server hold as much as each shape of a call, each kind of service and each
//! mechanism lets it: the server ends no connection, answers another user, and has all of it back.
//!
//! **Not here:** connections, segments, half messages and replies (`shares.rs`).

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use nearcall::prost::encoding::encode_varint;
use nearcall::service::{
    Blocking, BlockingPool, Dispatcher, Idempotency, Incoming, Interface, Method, MethodKind,
    Responder, TaskRunner, WhenFull,
};
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender, ItemReceiver, ItemSender};
use nearcall_channel::{Address, Endpoint, Mechanism, Options, ReceiveError, connect};
use nearcall_wire::{CallId, Frame, HEADER_BYTES, Kind as FrameKind, Payload, Shape};

use crate::raw_frames::call;
use crate::served::{hello, object};
use crate::shares::status_kib;
use crate::sizes::{Lists, SizesCaller, Wide};
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("holding-server", |address| serve(address, Limits::default(), register_all)),
    ("memory-holder", |address| hold_until_told(address)),
];

/// How a service holds on to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Not at all.
    Sync,
    /// A future that waits, and reads no item.
    Asleep,
    /// A future that sends items without end.
    Pouring,
    /// A thread of a pool waits, and calls wait for one.
    Pool,
    /// A responder and the request are kept.
    Later,
    /// The method waits for a call of its own, and others run inside.
    Nested,
}

const KINDS: [Kind; 6] =
    [Kind::Sync, Kind::Asleep, Kind::Pouring, Kind::Pool, Kind::Later, Kind::Nested];

const SHAPES: [MethodKind; 5] = [
    MethodKind::Unary,
    MethodKind::Oneway,
    MethodKind::ReplyStream,
    MethodKind::RequestStream,
    MethodKind::BothStreams,
];

/// What requests and items have in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Small,
    /// 190 KB of empty elements, 29 MB when they are decoded.
    Empties,
    /// As much of them in a message that is not judged before it is kept.
    ShortEmpties,
    /// One field of 4 MiB.
    Plain,
    /// The longest metadata.
    Metadata,
}

const CONTENTS: [Content; 5] =
    [Content::Small, Content::Empties, Content::ShortEmpties, Content::Plain, Content::Metadata];

fn instance(kind: Kind, shape: MethodKind) -> String {
    format!("{kind:?}-{shape:?}").to_lowercase()
}

/// `Sizes` with one method, of this shape.
fn interface(shape: MethodKind) -> &'static Interface {
    macro_rules! interface {
        ($shape:ident) => {{
            static METHOD: Method = Method {
                id: 1,
                // Its request is that of this method.
                name: "Send",
                kind: MethodKind::$shape,
                deadline: None,
                idempotency: Idempotency::Unknown,
            };
            static INTERFACE: Interface =
                Interface::new("sizes.v1.Sizes", &[&METHOD], SizesCaller::INTERFACE.descriptor_set);
            &INTERFACE
        }};
    }
    match shape {
        MethodKind::Unary => interface!(Unary),
        MethodKind::Oneway => interface!(Oneway),
        MethodKind::ReplyStream => interface!(ReplyStream),
        MethodKind::RequestStream => interface!(RequestStream),
        MethodKind::BothStreams => interface!(BothStreams),
    }
}

/// What all waits end by: while it is open nothing waits.
#[derive(Default)]
struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    fn set_open(&self, is_open: bool) {
        let mut state = self.0.lock().unwrap();
        state.0 = is_open;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_open(&self) -> bool {
        self.0.lock().unwrap().0
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Requests with what answers them.
type Kept = Rc<RefCell<Vec<(Box<dyn Any>, Responder<()>)>>>;

/// A service that holds calls in the thread of its loop.
struct InLoop {
    kind: Kind,
    interface: &'static Interface,
    gate: Arc<Gate>,
    kept: Kept,
    waits_for: EchoCaller,
    runner: TaskRunner,
}

impl InLoop {
    fn hold<T: 'static>(&self, context: &Context<'_>, request: impl FnOnce() -> T) -> Outcome {
        match self.kind {
            Kind::Later => context.answer_later(|responder| {
                self.kept.borrow_mut().push((Box::new(request()), responder));
            }),
            Kind::Nested => {
                let options = CallOptions::new().deadline(Duration::from_millis(400));
                let _ = self.waits_for.with(options).later(&Words::default());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn dispatch_async(&self, incoming: Incoming<'_>) {
        let (gate, pours) = (Arc::clone(&self.gate), self.kind == Kind::Pouring);
        let runner = &self.runner;
        match self.interface.methods[0].kind {
            MethodKind::Unary => incoming.reply_async(runner, |_, request: Lists| async move {
                gate.wait().await;
                drop(request);
                Ok(())
            }),
            MethodKind::Oneway => incoming.oneway_async(runner, |_, request: Lists| async move {
                gate.wait().await;
                drop(request);
            }),
            MethodKind::ReplyStream => {
                incoming.reply_stream_async(runner, |_, request: Lists, items| async move {
                    if pours {
                        pour(items).await?;
                    }
                    gate.wait().await;
                    drop(request);
                    Ok(())
                });
            }
            MethodKind::RequestStream => incoming.receive_stream_async(
                runner,
                |_, items: AsyncItemReceiver<Lists>| async move {
                    gate.wait().await;
                    drop(items);
                    Ok(())
                },
            ),
            MethodKind::BothStreams => {
                let serve = |_, items: AsyncItemReceiver<Lists>, replies| async move {
                    if pours {
                        pour(replies).await?;
                    }
                    gate.wait().await;
                    drop(items);
                    Ok(())
                };
                incoming.both_streams_async(runner, serve);
            }
        }
    }
}

/// Sends 190 KB at a time, without end.
async fn pour(mut items: AsyncItemSender<Lists>) -> Result<(), Status> {
    let item = Lists { blobs: vec![vec![7; EMPTIES_BYTES].into()], ..Lists::default() };
    loop {
        items.send(&item).await?;
    }
}

type Outcome = Result<(), Status>;

/// Runs a method that does not return a future: it gets its context, and what clones its request.
fn dispatch_sync(
    incoming: Incoming<'_>,
    shape: MethodKind,
    hold: impl Fn(&Context<'_>, &dyn Fn() -> Box<dyn Any>) -> Outcome,
) {
    let nothing = || Box::new(()) as Box<dyn Any>;
    let of = |request: &Lists| Box::new(request.clone()) as Box<dyn Any>;
    match shape {
        MethodKind::Unary => {
            incoming.reply(|context, request: &Lists| hold(context, &|| of(request)));
        }
        MethodKind::Oneway => incoming.oneway(|context, request: &Lists| {
            let _ = hold(context, &|| of(request));
        }),
        MethodKind::ReplyStream => {
            let serve = |context: &Context<'_>, request: &Lists, _: ItemSender<Lists>| {
                hold(context, &|| of(request))
            };
            incoming.reply_stream(serve);
        }
        MethodKind::RequestStream => {
            incoming.receive_stream(|context, items: ItemReceiver<Lists>| {
                let items = RefCell::new(Some(items));
                hold(context, &|| items.take().map_or_else(nothing, |items| Box::new(items)))
            });
        }
        MethodKind::BothStreams => {
            let serve =
                |context: &Context<'_>, items: ItemReceiver<Lists>, _: ItemSender<Lists>| {
                    let items = RefCell::new(Some(items));
                    hold(context, &|| items.take().map_or_else(nothing, |items| Box::new(items)))
                };
            incoming.both_streams(serve);
        }
    }
}

impl Dispatcher for InLoop {
    fn interface(&self) -> &'static Interface {
        self.interface
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        if matches!(self.kind, Kind::Asleep | Kind::Pouring) {
            return self.dispatch_async(incoming);
        }
        let shape = self.interface.methods[0].kind;
        dispatch_sync(incoming, shape, |context, request| self.hold(context, request));
    }
}

/// The same in the threads of a pool.
struct InPool(&'static Interface, Arc<Gate>);

impl Dispatcher for InPool {
    fn interface(&self) -> &'static Interface {
        self.0
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        dispatch_sync(incoming, self.0.methods[0].kind, |context, request| {
            let kept = request();
            while !self.1.is_open() && !context.is_cancelled() {
                clock::pause(Duration::from_millis(1));
            }
            drop(kept);
            Ok(())
        });
    }
}

/// Ends all waits and forgets what was kept, or lets calls wait again: those with an element.
struct Release(Arc<Gate>, Kept);

impl Dispatcher for Release {
    fn interface(&self) -> &'static Interface {
        interface(MethodKind::Unary)
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        incoming.reply(|_, request: &Lists| {
            self.0.set_open(request.wides.is_empty());
            self.1.take();
            Ok(())
        });
    }
}

fn register_all(event_loop: &EventLoop, server: &Server) {
    let (gate, kept) = (Arc::<Gate>::default(), Rc::default());
    let client = Client::in_loop(event_loop);
    server.listen("inproc:holding").unwrap();
    let waits_for = EchoCaller::new(&client, "inproc:holding").unwrap();
    let full = WhenFull::WaitUntilDeadline;
    let pool = BlockingPool::builder().when_full(full).build();
    for kind in KINDS {
        for shape in SHAPES {
            let (interface, name) = (interface(shape), instance(kind, shape));
            if kind == Kind::Pool {
                let service = Blocking::new(InPool(interface, Arc::clone(&gate)), &pool);
                server.register_as(&name, service).unwrap();
                continue;
            }
            let (gate, kept) = (Arc::clone(&gate), Rc::clone(&kept));
            let (waits_for, runner) = (waits_for.clone(), TaskRunner::default());
            let service = InLoop { kind, interface, gate, kept, waits_for, runner };
            server.register_as(&name, service).unwrap();
        }
    }
    server.register_as("release", Release(gate, kept)).unwrap();
}

const EMPTIES_BYTES: usize = 190_000;

/// The longest field that fits a message.
const FIELD_BYTES: usize = (4 << 20) - 100;

/// One attack: what is sent, and how much of it.
#[derive(Debug, Clone, Copy)]
struct Attack {
    mechanism: Mechanism,
    kind: Kind,
    shape: MethodKind,
    content: Content,
    connections: usize,
    /// On each connection.
    calls: u64,
}

impl Attack {
    fn new(mechanism: Mechanism, kind: Kind, shape: MethodKind, content: Content) -> Self {
        let sends_items = matches!(shape, MethodKind::RequestStream | MethodKind::BothStreams);
        let (connections, calls) = match content {
            _ if kind == Kind::Pouring => (3, 250),
            _ if kind == Kind::Sync => (1, 3),
            Content::Empties if sends_items => (1, 40),
            Content::Empties => (1, 12),
            Content::ShortEmpties if !sends_items => (1, 60),
            Content::Plain => (2, 16),
            Content::Small | Content::Metadata | Content::ShortEmpties => (2, 250),
        };
        Self { mechanism, kind, shape, content, connections, calls }
    }

    /// As words for another process.
    fn line(self) -> String {
        let Self { mechanism, kind, shape, content, connections, calls } = self;
        let kind = KINDS.iter().position(|it| *it == kind).unwrap();
        let shape = SHAPES.iter().position(|it| *it == shape).unwrap();
        let content = CONTENTS.iter().position(|it| *it == content).unwrap();
        format!("{} {kind} {shape} {content} {connections} {calls}", mechanism.name())
    }

    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let mechanism = words.next().unwrap().parse().unwrap();
        let mut next = || words.next().unwrap().parse::<usize>().unwrap();
        let (kind, shape, content) = (KINDS[next()], SHAPES[next()], CONTENTS[next()]);
        let (connections, calls) = (next(), next() as u64);
        Self { mechanism, kind, shape, content, connections, calls }
    }

    fn wire_shape(self) -> Shape {
        match self.shape {
            MethodKind::Unary | MethodKind::Oneway => Shape::Unary,
            MethodKind::ReplyStream => Shape::CalleeStreams,
            MethodKind::RequestStream => Shape::CallerStreams,
            MethodKind::BothStreams => Shape::BothStream,
        }
    }

    fn content_bytes(self) -> (Vec<u8>, Vec<u8>) {
        let empties = |bytes: usize| [0x0a, 0].repeat(bytes / 2);
        let body = match self.content {
            Content::Small | Content::Metadata => Vec::new(),
            Content::Empties => empties(EMPTIES_BYTES),
            Content::ShortEmpties => empties((16 << 10) - 100),
            Content::Plain => {
                // A list of bytes, with one of this length.
                let mut body = vec![0x22];
                encode_varint(FIELD_BYTES as u64, &mut body);
                body.resize(body.len() + FIELD_BYTES, 7);
                body
            }
        };
        let metadata = if self.content == Content::Metadata { vec![0; 8 << 10] } else { vec![] };
        (metadata, body)
    }

    /// The messages of one call.
    fn messages(self, number: u64, metadata: &[u8], body: &[u8]) -> Vec<Vec<u8>> {
        let shape = self.wire_shape();
        let name = format!("sizes.v1.Sizes@{}", instance(self.kind, self.shape));
        let (object, id) = (object_id(&name), CallId::from_word(1 << 16 | number));
        // Those that nest wait for no longer than this.
        let timeout_ns = if self.kind == Kind::Nested { 400_000_000 } else { 0 };
        let in_request = if shape.caller_streams() { &[][..] } else { body };
        let payload = Payload::new(metadata.len(), in_request.len()).unwrap();
        let head = match self.shape {
            MethodKind::Oneway => Frame::Oneway { object, method: 1, timeout_ns, payload },
            _ => Frame::Call { id, object, method: 1, timeout_ns, payload, shape },
        };
        let mut messages = vec![[&head.encode()[..], metadata, in_request].concat()];
        if shape.caller_streams() {
            // What the window of a stream takes.
            let items = if self.content == Content::Plain { 1 } else { 16 };
            let payload = Payload::new(0, body.len()).unwrap();
            let item = Frame::Item { id, to_caller: false, payload };
            let item = [&item.encode()[..], body].concat();
            messages.extend(std::iter::repeat_n(item, items));
        }
        messages
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, kind, shape, content, connections, calls } = self;
        let count = connections * usize::try_from(*calls).unwrap();
        write!(f, "| {} | {kind:?} | {shape:?} | {content:?} | {count} |", mechanism.name())
    }
}

/// FNV-1a, as the protocol says.
fn object_id(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A connection of the attacker.
struct Line {
    endpoint: Endpoint,
    /// Calls that were refused for the share of the user.
    refused: u64,
    is_closed: bool,
    has_pong: bool,
}

impl Line {
    fn open(address: &str, mechanism: Mechanism) -> Self {
        let address: Address = address.parse().unwrap();
        let mut endpoint = connect(&address, mechanism, &Options::default()).unwrap();
        endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
        Self { endpoint, refused: 0, is_closed: false, has_pong: false }
    }

    /// Sends a message, and reads what comes so that the server can go on.
    fn send(&mut self, message: &[u8], reads: bool) {
        let patience = Deadline::after(PATIENCE);
        while !self.is_closed {
            match self.endpoint.send(message, Deadline::after(Duration::from_secs(1))) {
                Ok(()) => break,
                Err(nearcall_channel::SendError::Full) if !patience.has_passed() => {
                    if reads {
                        self.read(Deadline::NOW);
                    }
                }
                Err(_) => self.is_closed = true,
            }
        }
        if reads {
            self.read(Deadline::NOW);
        }
    }

    /// Waits until the server has received all that was sent, for as long as it takes.
    fn wait_for_pong(&mut self, each_second: impl Fn()) {
        self.send(&Frame::Ping { number: 1 }.encode(), true);
        while !self.has_pong && !self.is_closed {
            self.read(Deadline::after(Duration::from_secs(1)));
            each_second();
        }
    }

    fn read(&mut self, deadline: Deadline) {
        loop {
            let mut bytes = Vec::new();
            match self.endpoint.receive(deadline) {
                Ok(mut message) => message.read_to_end(&mut bytes).unwrap(),
                Err(ReceiveError::Empty) => return,
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
            let status = bytes.get(6..8).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]));
            let is = |kind: FrameKind| bytes.get(1) == Some(&(kind as u8));
            if is(FrameKind::Error) && status == Code::ResourceExhausted as u16 {
                let text = String::from_utf8_lossy(&bytes[HEADER_BYTES..]).into_owned();
                assert!(text.contains("bytes of memory of") || text.contains("inside"), "{text}");
                self.refused += 1;
            }
            if is(FrameKind::Pong) {
                self.has_pong = true;
                return;
            }
        }
    }
}

/// Does the attacks that the parent names, and holds each until the next line.
fn hold_until_told(address: &str) {
    report("ready");
    let mut lines = std::io::stdin().lock().lines();
    while let Some(Ok(line)) = lines.next() {
        let attack = Attack::parse(&line);
        let (metadata, body) = attack.content_bytes();
        let open = || Line::open(address, attack.mechanism);
        let mut held: Vec<Line> = (0..attack.connections).map(|_| open()).collect();
        // One that reads takes what the server has waiting.
        let reads = attack.kind != Kind::Pouring;
        for line in &mut held {
            for number in 0..attack.calls {
                if number % 8 == 0 {
                    report("goes on");
                }
                for message in attack.messages(number, &metadata, &body) {
                    line.send(&message, reads);
                }
            }
        }
        if reads {
            held.iter_mut().for_each(|line| line.wait_for_pong(|| report("goes on")));
        }
        let refused: u64 = held.iter().map(|line| line.refused).sum();
        let closed = held.iter().filter(|line| line.is_closed).count();
        report(&format!("held {refused} {closed}"));
        // Until it may drop them.
        let _ = lines.next();
        drop(held);
        report("dropped");
    }
}

/// Address space of a small server.
const SMALL_KIB: u64 = 512 << 10;

/// A server under attack, with a good client of another user.
struct Target {
    server: ServerProcess,
    attacker: Process,
    good: GoodClient,
    /// Bytes of the accounts without an attack.
    base: u64,
    client: Client,
}

impl Target {
    fn start(setup: ServerSetup, user: User) -> Self {
        let server = setup.start();
        let mut command = command("memory-holder", &server.address, "");
        if let User::Uid(uid) = user {
            command.uid(uid).gid(uid);
        }
        let mut attacker = Process::start_as("memory-holder", command);
        attacker.hear("ready");
        let good = GoodClient::start(&server.address, User::Same);
        let client = Client::new();
        let mut target = Self { server, attacker, good, base: 0, client };
        target.release(true);
        target.server.wait_for_connections(2);
        target.base = target.server.state().bytes;
        target
    }

    /// Ends all that waits in the services, or lets calls wait.
    fn release(&self, is_open: bool) {
        let at = format!("{}#release", self.server.address);
        let release = object(&self.client, interface(MethodKind::Unary), &at);
        let method = interface(MethodKind::Unary).methods[0];
        let release = release.with(CallOptions::new().deadline(PATIENCE));
        let wides = vec![Wide::default(); usize::from(!is_open)];
        let request = Lists { wides, ..Lists::default() };
        let in_thread = |(): &(), _: &Context<'_>, _: &_| Ok(());
        let () = release.call(method, &request, in_thread).unwrap();
    }

    /// Does one attack, and waits until nothing of it is left. Returns how many calls were refused.
    fn attack(&mut self, attack: Attack) -> u64 {
        let begun = clock::now();
        let pid = self.server.pid();
        // So that the kernel counts the peak from now on.
        let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        self.release(false);
        let before = self.server.state().refusals;
        let (held, latencies) = self.good.measure_while(|| {
            self.attacker.tell(&attack.line());
            loop {
                // The other lines report that it goes on.
                if let Some(held) = self.attacker.hear("").strip_prefix("held ") {
                    break held.to_owned();
                }
            }
        });
        if attack.kind == Kind::Pouring {
            wait_until("a refusal", || self.server.state().refusals > before);
        }
        let (refused, closed) = held.split_once(' ').unwrap();
        let (state, space) = (self.server.state(), status_kib(pid, "VmSize") >> 10);
        let peak = status_kib(pid, "VmHWM") >> 10;
        self.attacker.tell("drop");
        self.attacker.hear("dropped");
        self.server.wait_for_connections(2);
        self.release(true);
        let mut left = 0;
        wait_until("the bytes to be given back", || {
            left = self.server.state().bytes;
            left == self.base
        });
        println!(
            "{attack} {peak} | {space} | {} | {refused} | {:.0?} | {:.0?} | {:.1?} |",
            state.bytes >> 20,
            latencies.p50,
            latencies.p99,
            clock::now() - begun
        );
        assert_eq!(closed, "0", "{attack}: connections were closed");
        refused.parse().unwrap()
    }

    fn finish(mut self) {
        self.good.finish();
        self.attacker.kill();
        drop(self.client);
        self.server.finish();
    }
}

const TABLE: &str = "| over | service | shape | content | calls | peak MiB | address space MiB \
                     | charged MiB | refused | p50 | p99 | time |\n\
                     |---|---|---|---|---|---|---|---|---|---|---|---|";

fn is_too_much(attack: &Attack) -> bool {
    let keeps_request = matches!(attack.kind, Kind::Asleep | Kind::Pool | Kind::Later)
        && !attack.wire_shape().caller_streams();
    keeps_request && attack.content == Content::Empties
}

fn sweep(test: &'static str, address: Option<&'static str>, attacks: Vec<Attack>) {
    let Some(user) = User::another() else {
        return skip(test, "only root can become another user");
    };
    within(Duration::from_secs(240), move || {
        let mut setup = ServerSetup::new("holding-server").ulimit(&format!("-v {SMALL_KIB}"));
        if let Some(address) = address {
            // Connections that move would change what is charged.
            setup = setup.at(address).parameters("?allow=tcp");
        }
        let mut target = Target::start(setup, user);
        println!("{TABLE}");
        for attack in attacks {
            let refused = target.attack(attack);
            let expected = is_too_much(&attack) && attack.shape != MethodKind::Oneway;
            assert!(refused > 0 || !expected, "{attack}: nothing was refused");
        }
        target.finish();
    });
}

/// All kinds, shapes and contents that hold anything.
fn all(mechanism: Mechanism) -> Vec<Attack> {
    let mut attacks = Vec::new();
    for kind in KINDS {
        for shape in SHAPES {
            for content in CONTENTS {
                let attack = Attack::new(mechanism, kind, shape, content);
                let pours = attack.wire_shape().callee_streams() && content == Content::Small;
                let is_short = matches!(content, Content::Small | Content::Metadata);
                let is_unary = matches!(shape, MethodKind::Unary | MethodKind::BothStreams);
                // Most kinds differ in little but who holds a call.
                let is_one_of_few = match kind {
                    Kind::Sync => content == Content::Empties && is_unary,
                    Kind::Pouring => pours,
                    Kind::Asleep => true,
                    Kind::Pool => matches!(content, Content::Empties | Content::Plain),
                    Kind::Later | Kind::Nested => !is_short && is_unary,
                };
                if is_one_of_few {
                    attacks.push(attack);
                }
            }
        }
    }
    attacks
}

/// Those that hold most.
fn largest(mechanism: Mechanism) -> Vec<Attack> {
    let is_large = |attack: &Attack| match (attack.kind, attack.shape) {
        (Kind::Asleep, MethodKind::Unary | MethodKind::BothStreams)
        | (Kind::Pool, MethodKind::Oneway | MethodKind::RequestStream) => {
            matches!(attack.content, Content::Empties | Content::Plain)
        }
        (kind, _) => kind == Kind::Pouring,
    };
    all(mechanism).into_iter().filter(is_large).collect()
}

#[test]
fn r16_no_call_makes_a_small_server_hold_more_than_the_share_of_its_user() {
    sweep("r16 calls over shm", None, all(Mechanism::Shm));
}

#[test]
fn r16_no_call_over_a_socket_makes_a_small_server_hold_more_than_that() {
    let both = [Mechanism::UnixStream, Mechanism::UnixSeqpacket].map(largest).concat();
    sweep("r16 calls over sockets", None, both);
}

#[test]
fn r16_no_call_of_another_machine_makes_a_small_server_hold_more_than_that() {
    sweep("r16 calls over tcp", Some("tcp://127.0.0.1:0"), largest(Mechanism::Tcp));
}

#[test]
fn r16_calls_ahead_of_their_turn_are_charged_until_then() {
    within(Duration::from_secs(120), || {
        let mut server =
            ServerSetup::new("holding-server").ulimit(&format!("-v {SMALL_KIB}")).start();
        let (base, before) = (server.state().bytes, server.state().refusals);
        // As much as the user may have goes on, but for less than one message more.
        let all = Attack::new(Mechanism::Shm, Kind::Asleep, MethodKind::Unary, Content::Plain);
        let (metadata, body) = all.content_bytes();
        let mut full = Line::open(&server.address, Mechanism::Shm);
        for number in 0..32 {
            full.send(&all.messages(number, &metadata, &body)[0], true);
        }
        full.wait_for_pong(|| {});
        assert!((1..8).contains(&full.refused), "{} of 32", full.refused);
        // A method that looks for its cancellation for 300 ms finds three more.
        let mut line = Line::open(&server.address, Mechanism::Shm);
        line.send(&call(1 << 16, "Work", &[], &[0x08, 0xac, 0x02]), true);
        for number in 1..4 {
            line.send(&call(1 << 16 | number, "Nothing", &[], &body), true);
        }
        line.wait_for_pong(|| {});
        println!("{} refused, and {} of 3 ahead of their turn", full.refused, line.refused);
        assert!(line.refused > 0 && !line.is_closed && !full.is_closed);
        assert!(server.state().refusals - before >= full.refused + line.refused);
        drop((line, full));
        server.wait_for_connections(0);
        assert_eq!(server.state().bytes, base);
        server.finish();
    });
}

/// A figure: two connections with all calls that they may have, to a server with usual limits.
#[test]
#[ignore = "takes as much memory as the share of a user allows"]
fn figure_of_two_connections_with_all_their_calls() {
    let attack = |content| Attack {
        connections: 2,
        calls: 255,
        ..Attack::new(Mechanism::Shm, Kind::Asleep, MethodKind::Unary, content)
    };
    let user = User::another().expect("only root can become another user");
    within(Duration::from_secs(240), move || {
        let mut target = Target::start(ServerSetup::new("holding-server"), user);
        println!("{TABLE}");
        for content in [Content::Empties, Content::Plain] {
            target.attack(attack(content));
        }
        target.finish();
    });
}
