//! The greeting: the first message in either direction, the same in all versions.
//!
//! ```text
//!  0 "nearcall" | 8 version_min: u16 | 10 version_max: u16
//! 12 message_bytes_max: u32 | 16 metadata_bytes_max: u16 | 18 calls_in_max: u16
//! 20 stream_window_bytes: u32, 0 of an end that takes no streams | 24 instance: 16 bytes
//! ```
//!
//! Little endian. A later version may add to the end; what we do not know is not looked at. It
//! opens with letters, so that no frame, no request of HTTP and no run of zeros is taken for it.
//! **Not here:** what follows from it (`protocol/greeting.rs`).

use crate::error::ProtocolError;
use crate::frame::{HEADER_BYTES, Head};
use crate::limits::GREETING_BYTES_MAX;

/// Random bytes that distinguish a process from all others, chosen when it starts.
pub type InstanceId = [u8; 16];

/// The greeting: what each end sends before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version that it speaks.
    pub version_min: u16,
    /// Newest version that it speaks.
    pub version_max: u16,
    /// Longest message that it takes, in bytes.
    pub message_bytes_max: u32,
    /// Longest metadata that it takes, in bytes.
    pub metadata_bytes_max: u16,
    /// Calls that it takes at once.
    pub calls_in_max: u16,
    /// Bytes of items that each stream to it may have under way; 0 if it takes no streams.
    pub stream_window_bytes: u32,
    /// Which process it is.
    pub instance: InstanceId,
}

impl Hello {
    /// The greeting as it travels.
    #[must_use]
    pub fn encode(&self) -> Head {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&self.version_min.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.version_max.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.message_bytes_max.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.metadata_bytes_max.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.calls_in_max.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.stream_window_bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.instance);
        bytes
    }

    /// Judges the first bytes `head` of a message that has `message_bytes`.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Versions that we do not speak are no error here.
    pub fn decode(head: &[u8], message_bytes: usize) -> Result<Self, ProtocolError> {
        if !is_greeting(head) {
            return Err(ProtocolError::NotAGreeting);
        }
        let cut_off = ProtocolError::CutOff { message_bytes };
        let head: &Head = head.first_chunk().ok_or(cut_off)?;
        if message_bytes < HEADER_BYTES {
            return Err(cut_off);
        }
        if message_bytes > GREETING_BYTES_MAX {
            return Err(ProtocolError::MessageTooLarge { message_bytes });
        }
        let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| u32::from(number(at)) | u32::from(number(at + 2)) << 16;
        let mut instance = InstanceId::default();
        instance.copy_from_slice(&head[24..]);
        Ok(Self {
            version_min: number(8),
            version_max: number(10),
            message_bytes_max: long(12),
            metadata_bytes_max: number(16),
            calls_in_max: number(18),
            stream_window_bytes: long(20),
            instance,
        })
    }
}

/// Whether a message opens as a greeting does.
pub(crate) fn is_greeting(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

const MAGIC: &[u8; 8] = b"nearcall";
