//! Wake-ups for a loop of asyncio.
//!
//! **Invariants:** the threads of the runtime write one byte to a socket, and wait for nothing: the
//! loop, which watches the socket, then takes all numbers that are ready.
//! **Not here:** what the numbers stand for (`python/nearcall/_loop.py`).

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use pyo3::{PyResult, pyclass, pymethods};

/// What operations and servers notify.
pub(crate) struct Shared {
    ready: Mutex<Vec<u64>>,
    ours: UnixStream,
    theirs: UnixStream,
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, Vec<u64>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the loop take a number.
    pub(crate) fn notify(&self, number: u64) {
        let mut ready = self.ready();
        ready.push(number);
        if ready.len() == 1 {
            // There is at most one byte in the socket; a loop that is closed needs none.
            let _ = (&self.theirs).write(&[1]);
        }
    }
}

/// Wakes a loop of asyncio: have it watch `fileno()`, and `take()` what is ready.
#[pyclass(frozen)]
pub(crate) struct Notifier {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok(Self { shared: Arc::new(Shared { ready: Mutex::default(), ours, theirs }) })
    }

    /// Returns the descriptor that is readable while numbers are ready.
    fn fileno(&self) -> i32 {
        self.shared.ours.as_raw_fd()
    }

    /// Returns the numbers that are ready.
    fn take(&self) -> PyResult<Vec<u64>> {
        let mut ready = self.shared.ready();
        let mut byte = [0; 8];
        match (&self.shared.ours).read(&mut byte) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
            _ => Ok(std::mem::take(&mut *ready)),
        }
    }
}

struct Number(Arc<Shared>, u64);

impl Wake for Number {
    fn wake(self: Arc<Self>) {
        self.0.notify(self.1);
    }
}

impl Notifier {
    /// Returns what makes a number ready.
    pub(crate) fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(Number(Arc::clone(&self.shared), number)))
    }
}
