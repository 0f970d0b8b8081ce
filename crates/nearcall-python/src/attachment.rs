//! Watching over a server.
//!
//! **Invariants:** a watch ends when it is closed or dropped; it gives one notice.
//! **Not here:** how the end of a server is learned (`nearcall::client::Attachment`).

use std::sync::{Arc, Mutex, PoisonError};

use nearcall::client::{self, Cause, Notice};
use nearcall::{Code, Status};
use pyo3::{BoundObject, IntoPyObject, Py, PyAny, PyResult, Python, pyclass, pymethods};

use crate::failure;
use crate::operation::Operation;

/// A watch over the server at an address.
#[pyclass(frozen)]
pub(crate) struct Attachment(Mutex<Option<Arc<client::Attachment>>>);

/// Returns the attachment, or raises the status.
pub(crate) fn attached(
    py: Python<'_>,
    made: Result<client::Attachment, Status>,
) -> PyResult<Py<PyAny>> {
    let made = made.map_err(|status| failure::error(py, &status))?;
    let attachment = Attachment(Mutex::new(Some(Arc::new(made))));
    Ok(attachment.into_pyobject(py)?.into_any().into_bound().unbind())
}

impl Attachment {
    fn get(&self) -> Option<Arc<client::Attachment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the cause, the code and the process id of a notice, and the notice as text.
fn parts(notice: &Notice) -> (&'static str, i32, Option<i32>, String) {
    let (cause, code, other) = match notice.cause {
        Cause::Exited { code } => ("exited", code, None),
        Cause::Killed { signal } => ("killed", signal, None),
        Cause::Closed => ("closed", 0, None),
        Cause::Replaced { pid } => ("replaced", 0, pid),
        Cause::Unresponsive => ("unresponsive", 0, None),
        _ => ("lost", 0, None),
    };
    (cause, code, other.or(notice.pid), notice.to_string())
}

#[pymethods]
impl Attachment {
    /// Makes a wait for the notice.
    fn ended(&self, py: Python<'_>) -> PyResult<Operation> {
        let Some(attachment) = self.get() else {
            let text = "the attachment was closed: attach again";
            return Err(failure::error(py, &Status::new(Code::FailedPrecondition, text)));
        };
        let ended = async move { attachment.ended().await };
        Ok(Operation::new(ended, |py, notice| {
            Ok(parts(&notice).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Returns the notice, if there is one.
    fn notice(&self) -> Option<(&'static str, i32, Option<i32>, String)> {
        self.get()?.notice().as_ref().map(parts)
    }

    /// Ends the watch.
    fn close(&self, py: Python<'_>) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(before));
    }
}
