//! Lines of a file of any length, in bounded memory.
//!
//! Always true: a line is at most [`LINE_BYTES_MAX`] long, and what it had more is skipped, not
//! taken for another line. Bytes that are no text become question marks.

use std::io::{self, BufRead, ErrorKind};

/// One line without its end.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: String,
    /// It was longer than lines may be.
    pub(super) was_cut: bool,
}

pub(super) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    number: u64,
    /// What may still be read.
    left_bytes: u64,
    was_cut: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead, bytes_max: u64) -> Self {
        Self { input, number: 0, left_bytes: bytes_max, was_cut: false }
    }

    /// Whether the file went on where reading stopped.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let (mut length, mut ended) = (0_u64, false);
        while !ended {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                break;
            }
            if self.left_bytes == 0 {
                self.was_cut = true;
                // The beginning of a line would be taken for a whole one.
                return Ok(None);
            }
            let allowed = chunk.len().min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
            let chunk = &chunk[..allowed];
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = LINE_BYTES_MAX.saturating_sub(bytes.len());
            bytes.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            ended = end.is_some();
            length += part.len() as u64;
            self.left_bytes -= used as u64;
            self.input.consume(used);
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        self.number += 1;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\r').to_owned();
        Ok(Some(Line { number: self.number, text, was_cut: length > LINE_BYTES_MAX as u64 }))
    }
}

/// strace shows 32 bytes of a message unless it is told otherwise, and then some thousand.
const LINE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn all(text: &[u8], bytes_max: u64, buffer: usize) -> (Vec<(u64, usize, bool)>, bool) {
        let mut input = BufReader::with_capacity(buffer, text);
        let mut lines = Lines::new(&mut input, bytes_max);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, line.text.len(), line.was_cut));
        }
        (found, lines.was_cut())
    }

    #[test]
    fn lines_end_with_the_file_too_and_may_be_empty() {
        for buffer in [1, 2, 3, 4_096] {
            let expected = vec![(1, 2, false), (2, 0, false), (3, 3, false)];
            assert_eq!(all(b"ab\r\n\nabc", 100, buffer), (expected, false));
            assert_eq!(all(b"", 100, buffer), (Vec::new(), false));
        }
    }

    #[test]
    fn a_long_line_is_cut_and_stays_one_line() {
        let mut text = vec![b'x'; 3 * LINE_BYTES_MAX];
        text.extend_from_slice(b"\nshort");
        let expected = vec![(1, LINE_BYTES_MAX, true), (2, 5, false)];
        assert_eq!(all(&text, u64::MAX, 1_000), (expected, false));
    }

    #[test]
    fn reading_stops_at_the_limit() {
        assert_eq!(all(b"ab\ncd\nef\n", 6, 4), (vec![(1, 2, false), (2, 2, false)], true));
        assert_eq!(all(b"ab\ncd\n", 6, 4), (vec![(1, 2, false), (2, 2, false)], false));
    }
}
