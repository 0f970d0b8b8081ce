//! Cells of the lines that ipc-bench wrote: matrices of times and headlines of rates.
//!
//! **Invariants:** a line is either read in full or counted as refused; the first refused one is
//! kept to be shown. A mean is stored as a mean and there is no median; a time is stored under the
//! definition by which that program took it, and a test whose times have no known meaning gives no
//! cell. Each cell is one launch, since nothing was repeated, and has no grade.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::{Archive, ImportError};
use crate::run::{Cell, CellKey, Definition, Kind, List, Placement, RttNs};
use crate::topology::Topology;

/// Everything that was read of the results.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) cells: BTreeMap<CellKey, Cell>,
    /// Tests without a known meaning.
    pub(super) unknown: BTreeSet<String>,
    /// Lines that could not be read, or repeat another one.
    pub(super) refused: u64,
    /// The first of them, with its file and number.
    pub(super) first_refused: Option<String>,
}

impl Results {
    /// Reads them all. Refuses more cells than [`CELLS_MAX`].
    pub(super) fn read(archive: &Archive, topology: &Topology) -> Result<Self, ImportError> {
        let mut results = Self::default();
        for (name, text) in &archive.files {
            let Some(result) = name.strip_prefix("results/") else { continue };
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            for (row, (index, line)) in lines.enumerate() {
                let is_known = match result.strip_prefix("lat/") {
                    Some(matrix) => results.add_times(matrix, row, line, topology),
                    None => results.add_rate(line, topology),
                };
                if !is_known {
                    results.refused += 1;
                    let shown = |text: &str| -> String {
                        text.trim().escape_debug().take(SHOWN_CHARS).collect()
                    };
                    results.first_refused.get_or_insert_with(|| {
                        format!("{} line {}: \"{}\"", shown(name), index + 1, shown(line))
                    });
                }
                if results.cells.len() > CELLS_MAX {
                    return Err(ImportError::TooMuch(format!("more than {CELLS_MAX} figures")));
                }
            }
        }
        Ok(results)
    }

    /// A line of `pipe_lat.csv`: the means in seconds of one receiver, one for each sender.
    fn add_times(&mut self, matrix: &str, row: usize, line: &str, topology: &Topology) -> bool {
        let Some(test) = matrix.strip_suffix(".csv").and_then(test_name) else { return false };
        let (definition, wait) = match test {
            "pipe_lat" | "unix_lat" | "tcp_lat" | "tcp_nodelay_lat" => (Definition::Rtt, "block"),
            "mempipe_lat" => (Definition::TwoRtt, "spin"),
            _ => {
                self.unknown.insert(test.replace('_', "-"));
                return true;
            }
        };
        let words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let means: Option<Vec<f64>> = words.map(mean_ns).collect();
        let Some(means) = means.filter(|means| means.len().max(row + 1) <= CPUS_MAX) else {
            return false;
        };
        for (column, mean_ns) in means.into_iter().enumerate() {
            // Only flags travel through a mempipe, whatever size is given.
            let bytes = if definition == Definition::TwoRtt { 0 } else { MATRIX_BYTES };
            let mut cell = Cell::new(Kind::Latency, &mechanism(test, "_lat"), bytes);
            (cell.definition, cell.wait) = (definition, wait.to_owned());
            (cell.placement, cell.launches) = (placement(topology, row, column), 1);
            cell.rtt_ns = Some(RttNs { mean: Some(mean_ns), ..RttNs::default() });
            cell.tags = vec!["imported".to_owned(), "mean".to_owned()];
            if definition == Definition::TwoRtt {
                cell.tags.extend(["two_round_trips".to_owned(), "no_payload".to_owned()]);
            }
            if mean_ns <= STEP_NS {
                cell.tags.push(AT_STEP.to_owned());
            }
            self.insert(cell);
        }
        true
    }

    /// A headline: `pipe_thr 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps`
    fn add_rate(&mut self, line: &str, topology: &Topology) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(cell) = rate(&words, topology) else { return false };
        self.insert(cell)
    }

    /// Returns false if the same was measured before: nothing was repeated, and that one counts.
    fn insert(&mut self, cell: Cell) -> bool {
        let key = CellKey::new(List::Cells, &cell, true);
        let is_new = !self.cells.contains_key(&key);
        self.cells.entry(key).or_insert(cell);
        is_new
    }
}

fn rate(words: &[&str], topology: &Topology) -> Option<Cell> {
    let &[test, first, second, node, bytes, produce, wip, rip, verify, count, rate, "Mbps"] = words
    else {
        return None;
    };
    let one_of = |word: &str, words: &[&'static str]| {
        let number: usize = word.parse().ok()?;
        words.get(number).copied()
    };
    let node = match node.parse::<i32>().ok().filter(|node| (-1..1_024).contains(node))? {
        -1 => String::new(),
        node => format!("+node{node}"),
    };
    // What it includes: all that is in no other field, so that no two cells are alike.
    let shape = [
        one_of(produce, &["", "sink+memset", "sink+stosq", "sink+bytes"])
            .filter(|s| !s.is_empty())?,
        one_of(wip, &["+write-copy", "+write-in-place"])?,
        one_of(rip, &["+read-copy", "+read-in-place"])?,
        one_of(verify, &["", "+verify"])?,
        &node,
    ];
    let test = test_name(test).filter(|test| test.ends_with("_thr"))?;
    let cpu = |word: &str| word.parse().ok().filter(|&cpu: &usize| cpu < CPUS_MAX);
    // Its sizes are 32-bit numbers with a sign.
    let is_size = |bytes: &u64| (1..=i32::MAX as u64).contains(bytes);
    let message_bytes: u64 = bytes.parse().ok().filter(is_size)?;
    let megabits: u64 = rate.parse().ok().filter(|rate| (1..=MEGABITS_MAX).contains(rate))?;
    let mut cell = Cell::new(Kind::Throughput, &mechanism(test, "_thr"), message_bytes);
    cell.shape = shape.concat();
    cell.wait = if test == "mempipe_spin_thr" { "spin" } else { "block" }.to_owned();
    (cell.placement, cell.launches) = (placement(topology, cpu(first)?, cpu(second)?), 1);
    cell.count = count.parse().ok()?;
    let bytes_per_s = megabits as f64 * 1e6 / 8.0;
    let per_s = bytes_per_s / message_bytes as f64;
    (cell.messages_per_s, cell.bytes_per_s) = (Some(per_s), Some(bytes_per_s));
    cell.launch_messages_per_s = vec![per_s];
    cell.tags = vec!["imported".to_owned()];
    Some(cell)
}

/// `mempipe_spin_thr` as `ipc-bench-mempipe-spin`.
fn mechanism(test: &str, ending: &str) -> String {
    format!("{PREFIX}{}", test.strip_suffix(ending).unwrap_or(test).replace('_', "-"))
}

/// The sender's clock is read, so the sender is the client.
fn placement(topology: &Topology, receiver: usize, sender: usize) -> Placement {
    Placement {
        class: topology.class(receiver, sender).name().to_owned(),
        client_cpu: u32::try_from(sender).ok(),
        server_cpu: u32::try_from(receiver).ok(),
    }
}

/// Names as ipc-bench gives them: they become part of a mechanism's name.
fn test_name(word: &str) -> Option<&str> {
    let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    // Its longest name has 33.
    (plain && word.len() <= 64 && !word.is_empty()).then_some(word)
}

/// Seconds as nanoseconds.
fn mean_ns(word: &str) -> Option<f64> {
    // Otherwise `inf` and `nan` would be numbers too.
    let plain = word.bytes().all(|byte| byte.is_ascii_digit() || b".e-".contains(&byte));
    let seconds: f64 = word.parse().ok().filter(|_| plain)?;
    // Whole nanoseconds: six digits were printed.
    (0.0..SECONDS_MAX).contains(&seconds).then(|| (seconds * 1e9).round())
}

/// What stands before the names of other people's implementations.
pub const PREFIX: &str = "ipc-bench-";

/// CPUs that ipc-bench can name.
pub const CPUS_MAX: usize = 160;

/// Figures of one archive. 160 CPUs have 25,600 pairs and five tests; a run of more would be larger
/// than a run file may be.
pub const CELLS_MAX: usize = 150_000;

/// The mark of a time that is not above the smallest step that the printed times have.
pub(super) const AT_STEP: &str = "at_clock_step";

const STEP_NS: f64 = 1_000.0;

/// The size that the suite gives its latency tests.
const MATRIX_BYTES: u64 = 128;

/// One exchange does not take longer than an hour.
const SECONDS_MAX: f64 = 3_600.0;

/// A petabit per second: no memory is that fast.
const MEGABITS_MAX: u64 = 1_000_000_000;

/// Characters of a refused line, and of its file's name, that are shown.
const SHOWN_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn results_of(name: &str, text: &str) -> Result<Results, ImportError> {
        let files = [(format!("results/{name}"), text.to_owned())].into_iter().collect();
        Results::read(&Archive { files, ..Archive::default() }, &Topology { cpus: Vec::new() })
    }

    #[test]
    fn headlines_are_read_in_full_or_not_at_all() {
        let good = "mempipe_thr 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps";
        let found =
            results_of("01-mempipe_thr-headline.log", &format!("{good}\n\n{good}")).unwrap();
        // The second says the same again.
        assert_eq!((found.cells.len(), found.refused), (1, 1));
        let cell = found.cells.values().next().unwrap();
        assert_eq!((cell.placement.server_cpu, cell.placement.client_cpu), (Some(0), Some(1)));
        assert_eq!(cell.shape, "sink+stosq+write-in-place+read-copy+verify");
        assert_eq!((cell.messages_per_s, cell.count), (Some(156_250.0), 1_000_000));
        for line in [
            "../pipe_thr 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps",
            "pipe_lat 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps",
            "pipe_thr 0 1 -1 4096 2 1 0 1 1000000 Mbps",
            "pipe_thr 0 160 -1 4096 2 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 0 2 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 64 2 2 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 64 0 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -2 64 2 1 0 1 1000000 1 Mbps",
            // Rounded down to nothing: no rate.
            "pipe_thr 0 1 -1 64 2 1 0 1 1000000 0 Mbps",
        ] {
            let found = results_of("01-pipe_thr-headline.log", line).unwrap();
            assert_eq!((found.cells.len(), found.refused), (0, 1), "{line}");
        }
    }

    #[test]
    fn matrices_are_read_line_by_line() {
        for (name, line, cells, refused, unknown) in [
            ("lat/pipe_lat.csv", "0.1 1e-6", 2, 0, 0),
            ("lat/pipe_lat.csv", "0.1 inf", 0, 1, 0),
            ("lat/pipe_lat.csv", "0.1 -0.1", 0, 1, 0),
            ("lat/pipe_lat.csv", &"0.1 ".repeat(161), 0, 1, 0),
            ("lat/pipe lat\u{1b}.csv", "0.1", 0, 1, 0),
            ("lat/x.csv.csv", "0.1", 0, 1, 0),
            ("lat/futex_lat.csv", "0.1", 0, 0, 1),
        ] {
            let found = results_of(name, line).unwrap();
            let counts = (found.cells.len(), found.refused, found.unknown.len());
            assert_eq!(counts, (cells, refused, unknown), "{name} {line}");
        }
        // A blank line is no receiver; one that cannot be read is.
        let found = results_of("lat/pipe_lat.csv", "\n0.1\n\ninf\n0.2\n").unwrap();
        let receivers: BTreeSet<_> =
            found.cells.values().map(|cell| cell.placement.server_cpu).collect();
        assert_eq!(receivers, BTreeSet::from([Some(0), Some(2)]));
        assert_eq!(found.first_refused.unwrap(), "results/lat/pipe_lat.csv line 4: \"inf\"");
        let lines: String = (0..CELLS_MAX as u64 + 1)
            .map(|size| format!("pipe_thr 0 1 -1 {} 2 1 0 1 1 1 Mbps\n", size + 1))
            .collect();
        let error = results_of("01-pipe_thr-headline.log", &lines).unwrap_err().to_string();
        assert_eq!(error, "more than 150000 figures");
    }
}
