//! Servers: what they serve, where they listen, how they start and end.
//!
//! **Invariants:** a server is prepared, started once, and ends when it is stopped or freed.
//! **Not here:** serving calls (`service.rs`), loops of other libraries (`event_loop.rs`).

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall::Status;
use nearcall::server::{ListenOptions, RunningServer};

use crate::border::{Border, Sized_, border, give_bytes, is_null, span};
use crate::client::{check_abi, limits};
use crate::event_loop::Loop;
use crate::handles::{self, Kind};
use crate::prepared::Prepared;
use crate::service::Service;
use crate::status::nearcall_status;
use crate::types::{
    nearcall_bytes, nearcall_listen_options, nearcall_loop, nearcall_server,
    nearcall_server_options, nearcall_service, nearcall_view,
};

// SAFETY: `repr(C)`, the size first, and numbers after it.
unsafe impl Sized_ for nearcall_server_options {}
// SAFETY: `repr(C)`, the size first, and after it numbers and a pointer that may be null.
unsafe impl Sized_ for nearcall_listen_options {}
// SAFETY: `repr(C)`, the size first, and after it pointers, to functions as well, that may be null.
unsafe impl Sized_ for nearcall_service {}

/// A server and what it does.
pub(crate) struct Server(Mutex<State>);

enum State {
    Prepared(Prepared),
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn take_prepared(&self) -> Result<Prepared, Status> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Prepared(prepared) => Ok(prepared),
            other => {
                *state = other;
                Err(Status::failed_precondition("the server was started already"))
            }
        }
    }
}

impl Border {
    fn listen_options(
        &self,
        from: *const nearcall_listen_options,
    ) -> Result<ListenOptions, Status> {
        let mut options = ListenOptions::new();
        let Some(read) = self.options("options", from)? else { return Ok(options) };
        if !read.users.is_null() {
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
            let made = Server(Mutex::new(State::Prepared(prepared)));
            let id = handles::add(made);
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
            *server.state() = State::Running(Arc::new(server.take_prepared()?.start()?));
            Ok(())
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
            at.keep(id, server.take_prepared()?.serve_in(at.event_loop())?);
            *server.state() = State::InLoop(event_loop.id);
            Ok(())
        })
    }
}

/// Gives the address with a number, from 0 on, at which a server that was started in threads of its
/// own listens, as text: such as a port that the kernel has chosen. Release it by
/// `nearcall_bytes_free`. `OUT_OF_RANGE`: there are fewer.
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
            with_running(server, |running| {
                let found = running.addresses().get(number);
                let found =
                    found.ok_or_else(|| Status::out_of_range("there are fewer addresses"))?;
                at.put("address", address, give_bytes(found.to_string().into()))
            })
        })
    }
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
            stop(server, false)?;
            handles::take::<Server>(server.id).map(drop)
        })
    }
}

fn failed(error: &nearcall::server::ServerError) -> Status {
    Status::failed_precondition(error.to_string())
}

/// Uses a server that runs, of which others may use it at the same time.
fn with_running(
    server: nearcall_server,
    use_it: impl FnOnce(&RunningServer) -> Result<(), Status>,
) -> Result<(), Status> {
    let server = handles::get::<Server>(server.id)?;
    let running = match &*server.state() {
        State::Running(running) => Arc::clone(running),
        State::InLoop(_) => {
            let text = "the server runs in a loop: stop it there";
            return Err(Status::failed_precondition(text));
        }
        State::Prepared(_) | State::Ended => {
            return Err(Status::failed_precondition("the server does not run"));
        }
    };
    use_it(&running)
}

/// The loop of a server has ended, and the server with it.
pub(crate) fn ended_with_loop(id: u64) {
    if let Ok(server) = handles::get::<Server>(id) {
        *server.state() = State::Ended;
    }
}

/// Ends what runs. What was prepared only is dropped with the server.
fn stop(handle: nearcall_server, keeps_prepared: bool) -> Result<(), Status> {
    let server = handles::get::<Server>(handle.id)?;
    let mut state = server.state();
    if let (State::Prepared(_), true) = (&*state, keeps_prepared) {
        return Ok(());
    }
    match std::mem::replace(&mut *state, State::Ended) {
        State::Running(running) => {
            drop(state);
            running.stop().map_err(|error| failed(&error))
        }
        State::InLoop(id) => match handles::get_local::<Loop>(id) {
            Ok(at) => {
                drop(state);
                at.end(handle.id);
                Ok(())
            }
            Err(status) => {
                *state = State::InLoop(id);
                Err(status)
            }
        },
        State::Prepared(_) | State::Ended => Ok(()),
    }
}
