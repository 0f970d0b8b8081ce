//! Reading a recording as a stream.
//!
//! **Invariants:** memory is bounded by the longest record that is whole, whatever the lengths in
//! the file say; each record is judged before it is decoded.
//! **Not here:** what the events mean (`replay.rs`).
//!
//! **Invariant:** no bytes of a file make a reader panic, take more memory than the longest record
//! or are taken for what was written if they are not. *Checked by* `tests/it/files.rs`, which cuts
//! a file and damages it at each byte, and `fuzz/fuzz_targets/recording.rs`.

use std::io::{self, BufRead, Read};

use nearcall::control::record::Content;
use nearcall::control::{Record, RecordedEvent, RecordingEnd, RecordingHeader};
use prost::Message;

use crate::checksum::{self, CHECK_BYTES, CHECK_TAG, RECORD_BYTES_MAX};
use crate::writer::{FORMAT, VERSION};

/// Reads a recording.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Of the next record.
    offset: u64,
    header: RecordingHeader,
    end: Option<FileEnd>,
    record: Vec<u8>,
}

/// How a file has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEnd {
    /// As its writer has ended it.
    Whole(RecordingEnd),
    /// It was cut off, or its writer was: what is behind this offset, in bytes, is no whole record.
    CutOff {
        /// Where the last whole record ends.
        offset: u64,
    },
}

/// Why a recording cannot be read, or no further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("this is no recording of nearcall: `nearcall record NAME -o FILE` makes one")]
    NotARecording,
    /// It has a format that did not exist when this was built.
    #[error(
        "this recording has format {version}, from nearcall {nearcall_version:?}, and this program \
         reads formats up to {VERSION}: read it with that version or a later one"
    )]
    Newer {
        /// The version of its format.
        version: u32,
        /// What has written it.
        nearcall_version: String,
    },
    /// Bytes of it are not what was written.
    #[error(
        "the recording is damaged in the record at byte {offset}: {why}; what is before it can be \
         read"
    )]
    Damaged {
        /// Where the damaged record begins, in bytes.
        offset: u64,
        /// What was found.
        why: &'static str,
    },
}

impl<R: BufRead> Reader<R> {
    /// Reads the header of a recording. Give it a buffered reader.
    ///
    /// # Errors
    ///
    /// Those of [`ReadError`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let header = RecordingHeader::default();
        let mut reader = Self { input, offset: 0, header, end: None, record: Vec::new() };
        let first = match reader.next_record() {
            Ok(record) => record.and_then(|record| record.content),
            Err(ReadError::Damaged { why, .. }) if why != OTHER_BYTES => {
                return Err(ReadError::NotARecording);
            }
            Err(error) => return Err(error),
        };
        let Some(Content::Header(header)) = first.filter(is_ours) else {
            return Err(ReadError::NotARecording);
        };
        if header.version > VERSION {
            let RecordingHeader { version, nearcall_version, .. } = header;
            return Err(ReadError::Newer { version, nearcall_version });
        }
        reader.header = header;
        Ok(reader)
    }

    /// Returns the header.
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// Returns how the file has ended, once there are no more events.
    pub fn end(&self) -> Option<&FileEnd> {
        self.end.as_ref()
    }

    /// Returns the next event; `None`: there are no more, and [`end`](Self::end) says why.
    ///
    /// # Errors
    ///
    /// `Io` and `Damaged` of [`ReadError`]: nothing behind that can be read.
    pub fn next_event(&mut self) -> Result<Option<RecordedEvent>, ReadError> {
        while self.end.is_none() {
            let offset = self.offset;
            match self.next_record()? {
                Some(Record { content: Some(Content::Event(event)), .. }) => {
                    return Ok(Some(event));
                }
                Some(Record { content: Some(Content::End(end)), .. }) => {
                    if !self.input.fill_buf()?.is_empty() {
                        let (offset, why) = (self.offset, "there are bytes behind the end");
                        return Err(ReadError::Damaged { offset, why });
                    }
                    self.end = Some(FileEnd::Whole(end));
                }
                Some(Record { content: Some(Content::Header(_)), .. }) => {
                    return Err(ReadError::Damaged { offset, why: "it is a second header" });
                }
                // Something that a later version has added.
                Some(Record { content: None, .. }) => {}
                None => self.end = Some(FileEnd::CutOff { offset }),
            }
        }
        Ok(None)
    }

    /// Returns the next record; `None`: the file ends here, or within a record.
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        let offset = self.offset;
        let damaged = |why| Err(ReadError::Damaged { offset, why });
        let (mut record_bytes, mut length_bytes) = (0_u64, 0_u64);
        loop {
            let mut byte = [0];
            match self.input.read_exact(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(None);
                }
                read => read?,
            }
            record_bytes |= u64::from(byte[0] & 0x7f) << (7 * length_bytes);
            length_bytes += 1;
            if byte[0] < 0x80 {
                break;
            }
            if record_bytes > RECORD_BYTES_MAX || length_bytes > LENGTH_BYTES_MAX {
                return damaged(NO_LENGTH);
            }
        }
        let Some(content_bytes) = record_bytes.checked_sub(CHECK_BYTES as u64) else {
            return damaged(NO_LENGTH);
        };
        let mut check = [0; CHECK_BYTES];
        match self.input.read_exact(&mut check) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [tag, a, b, c, d, ref of_content @ ..] = check;
        let of_head = u32::from_le_bytes([a, b, c, d]);
        if tag != CHECK_TAG
            || record_bytes > RECORD_BYTES_MAX
            || of_head != checksum::of_head(offset, record_bytes)
        {
            return damaged(NO_LENGTH);
        }
        self.record.clear();
        // Grows by what is there.
        let read = self.input.by_ref().take(content_bytes).read_to_end(&mut self.record)?;
        if (read as u64) < content_bytes {
            return Ok(None);
        }
        if of_content != &checksum::of_content(&self.record).to_le_bytes() {
            return damaged(OTHER_BYTES);
        }
        let Ok(record) = Record::decode(&self.record[..]) else {
            return damaged("it cannot be decoded");
        };
        self.offset += length_bytes + record_bytes;
        Ok(Some(record))
    }
}

fn is_ours(content: &Content) -> bool {
    matches!(content, Content::Header(header) if header.format == FORMAT)
}

/// Bytes of the length of a record before its last byte: enough for its limit.
const LENGTH_BYTES_MAX: u64 = 4;

const NO_LENGTH: &str = "its length or its check is not as it was written";

const OTHER_BYTES: &str = "its bytes are not as they were written";
