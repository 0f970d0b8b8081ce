//! Long `bytes` fields that are not copied: memory to write them into, and memory that they have
//! come in.
//!
//! The half in Python makes buffers of addresses (`python/nearcall/_buffers.py`), since the stable
//! interface of Python 3.9 has none for extensions.
//! **Invariants:** memory stays where it is, and is not given back, while the object that has its
//! address is there; what was frozen is not written any more, which the half in Python sees to.
//! **Not here:** the memory (`nearcall::client::Loan`), messages (`python/nearcall/_buffers.py`).
//!
//! **Invariant:** memory is sent only when no object of Python can write it, and goes back when
//! none can read it. *Checked by* `test_a_loan_is_not_sent_while_it_may_be_written`,
//! `test_memory_goes_back`.

use std::sync::{Mutex, PoisonError};

use bytes::{Buf, Bytes};
use nearcall::client;
use nearcall::dynamic::Encoded;
use nearcall::prost::encoding::encode_varint;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::types::{PyBytes, PyBytesMethods, PyList, PyListMethods, PyTuple};
use pyo3::{Bound, IntoPyObject, Py, PyAny, PyResult, Python, pyclass, pymethods};

/// A shorter field stays in its message, as in Rust.
pub(crate) const BUFFER_BYTES_MIN: usize = 4 << 10;

/// Memory that is read only.
#[pyclass(frozen)]
pub(crate) struct Memory(Bytes);

#[pymethods]
impl Memory {
    #[getter]
    fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Memory to be written, then frozen.
#[pyclass(frozen)]
pub(crate) struct Loan {
    memory: Mutex<Option<client::Loan>>,
    address: usize,
    length: usize,
    is_shared: bool,
}

impl Loan {
    pub(crate) fn new(mut loan: client::Loan) -> Self {
        let (address, length) = (loan.as_mut_ptr().expose_provenance(), loan.len());
        let is_shared = loan.is_shared();
        Self { memory: Mutex::new(Some(loan)), address, length, is_shared }
    }
}

#[pymethods]
impl Loan {
    /// Makes memory of this process alone: it is copied when it is sent.
    #[staticmethod]
    fn plain(length: usize) -> Self {
        Self::new(client::Loan::plain(length))
    }

    #[getter]
    fn address(&self) -> usize {
        self.address
    }

    fn __len__(&self) -> usize {
        self.length
    }

    /// Whether it is lent to the other end, and not copied when it is sent.
    #[getter]
    fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Ends the writing.
    fn freeze(&self) -> PyResult<Memory> {
        let loan = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        let loan = loan.ok_or_else(|| PyBufferError::new_err("the loan was frozen before"))?;
        Ok(Memory(loan.freeze()))
    }
}

/// Takes a message from Python: bytes, or a list of bytes and memory that it is put together from.
pub(crate) fn encoded(given: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    match given.cast::<PyBytes>() {
        Ok(bytes) => Ok(Encoded::from(Bytes::copy_from_slice(bytes.as_bytes()))),
        Err(_) => parts_of(given),
    }
}

fn parts_of(given: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    let parts = given.cast::<PyList>()?.iter().map(|part| {
        if let Ok(memory) = part.cast::<Memory>() {
            return Ok(memory.get().0.clone());
        }
        let bytes = part.cast::<PyBytes>();
        let bytes = bytes.map_err(|_| PyTypeError::new_err("a part is bytes or frozen memory"))?;
        Ok(Bytes::copy_from_slice(bytes.as_bytes()))
    });
    Ok(Encoded::from_parts(parts.collect::<PyResult<_>>()?))
}

/// Gives a message to Python: as bytes; or, where fields are named, as a tuple of bytes without
/// those of them that are long, and of pairs of their numbers and memory.
pub(crate) fn message<'py>(
    py: Python<'py>,
    message: &Encoded,
    fields: Option<&[u32]>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(fields) = fields else {
        return Ok(PyBytes::new(py, message.bytes()).into_any());
    };
    let Some(Cut { rest, memory }) = cut(message.parts(), fields) else {
        // The library that reads messages says what is wrong.
        let whole = PyBytes::new(py, message.bytes());
        return Ok((whole, PyTuple::empty(py)).into_pyobject(py)?.into_any());
    };
    let pair = |(field, bytes)| (field, Py::new(py, Memory(bytes))?).into_pyobject(py);
    let memory = memory.into_iter().map(pair).collect::<PyResult<Vec<_>>>()?;
    let both = (PyBytes::new(py, &rest), PyTuple::new(py, memory)?);
    Ok(both.into_pyobject(py)?.into_any())
}

/// A message without its long fields.
#[derive(Default)]
struct Cut {
    rest: Vec<u8>,
    memory: Vec<(u32, Bytes)>,
}

/// Cuts long fields of these numbers out of a message. `None`: it is none.
fn cut(parts: &[Bytes], fields: &[u32]) -> Option<Cut> {
    let mut body = Parts { part: Bytes::new(), later: parts };
    let (mut cut, mut groups) = (Cut::default(), 0_usize);
    while body.has_remaining() {
        let key = body.varint()?;
        let (field, kind) = (u32::try_from(key >> 3).ok()?, key & 7);
        let is_named = groups == 0 && kind == LENGTH && fields.contains(&field);
        if is_named {
            // The last one counts.
            cut.memory.retain(|(other, _)| *other != field);
        }
        let length = match kind {
            LENGTH => usize::try_from(body.varint()?).ok()?,
            _ => 0,
        };
        if is_named && length >= BUFFER_BYTES_MIN {
            cut.memory.push((field, body.take(length)?));
            continue;
        }
        encode_varint(key, &mut cut.rest);
        match kind {
            VARINT => encode_varint(body.varint()?, &mut cut.rest),
            FIXED64 => cut.rest.extend_from_slice(&body.take(8)?),
            FIXED32 => cut.rest.extend_from_slice(&body.take(4)?),
            LENGTH => {
                encode_varint(length as u64, &mut cut.rest);
                cut.rest.extend_from_slice(&body.take(length)?);
            }
            GROUP => groups += 1,
            GROUP_END => groups = groups.checked_sub(1)?,
            _ => return None,
        }
    }
    Some(cut)
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

/// Reads through parts as if they were one.
struct Parts<'a> {
    part: Bytes,
    later: &'a [Bytes],
}

impl Parts<'_> {
    fn has_remaining(&mut self) -> bool {
        while self.part.is_empty()
            && let [next, later @ ..] = self.later
        {
            (self.part, self.later) = (next.clone(), later);
        }
        !self.part.is_empty()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.has_remaining().then(|| self.part.get_u8())?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Takes bytes: without a copy, if they lie in one part.
    fn take(&mut self, count: usize) -> Option<Bytes> {
        self.has_remaining();
        if count <= self.part.len() {
            return Some(self.part.split_to(count));
        }
        let all = self.part.len() + self.later.iter().map(Bytes::len).sum::<usize>();
        if count > all {
            return None;
        }
        let mut copy = Vec::with_capacity(count);
        while copy.len() < count && self.has_remaining() {
            let step = self.part.len().min(count - copy.len());
            copy.extend_from_slice(&self.part.split_to(step));
        }
        Some(copy.into())
    }
}
