//! The books of the storm: what clients were told of each call, what servers did for it, and what
//! must agree.
//!
//! A line has a mark at its end and at its beginning a line break, so that one that a kill has cut
//! off is neither taken for a whole one nor spoils the next.
//! **Invariants:** a line is one write to a file that is opened to append, so that lines of several
//! processes do not mix; what agrees does not depend on the order of the lines.
//! **Not here:** who writes them (`service.rs`, `client.rs`).

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::job::{Method, Tally};

/// What every whole line ends with.
const MARK: &str = " .";

/// How much later than its deadline a call may end, in milliseconds: a machine whose processors are
/// all taken is slow.
pub(super) const LATE_MS_MAX: u64 = 5_000;

/// What a call may fail by.
const CODES: [&str; 2] = ["UNAVAILABLE", "DEADLINE_EXCEEDED"];

/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct Book(File);

impl Book {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    pub(super) fn note(&self, line: &str) -> io::Result<()> {
        (&self.0).write_all(format!("\n{line}{MARK}\n").as_bytes())
    }
}

/// How a call has ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// `ok`, `given-up`, `wrong` items, or an error: it can `never` have run, or `maybe` it has.
    pub(super) outcome: String,
    pub(super) tally: Tally,
    /// How much later than the deadline.
    pub(super) late_ms: u64,
    /// Of an error.
    pub(super) text: String,
}

impl Told {
    fn is_of(&self, code: &str) -> bool {
        self.text.split(' ').next() == Some(code)
    }
}

/// Everything that is known of one call.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `None`: no client has made it.
    pub(super) method: Option<Method>,
    /// Nothing disturbs it.
    pub(super) is_calm: bool,
    /// It was made by tonic, which has several codes for the end of a connection.
    pub(super) is_by_tonic: bool,
    /// `None`: its client was killed.
    pub(super) told: Option<Told>,
    /// The servers that have begun it.
    pub(super) begun: Vec<u32>,
    /// Those that have ended it, or dropped it.
    pub(super) left: Vec<u32>,
    pub(super) ended: Vec<Tally>,
}

impl Entry {
    /// Returns what does not agree.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let Some(method) = self.method else { return Some("a server ran what no client called") };
        if method != Method::Again && self.begun.len() > 1 {
            return Some("it ran more than once");
        }
        let told = self.told.as_ref()?;
        let is_sent_only = method == Method::Tell;
        match &*told.outcome {
            "ok" if is_sent_only => {}
            "ok" if !self.ended.contains(&told.tally) => {
                return Some("the client was told of an end that no server has");
            }
            "never" if method != Method::Again && !self.begun.is_empty() => {
                return Some("it ran, and its client knows that it cannot have");
            }
            "wrong" => return Some("other items arrived than were sent"),
            "ok" => {}
            _ if self.is_calm => return Some("it failed although nothing was killed"),
            "never" | "maybe" if !self.is_by_tonic && !CODES.iter().any(|it| told.is_of(it)) => {
                return Some("it failed by another code than that of a lost connection");
            }
            _ => {}
        }
        (told.late_ms > LATE_MS_MAX).then_some("it ended long after its deadline")
    }
}

/// All calls, and how far the files were read.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) calls: HashMap<u64, Entry>,
    read: [u64; 2],
}

impl Books {
    /// Reads what is new in the books of the clients and of the servers.
    pub(super) fn read(&mut self, files: [&Path; 2]) -> io::Result<()> {
        for (path, read) in files.into_iter().zip(&mut self.read) {
            let mut file = File::open(path)?;
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(*read))?;
            file.read_to_end(&mut bytes)?;
            // The last line may be half written.
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            *read += whole as u64;
            for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
                if let Some(line) = line.strip_suffix(MARK) {
                    take(&mut self.calls, line).ok_or_else(|| io::Error::other(line.to_owned()))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the calls that run in a server, which lives.
    pub(super) fn running(&self, server: u32) -> Vec<u64> {
        let is = |of: &[u32]| of.iter().filter(|it| **it == server).count();
        let calls = self.calls.iter().filter(|(_, it)| is(&it.begun) > is(&it.left));
        calls.map(|(id, _)| *id).collect()
    }

    /// Returns each call that does not agree.
    pub(super) fn problems(&self) -> Vec<String> {
        let of = |(id, entry): (&u64, &Entry)| {
            entry.problem().map(|problem| format!("call {id}: {problem}: {entry:?}"))
        };
        self.calls.iter().filter_map(of).collect()
    }

    /// Returns how much later than its deadline a call has ended, at most.
    pub(super) fn late_ms_max(&self) -> u64 {
        let told = self.calls.values().filter_map(|entry| entry.told.as_ref());
        told.map(|told| told.late_ms).max().unwrap_or_default()
    }

    /// Counts the calls of each method by how they ended for their clients.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, BTreeMap<String, u64>> {
        let mut counts = BTreeMap::<_, BTreeMap<_, u64>>::new();
        for entry in self.calls.values() {
            let outcome = entry.told.as_ref().map_or("killed", |told| &*told.outcome);
            let method = entry.method.map_or("unknown", Method::name);
            *counts.entry(method).or_default().entry(outcome.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// Reads one line of either side.
fn take(calls: &mut HashMap<u64, Entry>, line: &str) -> Option<()> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let server = match kind {
        "start" | "told" => 0,
        _ => words.next()?.parse().ok()?,
    };
    let entry = calls.entry(words.next()?.parse().ok()?).or_default();
    let number = |words: &mut std::str::Split<'_, char>| words.next()?.parse::<u64>().ok();
    let tally = |words: &mut _| {
        let items = u32::try_from(number(words)?).ok()?;
        Some(Tally { items, sum: number(words)? })
    };
    match kind {
        "start" => {
            entry.method = Some(Method::from_name(words.next()?)?);
            entry.is_calm = words.next()? == "calm";
            entry.is_by_tonic = words.next()? == "tonic";
        }
        "told" => {
            let outcome = words.next()?.to_owned();
            let (tally, late_ms) = (tally(&mut words)?, words.next()?.parse().ok()?);
            let text = words.collect::<Vec<_>>().join(" ");
            entry.told = Some(Told { outcome, tally, late_ms, text });
        }
        "begin" => entry.begun.push(server),
        "drop" => entry.left.push(server),
        "end" => {
            entry.left.push(server);
            entry.ended.push(tally(&mut words)?);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(lines: &[&str]) -> Option<&'static str> {
        let mut calls = HashMap::new();
        lines.iter().for_each(|line| take(&mut calls, line).unwrap());
        calls[&7].problem()
    }

    #[test]
    fn books_agree_or_do_not() {
        let once = ["start 7 Once storm task", "begin 0 7", "end 0 7 1 99", "told 7 ok 1 99 0"];
        assert_eq!(problem(&once), None);
        assert_eq!(problem(&once[1..3]), Some("a server ran what no client called"));
        let missing = Some("the client was told of an end that no server has");
        assert_eq!(problem(&[once[0], once[1], once[3]]), missing);
        assert_eq!(problem(&[once[0], once[1], "end 0 7 1 98", once[3]]), missing);
        let twice = [once[0], once[1], "begin 1 7"];
        assert_eq!(problem(&twice), Some("it ran more than once"));
        assert_eq!(problem(&["start 7 Again storm task", once[1], "begin 1 7"]), None);
        let never = "told 7 never 0 0 0 UNAVAILABLE refused";
        assert_eq!(problem(&[once[0], never]), None);
        let ran = Some("it ran, and its client knows that it cannot have");
        assert_eq!(problem(&[once[0], never, once[1]]), ran);
        let late = "told 7 maybe 0 0 5001 DEADLINE_EXCEEDED late";
        assert_eq!(problem(&[once[0], late]), Some("it ended long after its deadline"));
        let code = Some("it failed by another code than that of a lost connection");
        assert_eq!(problem(&[once[0], "told 7 maybe 0 0 0 CANCELLED late"]), code);
        let failed = Some("it failed although nothing was killed");
        assert_eq!(problem(&["start 7 Once calm task", never]), failed);
    }

    #[test]
    fn a_line_that_was_cut_off_counts_for_nothing() {
        let path = std::env::temp_dir().join(format!("nearcall-books-{}", std::process::id()));
        let book = Book::open(&path).unwrap();
        book.0.try_clone().unwrap().write_all(b"\nbegin 0 1").unwrap();
        book.note("begin 0 2").unwrap();
        let mut books = Books::default();
        let read = books.read([&path, Path::new("/dev/null")]);
        std::fs::remove_file(&path).unwrap();
        read.unwrap();
        assert_eq!(books.running(0), [2]);
    }
}
