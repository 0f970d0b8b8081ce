//! Lines of a file of any length, in bounded memory.
//!
//! **Invariants:** a line is at most [`LINE_BYTES_MAX`] long, and what it had more is skipped, not
//! taken for another line. Bytes that are no text become question marks.

use std::io::{self, BufRead, Read, Take};

/// One line without its end.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    pub(super) text: String,
    /// It was longer than lines may be.
    pub(super) was_cut: bool,
}

pub(super) struct Lines<'a> {
    input: Take<&'a mut dyn BufRead>,
    number: u64,
    /// The file goes on where reading stopped.
    pub(super) was_cut: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead, bytes_max: u64) -> Self {
        Self { input: input.take(bytes_max), number: 0, was_cut: false }
    }

    /// The next line; `None` at the end, and where only a part of it may be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes)?;
        let ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
        let was_cut = !ended && bytes.len() as u64 > LINE_BYTES_MAX;
        if was_cut {
            bytes.pop();
            self.input.skip_until(b'\n')?;
        } else if !ended && self.input.limit() == 0 && !self.input.get_mut().fill_buf()?.is_empty()
        {
            self.was_cut = true;
            return Ok(None);
        }
        if bytes.is_empty() && !ended {
            return Ok(None);
        }
        self.number += 1;
        let text = String::from_utf8_lossy(&bytes).trim_end_matches('\r').to_owned();
        Ok(Some(Line { number: self.number, text, was_cut }))
    }
}

/// strace shows 32 bytes of a message unless it is told otherwise, and then some thousand.
const LINE_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[track_caller]
    fn check(text: &[u8], bytes_max: u64, expected: &[(usize, bool)], was_cut: bool) {
        for buffer in [1, 2, 3, 1_000] {
            let mut input = BufReader::with_capacity(buffer, text);
            let mut lines = Lines::new(&mut input, bytes_max);
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                found.push((line.text.len(), line.was_cut));
                assert_eq!(line.number, found.len() as u64);
            }
            assert_eq!((&found[..], lines.was_cut), (expected, was_cut), "buffer {buffer}");
        }
    }

    #[test]
    fn lines_end_with_the_file_too_and_may_be_empty_and_long() {
        check(b"ab\r\n\nabc", 100, &[(2, false), (0, false), (3, false)], false);
        check(b"", 100, &[], false);
        let max = usize::try_from(LINE_BYTES_MAX).unwrap();
        let text = ["x".repeat(3 * max), "y".repeat(max), "short".to_owned()].join("\n");
        check(text.as_bytes(), u64::MAX, &[(max, true), (max, false), (5, false)], false);
    }

    #[test]
    fn reading_stops_at_the_limit() {
        check(b"ab\ncd\nef\n", 6, &[(2, false), (2, false)], true);
        check(b"ab\ncd\nef\n", 7, &[(2, false), (2, false)], true);
        check(b"ab\ncd\n", 6, &[(2, false), (2, false)], false);
    }
}
