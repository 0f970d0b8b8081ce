//! Statuses as exceptions, metadata as tuples.
//!
//! **Invariants:** the value of a key that ends in `-bin` is `bytes`, any other `str`.
//! **Not here:** the exceptions themselves (`python/nearcall/_errors.py`).

use nearcall::client::{BadMetadata, Metadata, ReplyMetadata};
use nearcall::{Code, Status};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAnyMethods, PyBytes, PyTuple};
use pyo3::{Bound, IntoPyObject, Py, PyAny, PyErr, PyResult, Python};

/// Returns the exception `nearcall.RpcError` of a status.
pub(crate) fn error(py: Python<'_>, status: &Status) -> PyErr {
    let sent = metadata(py, status.metadata());
    sent.and_then(|sent| make(py, status.code(), status.message(), sent)).unwrap_or_else(|why| why)
}

fn make(py: Python<'_>, code: Code, text: &str, sent: Bound<'_, PyTuple>) -> PyResult<PyErr> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        PyResult::Ok(py.import("nearcall._errors")?.getattr("from_native")?.unbind())
    })?;
    let made = class.bind(py).call1((code.number(), text, sent))?;
    Ok(PyErr::from_value(made))
}

/// Returns the exception of a call that cannot go on because the interpreter ends.
pub(crate) fn ending(py: Python<'_>) -> PyErr {
    error(py, &Status::new(Code::Cancelled, "the interpreter ends"))
}

/// Returns a code of a number from Python.
pub(crate) fn code(number: u32) -> PyResult<Code> {
    let code = u16::try_from(number).ok().and_then(Code::from_number);
    code.ok_or_else(|| PyValueError::new_err(format!("{number} is no status code")))
}

/// Returns metadata as a tuple of pairs.
pub(crate) fn metadata<'py>(py: Python<'py>, from: Metadata<'_>) -> PyResult<Bound<'py, PyTuple>> {
    entries(py, from.iter())
}

/// Returns what came with the end of a call and what came before it, each as a tuple of pairs.
pub(crate) fn both<'py>(
    py: Python<'py>,
    from: &ReplyMetadata,
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyTuple>)> {
    Ok((entries(py, from.iter())?, metadata(py, from.headers())?))
}

fn entries<'py, 'a>(
    py: Python<'py>,
    from: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> PyResult<Bound<'py, PyTuple>> {
    let pair = |(key, value): (&str, &[u8])| -> PyResult<Bound<'py, PyTuple>> {
        let value = match key.ends_with("-bin") {
            true => PyBytes::new(py, value).into_any(),
            false => String::from_utf8_lossy(value).into_pyobject(py)?.into_any(),
        };
        (key, value).into_pyobject(py)
    };
    PyTuple::new(py, from.map(pair).collect::<PyResult<Vec<_>>>()?)
}

/// Adds the entries of an iterable of pairs, by what their keys say of their values.
pub(crate) fn add_entries(
    from: &Bound<'_, PyAny>,
    mut add: impl FnMut(&str, &[u8]) -> Result<(), BadMetadata>,
) -> PyResult<()> {
    for (index, pair) in from.try_iter()?.enumerate() {
        let wrong = |what: &str| {
            let text = format!("metadata[{index}] is no pair of a str and {what}");
            PyTypeError::new_err(text)
        };
        let (key, value): (String, Bound<'_, PyAny>) =
            pair?.extract().map_err(|_| wrong("a str, or bytes for a key in `-bin`"))?;
        let added = match key.ends_with("-bin") {
            true => add(&key, value.extract().map_err(|_| wrong("bytes"))?),
            false => add(&key, value.extract::<String>().map_err(|_| wrong("a str"))?.as_bytes()),
        };
        added.map_err(|error| PyValueError::new_err(format!("metadata[{index}]: {error}")))?;
    }
    Ok(())
}
