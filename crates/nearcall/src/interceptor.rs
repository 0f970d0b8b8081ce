//! Middleware: interceptors that see each call of a client or of a server start and end.
//!
//! **Invariants:** an interceptor whose `start` returned `Ok` gets one `end` for that call, the
//! others none; ends come in the reverse order of starts. A panic of an interceptor stays in it.
//! Without interceptors a client pays one branch for each call, a server nothing.
//! **Not here:** where a client has them (`call/intercepted.rs`), where a server has them
//! (`services/intercepted.rs`), spans (`nearcall-tracing`).
//!
//! **Invariant:** an interceptor whose start returned `Ok` sees one end of that call, at a server
//! the one that the caller gets; without interceptors a call pays one branch. *Checked by*
//! `tests/it/interceptors`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearcall_os::clock;

use crate::address::Address;
use crate::deadline::Deadline;
use crate::interface::{Interface, Method};
use crate::metadata::{BadMetadata, Entries, Metadata};
use crate::panics::contain;
use crate::peer::Peer;
use crate::status::{Code, Status};

/// Sees each call of a client or of a server: before it is made or served, and when it has ended.
///
/// A client has its interceptors by [`ClientBuilder::interceptor`](crate::client::ClientBuilder), a
/// server by [`Server::add_interceptor`](crate::Server::add_interceptor). They see calls of all
/// shapes, also those of the short circuit, of async callers and of streams. The first one that was
/// added sees a call first, and its end last.
///
/// # Examples
///
/// A server that asks for a token:
///
/// ```
/// use nearcall::Status;
/// use nearcall::observe::{InterceptedCall, Interceptor};
///
/// struct Token(String);
///
/// impl Interceptor for Token {
///     fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
///         match call.metadata().get("token") {
///             Some(token) if token == self.0 => Ok(()),
///             _ => Err(Status::unauthenticated(format!("{} needs a token", call.method().name))),
///         }
///     }
/// }
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Sees a call that is about to be sent, or served, in the thread that does that. It may add
    /// metadata.
    ///
    /// # Errors
    ///
    /// The call ends with this status: no method runs, and no later interceptor sees the call. The
    /// earlier ones see its end.
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        let _ = call;
        Ok(())
    }

    /// Sees the end of a call for which [`start`](Self::start) returned `Ok`, once, in the thread
    /// that learns of it. At a server it is the end that the caller gets, and a reply has been
    /// sent by then.
    fn end(&self, call: &CallEnd<'_>) {
        let _ = call;
    }
}

/// A program keeps its handle to an interceptor that counts.
impl<T: Interceptor> Interceptor for Arc<T> {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        T::start(self, call)
    }

    fn end(&self, call: &CallEnd<'_>) {
        T::end(self, call);
    }
}

/// The side of a call that an interceptor is on.
///
/// See [`InterceptedCall::side`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallSide {
    /// It makes the call.
    Client,
    /// It serves the call.
    Server,
}

/// The other end of a call.
pub(crate) enum OtherEnd<'a> {
    Server(&'a Address),
    Client(Peer),
}

/// What both ends of a call know of it.
#[derive(Clone, Copy)]
pub(crate) struct CallHead {
    pub(crate) interface: &'static Interface,
    pub(crate) method: &'static Method,
    pub(crate) deadline: Deadline,
    /// Length of the request, in bytes.
    pub(crate) request_bytes: usize,
}

/// A call that starts, as an [`Interceptor`] sees it.
pub struct InterceptedCall<'a> {
    head: CallHead,
    other_end: &'a OtherEnd<'a>,
    /// Of the request, at a server.
    received: &'a [u8],
    /// What this side sends: with the request at a client, with the reply at a server.
    sent: &'a mut Entries,
    kept: Option<Box<dyn Any + Send>>,
}

impl InterceptedCall<'_> {
    /// Returns whether the call is made or served here.
    pub fn side(&self) -> CallSide {
        match self.other_end {
            OtherEnd::Server(_) => CallSide::Client,
            OtherEnd::Client(_) => CallSide::Server,
        }
    }

    /// Returns the interface of the object that is called.
    pub fn interface(&self) -> &'static Interface {
        self.head.interface
    }

    /// Returns the method that is called.
    pub fn method(&self) -> &'static Method {
        self.head.method
    }

    /// Returns the caller, at a server. It is known by the kernel.
    pub fn peer(&self) -> Option<&Peer> {
        match self.other_end {
            OtherEnd::Client(peer) => Some(peer),
            OtherEnd::Server(_) => None,
        }
    }

    /// Returns where the object is that is called, at a client.
    pub fn address(&self) -> Option<&Address> {
        match self.other_end {
            OtherEnd::Server(address) => Some(address),
            OtherEnd::Client(_) => None,
        }
    }

    /// Returns when the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.head.deadline.to_instant()
    }

    /// Returns how much time is left; `None` if the call has no deadline. Reads the clock.
    pub fn remaining(&self) -> Option<Duration> {
        self.head.deadline.remaining()
    }

    /// Returns the length of the request, in bytes; zero of a stream of requests.
    pub fn request_bytes(&self) -> usize {
        self.head.request_bytes
    }

    /// Returns what travels beside the request: at a client with what earlier interceptors added.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(match self.side() {
            CallSide::Client => self.sent.as_bytes(),
            CallSide::Server => self.received,
        })
    }

    /// Adds an entry to what this side sends: to the request at a client, to the reply at a server.
    /// A key of lower-case letters, digits and `-_.`, and printable ASCII.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_metadata(&mut self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.sent.add(key, value.as_bytes())
    }

    /// Adds an entry like [`add_metadata`](Self::add_metadata) with bytes for its value; the key
    /// ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_metadata_bin(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.sent.add(key, value)
    }

    /// Keeps a value of this interceptor for the end of the call: [`CallEnd::kept`]. At a server
    /// the method can read it as well: [`Context::kept`](crate::Context::kept).
    pub fn keep(&mut self, value: impl Any + Send) {
        self.kept = Some(Box::new(value));
    }
}

impl fmt::Debug for InterceptedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterceptedCall")
            .field("side", &self.side())
            .field("interface", &self.head.interface.name)
            .field("method", &self.head.method.name)
            .finish_non_exhaustive()
    }
}

/// A call that has ended, as an [`Interceptor`] sees it.
pub struct CallEnd<'a> {
    side: CallSide,
    head: CallHead,
    status: Option<&'a Status>,
    duration: Duration,
    reply_bytes: usize,
    kept: Option<&'a (dyn Any + Send)>,
}

impl CallEnd<'_> {
    /// Returns whether the call was made or served here.
    pub fn side(&self) -> CallSide {
        self.side
    }

    /// Returns the interface of the object that was called.
    pub fn interface(&self) -> &'static Interface {
        self.head.interface
    }

    /// Returns the method that was called.
    pub fn method(&self) -> &'static Method {
        self.head.method
    }

    /// Returns how the call ended. A one-way message that was sent, or served, has ended well.
    pub fn code(&self) -> Code {
        self.status.map_or(Code::Ok, Status::code)
    }

    /// Returns why the call failed, if it has.
    pub fn status(&self) -> Option<&Status> {
        self.status
    }

    /// Returns how long the call took at this end: at a server until the reply was sent.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the length of the request, in bytes; zero of a stream of requests.
    pub fn request_bytes(&self) -> usize {
        self.head.request_bytes
    }

    /// Returns the length of the reply, in bytes; zero of an error and of a stream of replies.
    pub fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// Returns the value that this interceptor kept when the call started, if it kept a `T`.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        self.kept?.downcast_ref()
    }
}

impl fmt::Debug for CallEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallEnd")
            .field("side", &self.side)
            .field("interface", &self.head.interface.name)
            .field("method", &self.head.method.name)
            .field("code", &self.code())
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

/// The interceptors of a client or a server, in the order in which they see the start of a call.
#[derive(Clone, Default)]
pub(crate) struct Chain(Arc<[Arc<dyn Interceptor>]>);

impl Chain {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the same with one more, which sees each call after the others.
    pub(crate) fn with(&self, interceptor: Arc<dyn Interceptor>) -> Self {
        Self(self.0.iter().cloned().chain([interceptor]).collect())
    }

    /// Shows a call that starts to all, until one refuses. `sent` is what this side sends beside
    /// its message, to which they may add. Returns what shows them the end.
    pub(crate) fn start(
        &self,
        head: CallHead,
        other_end: &OtherEnd<'_>,
        received: &[u8],
        sent: &mut Entries,
    ) -> Result<ObservedCall, Status> {
        let mut observed = ObservedCall {
            side: match other_end {
                OtherEnd::Server(_) => CallSide::Client,
                OtherEnd::Client(_) => CallSide::Server,
            },
            chain: self.clone(),
            head,
            since: clock::now(),
            kept: Vec::with_capacity(self.0.len()),
        };
        for interceptor in &*self.0 {
            let mut call = InterceptedCall { head, other_end, received, sent, kept: None };
            let outcome = contain(|| interceptor.start(&mut call));
            let kept = call.kept;
            match outcome.unwrap_or_else(|| Err(interceptor_panicked())) {
                Ok(()) => observed.kept.push(kept),
                Err(status) => {
                    observed.end(Some(&status), 0);
                    return Err(status);
                }
            }
        }
        Ok(observed)
    }
}

#[cold]
fn interceptor_panicked() -> Status {
    Status::unknown("an interceptor panicked")
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} interceptors", self.0.len())
    }
}

/// A call that interceptors have seen start. They see its end once: when it is reported, or when
/// this is dropped, because the call was given up or its service panicked.
pub(crate) struct ObservedCall {
    side: CallSide,
    chain: Chain,
    head: CallHead,
    since: Instant,
    /// Of each interceptor whose end is to come.
    kept: Vec<Option<Box<dyn Any + Send>>>,
}

impl ObservedCall {
    /// Reports the end of the call. None: it ended well, with a reply of so many bytes.
    pub(crate) fn end(mut self, status: Option<&Status>, reply_bytes: usize) {
        self.report(status, reply_bytes);
    }

    /// Returns a copy of the value of this type that an interceptor kept; the first one's, if
    /// several did.
    pub(crate) fn kept<T: Any + Clone>(&self) -> Option<T> {
        self.kept.iter().flatten().find_map(|kept| kept.downcast_ref::<T>()).cloned()
    }

    /// Reports that the caller does not wait any more, or has dropped the call.
    pub(crate) fn end_given_up(mut self) {
        self.report_given_up();
    }

    fn report_given_up(&mut self) {
        let status = match self.head.deadline.has_passed() {
            true => Status::deadline_exceeded("time was up before there was an answer"),
            false => Status::cancelled("the call was given up"),
        };
        self.report(Some(&status), 0);
    }

    fn report(&mut self, status: Option<&Status>, reply_bytes: usize) {
        let Self { side, head, .. } = *self;
        let duration = clock::now().saturating_duration_since(self.since);
        while let Some(kept) = self.kept.pop() {
            let Some(interceptor) = self.chain.0.get(self.kept.len()) else { return };
            // A panic here would end something else than this call. So would one of what was kept.
            contain(move || {
                let kept = kept.as_deref();
                interceptor.end(&CallEnd { side, head, status, duration, reply_bytes, kept });
            });
        }
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        match std::thread::panicking() {
            true => self.report(Some(&Status::panicked()), 0),
            false => self.report_given_up(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use crate::interface::{Idempotency, MethodKind};

    type Log = Arc<Mutex<Vec<String>>>;

    struct Logs(&'static str, Log);

    impl Interceptor for Logs {
        fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
            self.1.lock().unwrap().push(format!("{} starts", self.0));
            call.keep(self.0.to_owned());
            match self.0 {
                "refuses" => Err(Status::aborted("refused")),
                "panics" => panic!("asked for it"),
                _ => Ok(()),
            }
        }

        fn end(&self, call: &CallEnd<'_>) {
            let kept = call.kept::<String>().unwrap();
            self.1.lock().unwrap().push(format!("{kept} ends {}", call.code().name()));
            assert_ne!(self.0, "ends badly");
        }
    }

    static METHOD: Method = Method {
        id: 1,
        name: "C",
        kind: MethodKind::Unary,
        deadline: None,
        idempotency: Idempotency::Unknown,
    };
    static INTERFACE: Interface = Interface::new("a.B", &[&METHOD], &[]);

    fn start(names: &[&'static str]) -> (Result<ObservedCall, Status>, Log) {
        let log = Log::default();
        let chain = names.iter().fold(Chain::default(), |chain, name| {
            chain.with(Arc::new(Logs(name, Arc::clone(&log))))
        });
        let (interface, method) = (&INTERFACE, &METHOD);
        let head = CallHead { interface, method, deadline: Deadline::NEVER, request_bytes: 7 };
        let peer = OtherEnd::Client(Peer::Local);
        (chain.start(head, &peer, &[], &mut Entries::default()), log)
    }

    #[track_caller]
    fn expect(log: &Log, expected: &[&str]) {
        assert_eq!(*log.lock().unwrap(), expected);
    }

    #[test]
    fn ends_come_in_the_reverse_order_of_starts() {
        let (call, log) = start(&["a", "b"]);
        call.unwrap().end(None, 3);
        expect(&log, &["a starts", "b starts", "b ends OK", "a ends OK"]);
    }

    #[test]
    fn a_refusal_ends_those_that_had_started() {
        let (call, log) = start(&["a", "refuses", "c"]);
        assert_eq!(call.map(drop).unwrap_err().message(), "refused");
        expect(&log, &["a starts", "refuses starts", "a ends ABORTED"]);
    }

    #[test]
    fn a_panic_of_an_interceptor_stays_in_it() {
        let (call, log) = start(&["a", "panics"]);
        assert_eq!(call.map(drop).unwrap_err().code(), Code::Unknown);
        expect(&log, &["a starts", "panics starts", "a ends UNKNOWN"]);
        let (call, log) = start(&["a", "ends badly"]);
        call.unwrap().end(None, 0);
        expect(&log, &["a starts", "ends badly starts", "ends badly ends OK", "a ends OK"]);
    }

    #[test]
    fn a_call_that_is_dropped_was_given_up() {
        let (call, log) = start(&["a"]);
        drop(call);
        expect(&log, &["a starts", "a ends CANCELLED"]);
    }
}
