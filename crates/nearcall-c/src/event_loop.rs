//! Servers in the loop of another library: a descriptor to wait on, and turns.
//!
//! **Invariants:** a loop and its servers belong to the thread that has made it.
//! **Not here:** servers in threads of their own (`server.rs`).

use std::cell::RefCell;

use nearcall::{EventLoop, Status};

use crate::border::border;
use crate::client::check_abi;
use crate::handles::{self, Kind};
use crate::prepared::InLoop;
use crate::status::nearcall_status;
use crate::types::nearcall_loop;

/// A loop with its servers.
pub(crate) struct Loop {
    /// By their handles. First, so that they end before their loop.
    servers: RefCell<Vec<(u64, InLoop)>>,
    event_loop: EventLoop,
}

impl Kind for Loop {
    const NAME: &'static str = "loop";
}

impl Loop {
    pub(crate) fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }

    /// Keeps a server that was started in it.
    pub(crate) fn keep(&self, id: u64, server: InLoop) {
        self.servers.borrow_mut().push((id, server));
    }

    /// Reads something of one of its servers.
    pub(crate) fn with<T>(&self, id: u64, read: impl FnOnce(&InLoop) -> T) -> Option<T> {
        let servers = self.servers.borrow();
        servers.iter().find(|server| server.0 == id).map(|server| read(&server.1))
    }

    pub(crate) fn end(&self, id: u64) {
        let ended: Vec<_> = {
            let mut servers = self.servers.borrow_mut();
            let (ended, rest) =
                std::mem::take(&mut *servers).into_iter().partition(|it| it.0 == id);
            *servers = rest;
            ended
        };
        drop(ended);
    }
}

fn failed(error: &std::io::Error) -> Status {
    Status::resource_exhausted(format!("the loop: {error}"))
}

/// Makes a loop, which belongs to this thread: `nearcall_loop_new(NEARCALL_ABI, &loop)`. Free it by
/// `nearcall_loop_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loop_new(
    abi: u32,
    event_loop: *mut nearcall_loop,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            check_abi(abi)?;
            at.place("loop", event_loop)?;
            let made = EventLoop::new().map_err(|error| failed(&error))?;
            let made = Loop { servers: RefCell::default(), event_loop: made };
            let id = handles::add_local(made)?;
            at.put("loop", event_loop, nearcall_loop { id })
        })
    }
}

/// Gives the descriptor of a loop, which stays the loop's: when it is readable, or may be,
/// `nearcall_loop_turn` has work. Turn the loop once before the first wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loop_descriptor(
    event_loop: nearcall_loop,
    descriptor: *mut i32,
) -> *mut nearcall_status {
    use std::os::fd::{AsFd, AsRawFd};
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let found = handles::get_local::<Loop>(event_loop.id)?;
            at.put("descriptor", descriptor, found.event_loop.as_fd().as_raw_fd())
        })
    }
}

/// Does what a loop has to do at this time, and does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loop_turn(event_loop: nearcall_loop) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let found = handles::get_local::<Loop>(event_loop.id)?;
            found.event_loop.turn().map(drop).map_err(|error| failed(&error))
        })
    }
}

/// Frees a loop, and ends the servers in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loop_free(event_loop: nearcall_loop) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| handles::take_local::<Loop>(event_loop.id).map(drop)) }
}
