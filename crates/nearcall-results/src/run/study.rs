//! What a run stores of published studies: their figures beside this machine's, and verdicts.

use serde::{Deserialize, Serialize};

use crate::noise::Grade;
use crate::words::words;

/// One study, repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyResult {
    /// "motorola" and so on; "cross-study" for claims that compare studies.
    pub study: String,
    /// Its number: "000" to "004"; empty for what compares studies.
    pub number: String,
    /// What it is about.
    pub title: String,
    /// Its tables, and what it shows in pictures only.
    pub tables: Vec<StudyTable>,
    /// What became of its claims here.
    pub verdicts: Vec<Judged>,
    /// What its claims are judged by beside the cells: clocks, memory, set-up times.
    pub figures: Vec<StudyFigure>,
}

/// A figure that no cell has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyFigure {
    /// What it is of, as the study calls it: "timer:rdtsc".
    pub mechanism: String,
    /// What was measured: "cost of a reading", "granularity", "memory", "set-up time".
    pub quantity: String,
    /// One value per repetition, in nanoseconds or bytes.
    pub values: Vec<f64>,
}

/// What becomes of a claim on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// It holds, with 95 % confidence in each comparison.
    Confirmed,
    /// It does not.
    Refuted,
    /// The figures are too uncertain to say.
    Inconclusive,
    /// It cannot be judged here; the evidence gives the reason.
    Skipped,
}

words! { ClaimVerdict:
    Confirmed => "CONFIRMED",
    Refuted => "REFUTED",
    Inconclusive => "INCONCLUSIVE",
    Skipped => "SKIPPED",
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The claim of the study, such as "T01".
    pub id: String,
    /// The name of the study, or "cross-study".
    pub study: String,
    /// What is claimed, in our words.
    pub statement: String,
    /// Whether it holds on this machine.
    pub verdict: ClaimVerdict,
    /// The figures that decided it, or why it could not be judged.
    pub evidence: String,
    /// What the study itself shows of it.
    pub paper: String,
}

/// One table of a study, or the figures of one picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyTable {
    /// "table1"; "pictures" for what the paper printed without numbers.
    pub table: String,
    /// What is measured, and by which statistic of the paper.
    pub statistic: String,
    /// The unit of all values: "ns", "bytes/s", "bytes", "percent", "count".
    pub unit: String,
    /// One per printed figure.
    pub rows: Vec<StudyRow>,
}

/// One figure: the paper, this machine by the paper's statistic, this machine by ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyRow {
    /// As the paper calls it.
    pub mechanism: String,
    /// Where both ends ran, in the paper's words where it says any.
    pub placement: String,
    /// What ran beside them.
    pub load: String,
    /// Payload bytes; `null` if there are none.
    pub message_bytes: Option<u64>,
    /// As printed.
    pub paper: Option<f64>,
    /// This machine, by the paper's statistic: the median over launches of what each gave.
    pub here_as_paper: Option<f64>,
    /// This machine: the median of the typical launch, or the rate.
    pub here: Option<f64>,
    /// Where that lies with 95 % confidence.
    pub here_ci95: Option<[f64; 2]>,
    /// This machine by the paper's statistic, to the paper.
    pub ratio: Option<f64>,
    /// How undisturbed it was.
    pub grade: Option<Grade>,
    /// Why a value is missing, or what is special.
    pub note: Option<String>,
}

/// What only cells of a study have. Lists have one value per launch, in the order of launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyFacts {
    /// The study: "motorola" and so on.
    pub study: String,
    /// What the study calls the mechanism.
    pub mechanism: String,
    /// Exchanges per launch that the study asks for; 0: for a time.
    pub exchanges: u32,
    /// The arithmetic means.
    pub launch_means_ns: Vec<f64>,
    /// The shortest times.
    pub launch_mins_ns: Vec<f64>,
    /// The longest times.
    pub launch_maxs_ns: Vec<f64>,
    /// The first exchanges.
    pub launch_firsts_ns: Vec<f64>,
    /// The 99th percentiles; none where a launch has too few exchanges.
    pub launch_p99s_ns: Vec<f64>,
    /// The shortest times by the kernel's clock, where both clocks were read.
    pub launch_clock_mins_ns: Vec<f64>,
    /// The medians by the kernel's clock, where both clocks were read.
    pub launch_clock_medians_ns: Vec<f64>,
    /// How long setting up took.
    pub launch_set_ups_ns: Vec<f64>,
    /// CPU time of both ends per message.
    pub launch_cpu_ns: Vec<f64>,
}
