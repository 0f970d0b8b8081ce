//! Takes a recording line by line and counts it.
//!
//! Always true: streams and open calls are bounded; what is beyond is counted and not looked at.
//! Not here: what is made of the counts at the end (`conclude.rs`).

use std::collections::BTreeMap;

use super::line::Line;
use super::strace::{Said, Strace};
use super::stream::{Id, Move, Stream};
use super::table::Columns;
use super::{Format, Garbage};

#[derive(Debug, Default)]
pub(super) struct Reader {
    form: Form,
    pub(super) lines: u64,
    pub(super) garbage_lines: u64,
    pub(super) first_garbage: Option<Garbage>,
    pub(super) streams: BTreeMap<Id, Stream>,
    /// Of descriptors whose number meant something else before: thread and number.
    generations: BTreeMap<(u32, u32), u32>,
    /// Lines whose time was before that of the line before in their stream.
    pub(super) lines_back: u64,
    /// Messages of streams beyond the limit.
    pub(super) messages_beyond: u64,
    /// Whether a message of a table had a direction.
    pub(super) knows_directions: bool,
}

/// What kind of file it is.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Csv(Columns),
    Strace(Strace),
}

impl Reader {
    pub(super) fn line(&mut self, line: &Line) {
        self.lines += 1;
        let text = line.text.trim();
        if text.is_empty() {
            return;
        }
        if !self.understand(text, line.was_cut) {
            self.garbage_lines += 1;
            let text = text.chars().take(GARBAGE_CHARS).collect();
            let number = line.number;
            self.first_garbage.get_or_insert(Garbage { line: number, text });
        }
    }

    pub(super) fn format(&self) -> Option<Format> {
        match self.form {
            Form::Unknown => None,
            Form::Csv(_) => Some(Format::Csv),
            Form::Strace(_) => Some(Format::Strace),
        }
    }

    fn understand(&mut self, text: &str, was_cut: bool) -> bool {
        if was_cut {
            return false;
        }
        if matches!(self.form, Form::Unknown) {
            self.decide(text);
        }
        let moves = match &mut self.form {
            Form::Unknown => return false,
            Form::Csv(columns) => match columns.read(text) {
                Some((moved, knows_direction)) => {
                    self.knows_directions |= knows_direction;
                    vec![moved]
                }
                None => return columns.is_head(text),
            },
            Form::Strace(strace) => match strace.line(text) {
                Said::Moved(moves) => moves,
                Said::Opened(pid, made) => {
                    made.into_iter().for_each(|descriptor| self.renew(pid, descriptor));
                    return true;
                }
                Said::Nothing => return true,
                Said::Garbage => return false,
            },
        };
        for moved in moves.iter().filter(|moved| moved.bytes > 0) {
            self.count(moved);
        }
        true
    }

    fn decide(&mut self, text: &str) {
        if let Some(columns) = Columns::of_first(text) {
            self.form = Form::Csv(columns);
        } else if Strace::default().line(text) != Said::Garbage {
            self.form = Form::Strace(Strace::default());
        }
    }

    /// What comes now over this number is another stream.
    fn renew(&mut self, pid: u32, descriptor: u32) {
        let generation = self.generations.get(&(pid, descriptor)).copied().unwrap_or(0);
        // So there are no more of these than streams.
        if self.streams.contains_key(&Id { pid, descriptor, generation }) {
            self.generations.insert((pid, descriptor), generation.saturating_add(1));
        }
    }

    fn count(&mut self, moved: &Move) {
        let at = (moved.id.pid, moved.id.descriptor);
        let generation = self.generations.get(&at).copied().unwrap_or(0);
        let moved = &Move { id: Id { generation, ..moved.id }, ..*moved };
        if !self.streams.contains_key(&moved.id) && self.streams.len() >= STREAMS_MAX {
            self.messages_beyond += 1;
            return;
        }
        let stream = self.streams.entry(moved.id).or_insert_with(|| Stream::new(moved));
        self.lines_back += u64::from(stream.count(moved));
    }
}

/// Descriptors that are told apart. Each may take some ten kilobytes.
const STREAMS_MAX: usize = 1_024;

/// As much of a line as fits into a message.
const GARBAGE_CHARS: usize = 80;
