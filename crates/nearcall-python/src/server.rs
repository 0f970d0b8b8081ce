//! Servers: what they serve, where they listen, how they start and end.
//!
//! **Invariants:** a server is prepared, started once, and ends when it is stopped or dropped.
//! **Not here:** serving calls (`call_queue.rs`, `python/nearcall/_server.py`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall::Limits;
use nearcall::dynamic::{DynamicDispatcher, interface_from_descriptor_set};
use nearcall::server::{ListenOptions, RunningServer, ServerBuilder};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::{Bound, IntoPyObject, PyAny, PyResult, Python, pyclass, pymethods};

use crate::call_queue::{CallQueue, Event, QueuedService};
use crate::failure;
use crate::notifier::Notifier;
use crate::options::duration;
use crate::server_call::ServerCall;
use crate::waiting;

enum State {
    /// With the number of services.
    Prepared(Box<ServerBuilder>, usize),
    Running(Arc<RunningServer>),
    Ended,
}

/// A server in threads of its own, whose calls Python takes.
#[pyclass(frozen)]
pub(crate) struct Server {
    state: Mutex<State>,
    queue: Arc<CallQueue>,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepare<R>(
        &self,
        change: impl FnOnce(ServerBuilder, &mut usize) -> (ServerBuilder, R),
    ) -> PyResult<R> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Prepared(builder, mut services) => {
                let (builder, result) = change(*builder, &mut services);
                *state = State::Prepared(Box::new(builder), services);
                Ok(result)
            }
            other => {
                *state = other;
                Err(PyRuntimeError::new_err("the server was started: prepare it before"))
            }
        }
    }

    fn running(&self) -> Option<Arc<RunningServer>> {
        match &*self.state() {
            State::Running(running) => Some(Arc::clone(running)),
            _ => None,
        }
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (threads, calls_max, message_bytes_max=None, notifier=None))]
    fn new(
        threads: usize,
        calls_max: usize,
        message_bytes_max: Option<u32>,
        notifier: Option<&Notifier>,
    ) -> Self {
        let mut limits = Limits::default();
        if let Some(bytes) = message_bytes_max {
            limits.message_bytes_max = bytes;
        }
        let builder = nearcall::Server::builder().threads(threads).limits(limits);
        let notifier = notifier.map(|notifier| Arc::clone(&notifier.shared));
        let state = Mutex::new(State::Prepared(Box::new(builder), 0));
        Self { state, queue: CallQueue::new(notifier, calls_max) }
    }

    /// Has it serve an interface, under the name of an object if there are several. Returns the
    /// number of the service.
    #[pyo3(signature = (descriptor_set, interface, name=None))]
    fn register(
        &self,
        py: Python<'_>,
        descriptor_set: &[u8],
        interface: &str,
        name: Option<&str>,
    ) -> PyResult<usize> {
        let interface = interface_from_descriptor_set(descriptor_set, interface)
            .map_err(|status| failure::error(py, &status))?;
        self.prepare(|builder, services| {
            let index = *services;
            *services += 1;
            let service = QueuedService { queue: Arc::clone(&self.queue), index };
            let dispatcher = DynamicDispatcher::new(interface, service);
            let builder = match name {
                Some(name) => builder.register_as(name, dispatcher),
                None => builder.register(dispatcher),
            };
            (builder, index)
        })
    }

    /// Has it listen at an address from its start on.
    #[pyo3(signature = (address, socket_mode=None, users=None))]
    fn listen(
        &self,
        address: &str,
        socket_mode: Option<u32>,
        users: Option<Vec<u32>>,
    ) -> PyResult<()> {
        let mut options = ListenOptions::new();
        if let Some(mode) = socket_mode {
            options = options.socket_mode(mode);
        }
        if let Some(users) = users {
            options = options.users(users);
        }
        self.prepare(|builder, _| (builder.listen_with(address, &options), ()))
    }

    /// Starts it. Returns the addresses at which it listens.
    fn start(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let prepared = {
            let mut state = self.state();
            match std::mem::replace(&mut *state, State::Ended) {
                State::Prepared(builder, _) => builder,
                other => {
                    *state = other;
                    return Err(PyRuntimeError::new_err("the server was started already"));
                }
            }
        };
        let running = py
            .detach(|| prepared.start())
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        let addresses = running.addresses().iter().map(ToString::to_string).collect();
        *self.state() = State::Running(Arc::new(running));
        Ok(addresses)
    }

    /// Takes no more clients and calls. Waits until those under way have ended, for this many
    /// seconds at most, and returns whether they have.
    fn drain(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let seconds = duration("grace", seconds)?;
        Ok(py.detach(|| self.running().is_none_or(|running| running.drain(seconds))))
    }

    /// Ends it: closes its connections, and has no thread wait for calls any more.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let before = std::mem::replace(&mut *self.state(), State::Ended);
        let stopped = py.detach(|| {
            self.queue.close();
            match before {
                State::Running(running) => running.stop().map_err(|error| error.to_string()),
                State::Prepared(..) | State::Ended => Ok(()),
            }
        });
        stopped.map_err(PyRuntimeError::new_err)
    }

    /// Waits for a call. `None`: the server has ended.
    fn next_call(&self, py: Python<'_>) -> Option<ServerCall> {
        py.detach(|| waiting::counted(|| self.queue.wait())).map(ServerCall)
    }

    /// Returns the calls that have come, and the numbers of those that are not waited for any more.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let events = self.queue.take().into_iter();
        let object = |event| match event {
            Event::Call(call) => Ok(Bound::new(py, ServerCall(call))?.into_any()),
            Event::Cancelled(id) => Ok(id.into_pyobject(py)?.into_any()),
        };
        events.map(object).collect()
    }
}
