//! Results as Python gets them.
//!
//! **Invariants:** a status is raised as `nearcall.RpcError`.
//! **Not here:** the exception and metadata (`failure.rs`).

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::Encoded;
use pyo3::{BoundObject, IntoPyObject, Py, PyAny, PyErr, PyResult, Python};

use crate::{buffers, failure};

/// Returns `None`, or raises the status.
pub(crate) fn nothing(py: Python<'_>, result: Result<(), Status>) -> PyResult<Py<PyAny>> {
    result.map(|()| py.None()).map_err(|status| failure::error(py, &status))
}

/// Returns a reply with what came after and before it. Long fields of these numbers are not copied.
pub(crate) fn reply(
    py: Python<'_>,
    (result, sent): (Result<Encoded, Status>, ReplyMetadata),
    fields: Option<&[u32]>,
) -> PyResult<Py<PyAny>> {
    let reply = result.map_err(|status| failure::error(py, &status))?;
    let (trailing, initial) = failure::both(py, &sent)?;
    let all = (buffers::message(py, &reply, fields)?, trailing, initial);
    Ok(all.into_pyobject(py)?.unbind().into())
}

/// Returns the ends of a call that streams.
pub(crate) fn opened_as<'py, T>(py: Python<'py>, opened: Result<T, Status>) -> PyResult<Py<PyAny>>
where
    T: IntoPyObject<'py>,
    PyErr: From<T::Error>,
{
    let ends = opened.map_err(|status| failure::error(py, &status))?.into_pyobject(py)?;
    Ok(ends.into_any().into_bound().unbind())
}

/// Returns an item, or `None` at the end. Long fields of these numbers are not copied.
pub(crate) fn item(
    py: Python<'_>,
    next: Result<Option<Encoded>, Status>,
    fields: Option<&[u32]>,
) -> PyResult<Py<PyAny>> {
    match next {
        Ok(Some(item)) => Ok(buffers::message(py, &item, fields)?.unbind()),
        Ok(None) => Ok(py.None()),
        Err(status) => Err(failure::error(py, &status)),
    }
}
