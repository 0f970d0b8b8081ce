//! Other transports: addresses with a scheme of their own, such as `grpcs://node2:50051`, which a
//! crate of its own carries.
//!
//! A transport serves the objects of such addresses within the process: it forwards their calls.
//! A caller then calls that server over shared memory, so that every form of call works as usual.
//! `nearcall-grpc` has the transport for `grpc://` and `grpcs://`; its `install` is all that a
//! program calls.
//!
//! **Invariants:** a process has one transport at most, from its installation on.
//! **Not here:** a transport (`nearcall-grpc`), the text of an address (`address.rs`).

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::address::{Address, At, BadAddress};
use crate::interface::Interface;
use crate::options::CallOptions;
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;

/// What a [`Transport`] does later.
pub type TransportFuture<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// Carries calls to addresses like `grpc://HOST:PORT`.
///
/// Given to [`install`].
pub trait Transport: Send + Sync + 'static {
    /// Serves an object of another machine in this process, and returns the address of the one
    /// that takes its place. Connects to nothing. `policy` is that of the client: what to do where
    /// the other machine cannot be reached. A call with the metadata [`WAIT_FOR_READY`] waits for
    /// it until its deadline.
    ///
    /// `interface` has no methods and no descriptor set where the caller does not know them; the
    /// caller asks [`describe`](Self::describe) before it calls.
    ///
    /// # Errors
    ///
    /// Why the address is none, for people.
    fn serve(
        &self,
        address: &str,
        interface: &'static Interface,
        policy: ReconnectPolicy,
    ) -> Result<String, String>;

    /// Waits until a server can be reached there, for `timeout` at most.
    fn hunt(&self, address: &str, timeout: Duration) -> TransportFuture<()>;

    /// Asks the server for the description of an interface.
    fn describe(
        &self,
        address: &str,
        interface: &'static str,
    ) -> TransportFuture<&'static Interface>;
}

/// The key of the metadata of a call that waits until the other machine can be reached:
/// [`CallOptions::wait_for_ready`].
pub const WAIT_FOR_READY: &str = "nearcall-wait-for-ready";

static TRANSPORT: OnceLock<Box<dyn Transport>> = OnceLock::new();

/// Why a transport was not installed: there is one.
///
/// What [`install`] fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyInstalled;

impl fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this process has a transport already; install one at its start")
    }
}

impl std::error::Error for AlreadyInstalled {}

/// Has a transport carry the calls to its addresses, for callers that are made from now on.
///
/// # Errors
///
/// There is one already.
pub fn install(transport: impl Transport) -> Result<(), AlreadyInstalled> {
    TRANSPORT.set(Box::new(transport)).map_err(|_| AlreadyInstalled)
}

fn installed() -> Result<&'static dyn Transport, &'static str> {
    TRANSPORT.get().map(|it| &**it).ok_or(
        "no transport is installed that carries such calls: have the program call \
         `nearcall_grpc::install()` first",
    )
}

/// Returns where the calls to an address go: to itself, or to what a transport serves for it.
pub(crate) fn place_of(
    given: &Address,
    interface: &'static Interface,
    policy: ReconnectPolicy,
) -> Result<Address, BadAddress> {
    let At::Remote(url) = &given.at else { return Ok(given.clone()) };
    let served = installed().map_err(str::to_owned);
    let served = served.and_then(|transport| transport.serve(url, interface, policy));
    served.map_err(|why| BadAddress::new(url, why))?.parse()
}

/// Returns options that tell the transport of an address what it cannot know otherwise.
pub(crate) fn options_for(given: &Address, options: CallOptions) -> CallOptions {
    let is_told = matches!(given.at, At::Remote(_)) && options.waits_for_ready();
    match is_told {
        true => options.clone().metadata(WAIT_FOR_READY, "1").unwrap_or(options),
        false => options,
    }
}

/// Waits for a server at an address of a transport. `None`: it is no such address.
pub(crate) fn hunt(address: &Address, timeout: Duration) -> Option<TransportFuture<()>> {
    let At::Remote(url) = &address.at else { return None };
    Some(match installed() {
        Ok(transport) => transport.hunt(url, timeout),
        Err(why) => failed(why),
    })
}

/// Asks for a description at an address of a transport, which serves the object from then on.
/// `None`: it is no such address.
pub(crate) fn describe(
    address: &Address,
    interface: &'static Interface,
    policy: ReconnectPolicy,
) -> Option<TransportFuture<&'static Interface>> {
    let At::Remote(url) = &address.at else { return None };
    let transport = match installed() {
        Ok(transport) => transport,
        Err(why) => return Some(failed(why)),
    };
    let (described, url) = (transport.describe(url, interface.name), url.clone());
    Some(Box::pin(async move {
        let interface = described.await?;
        let served = transport.serve(&url, interface, policy);
        served.map(|_| interface).map_err(Status::failed_precondition)
    }))
}

fn failed<T: Send + 'static>(why: &'static str) -> TransportFuture<T> {
    Box::pin(async move { Err(Status::failed_precondition(why)) })
}

/// Waits for a transport in this thread.
pub(crate) fn wait<T>(future: TransportFuture<T>) -> Result<T, Status> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
