//! Writing a recording.
//!
//! **Invariants:** a record is written by one call, so that what a failed write leaves is whole
//! records and at most one that is cut off.
//! **Not here:** the file itself and its name.

use std::io::{self, Write};

use nearcall::control::record::Content;
use nearcall::control::recorded_event::What;
use nearcall::control::{
    Record, RecordedDrop, RecordedEvent, RecordingEnd, RecordingHeader, ServerCaller,
};
use prost::Message;
use prost::encoding::encode_varint;

use crate::checksum::{self, CHECK_BYTES, CHECK_TAG};

/// The `format` of each header.
pub(crate) const FORMAT: &str = "nearcall.recording";

/// The version of the format that is written, and the highest one that is read.
pub(crate) const VERSION: u32 = 1;

/// Writes a recording, record by record. Give it a buffered writer.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    summary: Summary,
    record: Vec<u8>,
}

/// What has been written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls and one-way messages.
    pub calls: u64,
    /// Records of events, of which a call has several.
    pub events: u64,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// What the server has left out.
    pub dropped: RecordedDrop,
}

impl<W: Write> Writer<W> {
    /// Begins a file. `format`, `version`, `nearcall_version` and `descriptor_set` of the header
    /// are set here.
    ///
    /// # Errors
    ///
    /// Any of the writer.
    pub fn new(out: W, header: RecordingHeader) -> io::Result<Self> {
        let mut writer = Self { out, summary: Summary::default(), record: Vec::new() };
        writer.write(Content::Header(RecordingHeader {
            format: FORMAT.to_owned(),
            version: VERSION,
            nearcall_version: env!("CARGO_PKG_VERSION").to_owned(),
            descriptor_set: ServerCaller::INTERFACE.descriptor_set.into(),
            ..header
        }))?;
        Ok(writer)
    }

    /// Writes an event.
    ///
    /// # Errors
    ///
    /// Any of the writer. What was written before it can be read.
    pub fn event(&mut self, event: RecordedEvent) -> io::Result<()> {
        let mut summary = self.summary;
        summary.events += 1;
        match &event.what {
            Some(What::Request(_)) => summary.calls += 1,
            Some(What::Dropped(more)) => {
                summary.dropped.calls += more.calls;
                summary.dropped.events += more.events;
                summary.dropped.bytes += more.bytes;
            }
            _ => {}
        }
        self.write(Content::Event(event))?;
        self.summary = Summary { file_bytes: self.summary.file_bytes, ..summary };
        Ok(())
    }

    /// Has what was written reach the file.
    ///
    /// # Errors
    ///
    /// Any of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns what has been written so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Ends the file. Returns what was written.
    ///
    /// # Errors
    ///
    /// Any of the writer: readers take the file for one that was cut off.
    pub fn finish(mut self) -> io::Result<Summary> {
        let Summary { calls, events, dropped, .. } = self.summary;
        self.write(Content::End(RecordingEnd { calls, events, dropped: Some(dropped) }))?;
        self.out.flush()?;
        Ok(self.summary)
    }

    fn write(&mut self, content: Content) -> io::Result<()> {
        let content = Record { check: 0, content: Some(content) };
        let (content_bytes, offset) = (content.encoded_len(), self.summary.file_bytes);
        let record_bytes = (CHECK_BYTES + content_bytes) as u64;
        self.record.clear();
        encode_varint(record_bytes, &mut self.record);
        let start = self.record.len() + CHECK_BYTES;
        self.record.push(CHECK_TAG);
        self.record.extend_from_slice(&checksum::of_head(offset, record_bytes).to_le_bytes());
        self.record.extend_from_slice(&[0; 4]);
        content.encode_raw(&mut self.record);
        let check = checksum::of_content(&self.record[start..]).to_le_bytes();
        self.record[start - 4..start].copy_from_slice(&check);
        self.out.write_all(&self.record)?;
        self.summary.file_bytes += self.record.len() as u64;
        Ok(())
    }
}
