//! What studies tell beside exchanges: clocks, the making of a pipe, memory of two services.
//!
//! Measured before the cells, while nothing else runs.
//! **Invariants:** one value per repetition, and a reason where there is none.

use nearcall_os::{clock, pipe};

use crate::Study;
use crate::clocks::{self, ClockFindings, ClockName};
use crate::evidence::{Evidence, Key, Place, Quantity, Series};
use crate::footprint::{self, ServiceFiles, Setup, SetupMemory, SetupsMemory};
use crate::published::PaperRow;
use crate::run::StudyRow;
use crate::runner::{Program, RunContext};
use crate::stats;

/// The figures beside the cells.
#[derive(Debug, Default)]
pub(crate) struct Background {
    clocks: Vec<ClockFindings>,
    pipe_set_ups_ns: Vec<f64>,
    /// Two services in the set-ups of the thesis.
    services: Option<Result<SetupsMemory, String>>,
}

impl Background {
    /// Measures what `studies` need. `services` starts a process that runs
    /// [`peer::run`](nearcall_bench::peer::run), and has the services that are built as libraries.
    pub(crate) fn measure(
        studies: &[Study],
        services: Option<(&Program, Result<&ServiceFiles, &str>)>,
        quick: bool,
        context: &RunContext<'_>,
    ) -> Self {
        let mut background = Self::default();
        let has = |study| studies.contains(&study);
        if has(Study::WisconsinLatency) || has(Study::WisconsinEvaluation) {
            let repetitions = if quick { 2 } else { REPETITIONS };
            for repetition in 0..repetitions {
                (context.progress)(repetition, repetitions, "clocks");
                let how = clocks::ClockOptions { quick, ..clocks::ClockOptions::whole() };
                let found = clocks::measure(&how, context.interrupted);
                if found.partial.is_some() {
                    return background;
                }
                background.clocks.push(found);
            }
        }
        if has(Study::ShortComparison) {
            background.pipe_set_ups_ns =
                (0..REPETITIONS).filter_map(|_| pipe_set_up_ns()).collect();
        }
        if let (true, Some((program, files))) = (has(Study::Motorola), services) {
            let context = RunContext { program: program.clone(), ..*context };
            let measure = |files| footprint::two_services(quick, files, &context);
            background.services = Some(files.map_err(str::to_owned).and_then(measure));
        }
        background
    }

    /// Adds everything to what claims are judged by.
    pub(crate) fn add_to(&self, evidence: &mut Evidence) {
        let each = |of: &dyn Fn(&ClockFindings) -> Option<f64>| -> Vec<f64> {
            self.clocks.iter().filter_map(of).collect()
        };
        for (name, word) in CLOCKS {
            for study in [Study::WisconsinLatency, Study::WisconsinEvaluation] {
                let mut insert = |quantity, values: Vec<f64>| {
                    if !values.is_empty() {
                        let key = Key::new(study, word, 0, Place::None, quantity);
                        evidence.insert(key, Series(values));
                    }
                };
                let overhead =
                    |found: &ClockFindings| Some(found.clock(name)?.overhead.as_ref()?.mean_ns);
                insert(Quantity::TimerOverhead, each(&overhead));
                let step = |found: &ClockFindings| found.clock(name)?.granularity_ns;
                insert(Quantity::TimerGranularity, each(&step));
            }
            if let Some(reason) = self
                .clocks
                .iter()
                .find_map(|found| found.clock(name).and_then(|finding| finding.unusable.as_deref()))
            {
                evidence.skip(Study::WisconsinLatency, Some(word), reason);
                evidence.skip(Study::WisconsinEvaluation, Some(word), reason);
            }
        }
        if !self.pipe_set_ups_ns.is_empty() {
            let key = Key::new(Study::ShortComparison, "pipe", 0, Place::None, Quantity::SetUp);
            evidence.insert(key, Series(self.pipe_set_ups_ns.clone()));
        }
        self.add_services(evidence);
    }

    fn add_services(&self, evidence: &mut Evidence) {
        let names = [TWO_PROCESSES, ONE_PROCESS];
        let all: Vec<&[u64]> = match &self.services {
            Some(Ok(found)) => {
                let setups = [Setup::Processes, Setup::Libraries];
                setups.iter().filter_map(|&setup| Some(&*found.of(setup, 2)?.pss_bytes)).collect()
            }
            Some(Err(reason)) => {
                for name in names {
                    evidence.skip(Study::Motorola, Some(name), reason);
                }
                return;
            }
            None => return,
        };
        for (name, pss_bytes) in names.iter().zip(all) {
            let bytes: Vec<f64> = pss_bytes.iter().map(|&bytes| bytes as f64).collect();
            if bytes.is_empty() {
                evidence.skip(Study::Motorola, Some(name), "its memory was not measured");
                continue;
            }
            let key = Key::new(Study::Motorola, name, 0, Place::None, Quantity::PssBytes);
            evidence.insert(key, Series(bytes));
        }
    }

    /// What libraries save against two programs: what can be allocated, as the thesis measured it,
    /// and proportional memory.
    fn saved(&self, mechanism: &str) -> Option<StudyRow> {
        let setup = match mechanism {
            ONE_PROCESS => Setup::Libraries,
            _ => Setup::LibraryHosts,
        };
        let found = self.services.as_ref()?.as_ref().ok()?;
        let (two, other) = (found.of(Setup::Processes, 2)?, found.of(setup, 2)?);
        let pss = |one: &SetupMemory| {
            stats::median(&one.pss_bytes.iter().map(|&bytes| bytes as f64).collect::<Vec<_>>())
        };
        let allocmem = |one: &SetupMemory| stats::median(&one.allocmem_bytes);
        let less = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        Some(StudyRow {
            here_as_paper: less(allocmem(two), allocmem(other)),
            here: less(pss(two), pss(other)),
            ..StudyRow::default()
        })
    }

    /// What stands beside a printed figure that no cell repeats.
    pub(crate) fn figure(&self, row: &PaperRow) -> Option<StudyRow> {
        let median = |of: &dyn Fn(&ClockFindings) -> Option<f64>| {
            stats::median(&self.clocks.iter().filter_map(of).collect::<Vec<_>>())
        };
        let both = |here_as_paper: Option<f64>, here: Option<f64>| {
            here_as_paper.map(|_| StudyRow { here_as_paper, here, ..StudyRow::default() })
        };
        if let Some((name, _)) = CLOCKS.into_iter().find(|(_, word)| *word == row.mechanism) {
            let overhead = |of: fn(&clocks::Overhead) -> f64| {
                median(&|found| found.clock(name)?.overhead.as_ref().map(of))
            };
            let sleep = |of: fn(&clocks::SleepError) -> f64| {
                median(&|found| {
                    let sleep = found.sleeps.last()?;
                    Some(of(sleep.clocks.iter().find(|error| error.clock == name)?) * 1e3)
                })
            };
            let step = median(&|found| found.clock(name)?.granularity_ns);
            return match (row.metric.as_str(), row.study) {
                ("timer_overhead", _) => both(overhead(|o| o.mean_ns), overhead(|o| o.median_ns)),
                ("timer_overhead_spread", _) => both(overhead(|o| o.sd_ns), None),
                ("timer_resolution", Study::WisconsinLatency) => {
                    let run =
                        |found: &ClockFindings| Some(found.clock(name)?.smallest_run.as_ref()?.ns);
                    both(median(&run), step)
                }
                ("timer_resolution", _) => {
                    let shrunk =
                        |found: &ClockFindings| Some(found.clock(name)?.shrunk.as_ref()?.ns);
                    both(median(&shrunk), step)
                }
                ("timer_average_error", _) => {
                    both(sleep(|e| e.mean_error_us), sleep(|e| e.own_mean_us))
                }
                ("timer_error_stddev", _) => both(sleep(|e| e.error_sd_us), sleep(|e| e.own_sd_us)),
                _ => None,
            };
        }
        match row.metric.as_str() {
            "claimed_max_disagreement" => {
                let pair = (ClockName::ClockGettime, ClockName::Tsc);
                // Of the longest span: shorter ones are near the clocks' steps.
                let largest = |found: &ClockFindings| {
                    let last = found.disagreements(pair.0, pair.1).last()?.1.clone();
                    Some((last.largest_relative * 100.0, last.median_relative * 100.0))
                };
                both(
                    median(&|found| Some(largest(found)?.0)),
                    median(&|found| Some(largest(found)?.1)),
                )
            }
            "free_memory_delta" => self.saved(&row.mechanism),
            "payload_copies_one_way" => Some(noted("see `profile`")),
            _ => None,
        }
    }
}

fn noted(note: &str) -> StudyRow {
    StudyRow { note: Some(note.to_owned()), ..StudyRow::default() }
}

/// The median time to make a pipe, of some that are closed again. `None` if none could be made.
fn pipe_set_up_ns() -> Option<f64> {
    let mut all: Vec<f64> = Vec::with_capacity(PIPES);
    for _ in 0..PIPES {
        let begin_ns = clock::monotonic_ns();
        let pipe = pipe::create().ok()?;
        all.push(clock::monotonic_ns().saturating_sub(begin_ns) as f64);
        drop(pipe);
    }
    stats::median(&all)
}

const CLOCKS: [(ClockName, &str); 3] = [
    (ClockName::ClockGettime, "timer:clock_gettime"),
    (ClockName::Tsc, "timer:rdtsc"),
    (ClockName::Gettimeofday, "timer:gettimeofday"),
];

const TWO_PROCESSES: &str = "two_services_separate_binaries";

const ONE_PROCESS: &str = "two_services_dynlib_one_process";

/// An interval needs some.
const REPETITIONS: usize = 5;

/// Pipes of one repetition.
const PIPES: usize = 50;
