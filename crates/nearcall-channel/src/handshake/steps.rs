//! A handshake as steps that never wait: for the loop that watches its socket, and in one go.
//!
//! **Invariants:** a step takes what has come, and never waits for more; each step has a deadline
//! of its own; a client that a server does not open gets the reason.
//! **Not here:** what a step does, over a unix socket (`local.rs`) and over TCP (`remote.rs`).

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process;
use nearcall_os::socket::{self, Bound};

use super::Rendezvous;
use super::error::HandshakeError;
use super::local::Answerer;
use super::options::Options;
use super::step::Step;
use super::{local, remote};
use crate::account::Resource;
use crate::address::Address;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::mechanism::Mechanism;
use crate::packet::Refusal;
use crate::runtime_dir::{PathTooLong, Untrusted};
use crate::wait::Deadline;

/// One end of a handshake under way. Call [`advance`](Self::advance) while its descriptor is
/// readable, and once [`deadline`](Self::deadline) has passed; or [`complete`](Self::complete).
/// Dropping it ends the handshake.
pub struct Handshake {
    control: Arc<Control>,
    state: State,
    /// It is a server's, which has a line to tell the client why it is not served.
    serves_local: bool,
    options: Options,
    deadline: Deadline,
}

enum State {
    Local(local::State),
    Remote(remote::State),
}

impl Handshake {
    /// Connects to the server at `address` and asks it for `mechanism`. Waits while the server's
    /// queue is full, and for the network.
    ///
    /// # Errors
    ///
    /// As [`connect`](super::connect).
    pub fn connect(
        address: &Address,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Self, HandshakeError> {
        let unreachable = |error| unreachable(address, error);
        let timeout = options.handshake_timeout;
        if let Address::Tcp { host, port } = address {
            remote::check_options(mechanism, options)?;
            let control =
                Arc::new(Control::new(remote::reach(host, *port, timeout).map_err(unreachable)?));
            let state = State::Remote(remote::State::start(&control, false, options)?);
            return Ok(Self::new(control, state, options));
        }
        let socket = address.connect(timeout).map_err(unreachable)?;
        Self::connect_over(socket, mechanism, options)
    }

    /// Works like [`connect`](Self::connect), and never waits. `None`: it would have to.
    ///
    /// # Errors
    ///
    /// As [`connect`](super::connect).
    pub fn try_connect(
        address: &Address,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Option<Self>, HandshakeError> {
        let socket = address.try_connect().map_err(|error| unreachable(address, error))?;
        socket.map(|socket| Self::connect_over(socket, mechanism, options)).transpose()
    }

    /// Asks the server at the other end of `socket`, a connected SOCK_SEQPACKET unix socket, for
    /// `mechanism`.
    ///
    /// # Errors
    ///
    /// As [`connect`](super::connect).
    pub fn connect_over(
        socket: OwnedFd,
        mechanism: Mechanism,
        options: &Options,
    ) -> Result<Self, HandshakeError> {
        Self::ask(socket, mechanism, options, Answerer::Listener)
    }

    /// Works like [`connect_over`](Self::connect_over), and takes the answer of that server only.
    pub(super) fn ask(
        socket: OwnedFd,
        mechanism: Mechanism,
        options: &Options,
        server: Answerer,
    ) -> Result<Self, HandshakeError> {
        let control = Arc::new(Control::new(socket));
        let state = State::Local(local::State::ask(&control, mechanism, options, server)?);
        Ok(Self::new(control, state, options))
    }

    /// Begins to serve the client behind `socket`.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::BadOptions`]: those of this end. [`HandshakeError::Exceeded`]: the client
    /// was refused. Over TCP the kernel's, too.
    pub fn serve(
        rendezvous: Rendezvous,
        socket: OwnedFd,
        options: &Options,
    ) -> Result<Self, HandshakeError> {
        let control = Arc::new(Control::charged_to(options.account.as_ref(), socket));
        let descriptors = if rendezvous == Rendezvous::Local { 1 } else { 2 };
        if let Err(exceeded) = control.charge(Resource::Descriptors, descriptors) {
            let error = HandshakeError::Exceeded(exceeded);
            match rendezvous {
                Rendezvous::Local => local::refuse(&control, &error),
                Rendezvous::Remote => remote::reject(&control),
            }
            return Err(error);
        }
        let state = match rendezvous {
            Rendezvous::Local => State::Local(local::State::Hello),
            Rendezvous::Remote => State::Remote(remote::State::start(&control, true, options)?),
        };
        let serves_local = rendezvous == Rendezvous::Local;
        Ok(Self { serves_local, ..Self::new(control, state, options) })
    }

    fn new(control: Arc<Control>, state: State, options: &Options) -> Self {
        let deadline = Deadline::after(options.handshake_timeout);
        Self { control, state, serves_local: false, options: options.clone(), deadline }
    }

    /// Takes what the other end has sent, and answers. `None`: more must come. Does not wait.
    ///
    /// # Errors
    ///
    /// As [`Listener::accept`](super::Listener::accept). The handshake is over then.
    pub fn advance(&mut self) -> Result<Option<Endpoint>, HandshakeError> {
        loop {
            let step = match &mut self.state {
                State::Local(state) => state.step(&self.control, &self.options),
                State::Remote(state) => state.step(&self.control, &self.options),
            };
            let error = match step {
                Ok(Step::Moved) => {
                    self.deadline = Deadline::after(self.options.handshake_timeout);
                    continue;
                }
                Ok(Step::Done(endpoint)) => return Ok(Some(*endpoint)),
                Ok(Step::Nothing) if !self.deadline.has_passed() => return Ok(None),
                Ok(Step::Nothing) => HandshakeError::TimedOut,
                Err(error) => error,
            };
            if self.serves_local {
                local::refuse(&self.control, &error);
            }
            return Err(error);
        }
    }

    /// Waits until the handshake is done.
    ///
    /// # Errors
    ///
    /// As [`advance`](Self::advance).
    pub fn complete(mut self) -> Result<Endpoint, HandshakeError> {
        loop {
            if let Some(endpoint) = self.advance()? {
                return Ok(endpoint);
            }
            poll_one(&self, Interest::Readable, self.deadline)?;
        }
    }

    /// Returns by when the other end must have taken its next step. It moves with each.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Ends the handshake with a client, and sends it the reason `why`; over TCP the reason is
    /// always that there are too many clients.
    pub fn refuse(self, code: Refusal, why: &str) {
        match self.state {
            State::Local(_) => self.control.send_refusal(code, why),
            State::Remote(_) => remote::reject(&self.control),
        }
    }
}

fn unreachable(address: &Address, error: io::Error) -> HandshakeError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            HandshakeError::NoListener(address.clone())
        }
        io::ErrorKind::TimedOut => HandshakeError::TimedOut,
        _ if socket::is_of_another_type(&error) => {
            let found = match address.with_unix(socket::unix_bound) {
                Ok(Some(Bound::Datagram)) => "SOCK_DGRAM",
                _ => "SOCK_STREAM",
            };
            HandshakeError::OtherSocket { address: address.clone(), found }
        }
        _ if error.get_ref().is_some_and(|inner| inner.is::<PathTooLong>()) => {
            HandshakeError::PathTooLong(error)
        }
        _ if error.get_ref().is_some_and(|inner| inner.is::<Untrusted>()) => {
            HandshakeError::UntrustedDirectory(error)
        }
        io::ErrorKind::PermissionDenied => match address.path_unchecked() {
            Some(path) => HandshakeError::NoAccess(no_access(&path, &error)),
            None => HandshakeError::Os(error),
        },
        _ => HandshakeError::Os(error),
    }
}

/// Says what keeps this user from the socket at `path`, and what to do.
fn no_access(path: &Path, error: &io::Error) -> io::Error {
    let own = process::user_id();
    let owned = |file: &Metadata| {
        format!("of user {}, group {}, mode {:04o}", file.uid(), file.gid(), file.mode() & 0o7777)
    };
    // Below a directory that may not be entered nothing can be seen.
    let seen = path.ancestors().find_map(|it| Some((it, fs::symlink_metadata(it).ok()?)));
    let text = match seen {
        Some((at, file)) if at == path => format!(
            "user {own} may not connect to the socket {} ({}): have its server let this user in \
             by its options `users`, `groups` or `socket_mode`, or connect as its user",
            path.display(),
            owned(&file)
        ),
        Some((at, directory)) => format!(
            "user {own} may not enter {} ({}), on the way to the socket {}: have the server listen \
             at a path that both users can reach, such as `unix:/run/...`, or connect as its user",
            at.display(),
            owned(&directory),
            path.display()
        ),
        None => format!("user {own} may not reach the socket {}: {error}", path.display()),
    };
    io::Error::new(error.kind(), text)
}

impl AsFd for Handshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_socket_that_may_not_be_reached_is_named_with_its_owner_and_mode() {
        let path = std::env::temp_dir().join(format!("nearcall-no-access-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let HandshakeError::NoAccess(error) = unreachable(&Address::Path(path.clone()), denied())
        else {
            panic!("the address has a path")
        };
        let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
        fs::remove_file(&path).unwrap();
        let own = process::user_id();
        let expected = format!(
            "user {own} may not connect to the socket {} \
             (of user {own}, group {}, mode {mode:04o})",
            path.display(),
            process::group_id()
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        // What is not seen is below a directory that may not be entered.
        let text = no_access(&path, &denied()).to_string();
        let directory = format!("may not enter {} (of user", std::env::temp_dir().display());
        assert!(text.contains(&directory) && text.contains("on the way to"), "{text}");
    }
}
