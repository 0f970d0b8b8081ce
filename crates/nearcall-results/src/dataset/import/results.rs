//! The lines that ipc-bench wrote: headlines and matrices.
//!
//! Always true: a line is either read in full or counted as refused; the first refused one is kept
//! to be shown. What becomes of the figures is in `import/cells.rs`.

use std::collections::BTreeMap;
use std::fmt;

use super::archive::Archive;
use crate::run::Definition;

/// Everything that was read of the results.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// Matrices and headlines of single pairs, by test, size and pair.
    pub(super) latencies: BTreeMap<LatencyKey, Latency>,
    /// Rates, one per line.
    pub(super) rates: Vec<Rate>,
    /// Headlines that differ from the matrix, or from one before them: those count.
    pub(super) contradictions: u64,
    /// Lines that could not be read.
    pub(super) refused: u64,
    /// The first of them.
    pub(super) first_refused: Option<FirstRefused>,
}

/// Which latency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LatencyKey {
    /// The test's name, such as "pipe_lat".
    pub(super) test: String,
    pub(super) message_bytes: u64,
    /// The CPUs of the receiver and the sender; `None` where the file does not say.
    pub(super) pair: Option<[u32; 2]>,
}

/// One latency as published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) mean_ns: f64,
    /// Exchanges; `None` where the file does not say.
    pub(super) count: Option<u64>,
}

/// One rate as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) test: String,
    pub(super) receiver: u32,
    pub(super) sender: u32,
    /// What it includes: all that is not in the other fields, so that no two cells are alike.
    pub(super) shape: String,
    pub(super) message_bytes: u64,
    pub(super) count: u64,
    pub(super) megabits_per_s: u64,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRefused {
    /// The file in the archive.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Its beginning.
    pub text: String,
}

impl fmt::Display for FirstRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: \"{}\"", self.file, self.line, self.text)
    }
}

impl Results {
    /// Reads them all, or `None` if there are more than [`CELLS_MAX`].
    pub(super) fn read(archive: &Archive) -> Option<Self> {
        let mut results = Self::default();
        let named = |wanted: fn(&str) -> bool| {
            archive.files.iter().filter_map(move |(name, text)| {
                let name = name.strip_prefix("results/")?;
                wanted(name).then_some((name, text))
            })
        };
        for (name, text) in named(|name| name.starts_with("lat/") && name.ends_with(".csv")) {
            results.read_matrix(name, text);
        }
        for (name, text) in named(|name| name.ends_with("-headline.log")) {
            results.read_headlines(name, text);
        }
        (!results.is_full()).then_some(results)
    }

    fn is_full(&self) -> bool {
        self.latencies.len() + self.rates.len() > CELLS_MAX
    }

    /// `lat/pipe_lat.csv`: a line per receiver, in it a mean in seconds per sender.
    fn read_matrix(&mut self, name: &str, text: &str) {
        let stem = name.strip_prefix("lat/").and_then(|name| name.strip_suffix(".csv"));
        let Some(test) = stem.and_then(test_name) else {
            return self.refuse(name, 0, text.lines().next().unwrap_or_default());
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (row, (index, line)) in lines.enumerate() {
            if self.is_full() {
                break;
            }
            let means: Option<Vec<f64>> =
                line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(mean_ns).collect();
            let Some(means) = means.filter(|means| means.len().max(row + 1) <= CPUS_MAX) else {
                self.refuse(name, index, line);
                continue;
            };
            for (column, mean_ns) in means.into_iter().enumerate() {
                let pair = [row, column].map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX));
                let key = LatencyKey {
                    test: test.clone(),
                    message_bytes: MATRIX_BYTES,
                    pair: Some(pair),
                };
                self.latencies.insert(key, Latency { mean_ns, count: None });
            }
        }
    }

    /// `01-pipe_thr-headline.log`, also in `lat/128/i-j-test/`.
    fn read_headlines(&mut self, name: &str, text: &str) {
        let pair = name.rsplit('/').nth(1).and_then(pair_of_folder);
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            if self.is_full() {
                break;
            }
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if let Some(rate) = rate(&words) {
                self.rates.push(rate);
            } else if let Some((test, message_bytes, latency)) = latency(&words) {
                // Without payload all sizes are one, and only one of them can be kept.
                let message_bytes = match has_payload(&test) {
                    true => message_bytes,
                    false => MATRIX_BYTES,
                };
                let key = LatencyKey { test, message_bytes, pair };
                self.meet(key, latency);
            } else {
                self.refuse(name, index, line);
            }
        }
    }

    /// A headline of a pair that the matrix has too adds its count. Where they differ the matrix
    /// counts, which is what was published.
    fn meet(&mut self, key: LatencyKey, latency: Latency) {
        match self.latencies.get_mut(&key) {
            // The matrix was made of the same text.
            Some(known) if (known.mean_ns - latency.mean_ns).abs() < 0.5 => {
                known.count = latency.count;
            }
            Some(_) => self.contradictions += 1,
            None => drop(self.latencies.insert(key, latency)),
        }
    }

    fn refuse(&mut self, name: &str, index: usize, line: &str) {
        self.refused += 1;
        self.first_refused.get_or_insert_with(|| FirstRefused {
            file: format!("results/{name}").escape_debug().take(SHOWN_CHARS).collect(),
            line: index + 1,
            text: line.trim().escape_debug().take(SHOWN_CHARS).collect(),
        });
    }
}

/// `0-1-test`: the CPUs of the receiver and the sender.
fn pair_of_folder(name: &str) -> Option<[u32; 2]> {
    let mut parts = name.splitn(3, '-');
    let pair = [cpu(parts.next()?)?, cpu(parts.next()?)?];
    parts.next().is_some_and(|rest| rest.starts_with("test")).then_some(pair)
}

/// `pipe_lat 128 10000 0.000013s`
fn latency(words: &[&str]) -> Option<(String, u64, Latency)> {
    let &[test, bytes, count, seconds] = words else { return None };
    let mean_ns = mean_ns(seconds.strip_suffix('s')?)?;
    let latency = Latency { mean_ns, count: Some(count.parse().ok()?) };
    Some((test_name(test)?, size(bytes)?, latency))
}

/// `pipe_thr 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps`
fn rate(words: &[&str]) -> Option<Rate> {
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
    let shape = [
        one_of(produce, &["", "sink+memset", "sink+stosq", "sink+bytes"])
            .filter(|s| !s.is_empty())?,
        one_of(wip, &["+write-copy", "+write-in-place"])?,
        one_of(rip, &["+read-copy", "+read-in-place"])?,
        one_of(verify, &["", "+verify"])?,
        &node,
    ];
    Some(Rate {
        test: test_name(test)?,
        receiver: cpu(first)?,
        sender: cpu(second)?,
        shape: shape.concat(),
        message_bytes: size(bytes).filter(|&bytes| bytes > 0)?,
        count: count.parse().ok()?,
        megabits_per_s: rate.parse().ok().filter(|rate| (1..=MEGABITS_MAX).contains(rate))?,
    })
}

/// Names as ipc-bench gives them: they become part of a mechanism's name.
fn test_name(word: &str) -> Option<String> {
    let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (plain && word.len() <= NAME_BYTES_MAX && !word.is_empty()).then(|| word.to_owned())
}

fn cpu(word: &str) -> Option<u32> {
    word.parse().ok().filter(|&cpu: &u32| (cpu as usize) < CPUS_MAX)
}

fn size(word: &str) -> Option<u64> {
    word.parse().ok().filter(|&bytes| bytes <= SIZE_MAX)
}

/// Seconds as nanoseconds.
fn mean_ns(word: &str) -> Option<f64> {
    // Otherwise `inf` and `nan` would be numbers too.
    let plain = word.bytes().all(|byte| byte.is_ascii_digit() || b".e-".contains(&byte));
    let seconds: f64 = word.parse().ok().filter(|_| plain)?;
    // Whole nanoseconds: six digits were printed.
    (0.0..SECONDS_MAX).contains(&seconds).then(|| (seconds * 1e9).round())
}

/// CPUs that ipc-bench can name.
pub const CPUS_MAX: usize = 160;

/// The size that the suite gives its latency tests.
const MATRIX_BYTES: u64 = 128;

/// One exchange does not take longer than an hour.
const SECONDS_MAX: f64 = 3_600.0;

/// A petabit per second: no memory is that fast.
const MEGABITS_MAX: u64 = 1_000_000_000;

/// Its sizes are 32-bit numbers with a sign.
const SIZE_MAX: u64 = i32::MAX as u64;

/// Its longest name has 33.
const NAME_BYTES_MAX: usize = 64;

/// Characters of a refused line, and of its file's name, that are shown.
const SHOWN_CHARS: usize = 80;

/// What one time of a latency test means, and how its ends wait.
pub(super) fn meaning(test: &str) -> Option<(Definition, &'static str)> {
    match test {
        "pipe_lat" | "unix_lat" | "tcp_lat" | "tcp_nodelay_lat" => Some((Definition::Rtt, "block")),
        "mempipe_lat" => Some((Definition::TwoRtt, "spin")),
        _ => None,
    }
}

/// Whether the test moves bytes: not where only flags travel, whatever size is given.
fn has_payload(test: &str) -> bool {
    meaning(test).is_none_or(|(definition, _)| definition != Definition::TwoRtt)
}

/// Figures of one archive. 160 CPUs have 25,600 pairs and five tests; a run of more would be larger
/// than a run file may be.
pub const CELLS_MAX: usize = 150_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&str> {
        line.split_ascii_whitespace().collect()
    }

    #[test]
    fn headlines_are_read_in_full_or_not_at_all() {
        let (test, bytes, found) = latency(&words("pipe_lat 128 10000 0.000013s")).unwrap();
        assert_eq!((test.as_str(), bytes), ("pipe_lat", 128));
        assert_eq!(found, Latency { mean_ns: 13_000.0, count: Some(10_000) });
        let found = rate(&words("mempipe_thr 0 1 -1 4096 2 1 0 1 1000000 5120 Mbps")).unwrap();
        assert_eq!((found.receiver, found.sender, found.megabits_per_s), (0, 1, 5120));
        assert_eq!(found.shape, "sink+stosq+write-in-place+read-copy+verify");
        for line in [
            "pipe_lat 128 10000 0.000013",
            "pipe_lat 128 10000 infs",
            "pipe_lat 128 10000 -0.1s",
            "../pipe 128 10000 0.1s",
            "pipe_thr 0 1 -1 4096 2 1 0 1 1000000 Mbps",
            "pipe_thr 0 160 -1 4096 2 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 0 2 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 64 2 2 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -1 64 0 1 0 1 1000000 1 Mbps",
            "pipe_thr 0 1 -2 64 2 1 0 1 1000000 1 Mbps",
            // Rounded down to nothing: no rate.
            "pipe_thr 0 1 -1 64 2 1 0 1 1000000 0 Mbps",
        ] {
            assert!(latency(&words(line)).is_none() && rate(&words(line)).is_none(), "{line}");
        }
    }

    fn results_of(files: &[(&str, &str)]) -> Option<Results> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Results::read(&Archive { files: files.collect(), ..Archive::default() })
    }

    #[test]
    fn a_matrix_of_an_impossible_test_is_refused() {
        let found =
            results_of(&[("results/lat/pipe lat\u{1b}.csv", "0.1 0.2\n0.3 0.4\n")]).unwrap();
        assert_eq!((found.latencies.len(), found.refused), (0, 1));
        assert_eq!(results_of(&[("results/lat/x.csv.csv", "0.1\n")]).unwrap().refused, 1);
    }

    #[test]
    fn a_test_without_payload_has_one_time_of_each_pair() {
        let found = results_of(&[(
            "results/lat/128/0-1-test/01-mempipe_lat-headline.log",
            "mempipe_lat 128 10 0.000001s\nmempipe_lat 64 10 0.000003s\n",
        )]);
        let found = found.unwrap();
        assert_eq!((found.latencies.len(), found.contradictions), (1, 1));
    }

    #[test]
    fn more_figures_than_a_run_may_have_are_refused() {
        let line = "pipe_thr 0 1 -1 64 2 1 0 1 1000000 1 Mbps\n";
        let text = line.repeat(CELLS_MAX + 1);
        assert!(results_of(&[("results/01-pipe_thr-headline.log", &text)]).is_none());
    }

    #[test]
    fn the_folder_of_a_pair_names_its_cpus() {
        assert_eq!(pair_of_folder("0-11-test"), Some([0, 11]));
        for name in ["128", "0-1", "a-b-test", "-1-2-test", "0-1-x"] {
            assert_eq!(pair_of_folder(name), None, "{name}");
        }
    }
}
