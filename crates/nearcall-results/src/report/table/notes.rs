//! Footnotes: what the letters beside a row mean.
//!
//! A tag has one letter in the whole text. Grade D brings its reasons along. The rows themselves
//! are made in `details.rs`.
//! Also what is said of rows that a table leaves out.

use super::grid::clean;
use crate::noise::Grade;
use crate::report::lines::{Ink, Writer};
use crate::run::Cell;

/// Says how many rows a table leaves out, unless it has all.
pub(super) fn note_left_out(out: &mut Writer, rows: usize) {
    if rows > 0 {
        out.note(&format!("{rows} more rows are not shown: nearcall show --json RUN.json"));
    }
}

/// The footnotes so far, in the order of their letters.
pub(super) struct Notes {
    /// What holds for every cell, which needs no mark.
    common: Vec<String>,
    texts: Vec<String>,
    disturbed: bool,
}

impl Notes {
    /// Creates the notes of the tables with these cells.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut all = cells.map(notes);
        let mut common = all.next().unwrap_or_default();
        let mut rows = 1;
        for of_cell in all {
            common.retain(|text| of_cell.contains(text));
            rows += 1;
        }
        // A single row is marked as any other.
        if rows == 1 {
            common.clear();
        }
        Self { common, texts: Vec::new(), disturbed: false }
    }

    /// The marks of a cell, adding footnotes that are new.
    pub(super) fn marks(&mut self, cell: &Cell) -> String {
        self.disturbed |= cell.grade == Some(Grade::D);
        let mut marks: Vec<String> = Vec::new();
        for text in notes(cell) {
            if !self.common.contains(&text) {
                marks.extend(self.letter(text));
            }
        }
        marks.sort_unstable();
        marks.dedup();
        marks.concat()
    }

    /// Adds the explanations under the tables.
    pub(super) fn print(&self, out: &mut Writer) {
        out.blank();
        out.note(LEGEND);
        if self.disturbed {
            out.note(DISTURBED);
        }
        for text in self.common.iter().take(LETTERS.len()) {
            out.note(&format!("All cells: {text}."));
        }
        for (index, text) in self.texts.iter().enumerate() {
            out.wrap_in(Ink::Note, &format!("  {}  ", letter_at(index)), text);
        }
    }

    /// `None` when the alphabet is used up; the run file still has every tag.
    fn letter(&mut self, text: String) -> Option<String> {
        let known = self.texts.iter().position(|other| *other == text);
        let index = known.unwrap_or(self.texts.len());
        if index >= LETTERS.len() {
            return None;
        }
        if known.is_none() {
            self.texts.push(text);
        }
        Some(letter_at(index).to_owned())
    }
}

/// What is to be said of a cell beside its figures.
fn notes(cell: &Cell) -> Vec<String> {
    let tag = |tag: &String| meaning(tag).map_or_else(|| clean(tag), str::to_owned);
    let mut notes: Vec<String> = cell.tags.iter().map(tag).collect();
    if let (Some(Grade::D), Some(reason)) = (cell.grade, cell.noise.first()) {
        notes.push(format!("tails of grade D: {}", clean(reason)));
    }
    notes
}

/// What a tag says to somebody who does not know it.
fn meaning(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "migrated" => "an end moved to another CPU while it was measured",
        "page_faults" => "pages were mapped or read while it was measured",
        "clock_drift" => "the CPU's speed changed by more than 2 %",
        "warmup_capped" => "it had not settled when warm-up had to end",
        "two_modes" => {
            "its launches fall into two groups, which no single figure describes: show --json \
             has them"
        }
        "few_launches" => "fewer launches than asked for, as time ran out",
        "batched" => "times are means of batches, as one exchange is too short for the clock",
        "size_changed" => "the kernel gave another buffer or queue size than asked for",
        "touch_header" => "only the first 64 bytes of the payload were written and read",
        "touch_none" => "nothing of the payload was written and read",
        "load_not_reached" => "less ran beside it than was asked for; the run says what and why",
        "behind" => "failed: fewer than 99.9 % of the planned exchanges began in time",
        "same_cpu" => "both ends share one CPU",
        _ => return None,
    })
}

fn letter_at(index: usize) -> &'static str {
    LETTERS.get(index..=index).unwrap_or_default()
}

/// Under every table with a grade D.
pub(super) const DISTURBED: &str = "Cells whose tails are of grade D lost much of their time to \
                                    something else: measure them again for p99 and above.";

const LEGEND: &str = "median of a typical launch, p99 of all launches; ± 95 %: half the confidence \
                      interval, from launch to launch; CPU: client + server, user and system; \
                      b/CPU-s: payload bits per second of CPU time of both; ratio 1× is the floor \
                      itself; – means not enough data; grade of the median by its interval (A \
                      ±2 %, B ±5 %, C ±25 %, D more) / of tails by what was seen around them (A \
                      undisturbed to D).";

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
