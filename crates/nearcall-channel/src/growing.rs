//! Buffers whose length follows from messages: memory that is not there is an error, not the end of
//! the program.
//!
//! **Not here:** how long a message may be, which the connection has agreed on.

use std::io;

use crate::error::OpenError;

/// Makes `buffer` at least `bytes` long. What is new is zero.
///
/// # Errors
///
/// `OutOfMemory`, with the number of bytes. `buffer` is then as it was.
#[inline]
pub fn grow(buffer: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    if buffer.len() < bytes {
        buffer.try_reserve_exact(bytes - buffer.len()).map_err(|_| no_memory(bytes))?;
        buffer.resize(bytes, 0);
    }
    Ok(())
}

/// Works like [`grow`], for a buffer that grows again: its capacity doubles, but only what is asked
/// for is touched.
pub(crate) fn grow_by_doubling(buffer: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    if buffer.capacity() < bytes {
        let capacity = bytes.next_power_of_two();
        buffer.try_reserve_exact(capacity - buffer.len()).map_err(|_| no_memory(bytes))?;
    }
    grow(buffer, bytes)
}

/// Allocates a buffer of a connection, in bytes.
///
/// # Errors
///
/// There is no memory for it.
pub(crate) fn open_buffer(bytes: usize) -> Result<Box<[u8]>, OpenError> {
    let mut buffer = Vec::new();
    let grown = grow(&mut buffer, bytes);
    grown.map_err(OpenError::doing("allocating the buffers of a connection"))?;
    Ok(buffer.into_boxed_slice())
}

#[cold]
fn no_memory(bytes: usize) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {bytes} bytes of a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let mut buffer = vec![1];
        let error = grow(&mut buffer, usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), format!("no memory for {} bytes of a message", usize::MAX));
        assert_eq!(buffer, [1]);
        grow(&mut buffer, 3).unwrap();
        grow(&mut buffer, 2).unwrap();
        assert_eq!(buffer, [1, 0, 0]);
    }
}
