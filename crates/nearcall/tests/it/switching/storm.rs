//! A storm of switches: a connection moves to a random mechanism every ten milliseconds while
//! calls, one-way messages and streams go on, some of which are cancelled or come too late.
//!
//! `NEARCALL_STORM_S` seconds, 2 by default, from the seed `NEARCALL_STORM_SEED`, 1 by default;
//! `cargo xtask switch-storm` runs it for minutes. Of the storms of a seed one has channels that
//! are full again and again. Prints what a switch takes, and what calls feel.
//! **Invariants:** nothing is lost, doubled or overtaken, whatever moves meanwhile: one-way
//! messages and items have numbers, replies are those to their requests, and the books of both ends
//! are equal at the end.
//! **Not here:** threads, kills and several clients (`tests/stress`).
#![allow(clippy::print_stderr, reason = "the storm prints figures")]

use nearcall::client::PendingCall;
use nearcall::control::{ConnectionsRequest, Refusal, ServerCaller};
use nearcall::stream::{ReplyStream, RequestStream};

use super::{BOOKS, Both, long, usable};
use crate::stage::in_time_of;
use crate::stage::prelude::*;
use crate::streams::served::{Item, Plan, StreamsCaller, item};

/// The mean time between two switches.
const PERIOD: Duration = Duration::from_millis(10);
/// Items that a service sends at once, into a stream that is read in parts or dropped.
const PLANNED: u64 = 30;
/// Room of a channel of the storm with narrow ones, in bytes: that of a few calls.
const NARROW_BYTES: u32 = 70_000;
/// Bytes of calls.
const BYTES: [usize; 4] = [0, 60, 2_000, 70_000];

/// Everything that one client has under way.
struct Storm {
    random: fastrand::Rng,
    client: Client,
    address: String,
    echo: EchoCaller,
    streams: StreamsCaller,
    all: Vec<Mechanism>,
    at: Mechanism,
    options: CallOptions,
    /// Items of a stream in both directions that is open all the time.
    exchange: (RequestStream<Item, ()>, ReplyStream<Item>),
    exchanged: u64,
    notes: u64,
    /// A stream that the service has filled, with the number of the next item.
    planned: Option<(ReplyStream<Item>, u64)>,
    /// A stream that the service adds up, with the sum.
    added: Option<(RequestStream<Item, Item>, u64)>,
    figures: Figures,
}

/// What was measured and counted.
#[derive(Default)]
struct Figures {
    /// From when a switch is asked for until it is done.
    spans: Vec<Duration>,
    /// The longest of them, from where to where.
    longest: Option<(Duration, Mechanism, Mechanism)>,
    /// From the beginning of a switch until the first call after it has ended.
    pauses: Vec<Duration>,
    /// Calls right after a switch, and others.
    after: Vec<Duration>,
    calls: Vec<Duration>,
    items: u64,
    dropped: u64,
    late: u64,
    /// Switches that the machine had no room for.
    refused: usize,
}

impl Storm {
    fn new(client: Client, both: &Both, seed: u64) -> Self {
        let address = both.address.clone();
        let echo = EchoCaller::new(&client, &address).unwrap();
        let streams = StreamsCaller::new(&client, &address).unwrap();
        let options = CallOptions::new().deadline(PATIENCE);
        let exchange = streams.exchange().unwrap();
        Self {
            random: fastrand::Rng::with_seed(seed),
            client,
            address,
            echo,
            streams,
            all: Mechanism::all().filter(|it| usable(*it)).collect(),
            at: Mechanism::Shm,
            options,
            exchange,
            exchanged: 0,
            notes: 0,
            planned: None,
            added: None,
            figures: Figures::default(),
        }
    }

    fn run(mut self, time: Duration) -> String {
        let end = clock::now() + time;
        let mut next = clock::now();
        while clock::now() < end {
            let pending = self.begin();
            let before = clock::now();
            let is_due = before >= next;
            if is_due {
                next = clock::now() + PERIOD.mul_f64(2.0 * self.random.f64());
                self.switch();
            }
            let begin = clock::now();
            self.echo.with(self.options.clone()).nothing(&()).unwrap();
            let (took, ended) = (begin.elapsed(), clock::now());
            if is_due {
                self.figures.after.push(took);
                self.figures.pauses.push(ended - before);
            } else {
                self.figures.calls.push(took);
            }
            self.end(pending);
        }
        self.finish()
    }

    /// Begins calls, one-way messages and items, and gives some of them up.
    fn begin(&mut self) -> Vec<(Words, PendingCall<Words>)> {
        let Self { random, echo, options, .. } = self;
        let say = |random: &mut fastrand::Rng| {
            let wanted = long(random.u64(..BOOKS), BYTES[random.usize(..BYTES.len())]);
            let call = echo.with(options.clone()).start_say(&wanted);
            (wanted, call)
        };
        let mut pending = vec![say(random)];
        for _ in 0..random.u32(..3) {
            pending.push(say(random));
        }
        for _ in 0..random.u32(..4) {
            echo.with(options.clone()).note(&words(self.notes)).unwrap();
            self.notes += 1;
        }
        if random.u8(..3) == 0 {
            drop(say(random));
            self.figures.dropped += 1;
        }
        if random.u8(..3) == 0 {
            let short = CallOptions::new().deadline(Duration::from_micros(random.u64(..300)));
            let outcome = echo.with(short).say(&words(1));
            let late =
                outcome.err().map(|status| assert_eq!(status.code(), Code::DeadlineExceeded));
            self.figures.late += u64::from(late.is_some());
        }
        self.exchange.0.send(&item(self.exchanged, 500)).unwrap();
        self.exchanged += 1;
        self.stream();
        pending
    }

    /// Goes on with the streams in one direction, some of which are dropped before their end.
    fn stream(&mut self) {
        let Self { random, streams, options, figures, at, .. } = self;
        match self.planned.take() {
            None => {
                let plan = Plan { items: PLANNED, bytes: 900, code: 0 };
                self.planned = Some((streams.with(options.clone()).count(&plan).unwrap(), 0));
            }
            Some(_) if random.u8(..8) == 0 => figures.dropped += 1,
            Some((mut stream, next)) => {
                let until = (next + random.u64(1..8)).min(PLANNED);
                for number in next..until {
                    assert_eq!(stream.next().unwrap().unwrap(), item(number, 900));
                    figures.items += 1;
                }
                match until {
                    PLANNED => assert!(stream.next().is_none()),
                    until => self.planned = Some((stream, until)),
                }
            }
        }
        let (mut stream, sum) =
            self.added.take().unwrap_or_else(|| (streams.with(options.clone()).sum().unwrap(), 0));
        match random.u8(..16) {
            0 => figures.dropped += 1,
            1 => {
                let total = stream.finish();
                let total = total.unwrap_or_else(|status| panic!("the sum over {at}: {status}"));
                assert_eq!(total.number, sum);
            }
            number => {
                let sent = stream.send(&item(number.into(), 700));
                sent.unwrap_or_else(|status| panic!("an item to add over {at}: {status}"));
                figures.items += 1;
                self.added = Some((stream, sum + u64::from(number)));
            }
        }
    }

    fn switch(&mut self) {
        let others: Vec<_> = self.all.iter().filter(|to| **to != self.at).collect();
        let to = *others[self.random.usize(..others.len())];
        let begin = clock::now();
        let switched = self.client.switch(&self.address, to.name(), PATIENCE);
        if let Err(status) = switched {
            // Another program of this user has queues at the moment: all goes on as it was.
            let is_full = status.message().contains("RLIMIT_MSGQUEUE");
            assert!(is_full, "{} to {to}: {status}", self.at);
            self.figures.refused += 1;
            return;
        }
        let took = begin.elapsed();
        if self.figures.longest.as_ref().is_none_or(|(longest, ..)| took > *longest) {
            self.figures.longest = Some((took, self.at, to));
        }
        self.figures.spans.push(took);
        self.at = to;
    }

    fn end(&mut self, pending: Vec<(Words, PendingCall<Words>)>) {
        for (wanted, call) in pending {
            assert_eq!(call.wait().unwrap(), wanted, "over {}", self.at);
        }
        let number = self.exchanged - 1;
        assert_eq!(self.exchange.1.recv().unwrap(), Some(item(number, 500)), "over {}", self.at);
    }

    /// Compares the books, and returns the figures in a line.
    fn finish(mut self) -> String {
        drop((self.planned, self.added));
        self.exchange.0.finish().unwrap();
        assert_eq!(self.exchange.1.recv().unwrap(), None);
        let books = self.echo.with(self.options.clone()).say(&words(BOOKS)).unwrap();
        assert_eq!(books.number, self.notes, "one-way messages");
        let server = ServerCaller::new(&self.client, &self.address).unwrap();
        let reply =
            server.connections(&ConnectionsRequest { own_only: false, live: false }).unwrap();
        let what = |refusal: &Refusal| format!("{} {}", refusal.count, refusal.kind);
        let by_server: Vec<_> = reply.refusals.iter().map(what).collect();
        let Figures { spans, longest, pauses, after, calls, items, dropped, late, refused } =
            self.figures;
        let switched = spans.len();
        assert!(switched > 3 && refused * 10 < switched, "{switched} switches, {refused} refused");
        format!(
            "{switched} switches, {refused} refused, {by_server:?} by the server, {} notes, \
             {} items, {dropped} dropped, {late} late; median / p99 / longest: switch {}{}, \
             pause {}, first call after it {}, other calls {}",
            self.notes,
            items + self.exchanged,
            figures(spans),
            longest.map_or(String::new(), |(_, from, to)| format!(" ({from} to {to})")),
            figures(pauses),
            figures(after),
            figures(calls)
        )
    }
}

fn figures(mut spans: Vec<Duration>) -> String {
    spans.sort_unstable();
    let at = |share: usize| spans.get(spans.len().saturating_sub(1) * share / 100);
    format!("{:?} / {:?} / {:?}", at(50), at(99), at(100)).replace("Some(", "").replace(')', "")
}

/// POSIX queues are for one storm: a user can have a few only.
fn storm(
    name: &str,
    has_queues: bool,
    client: impl FnOnce() -> (Option<EventLoop>, Client) + Send + 'static,
) {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse::<u64>().expect("a number"))
    };
    let (seconds, seed) = (number("NEARCALL_STORM_S", 2), number("NEARCALL_STORM_SEED", 1));
    let time = Duration::from_secs(seconds);
    let figures = in_time_of(time + 2 * PATIENCE, move || {
        let mut limits = Limits { switches_per_minute_max: u32::MAX, ..Limits::default() };
        if seed.is_multiple_of(2) == has_queues {
            limits.room_bytes = NARROW_BYTES;
        }
        let both = Both::start(limits);
        let _alone = has_queues.then(|| alone("posix-mq"));
        let (_event_loop, client) = client();
        let mut storm = Storm::new(client, &both, seed);
        storm.all.retain(|mechanism| has_queues || *mechanism != Mechanism::PosixMq);
        storm.run(time)
    });
    eprintln!("{name}, {seconds} s from seed {seed}: {figures}");
}

#[test]
fn a_storm_of_switches_keeps_the_books() {
    storm("client without a loop", true, || (None, Client::new()));
}

#[test]
fn a_storm_of_switches_keeps_the_books_of_a_client_in_a_loop() {
    storm("client in a loop", false, || {
        let event_loop = EventLoop::new().unwrap();
        let client = Client::in_loop(&event_loop);
        (Some(event_loop), client)
    });
}
