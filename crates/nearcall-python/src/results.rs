//! Results as Python gets them.
//!
//! **Invariants:** a status is raised as `nearcall.RpcError`.
//! **Not here:** the exception and metadata (`failure.rs`).

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::Encoded;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{Bound, Py, PyAny, PyResult, Python};

use crate::failure;

/// Returns `None`, or raises the status.
pub(crate) fn nothing(py: Python<'_>, result: Result<(), Status>) -> PyResult<Py<PyAny>> {
    result.map(|()| py.None()).map_err(|status| failure::error(py, &status))
}

/// A reply with what came after and before it.
type WithMetadata<'py> = (Bound<'py, PyBytes>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// Returns a reply and what came beside it.
pub(crate) fn reply<'py>(
    py: Python<'py>,
    result: Result<Encoded, Status>,
    sent: &ReplyMetadata,
) -> PyResult<WithMetadata<'py>> {
    let reply = result.map_err(|status| failure::error(py, &status))?;
    let (trailing, initial) = failure::both(py, sent)?;
    Ok((PyBytes::new(py, reply.bytes()), trailing, initial))
}

/// Returns an item as bytes, or `None` at the end.
pub(crate) fn item(py: Python<'_>, next: Result<Option<Encoded>, Status>) -> PyResult<Py<PyAny>> {
    match next {
        Ok(Some(item)) => Ok(PyBytes::new(py, item.bytes()).into_any().unbind()),
        Ok(None) => Ok(py.None()),
        Err(status) => Err(failure::error(py, &status)),
    }
}
