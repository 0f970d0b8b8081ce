//! Servers: what they serve, where they listen, how they start and end.
//!
//! **Invariants:** a server is prepared, started once, and ends when it is stopped or freed.
//! **Not here:** serving calls (`service.rs`), loops of other libraries (`event_loop.rs`).

use std::ffi::c_char;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use nearcall::observe::RefusalCount;
use nearcall::server::{ListenOptions, RunningServer};
use nearcall::{Address, Status};

use crate::border::{Border, Sized_, border, is_null, span};
use crate::client::{check_abi, limits};
use crate::counters::add_up;
use crate::event_loop::Loop;
use crate::given::give_bytes;
use crate::handles::{self, Kind};
use crate::prepared::{InLoop, Prepared};
use crate::service::Service;
use crate::status::nearcall_status;
use crate::types::{
    nearcall_bytes, nearcall_counters, nearcall_listen_options, nearcall_loop, nearcall_server,
    nearcall_server_options, nearcall_service, nearcall_view,
};

// SAFETY: `repr(C)`, the size first, and numbers after it.
unsafe impl Sized_ for nearcall_server_options {}
// SAFETY: `repr(C)`, the size first, and after it numbers and a pointer that may be null.
unsafe impl Sized_ for nearcall_listen_options {}
// SAFETY: `repr(C)`, the size first, and after it pointers, to functions as well, that may be null.
unsafe impl Sized_ for nearcall_service {}

/// A server and what it does.
pub(crate) struct Server {
    state: Mutex<State>,
    /// It is not starting any more.
    has_started: Condvar,
}

enum State {
    Prepared(Prepared),
    /// In this thread.
    Starting(ThreadId),
    Running(Arc<RunningServer>),
    /// In the loop with this number, of the thread that has made it.
    InLoop(u64),
    Ended,
}

impl Kind for Server {
    const NAME: &'static str = "server";
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, once it is not starting in another thread.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while matches!(&*state, State::Starting(by) if *by != thread::current().id()) {
            state = self.has_started.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn prepare(&self, change: impl FnOnce(&mut Prepared)) -> Result<(), Status> {
        match &mut *self.state() {
            State::Prepared(prepared) => {
                change(prepared);
                Ok(())
            }
            _ => Err(Status::failed_precondition("the server was started already")),
        }
    }

    /// Starts what was prepared; whoever stops it meanwhile waits until that is done.
    fn start(&self, start: impl FnOnce(Prepared) -> Result<State, Status>) -> Result<(), Status> {
        let mut state = self.state();
        let prepared = match std::mem::replace(&mut *state, State::Ended) {
            State::Prepared(prepared) => prepared,
            other => {
                *state = other;
                return Err(Status::failed_precondition("the server was started already"));
            }
        };
        *state = State::Starting(thread::current().id());
        // What is released if it fails may come back here.
        drop(state);
        let (next, outcome) = match start(prepared) {
            Ok(started) => (started, Ok(())),
            Err(status) => (State::Ended, Err(status)),
        };
        *self.state() = next;
        self.has_started.notify_all();
        outcome
    }
}

impl Border {
    fn listen_options(
        &self,
        from: *const nearcall_listen_options,
    ) -> Result<ListenOptions, Status> {
        let mut options = ListenOptions::new();
        let Some(read) = self.options("options", from)? else { return Ok(options) };
        if read.reserved != 0 {
            return Err(Status::unimplemented("`options.reserved` is not 0"));
        }
        if !read.users.is_null() || read.user_count != 0 {
            let users = self.array("options.users", read.users, read.user_count)?;
            options = options.users(users.iter().copied());
        }
        if read.socket_mode != 0 {
            options = options.socket_mode(read.socket_mode);
        }
        Ok(options)
    }
}

/// Makes a server: `nearcall_server_new(NEARCALL_ABI, NULL, &server)`. Register services, listen,
/// then start it. `options` may be null. Free it by `nearcall_server_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_new(
    abi: u32,
    options: *const nearcall_server_options,
    server: *mut nearcall_server,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            check_abi(abi)?;
            at.place("server", server)?;
            let (mut threads, mut all) = (1, nearcall::Limits::default());
            if let Some(options) = at.options("options", options)? {
                threads = usize::try_from(options.threads.max(1)).unwrap_or(usize::MAX);
                all = limits(options.message_bytes_max, options.stream_window_bytes);
                if options.connections_max != 0 {
                    all.connections_max = usize::try_from(options.connections_max).unwrap_or(0);
                }
            }
            let (services, addresses) = (Vec::new(), Vec::new());
            let prepared = Prepared { threads, limits: all, services, addresses };
            let state = Mutex::new(State::Prepared(prepared));
            let id = handles::add(Server { state, has_started: Condvar::new() });
            at.put("server", server, nearcall_server { id })
        })
    }
}

/// Has a server serve an interface, such as `home.v1.Thermostat`, of a descriptor set (an encoded
/// `google.protobuf.FileDescriptorSet`, as `protoc --descriptor_set_out --include_imports` writes
/// it). `object`: a name, by which callers address one of several objects (`ADDRESS#object`), or
/// null. From a success on, the service belongs to the server, which releases it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_register(
    server: nearcall_server,
    object: *const c_char,
    descriptor_set: nearcall_view,
    interface: *const c_char,
    service: *const nearcall_service,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let server = handles::get::<Server>(server.id)?;
            let object = at.optional_text("object", object)?.map(str::to_owned);
            let set = at.bytes("descriptor_set", descriptor_set)?;
            let interface = at.text("interface", interface)?;
            let table = at.options("service", service)?.ok_or_else(|| is_null("service"))?;
            let made = Service::new(set, interface, table)?;
            let kept = made.clone();
            server.prepare(|prepared| prepared.services.push((object, made)))?;
            kept.belongs_to_server();
            Ok(())
        })
    }
}

/// Has a server listen at an address: a name, `unix:/PATH`, `unix:@NAME`, `tcp://HOST:PORT`. It
/// does so from its start on. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_listen(
    server: nearcall_server,
    address: *const c_char,
    options: *const nearcall_listen_options,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let server = handles::get::<Server>(server.id)?;
            let address = at.text("address", address)?.to_owned();
            let options = at.listen_options(options)?;
            server.prepare(|prepared| prepared.addresses.push((address, options)))
        })
    }
}

/// Starts a server in threads of its own. If it cannot start, what was prepared is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_start(server: nearcall_server) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let server = handles::get::<Server>(server.id)?;
            server.start(|prepared| Ok(State::Running(Arc::new(prepared.start()?))))
        })
    }
}

/// Starts a server in a loop of this thread: it serves while the loop turns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_start_in(
    server: nearcall_server,
    event_loop: nearcall_loop,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let (at, id) = (handles::get_local::<Loop>(event_loop.id)?, server.id);
            let server = handles::get::<Server>(id)?;
            server.start(|prepared| {
                at.keep(id, prepared.serve_in(at.event_loop())?);
                Ok(State::InLoop(event_loop.id))
            })
        })
    }
}

/// Gives the address with a number, from 0 on, at which a server that runs listens, as text: such
/// as a port that the kernel has chosen. Release it by `nearcall_bytes_free`. `OUT_OF_RANGE`: there
/// are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_address(
    server: nearcall_server,
    number: usize,
    address: *mut nearcall_bytes,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("address", address)?;
            let text = |addresses: &[Address]| addresses.get(number).map(Address::to_string);
            let found = match running_in_loop(server, |it| text(&it.addresses))? {
                Some(found) => found,
                None => with_running(server, |running| Ok(text(running.addresses())))?,
            };
            let found = found.ok_or_else(|| Status::out_of_range("there are fewer addresses"))?;
            at.put("address", address, give_bytes(found.into()))
        })
    }
}

/// Counts what the connections of a server that runs have carried: set `counters->size`. Waits
/// until each loop has ended the method that it runs, for a second at most, without the connections
/// of one that has not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_counters(
    server: nearcall_server,
    counters: *mut nearcall_counters,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| at.put_sized("counters", counters, || counted(server))) }
}

/// Takes no more clients and no more calls, and waits until those under way have ended, for
/// `timeout_ns` at most: `DEADLINE_EXCEEDED` if some have not. Not for a server in a loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_drain(
    server: nearcall_server,
    timeout_ns: u64,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| with_running(server, |running| drain(running, timeout_ns))) }
}

fn drain(running: &RunningServer, timeout_ns: u64) -> Result<(), Status> {
    match running.drain(span(timeout_ns)) {
        true => Ok(()),
        false => Err(Status::deadline_exceeded("some calls have not ended")),
    }
}

/// Waits until SIGTERM or SIGINT comes, until the server is stopped, drains and stops it. Not for a
/// server in a loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_run_until_signal(
    server: nearcall_server,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            with_running(server, |running| {
                running.run_until_signal().map_err(|error| failed(&error))
            })
        })
    }
}

/// Ends a server: closes its connections, waits for its threads for a second at most. Doing it
/// again is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_stop(server: nearcall_server) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| stop(server, true)) }
}

/// Stops a server, if that was not done, and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_server_free(server: nearcall_server) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let stopped = stop(server, false);
            handles::take::<Server>(server.id)?;
            stopped
        })
    }
}

fn failed(error: &nearcall::server::ServerError) -> Status {
    Status::failed_precondition(error.to_string())
}

/// Makes something else of a server that was prepared.
pub(crate) fn become_library(
    server: nearcall_server,
    make: impl FnOnce(Prepared) -> Result<(), Status>,
) -> Result<(), Status> {
    let server = handles::get::<Server>(server.id)?;
    server.start(|prepared| make(prepared).map(|()| State::Ended))
}

/// Reads something of a server in a loop of this thread; `None`: it is in no loop.
fn running_in_loop<T>(
    server: nearcall_server,
    read: impl FnOnce(&InLoop) -> T,
) -> Result<Option<T>, Status> {
    let id = match &*handles::get::<Server>(server.id)?.state() {
        State::InLoop(id) => *id,
        _ => return Ok(None),
    };
    Ok(handles::get_local::<Loop>(id)?.with(server.id, read))
}

/// Counts what a server does, in threads or in a loop.
fn counted(server: nearcall_server) -> Result<nearcall_counters, Status> {
    let sum = |refusals: Vec<RefusalCount>| refusals.iter().map(|it| it.count).sum();
    let of_loop =
        running_in_loop(server, |it| add_up(&it.server.connections(), sum(it.server.refusals())))?;
    match of_loop {
        Some(counted) => Ok(counted),
        None => with_running(server, |running| {
            Ok(add_up(&running.connections(), sum(running.refusals())))
        }),
    }
}

/// Uses a server that runs, of which others may use it at the same time.
fn with_running<T>(
    server: nearcall_server,
    use_it: impl FnOnce(&RunningServer) -> Result<T, Status>,
) -> Result<T, Status> {
    let server = handles::get::<Server>(server.id)?;
    let running = match &*server.state() {
        State::Running(running) => Arc::clone(running),
        State::InLoop(_) => {
            let text = "the server runs in a loop: stop it there";
            return Err(Status::failed_precondition(text));
        }
        State::Prepared(_) | State::Starting(_) | State::Ended => {
            return Err(Status::failed_precondition("the server does not run"));
        }
    };
    use_it(&running)
}

/// Ends what runs. What was prepared only is dropped with the server.
fn stop(handle: nearcall_server, keeps_prepared: bool) -> Result<(), Status> {
    let server = handles::get::<Server>(handle.id)?;
    let mut state = server.settled();
    let running = match &*state {
        State::Running(running) => Some(Arc::clone(running)),
        State::Prepared(_) if keeps_prepared => return Ok(()),
        State::InLoop(id) => {
            // A loop that is gone has ended its servers.
            if let Ok(at) = handles::get_local::<Loop>(*id) {
                at.end(handle.id);
            } else if handles::is_alive(*id) {
                return Err(Status::failed_precondition(
                    "the server is in a loop of another thread",
                ));
            }
            None
        }
        // What is released because it could not start has come back here.
        State::Starting(_) => return Ok(()),
        State::Prepared(_) | State::Ended => None,
    };
    if let Some(running) = running {
        // It stays, so that what has not ended in time is waited for again.
        drop(state);
        return running.stop().map_err(|error| failed(&error));
    }
    let before = std::mem::replace(&mut *state, State::Ended);
    // What a service does at its end may come back here.
    drop(state);
    drop(before);
    Ok(())
}
