//! A client process of the storm: threads, tasks and a client of tonic that call at random.
//!
//! **Invariants:** a call is in the book before it is made, and when it has ended.
//! **Not here:** kills (`storm.rs`), what must agree (`books.rs`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::uri::PathAndQuery;
use nearcall::{CallOptions, Client, Code, Deadline, Status};
use nearcall_os::clock;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::PATIENCE;
use super::books::Book;
use super::job::{ID, Job, Method, StormAsyncCaller, StormCaller, Tally, item};

/// Threads, tasks, and clients of tonic, of each client.
const WORKERS: usize = 2;
/// The time of a call that is not to end by its deadline, in milliseconds.
const LONG_MS: u64 = 15_000;
/// Items of a stream, at most.
const ITEMS_MAX: u32 = 40;

/// What a client process does.
#[derive(Debug, clap::Args)]
pub struct Part {
    /// The gateway
    #[arg(long, value_name = "HOST:PORT")]
    gateway: String,
    #[arg(long, value_name = "FILE")]
    book: PathBuf,
    /// The number of the first call
    #[arg(long)]
    first: u64,
    #[arg(long)]
    seed: u64,
    /// How long
    #[arg(long)]
    ms: u64,
    /// No call is given up or has little time, and each must succeed
    #[arg(long)]
    calm: bool,
}

/// One call.
struct Call {
    id: u64,
    method: Method,
    items: u32,
    work_ms: u32,
    time: Duration,
    /// Milliseconds or items after which it is given up.
    patience: Option<u32>,
    waits_for_ready: bool,
}

/// How a call has not succeeded.
enum Failure {
    GivenUp,
    Ended { never: bool, code: Code, text: String },
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let text = status.message().to_owned();
        let never = status.has_not_begun() || is_never(&text);
        Self::Ended { never, code: status.code(), text }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        let number = u16::try_from(status.code() as i32).ok();
        let code = number.and_then(Code::from_number).unwrap_or(Code::Unknown);
        let mut text = status.message().to_owned();
        let mut cause = std::error::Error::source(&status);
        let mut never = is_never(&text);
        while let Some(error) = cause {
            never |= error.is::<tonic::ConnectError>();
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Self::Ended { never, code, text }
    }
}

/// Returns whether a gateway says of a call that no server has begun it.
fn is_never(text: &str) -> bool {
    let never = ["cannot be reached", "no server listens", "has not run", "does not describe"];
    never.iter().any(|it| text.contains(it)) && !text.contains("may have run")
}

impl Call {
    fn draw(random: &mut fastrand::Rng, id: u64, is_calm: bool) -> Self {
        let method = Method::ALL[random.usize(0..Method::ALL.len())];
        let items = match method {
            Method::Upload | Method::Download | Method::Chat => random.u32(0..=ITEMS_MAX),
            _ => 1,
        };
        let has_little_time = !is_calm && random.u8(..8) == 0;
        let time = if has_little_time { random.u64(1..60) } else { LONG_MS };
        let work_ms = if random.u8(..4) == 0 { random.u32(1..50) } else { 0 };
        let is_given_up = !is_calm && random.u8(..6) == 0;
        let patience = is_given_up.then(|| random.u32(0..20));
        let (time, waits_for_ready) = (Duration::from_millis(time), random.bool());
        Self { id, method, items, work_ms, time, patience, waits_for_ready }
    }

    fn options(&self) -> Result<CallOptions, Status> {
        let options = CallOptions::new().deadline(self.time).wait_for_ready(self.waits_for_ready);
        Ok(options.metadata(ID, &self.id.to_string())?)
    }

    fn item(&self, number: u32) -> Job {
        Job { work_ms: self.work_ms, ..item(self.id, number) }
    }

    /// The request of a method that takes one.
    fn request(&self) -> Job {
        Job { items: self.items, ..self.item(0) }
    }

    /// Returns what the service must have added up of a call with one reply.
    fn check(&self, reply: &Job) -> Result<Tally, Failure> {
        let mut sent = Tally::default();
        (0..self.items).try_for_each(|number| sent.add(self.id, &item(self.id, number)))?;
        if (reply.id, reply.items, reply.sum) != (self.id, sent.items, sent.sum) {
            return Err(Status::data_loss(format!("not {sent:?}: {reply:?}")).into());
        }
        Ok(sent)
    }

    /// Ends a call in a thread if it is given up at this item.
    fn check_patience(&self, item: u32) -> Result<(), Failure> {
        if self.patience == Some(item) { Err(Failure::GivenUp) } else { Ok(()) }
    }

    /// Makes the call in this thread.
    fn by_thread(&self, caller: &StormCaller) -> Result<Tally, Failure> {
        let caller = caller.with(self.options()?);
        let mut tally = Tally::default();
        match self.method {
            Method::Once | Method::Again => {
                if let Some(patience) = self.patience {
                    let call = caller.start_once(&self.request());
                    clock::pause(Duration::from_millis(patience.into()));
                    call.cancel();
                    return Err(Failure::GivenUp);
                }
                let is_once = self.method == Method::Once;
                let request = self.request();
                let reply = if is_once { caller.once(&request) } else { caller.again(&request) };
                return self.check(&reply?);
            }
            Method::Tell => {
                caller.tell(&self.request())?;
                tally.add(self.id, &self.item(0))?;
            }
            Method::Upload => {
                let mut requests = caller.upload()?;
                for number in 0..self.items {
                    self.check_patience(number)?;
                    requests.send(&self.item(number))?;
                }
                return self.check(&requests.finish()?);
            }
            Method::Download => {
                let mut replies = caller.download(&self.request())?;
                while let Some(reply) = replies.recv()? {
                    self.check_patience(tally.items)?;
                    tally.add(self.id, &reply)?;
                }
            }
            Method::Chat => {
                let (mut requests, mut replies) = caller.chat()?;
                for number in 0..self.items {
                    self.check_patience(number)?;
                    requests.send(&self.item(number))?;
                    if let Some(reply) = replies.recv()? {
                        tally.add(self.id, &reply)?;
                    }
                }
                requests.finish()?;
                while let Some(reply) = replies.recv()? {
                    tally.add(self.id, &reply)?;
                }
            }
        }
        Ok(tally)
    }

    /// Makes the call in a task.
    async fn by_task(&self, caller: &StormAsyncCaller) -> Result<Tally, Failure> {
        let caller = caller.with(self.options()?);
        let mut tally = Tally::default();
        match self.method {
            Method::Once => return self.check(&caller.once(&self.request()).await?),
            Method::Again => return self.check(&caller.again(&self.request()).await?),
            Method::Tell => {
                caller.tell(&self.request()).await?;
                tally.add(self.id, &self.item(0))?;
            }
            Method::Upload => {
                let mut requests = caller.upload().await?;
                for number in 0..self.items {
                    requests.send(&self.item(number)).await?;
                }
                return self.check(&requests.finish().await?);
            }
            Method::Download => {
                let mut replies = caller.download(&self.request()).await?;
                while let Some(reply) = replies.next().await {
                    tally.add(self.id, &reply?)?;
                }
            }
            Method::Chat => {
                let (mut requests, mut replies) = caller.chat().await?;
                for number in 0..self.items {
                    requests.send(&self.item(number)).await?;
                    if let Some(reply) = replies.next().await {
                        tally.add(self.id, &reply?)?;
                    }
                }
                requests.finish().await?;
                while let Some(reply) = replies.next().await {
                    tally.add(self.id, &reply?)?;
                }
            }
        }
        Ok(tally)
    }

    /// Makes the call by tonic: over HTTP/2 each shape is a stream of requests and one of replies.
    async fn by_tonic(&self, mut grpc: Grpc<Channel>) -> Result<Tally, Failure> {
        let count = if self.method == Method::Download { 1 } else { self.items };
        let jobs: Vec<Job> = (0..count).map(|number| self.item(number)).collect();
        let jobs = jobs.into_iter().map(|job| Job { items: self.items, ..job });
        let mut request = tonic::Request::new(tokio_stream::iter(jobs.collect::<Vec<_>>()));
        request.set_timeout(self.time);
        let number = self.id.to_string().parse();
        let number = number.map_err(|_| Status::internal("a number is metadata"))?;
        request.metadata_mut().insert(ID, number);
        let path = format!("/storm.v1.Storm/{}", self.method.name());
        let path = PathAndQuery::try_from(path).map_err(|_| Status::internal("a path"))?;
        let ready = grpc.ready().await;
        ready.map_err(|error| tonic::Status::from_error(error.into()))?;
        let codec = ProstCodec::<Job, Job>::default();
        let mut replies = grpc.streaming(request, path, codec).await?.into_inner();
        let mut tally = Tally::default();
        while let Some(reply) = replies.message().await? {
            match self.method {
                Method::Once | Method::Again | Method::Upload => tally = self.check(&reply)?,
                Method::Tell => tally.add(self.id, &self.item(0))?,
                Method::Download | Method::Chat => tally.add(self.id, &reply)?,
            }
        }
        Ok(tally)
    }
}

/// What a worker calls by.
enum Way {
    Thread(StormCaller),
    Task(StormAsyncCaller),
    Tonic(Grpc<Channel>),
}

/// What all workers of a client share.
struct Workplace {
    part: Part,
    book: Book,
    next: AtomicU64,
    until: Deadline,
}

/// Runs a client for its time.
///
/// # Errors
///
/// The book cannot be written, or a client that must succeed cannot reach the service.
pub(super) async fn run(part: Part) -> anyhow::Result<()> {
    nearcall_grpc::install()?;
    let until = Deadline::after(Duration::from_millis(part.ms));
    let (book, next) = (Book::open(&part.book)?, AtomicU64::new(part.first));
    let workplace = Arc::new(Workplace { part, book, next, until });
    let (client, address) = (Client::new(), format!("grpc://{}", workplace.part.gateway));
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for worker in 0..WORKERS as u64 {
        let of =
            |way: u64| (Arc::clone(&workplace), workplace.part.seed ^ (3 * worker + way) << 32);
        let (own, seed) = of(0);
        let way = Way::Thread(StormCaller::new(&client, &address)?);
        threads.push(thread::spawn(move || own.work_in_thread(&way, seed)));
        let endpoint = Endpoint::from_shared(format!("http://{}", workplace.part.gateway))?;
        let by_tonic = Grpc::new(endpoint.tcp_nodelay(true).connect_lazy());
        let ways = [Way::Task(StormAsyncCaller::new(&client, &address)?), Way::Tonic(by_tonic)];
        for (index, way) in (1..).zip(ways) {
            let (own, seed) = of(index);
            tasks.push(tokio::spawn(async move { own.work(&way, seed).await }));
        }
    }
    for task in tasks {
        task.await??;
    }
    threads.into_iter().try_for_each(|thread| match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    })
}

impl Workplace {
    fn work_in_thread(&self, way: &Way, seed: u64) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(self.work(way, seed))
    }

    async fn work(&self, way: &Way, seed: u64) -> anyhow::Result<()> {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_calm = self.part.calm;
        // A connection that a kill has ended costs what is called before that is noticed.
        let first = Deadline::after(PATIENCE);
        let mut is_reached = !is_calm;
        while !is_reached {
            let call = self.draw(&mut random);
            let call = Call { method: Method::Again, items: 1, waits_for_ready: true, ..call };
            is_reached = self.make(way, &call, false).await?;
            if first.has_passed() {
                bail!("the service cannot be reached although all of its processes run");
            }
            sleep(Duration::from_millis(10)).await;
        }
        while !self.until.has_passed() {
            let call = self.draw(&mut random);
            if !self.make(way, &call, is_calm).await? {
                sleep(Duration::from_millis(random.u64(0..20))).await;
            }
        }
        Ok(())
    }

    fn draw(&self, random: &mut fastrand::Rng) -> Call {
        Call::draw(random, self.next.fetch_add(1, Ordering::Relaxed), self.part.calm)
    }

    /// Makes a call, and returns whether it succeeded.
    async fn make(&self, way: &Way, call: &Call, is_calm: bool) -> anyhow::Result<bool> {
        let mood = if is_calm { "calm" } else { "storm" };
        let note = |line: &str| self.book.note(line).context("cannot write the book");
        // A thread that gives an idempotent call up has made the other one.
        let is_other = matches!(way, Way::Thread(_)) && call.patience.is_some();
        let method = match call.method {
            Method::Again if is_other => Method::Once,
            method => method,
        };
        let by = match way {
            Way::Thread(_) => "thread",
            Way::Task(_) => "task",
            Way::Tonic(_) => "tonic",
        };
        note(&format!("start {} {} {mood} {by}", call.id, method.name()))?;
        let end = Deadline::after(call.time);
        let in_task = async {
            match way {
                Way::Thread(caller) => call.by_thread(caller),
                Way::Task(caller) => call.by_task(caller).await,
                Way::Tonic(grpc) => {
                    let ended = timeout(call.time, call.by_tonic(grpc.clone())).await;
                    ended.unwrap_or_else(|_| Err(Status::deadline_exceeded("by the client").into()))
                }
            }
        };
        let result = match (way, call.patience) {
            (Way::Thread(_), _) | (_, None) => in_task.await,
            (_, Some(patience)) => {
                let ended = timeout(Duration::from_millis(patience.into()), in_task).await;
                ended.unwrap_or(Err(Failure::GivenUp))
            }
        };
        let late_ms = clock::monotonic_ns().saturating_sub(end.as_ns()) / 1_000_000;
        let (outcome, text) = match &result {
            Ok(_) => ("ok", String::new()),
            Err(Failure::GivenUp) => ("given-up", String::new()),
            Err(Failure::Ended { never, code, text }) => {
                let outcome = match (code, never) {
                    (Code::DataLoss, _) => "wrong",
                    (_, true) => "never",
                    (_, false) => "maybe",
                };
                (outcome, format!("{} {}", code.name(), text.escape_debug()))
            }
        };
        let Tally { items, sum } = result.as_ref().copied().unwrap_or_default();
        note(&format!("told {} {outcome} {items} {sum} {late_ms} {text}", call.id))?;
        Ok(result.is_ok())
    }
}
