//! Clients, and the objects that they call.
//!
//! **Invariants:** the shapes of methods come from the descriptor set of the generated code, so
//! that no server is asked for them.
//! **Not here:** streams (`streams.rs`), waiting (`waiting.rs`, `operation.rs`).

use std::time::Duration;

use nearcall::client::{AsyncObjectRef, AttachOptions};
use nearcall::dynamic::{Encoded, EncodedSlice, interface_from_descriptor_set};
use nearcall::service::{Interface, Method};
use nearcall::{CallOptions, Limits};
use pyo3::exceptions::PyIndexError;
use pyo3::types::{PyBytes, PyBytesMethods};
use pyo3::{Bound, PyAny, PyResult, Python, pyclass, pymethods};

use crate::attachment::attached;
use crate::buffers::{self, Loan, encoded};
use crate::failure;
use crate::operation::Operation;
use crate::options::{self, duration};
use crate::results::{nothing, opened_as, reply};
use crate::streams::{Replies, Requests};
use crate::waiting::block_on;

/// Makes connections. All channels of a client share them.
#[pyclass(frozen)]
pub(crate) struct Client(nearcall::Client);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (timeout=None, message_bytes_max=None))]
    fn new(timeout: Option<f64>, message_bytes_max: Option<u32>) -> PyResult<Self> {
        let mut builder = nearcall::Client::builder();
        if let Some(seconds) = timeout {
            builder = builder.default_deadline(duration("timeout", seconds)?);
        }
        if let Some(bytes) = message_bytes_max {
            builder = builder.limits(Limits { message_bytes_max: bytes, ..Limits::default() });
        }
        Ok(Self(builder.build()))
    }

    /// Makes a reference to the object with an interface at an address. It connects when it is
    /// called first.
    fn object(
        &self,
        py: Python<'_>,
        address: &str,
        descriptor_set: &[u8],
        interface: &str,
    ) -> PyResult<Object> {
        let made = interface_from_descriptor_set(descriptor_set, interface).and_then(|interface| {
            Ok(Object { object: AsyncObjectRef::new(&self.0, interface, address)?, interface })
        });
        made.map_err(|status| failure::error(py, &status))
    }

    /// Waits until a server answers at an address.
    fn hunt(&self, address: &str, timeout: f64) -> PyResult<Operation> {
        let (client, address) = (self.0.clone(), address.to_owned());
        let timeout = match timeout.is_infinite() {
            true => Duration::MAX,
            false => duration("timeout", timeout)?,
        };
        Ok(Operation::new(async move { client.hunt_async(&address, timeout).await }, nothing))
    }

    /// Attaches to the server at an address. It is pinged each so many seconds, if any.
    #[pyo3(signature = (address, ping=None))]
    fn attach(&self, address: &str, ping: Option<f64>) -> PyResult<Operation> {
        let (client, address) = (self.0.clone(), address.to_owned());
        let mut options = AttachOptions::new();
        if let Some(seconds) = ping {
            options = options.ping(duration("ping", seconds)?);
        }
        Ok(Operation::new(async move { client.attach_async(&address, options).await }, attached))
    }

    /// Moves the connection to an address to another mechanism.
    fn switch(&self, address: &str, mechanism: &str, timeout: f64) -> PyResult<Operation> {
        let (client, address) = (self.0.clone(), address.to_owned());
        let (mechanism, timeout) = (mechanism.to_owned(), duration("timeout", timeout)?);
        let switch = async move { client.switch_async(&address, &mechanism, timeout).await };
        Ok(Operation::new(switch, nothing))
    }
}

/// An object of a server.
#[pyclass(frozen)]
pub(crate) struct Object {
    object: AsyncObjectRef,
    interface: &'static Interface,
}

/// A call that is about to be made.
struct Outgoing {
    object: AsyncObjectRef,
    method: &'static Method,
}

impl Object {
    fn method(&self, index: usize) -> PyResult<&'static Method> {
        let found = self.interface.methods.get(index);
        found.copied().ok_or_else(|| PyIndexError::new_err("the interface has no such method"))
    }

    fn outgoing(&self, method: usize, options: Option<CallOptions>) -> PyResult<Outgoing> {
        let object = match options {
            Some(options) => self.object.with(options),
            None => self.object.clone(),
        };
        Ok(Outgoing { object, method: self.method(method)? })
    }
}

#[pymethods]
impl Object {
    /// Calls a method, and waits for its reply. Long fields of these numbers are not copied.
    #[pyo3(signature = (
        method, request, timeout=None, metadata=None, wait_for_ready=None, fields=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "one call of Python for each of a service")]
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: usize,
        request: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        metadata: Option<&Bound<'py, PyAny>>,
        wait_for_ready: Option<bool>,
        fields: Option<Vec<u32>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let method = self.method(method)?;
        let own;
        let object = match options::read(timeout, metadata, wait_for_ready)? {
            None => &self.object,
            Some(options) => {
                own = self.object.with(options);
                &own
            }
        };
        let called = match request.cast::<PyBytes>() {
            Ok(request) => {
                let request = EncodedSlice::new(request.as_bytes());
                block_on(py, object.call::<_, Encoded>(method, &request))?
            }
            Err(_) => {
                let request = encoded(request)?;
                block_on(py, object.call::<_, Encoded>(method, &request))?
            }
        };
        match called {
            Ok(reply) => buffers::message(py, &reply, fields.as_deref()),
            Err(status) => Err(failure::error(py, &status)),
        }
    }

    /// Makes a wait for memory for a request.
    #[pyo3(signature = (length, timeout=None))]
    fn loan(&self, length: usize, timeout: Option<f64>) -> PyResult<Operation> {
        let object = match options::read(timeout, None, None)? {
            None => self.object.clone(),
            Some(options) => self.object.with(options),
        };
        Ok(Operation::new(async move { object.loan(length).await }, |py, loan| {
            opened_as(py, loan.map(Loan::new))
        }))
    }

    /// Makes a call to be started: its result is the reply, and what came after and before it. Long
    /// fields of these numbers are not copied.
    #[pyo3(signature = (
        method, request, timeout=None, metadata=None, wait_for_ready=None, fields=None
    ))]
    fn start(
        &self,
        method: usize,
        request: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        metadata: Option<&Bound<'_, PyAny>>,
        wait_for_ready: Option<bool>,
        fields: Option<Vec<u32>>,
    ) -> PyResult<Operation> {
        let options = options::read(timeout, metadata, wait_for_ready)?;
        let (outgoing, request) = (self.outgoing(method, options)?, encoded(request)?);
        let call = async move {
            let call = outgoing.object.call::<_, Encoded>(outgoing.method, &request);
            call.with_metadata().await
        };
        Ok(Operation::new(call, move |py, ended| reply(py, ended, fields.as_deref())))
    }

    /// Sends a one-way message.
    #[pyo3(signature = (method, request, timeout=None, metadata=None, wait_for_ready=None))]
    fn send(
        &self,
        method: usize,
        request: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        metadata: Option<&Bound<'_, PyAny>>,
        wait_for_ready: Option<bool>,
    ) -> PyResult<Operation> {
        let options = options::read(timeout, metadata, wait_for_ready)?;
        let (outgoing, request) = (self.outgoing(method, options)?, encoded(request)?);
        let send = async move { outgoing.object.send(outgoing.method, &request).await };
        Ok(Operation::new(send, nothing))
    }

    /// Opens a call whose reply is a stream.
    #[pyo3(signature = (method, request, timeout=None, metadata=None, wait_for_ready=None))]
    fn open_replies(
        &self,
        method: usize,
        request: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        metadata: Option<&Bound<'_, PyAny>>,
        wait_for_ready: Option<bool>,
    ) -> PyResult<Operation> {
        let options = options::read(timeout, metadata, wait_for_ready)?;
        let (outgoing, request) = (self.outgoing(method, options)?, encoded(request)?);
        let open = async move {
            let Outgoing { object, method } = outgoing;
            object.open_reply_stream::<_, Encoded>(method, &request).await
        };
        Ok(Operation::new(open, |py, opened| opened_as(py, opened.map(Replies::new))))
    }

    /// Opens a call whose request is a stream.
    #[pyo3(signature = (method, timeout=None, metadata=None, wait_for_ready=None))]
    fn open_requests(
        &self,
        method: usize,
        timeout: Option<f64>,
        metadata: Option<&Bound<'_, PyAny>>,
        wait_for_ready: Option<bool>,
    ) -> PyResult<Operation> {
        let options = options::read(timeout, metadata, wait_for_ready)?;
        let Outgoing { object, method } = self.outgoing(method, options)?;
        let open = async move { object.open_request_stream::<Encoded, Encoded>(method).await };
        Ok(Operation::new(open, |py, opened| opened_as(py, opened.map(Requests::with_reply))))
    }

    /// Opens a call whose request and reply are streams: its result is both.
    #[pyo3(signature = (method, timeout=None, metadata=None, wait_for_ready=None))]
    fn open_both(
        &self,
        method: usize,
        timeout: Option<f64>,
        metadata: Option<&Bound<'_, PyAny>>,
        wait_for_ready: Option<bool>,
    ) -> PyResult<Operation> {
        let options = options::read(timeout, metadata, wait_for_ready)?;
        let Outgoing { object, method } = self.outgoing(method, options)?;
        let open = async move { object.open_both_streams::<Encoded, Encoded>(method).await };
        Ok(Operation::new(open, |py, opened| {
            let both = opened
                .map(|(requests, replies)| (Requests::alone(requests), Replies::new(replies)));
            opened_as(py, both)
        }))
    }
}
