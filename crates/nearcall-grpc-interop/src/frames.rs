//! The frames in which messages of gRPC lie in the body of a request or a response.
//!
//! ```text
//! is_compressed: u8 | message_bytes: u32, big endian | message
//! ```

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

const HEAD_BYTES: usize = 5;

/// A message, and whether it came compressed.
pub(crate) struct Frame {
    pub(crate) is_compressed: bool,
    /// What it is without compression.
    pub(crate) message: Vec<u8>,
}

/// Appends a message, compressed by gzip or not.
pub(crate) fn append(
    body: &mut Vec<u8>,
    is_compressed: bool,
    message: &[u8],
) -> anyhow::Result<()> {
    let compressed = if is_compressed {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(message)?;
        Some(encoder.finish()?)
    } else {
        None
    };
    let message = compressed.as_deref().unwrap_or(message);
    body.push(is_compressed.into());
    body.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
    body.extend_from_slice(message);
    Ok(())
}

/// Reads the frames of a whole body.
pub(crate) fn split(mut body: &[u8]) -> anyhow::Result<Vec<Frame>> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<HEAD_BYTES>() {
        let length = usize::try_from(length(*head))?;
        let (message, rest) = rest.split_at_checked(length).context("a message is cut off")?;
        let is_compressed = head[0] == 1;
        let message = if is_compressed {
            let mut plain = Vec::new();
            GzDecoder::new(message).read_to_end(&mut plain)?;
            plain
        } else {
            message.to_vec()
        };
        frames.push(Frame { is_compressed, message });
        body = rest;
    }
    anyhow::ensure!(body.is_empty(), "{} bytes lie behind the last message", body.len());
    Ok(frames)
}

const fn length([_, a, b, c, d]: [u8; HEAD_BYTES]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Which messages of a request came compressed, noted as its body passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    flags: VecDeque<bool>,
    head: Vec<u8>,
    rest_of_message: usize,
}

impl Flags {
    /// Notes what a part of the body shows.
    pub(crate) fn read(&self, mut part: &[u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !part.is_empty() {
            let skipped = state.rest_of_message.min(part.len());
            state.rest_of_message -= skipped;
            part = &part[skipped..];
            let wanted = (HEAD_BYTES - state.head.len()).min(part.len());
            state.head.extend_from_slice(&part[..wanted]);
            part = &part[wanted..];
            if let Ok(head) = <[u8; HEAD_BYTES]>::try_from(&state.head[..]) {
                state.head.clear();
                state.flags.push_back(head[0] == 1);
                state.rest_of_message = usize::try_from(length(head)).unwrap_or(usize::MAX);
            }
        }
    }

    /// Returns whether the next message came compressed.
    pub(crate) fn next(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.flags.pop_front().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut body = Vec::new();
        for (is_compressed, message) in [(true, &[0; 300][..]), (false, b"plain"), (true, b"")] {
            append(&mut body, is_compressed, message).unwrap();
        }
        let frames = split(&body).unwrap();
        let lengths: Vec<_> = frames.iter().map(|f| (f.is_compressed, f.message.len())).collect();
        assert_eq!(lengths, [(true, 300), (false, 5), (true, 0)]);
        assert!(split(&body[..body.len() - 1]).is_err());
        for part_bytes in [1, 2, 7, body.len()] {
            let flags = Flags::default();
            body.chunks(part_bytes).for_each(|part| flags.read(part));
            assert_eq!([flags.next(), flags.next(), flags.next()], [true, false, true]);
        }
    }
}
