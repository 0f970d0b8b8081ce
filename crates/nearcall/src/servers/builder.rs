//! What a server with event loops of its own is started with.
//!
//! **Invariants:** nothing listens before every loop serves; a server that does not start leaves no
//! thread and no socket file.
//! **Not here:** the server once it runs (`running.rs`), the threads (`loop_thread.rs`).

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

use super::errors::{ListenError, StartError};
use super::group::{Group, thread_name};
use super::listen_options::ListenOptions;
use super::listening::Listening;
use super::loop_thread::{self, LoopSetup, Object};
use super::running::RunningServer;
use crate::address::{Address, At};
use crate::interceptor::{Chain, Interceptor};
use crate::limits::{Limits, SERVER_THREADS_MAX};
use crate::services::dispatcher::{Dispatcher, Registered};

/// A server that has event loops of its own, before it starts. From [`Server::builder`].
///
/// Each loop has a thread with the name `nearcall-loop-N`. The first one also has the listeners:
/// after the handshake a client belongs to the loop with the fewest connections. Every loop has a
/// clone of each dispatcher, and all clones share one service, whose methods run in several threads
/// at once. The limits hold for the server as a whole.
///
/// A method that waits holds up the clients of its loop, and in the first loop new clients of the
/// server as well: run it in a pool of threads.
///
/// # Services that cannot be shared between threads
///
/// [`register`](Self::register) needs a service that is `Send + Sync`: state in a `Mutex`, an
/// `RwLock` or an atomic, and not in a `Cell`, `RefCell` or `Rc`. A service that is not can be
/// served by one loop, in the thread that made it: [`Server::new`].
///
/// # Examples
///
/// ```
#[doc = include_str!("../../doc/threads.txt")]
/// use std::sync::Mutex;
///
/// use nearcall::{Context, Server, Status};
///
/// struct Room {
///     wanted: Mutex<f64>, // With a `Cell`, only a server of one loop could serve it.
/// }
///
/// impl Thermostat for Room {
///     fn set_target(
///         &self,
///         _context: &Context<'_>,
///         request: &SetTargetRequest,
///     ) -> Result<SetTargetReply, Status> {
///         let mut wanted = self.wanted.lock().unwrap();
///         let celsius_before = std::mem::replace(&mut *wanted, request.celsius);
///         Ok(SetTargetReply { celsius_before })
///     }
///     // ... and so on.
/// #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
/// #   fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
/// #       Err(Status::unimplemented("nothing to watch"))
/// #   }
/// #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
/// }
///
/// let server = Server::builder()
///     .threads(2)
///     .register(ThermostatDispatcher::new(Room { wanted: Mutex::new(18.0) }))
///     .listen("unix:@doc-of-server-builder")
///     .start()?;
/// assert_eq!(server.address().to_string(), "unix:@doc-of-server-builder");
/// // server.run_until_signal()?; // until SIGTERM or SIGINT
/// server.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Server::builder`]: crate::Server::builder
/// [`Server::new`]: crate::Server::new
#[must_use = "a server does not start before `start` is called"]
pub struct ServerBuilder {
    threads: usize,
    limits: Limits,
    interceptors: Chain,
    objects: Vec<Object>,
    addresses: Vec<(String, ListenOptions)>,
    stop_remedy: Option<&'static str>,
    nests_calls: bool,
}

impl ServerBuilder {
    pub(super) fn new() -> Self {
        let (objects, addresses) = (Vec::new(), Vec::new());
        let (limits, interceptors) = (Limits::default(), Chain::default());
        let (stop_remedy, nests_calls) = (None, false);
        Self { threads: 1, limits, interceptors, objects, addresses, stop_remedy, nests_calls }
    }

    /// Sets the number of event loops, each in a thread of its own: 1 by default, and at most 1024.
    /// More than the processors of the machine make it slower.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets limits that differ from the defaults. They hold for all loops together.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Has an interceptor see the calls of all objects, after those that were added before.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors = self.interceptors.with(Arc::new(interceptor));
        self
    }

    /// Serves `dispatcher` as the object with the name of its interface. Each loop gets a clone.
    pub fn register(self, dispatcher: impl Dispatcher + Clone + Send + Sync) -> Self {
        self.add(None, dispatcher)
    }

    /// Serves `dispatcher` as one of several objects with one interface, which callers address as
    /// `ADDRESS#instance`.
    pub fn register_as(
        self,
        instance: &str,
        dispatcher: impl Dispatcher + Clone + Send + Sync,
    ) -> Self {
        self.add(Some(instance.to_owned()), dispatcher)
    }

    fn add(
        mut self,
        instance: Option<String>,
        dispatcher: impl Dispatcher + Clone + Send + Sync,
    ) -> Self {
        let make = Box::new(move || Rc::new(Registered::new(dispatcher.clone())) as Rc<Registered>);
        self.objects.push(Object { instance, make });
        self
    }

    /// Sets what a client that wants to stop the server ([`control`](crate::control)) is told to
    /// do, unless the program waits in [`RunningServer::run_until_signal`]. For the host of
    /// libraries.
    #[doc(hidden)]
    pub fn stop_remedy(mut self, remedy: &'static str) -> Self {
        self.stop_remedy = Some(remedy);
        self
    }

    /// Has the loops serve while their methods wait for calls of clients that were made without a
    /// loop. For [`service_main!`](crate::service_main), and for the host of libraries.
    #[doc(hidden)]
    pub fn nest_calls(mut self) -> Self {
        self.nests_calls = true;
        self
    }

    /// Listens at an address, with the parameters of [`Server::listen`]. Call it again for more.
    ///
    /// [`Server::listen`]: crate::Server::listen
    pub fn listen(self, address: &str) -> Self {
        self.listen_with(address, &ListenOptions::default())
    }

    /// Listens at an address, as [`Server::listen_with`] does. Call it again for more.
    ///
    /// [`Server::listen_with`]: crate::Server::listen_with
    pub fn listen_with(mut self, address: &str, options: &ListenOptions) -> Self {
        self.addresses.push((address.to_owned(), options.clone()));
        self
    }

    /// Starts the loops, then listens. Their threads block the signals that this thread blocks.
    ///
    /// # Errors
    ///
    /// [`StartError::Threads`]: 0 threads, or too many. [`StartError::Register`] and
    /// [`StartError::Listen`]: as [`Server::register`] and [`Server::listen`]; `inproc:` is
    /// refused.
    /// [`StartError::Os`]: no thread or no descriptor is free.
    ///
    /// [`Server::register`]: crate::Server::register
    /// [`Server::listen`]: crate::Server::listen
    pub fn start(self) -> Result<RunningServer, StartError> {
        let Self { threads, limits, interceptors, objects, addresses, stop_remedy, nests_calls } =
            self;
        if !(1..=SERVER_THREADS_MAX).contains(&threads) {
            return Err(StartError::Threads(threads));
        }
        let addresses: Result<Vec<_>, _> = addresses
            .iter()
            .map(|(address, options)| check_address(address, options, limits))
            .collect();
        let addresses = addresses.map_err(StartError::Listen)?;
        let group = Arc::new(Group::new(threads, limits).map_err(StartError::Os)?);
        if let Some(remedy) = stop_remedy {
            group.server.set_stop_remedy(remedy);
        }
        let mut server = RunningServer::new(Arc::clone(&group));
        // If anything fails from here on, the drop of the server ends the threads.
        let (ready, is_ready) = mpsc::channel();
        let objects: Arc<[Object]> = objects.into();
        for loop_index in 0..threads {
            let (objects, ready) = (Arc::clone(&objects), ready.clone());
            let (give, orders) = mpsc::channel();
            let group = Arc::clone(&group);
            let interceptors = interceptors.clone();
            let setup =
                LoopSetup { group, loop_index, interceptors, objects, orders, ready, nests_calls };
            let thread = start_thread(setup).map_err(StartError::Os)?;
            server.add_loop(give, thread);
        }
        drop((objects, ready));
        for _ in 0..threads {
            match is_ready.recv() {
                Ok(outcome) => outcome?,
                // A thread panicked: its dispatcher did while it was cloned.
                Err(_) => return Err(server.why_not_started()),
            }
        }
        let listening: Result<Vec<_>, _> = addresses
            .into_iter()
            .map(|(address, options)| Listening::bind(address, &options, limits))
            .collect();
        server.start_listening(listening.map_err(StartError::Listen)?)?;
        Ok(server)
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("threads", &self.threads)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

fn check_address(
    text: &str,
    options: &ListenOptions,
    limits: Limits,
) -> Result<(Address, ListenOptions), ListenError> {
    let address = Address::of_listener(text).map_err(ListenError::BadAddress)?;
    if let At::InProcess(_) = address.at {
        return Err(ListenError::BadAddress(address.only_in_one_loop()));
    }
    match limits.check().and_then(|()| options.policy(&address, limits)) {
        Ok(_) => Ok((address, options.clone())),
        Err(text) => Err(ListenError::Limits(address, text)),
    }
}

fn start_thread(setup: LoopSetup) -> io::Result<JoinHandle<()>> {
    let (group, loop_index) = (Arc::clone(&setup.group), setup.loop_index);
    group.note_start(loop_index);
    let thread = Builder::new().name(thread_name(loop_index));
    let started = thread.spawn(move || loop_thread::run(setup));
    started.inspect_err(|_| group.note_end(loop_index, None))
}
