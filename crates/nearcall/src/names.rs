//! The names at which servers of this user listen, and what each server says of itself.
//!
//! There is no registry: the runtime directory has a socket for each name, and its server is asked.
//! **Invariants:** only a server of this user, by the kernel's word, is believed; a server that
//! does not answer holds nothing up for longer than its time.
//! **Not here:** the directory (`nearcall_channel`), what servers answer
//! (`control.rs`), looking for an interface (`find.rs`).

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nearcall_channel::{Mechanism, NamedSocket, named_sockets};
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::{clock, process};

use crate::clients::Client;
use crate::control::{DescribeReply, DescribeRequest, ServerCaller};
use crate::limits::{NAME_ANSWER_MAX, NAMES_ASKED_AT_ONCE_MAX};
use crate::options::CallOptions;
use crate::peer::{Peer, PeerIdentity};
use crate::status::{Code, Status};

/// A name in the runtime directory, and what became of asking its server.
///
/// Returned by [`names`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NameEntry {
    /// The name, which is an address.
    pub name: String,
    /// What the server says of itself, or why it is not known.
    pub server: Result<DescribeReply, NameProblem>,
    /// What the kernel reports of the process that has answered. Only this names it: what the
    /// server says of itself is its own word, and its number is that of its own PID namespace.
    pub process: Option<PeerIdentity>,
}

/// Why the server of a name is not known.
///
/// Stands in a [`NameEntry`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NameProblem {
    /// The server has gone without taking its socket along: it was killed. The next server that
    /// listens at the name takes the socket over.
    Stale,
    /// The socket belongs to this user id, which is not the caller's, and so does its server.
    OtherUser(u32),
    /// The server did not answer, and why: it is stopped, or a method blocks its loop.
    NoAnswer(Status),
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => f.write_str(
                "stale: the server was killed; the next one that listens here takes the name over, \
                 and `nearcall stop` removes what it has left",
            ),
            Self::OtherUser(uid) => write!(
                f,
                "the name is taken by user {uid}: remove the socket, or have the server listen at \
                 another name"
            ),
            Self::NoAnswer(status) => write!(f, "the server does not answer: {}", status.message()),
        }
    }
}

/// Returns the names at which servers of this user listen, sorted, and asks each server what it
/// is: for a second at most, many at once.
///
/// It blocks: in a method, the server of that method does not answer meanwhile, and a task calls it
/// where its runtime lets tasks block.
///
/// A server that does not answer is an entry with the reason. Where there is no runtime directory,
/// no server of this user has listened yet: there are no names.
///
/// # Errors
///
/// `FAILED_PRECONDITION`: the runtime directory cannot be read or trusted, and why.
///
/// # Examples
///
/// ```no_run
/// for entry in nearcall::observe::names()? {
///     match entry.server {
///         Ok(server) => println!("{}: {} objects", entry.name, server.objects.len()),
///         Err(problem) => println!("{}: {problem}", entry.name),
///     }
/// }
/// # Ok::<(), nearcall::Status>(())
/// ```
pub fn names() -> Result<Vec<NameEntry>, Status> {
    names_within(NAME_ANSWER_MAX)
}

/// Works like [`names`], and waits for each server for `timeout` at most.
///
/// # Errors
///
/// As [`names`].
pub fn names_within(timeout: Duration) -> Result<Vec<NameEntry>, Status> {
    ask_all(&DescribeRequest::default(), timeout)
}

/// Asks the servers of all names.
pub(crate) fn ask_all(
    request: &DescribeRequest,
    timeout: Duration,
) -> Result<Vec<NameEntry>, Status> {
    let sockets = match named_sockets() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|error| Status::failed_precondition(error.to_string()))?,
    };
    let (next, entries) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let ask_rest = || {
        while let Some(socket) = sockets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let entry = ask(socket, request, timeout);
            entries.lock().unwrap_or_else(PoisonError::into_inner).extend(entry);
        }
    };
    thread::scope(|scope| {
        // This thread asks as well, so that all are asked though no thread can be started.
        for _ in 1..sockets.len().min(NAMES_ASKED_AT_ONCE_MAX) {
            let name = thread::Builder::new().name("nearcall-names".into());
            if name.spawn_scoped(scope, ask_rest).is_err() {
                break;
            }
        }
        ask_rest();
    });
    let mut entries = entries.into_inner().unwrap_or_else(PoisonError::into_inner);
    entries.sort_unstable_by(|one: &NameEntry, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Asks the server of a socket. `None`: the socket is gone meanwhile.
fn ask(socket: &NamedSocket, request: &DescribeRequest, timeout: Duration) -> Option<NameEntry> {
    let name = socket.name.clone();
    let mut process = None;
    let server = match describe(socket, request, clock::now().checked_add(timeout)) {
        Ok((reply, identity)) => {
            process = identity;
            Ok(reply)
        }
        Err(_) if socket.uid != process::user_id() => Err(NameProblem::OtherUser(socket.uid)),
        Err(status) => match connect_error(socket) {
            Some(io::ErrorKind::NotFound) => return None,
            Some(io::ErrorKind::ConnectionRefused) => Err(NameProblem::Stale),
            _ => Err(NameProblem::NoAnswer(status)),
        },
    };
    Some(NameEntry { name, server, process })
}

/// Has the server of a socket describe itself, over the first mechanism that it offers. Also
/// returns what the kernel reports of it.
fn describe(
    socket: &NamedSocket,
    request: &DescribeRequest,
    end: Option<Instant>,
) -> Result<(DescribeReply, Option<PeerIdentity>), Status> {
    let options = match end {
        Some(end) => CallOptions::new().deadline_at(end),
        None => CallOptions::new().no_deadline(),
    };
    let describe = |mechanism: Mechanism| {
        // Whoever else has the name could claim anything.
        let user = process::user_id();
        let address = format!("{}?via={mechanism}&user={user}", socket.name);
        let client = Client::new();
        let server = ServerCaller::new(&client, &address)?.with(options.clone());
        let reply = server.describe(request)?;
        let peers = client.connections().into_iter().map(|connection| connection.peer);
        let mut processes = peers.filter_map(|peer| match peer {
            Peer::Process(identity) => Some(identity),
            Peer::Local | Peer::Remote(_) => None,
        });
        Ok((reply, processes.next()))
    };
    // It needs the least of both ends for one call.
    let first = describe(Mechanism::UnixStream);
    let is_refused = |status: &Status| status.code() == Code::FailedPrecondition;
    if !first.as_ref().is_err_and(is_refused) || socket.uid != process::user_id() {
        return first;
    }
    // A server may offer others only; those that most offer come first.
    let mut others: Vec<_> = Mechanism::all().filter(|it| *it != Mechanism::UnixStream).collect();
    others.sort_by_key(|mechanism| !mechanism.offered_by_default());
    let mut answers = others.into_iter().map(describe);
    answers.find(|answer| !answer.as_ref().is_err_and(is_refused)).unwrap_or(first)
}

/// Returns why no server can be connected to; `None` if one may.
fn connect_error(socket: &NamedSocket) -> Option<io::ErrorKind> {
    match socket::unix_bound(UnixAddress::Path(&socket.path)) {
        Ok(Some(_)) => None,
        Ok(None) => Some(io::ErrorKind::ConnectionRefused),
        Err(error) => Some(error.kind()),
    }
}
