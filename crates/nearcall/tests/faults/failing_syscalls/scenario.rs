//! What a process does while one of its system calls or allocations fails: a server and its clients
//! through all states, from listening to the end.
//!
//! **Invariants:** a step that fails is reported with its text and ends nothing but itself; every
//! call has a deadline.

use std::fmt::Display;
use std::io::Write;

use nearcall::server::RunningServer;
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall_os::alloc_fail;

use crate::streams::{Item, Plan, Streams, StreamsCaller, StreamsDispatcher};
use crate::support::prelude::*;

/// The address, in the environment of the child.
pub(crate) const ADDRESS: &str = "NEARCALL_R18_ADDRESS";
/// How the clients of the child wait.
pub(crate) const CLIENT: &str = "NEARCALL_R18_CLIENT";
/// The number of the large allocation that fails, in the environment of the child.
pub(crate) const ALLOCATION: &str = "NEARCALL_R18_ALLOCATION";
/// From this length on, in bytes, an allocation must be able to fail: a longer buffer is one whose
/// length follows from a message.
const ALLOCATION_BYTES_MIN: usize = 16 << 10;
/// What a process without a failure keeps at its end, in the environment of the child.
pub(crate) const USUAL: &str = "NEARCALL_R18_USUAL";

/// Longest time of one call. A step that takes it has lost a message or a wake-up.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(10);
/// Longest time until threads and descriptors are given back.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Has the service pause first, so that its caller sleeps.
const PAUSE: u64 = u64::MAX;
/// Longer than any end spins.
const LONGER_THAN_A_SPIN: Duration = Duration::from_millis(1);
/// Longer than the ring: it goes through a lane.
const LARGE: u32 = 1 << 20;

/// How the clients wait, and over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    in_loop: bool,
    parameters: &'static str,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self { name: "blocking", in_loop: false, parameters: "" },
        Self { name: "in-loop", in_loop: true, parameters: "" },
        Self { name: "stream", in_loop: false, parameters: "?via=unix-stream" },
        Self { name: "seqpacket", in_loop: true, parameters: "?via=unix-seqpacket" },
    ];
}

/// Returns what it gets.
struct Service;

impl Streams for Service {
    fn count(
        &self,
        _context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        (0..plan.items).try_for_each(|number| items.send(&item(number, plan.bytes)))
    }

    fn count_quickly(
        &self,
        context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        self.count(context, plan, items)
    }

    fn sum(&self, _context: &Context<'_>, items: ItemReceiver<Item>) -> Result<Item, Status> {
        let mut sum = Item::default();
        while let Some(item) = items.recv()? {
            sum.number += item.number;
        }
        Ok(sum)
    }

    fn drain(&self, context: &Context<'_>, items: ItemReceiver<Item>) -> Result<(), Status> {
        self.sum(context, items).map(drop)
    }

    fn exchange(
        &self,
        _context: &Context<'_>,
        items: ItemReceiver<Item>,
        replies: ItemSender<Item>,
    ) -> Result<(), Status> {
        while let Some(item) = items.recv()? {
            replies.send(&item)?;
        }
        Ok(())
    }

    fn say(&self, _context: &Context<'_>, request: &Item) -> Result<Item, Status> {
        if request.number == PAUSE {
            clock::pause(LONGER_THAN_A_SPIN);
        }
        Ok(request.clone())
    }
}

/// Memory of the user's own, which is not what is to fail.
fn item(number: u64, bytes: u32) -> Item {
    let data = alloc_fail::exempt(|| vec![number.to_le_bytes()[0]; bytes as usize]);
    Item { number, data: data.into() }
}

/// Runs the steps of a process, and reports each.
struct Steps {
    round: u32,
}

impl Steps {
    fn step<T>(&self, name: &str, run: impl FnOnce() -> Result<T, String>) -> Option<T> {
        let start = clock::now();
        let outcome = run();
        let text = outcome.as_ref().err().map_or("ok", String::as_str).replace('\n', " ");
        say(&format!("step {} {} {name} {text}", self.round, start.elapsed().as_millis()));
        outcome.ok()
    }

    /// All states of a server and of its clients.
    fn run(&self, address: &str, kind: Kind) {
        let Some(server) = self.step("listen", || start(address)) else { return };
        let host = match kind.in_loop {
            false => None,
            true => match self.step("loop", || EventLoop::new().map_err(text)) {
                Some(event_loop) => Some(event_loop),
                None => return,
            },
        };
        let address = &format!("{address}{}", kind.parameters);
        let client = || host.as_ref().map_or_else(Client::new, Client::in_loop);
        let caller = |client: &Client| StreamsCaller::new(client, address).map_err(text);
        let (first, second) = (client(), client());
        if let Some(streams) = self.step("caller", || caller(&first)) {
            self.step("first-call", || say_item(&streams, 1, 10));
            self.calls(&streams);
        }
        if let Some(streams) = self.step("caller", || caller(&second)) {
            self.step("second-client", || say_item(&streams, 2, 10));
        }
        drop((first, second));
        self.step("drain", || match server.drain(CALL_MAX) {
            true => Ok(()),
            false => Err("the drain did not end".to_owned()),
        });
        self.step("stop", || server.stop().map_err(text));
    }

    fn calls(&self, streams: &StreamsCaller) {
        self.step("large", || (0..3).try_for_each(|_| say_item(streams, 3, LARGE)));
        self.step("items-in", || receive_items(streams));
        self.step("items-out", || send_items(streams));
        self.step("sleep", || say_item(streams, PAUSE, 10));
        // The server sleeps meanwhile, and is woken.
        clock::pause(LONGER_THAN_A_SPIN);
        self.step("wake", || say_item(streams, 4, 10));
    }
}

fn start(address: &str) -> Result<RunningServer, String> {
    let server = Server::builder().register(StreamsDispatcher::new(Service));
    server.listen(address).start().map_err(text)
}

fn options() -> CallOptions {
    CallOptions::new().deadline(CALL_MAX)
}

fn say_item(streams: &StreamsCaller, number: u64, bytes: u32) -> Result<(), String> {
    let sent = item(number, bytes);
    match streams.with(options()).say(&sent).map_err(text)? == sent {
        true => Ok(()),
        false => Err("WRONG REPLY".to_owned()),
    }
}

fn receive_items(streams: &StreamsCaller) -> Result<(), String> {
    let plan = Plan { items: 30, bytes: 20_000, code: 0 };
    let mut next = 0;
    for reply in streams.with(options()).count(&plan).map_err(text)? {
        if reply.map_err(text)? != item(next, plan.bytes) {
            return Err("WRONG ITEM".to_owned());
        }
        next += 1;
    }
    if next == plan.items { Ok(()) } else { Err("ITEMS LOST".to_owned()) }
}

fn send_items(streams: &StreamsCaller) -> Result<(), String> {
    let mut upload = streams.with(options()).sum().map_err(text)?;
    for number in 0..30 {
        upload.send(&item(number, 20_000)).map_err(text)?;
    }
    match upload.finish().map_err(text)?.number {
        435 => Ok(()),
        other => Err(format!("WRONG SUM {other}")),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // A parent that is gone ends this process.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// The other process. One failure is injected between the two marks; what follows must work.
pub(crate) fn run_child(address: &str) {
    let kind = std::env::var(CLIENT).unwrap();
    let kind = Kind::ALL.into_iter().find(|it| it.name == kind).unwrap();
    let allocation = std::env::var(ALLOCATION).map_or(0, |nth| nth.parse().unwrap());
    let usual = std::env::var(USUAL).ok().map(|text| text.parse().unwrap());
    say("ready");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let run = |round| {
        let address = address.to_owned();
        let work = move || {
            if round == 0 {
                mark();
                alloc_fail::fail_nth(ALLOCATION_BYTES_MIN, allocation);
            }
            Steps { round }.run(&address, kind);
            if round == 0 {
                mark();
                say(&format!("allocations {}", alloc_fail::disarm()));
            }
        };
        let thread = std::thread::Builder::new().name("client".to_owned());
        thread.spawn(work).unwrap().join().unwrap();
    };
    run(0);
    run(1);
    say(&format!("kept {}", Kept::settled(usual)));
}

/// A system call that nothing else makes here: the parent sees it.
fn mark() {
    std::hint::black_box(std::os::unix::process::parent_id());
}

/// What a process holds of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    descriptors: usize,
    memory_files: usize,
    threads: usize,
}

impl Kept {
    fn now() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Self {
            descriptors: count("/proc/self/fd"),
            memory_files: maps.lines().filter(|line| line.contains("memfd:")).count(),
            threads: count("/proc/self/task"),
        }
    }

    pub(crate) fn is_within(self, other: Self) -> bool {
        self.descriptors <= other.descriptors
            && self.memory_files <= other.memory_files
            && self.threads <= other.threads
    }

    /// Waits until no more is held than usual, or the time is up.
    fn settled(usual: Option<Self>) -> Self {
        let end = clock::now() + SETTLE_MAX;
        loop {
            let now = Self::now();
            if usual.is_some_and(|usual| now.is_within(usual)) || clock::now() > end {
                return now;
            }
            clock::pause(Duration::from_millis(5));
        }
    }
}

impl Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { descriptors, memory_files, threads } = self;
        write!(f, "{descriptors} {memory_files} {threads}")
    }
}

impl std::str::FromStr for Kept {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.split(' ').map(str::parse);
        let mut next = || numbers.next().unwrap_or(Ok(0));
        Ok(Self { descriptors: next()?, memory_files: next()?, threads: next()? })
    }
}
