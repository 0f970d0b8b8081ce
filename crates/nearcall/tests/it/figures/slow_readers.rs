//! Calls beside a stream that is not read, over its connection: of a client that blocks, and of
//! tasks.

use futures_util::StreamExt;
use nearcall_os::procfs_memory::rollup;

use super::{compare, count, rounds, time_calls};
use crate::stage::prelude::*;
use crate::streams::served::{Kind, Plan, Served, StreamsAsyncCaller, item};

const ITEM_BYTES: u32 = 10_000;
/// Items of a stream, more than may be under way.
const ITEMS: u64 = 600;
const PLAN: Plan = Plan { items: ITEMS, bytes: ITEM_BYTES, code: 0 };
/// Most that may be under way in bytes: the window of 4 MiB, and what lies in the channel and with
/// a service in another thread.
const QUEUED_BYTES_MAX: u64 = 5 << 20;
/// A stream is full when no item was sent for so long, while calls were.
const STILL: Duration = Duration::from_millis(10);

/// Memory while streams were full, the most of all rounds.
struct Queued {
    before_bytes: u64,
    items_bytes: u64,
    grown_bytes: u64,
}

fn resident_bytes() -> u64 {
    rollup(0).map_or(0, |memory| memory.rss_bytes)
}

impl Queued {
    /// Makes progress, which returns how many items were sent, until the stream is full.
    fn fill(&mut self, mut progress: impl FnMut() -> u64) {
        let (start, window) = (clock::now(), Limits::default().stream_window_bytes);
        let (mut sent, mut since) = (0, start);
        // A sender stops with credit for less than an item.
        let full = u64::from(window - 2 * ITEM_BYTES) / u64::from(ITEM_BYTES);
        while sent < full || since.elapsed() < STILL {
            let now = progress();
            if now != sent {
                (sent, since) = (now, clock::now());
            }
            assert!(start.elapsed() < PATIENCE, "{sent} items were sent");
        }
        let bytes = sent * u64::from(ITEM_BYTES);
        assert!(bytes <= QUEUED_BYTES_MAX, "{sent} items of {ITEM_BYTES} bytes are under way");
        self.items_bytes = self.items_bytes.max(bytes);
        let grown_bytes = resident_bytes().saturating_sub(self.before_bytes);
        self.grown_bytes = self.grown_bytes.max(grown_bytes);
    }
}

/// Calls of `say`, so many one after the other: their times.
type Calls<'a> = &'a dyn Fn(usize) -> Vec<u64>;

/// Compares calls alone and beside a stream, which `beside` opens, fills and reads to its end after
/// the calls.
fn print(name: &str, call: Calls<'_>, mut beside: impl FnMut(&mut Queued, usize) -> Vec<u64>) {
    let calls = count("NEARCALL_STREAM_CALLS", 50);
    call(1);
    let before_bytes = resident_bytes();
    let mut queued = Queued { before_bytes, items_bytes: 0, grown_bytes: 0 };
    let compared = compare(|| call(calls), || beside(&mut queued, calls));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    eprintln!(
        "{name} not read: at most {:.2} MiB of items sent and not read, with a window of {:.2} \
         MiB; both ends together grew by {:.1} MiB; {calls} calls, {} rounds: {compared}",
        mib(queued.items_bytes),
        mib(Limits::default().stream_window_bytes.into()),
        mib(queued.grown_bytes),
        rounds()
    );
}

/// What a reader that stops reading does to calls of the same connection: `NEARCALL_STREAM_CALLS`
/// in each round, 50 by default, 5000 for the figure.
#[test]
fn p99_beside_a_stream_that_is_not_read() {
    for way in ["?via=shm", "?via=unix-stream"] {
        let served = Served::start(Kind::Thread);
        in_a_thread(&served, way);
        in_tasks(&served, way);
    }
}

fn in_a_thread(served: &Served, way: &str) {
    let (request, part) = (item(1, 8), item(1, ITEM_BYTES));
    let streams = served.caller(&Client::new(), way);
    let call = |calls: usize| {
        let mut left = calls;
        let is_last = || {
            left -= 1;
            left == 0
        };
        time_calls(is_last, || drop(streams.say(&request).unwrap()))
    };
    print(&format!("replies to a blocking client{way}"), &call, |queued, calls| {
        served.counts.sent.store(0, Ordering::Relaxed);
        let replies = streams.count(&PLAN).unwrap();
        queued.fill(|| {
            call(1);
            served.counts.sent.load(Ordering::Relaxed)
        });
        let times_ns = call(calls);
        assert_eq!(replies.map(Result::unwrap).count() as u64, ITEMS);
        times_ns
    });
    print(&format!("requests of a blocking client{way}"), &call, |queued, calls| {
        let stopped = served.counts.reading.lock().unwrap();
        let mut requests = streams.sum().unwrap();
        let mut sent = 0;
        queued.fill(|| {
            while requests.try_send(&part).is_ok() {
                sent += 1;
            }
            call(1);
            sent
        });
        let times_ns = call(calls);
        drop(stopped);
        (sent..ITEMS).for_each(|_| requests.send(&part).unwrap());
        assert_eq!(requests.finish().unwrap().number, ITEMS);
        times_ns
    });
}

fn in_tasks(served: &Served, way: &str) {
    let request = item(1, 8);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let address = format!("{}{way}", served.address);
    let streams = StreamsAsyncCaller::new(&Client::new(), &address).unwrap();
    let call = |calls: usize| {
        runtime.block_on(async {
            let mut times_ns = Vec::new();
            for _ in 0..calls {
                let start_ns = clock::monotonic_ns();
                streams.say(&request).await.unwrap();
                times_ns.push(clock::monotonic_ns() - start_ns);
            }
            times_ns
        })
    };
    print(&format!("replies to a task{way}"), &call, |queued, calls| {
        served.counts.sent.store(0, Ordering::Relaxed);
        let replies = runtime.block_on(streams.count(&PLAN)).unwrap();
        queued.fill(|| {
            call(1);
            served.counts.sent.load(Ordering::Relaxed)
        });
        let times_ns = call(calls);
        assert_eq!(runtime.block_on(replies.map(Result::unwrap).count()) as u64, ITEMS);
        times_ns
    });
    print(&format!("requests of a task{way}"), &call, |queued, calls| {
        let stopped = served.counts.reading.lock().unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let sending = runtime.spawn(send_all(streams.clone(), Arc::clone(&sent)));
        queued.fill(|| {
            call(1);
            sent.load(Ordering::Relaxed)
        });
        let times_ns = call(calls);
        assert!(!sending.is_finished());
        drop(stopped);
        assert_eq!(runtime.block_on(sending).unwrap(), ITEMS);
        times_ns
    });
}

/// Sends all items, and returns how many the service has read.
async fn send_all(streams: StreamsAsyncCaller, sent: Arc<AtomicU64>) -> u64 {
    let part = item(1, ITEM_BYTES);
    let mut requests = streams.sum().await.unwrap();
    for _ in 0..ITEMS {
        requests.send(&part).await.unwrap();
        sent.fetch_add(1, Ordering::Relaxed);
    }
    requests.finish().await.unwrap().number
}
