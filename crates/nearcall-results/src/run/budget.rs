//! What a run of budgets stores: each figure beside its floor and beside what it may be.

use serde::{Deserialize, Serialize};

use crate::noise::Grade;

/// One budget and what was measured of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// A stable word for it.
    pub name: String,
    /// What is measured, for people.
    pub what: String,
    /// The heading under which it stands: what it is judged by.
    pub against: String,
    /// What `measured`, and `floor_value` too, count: "ns", "per_s", "bytes", "cpu_share",
    /// "per_s_sleeps", "threads".
    pub unit: String,
    /// The figure, the median over launches.
    pub measured: Option<f64>,
    /// The floor's name; `null` where the figure itself is judged.
    pub floor: Option<String>,
    /// The floor's figure of the same run.
    pub floor_value: Option<f64>,
    /// What is judged: the median of `launch_values`.
    pub value: Option<f64>,
    /// Its 95 % confidence interval.
    pub value_ci95: Option<[f64; 2]>,
    /// Per round of launches: the figure to its floor, or the figure itself without a floor.
    pub launch_values: Vec<f64>,
    /// What the value may be at most, or must be at least.
    pub budget: f64,
    /// What it should be.
    pub goal: Option<f64>,
    /// Whether more is better.
    pub at_least: bool,
    /// What comes of it.
    pub verdict: Verdict,
    /// How far it falls short: 0.12 is 12 % above what it may be, or below what it must be. `null`
    /// where it does not, or where the budget is zero.
    pub short_by: Option<f64>,
    /// Whether the whole interval is on the same side of the budget.
    pub certain: bool,
    /// How undisturbed the figure and its floor were: the worse of both.
    pub grade: Option<Grade>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// How a figure stands to its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It reaches the goal.
    Goal,
    /// It is within the budget.
    Within,
    /// It is not.
    Short,
    /// It was not measured.
    #[default]
    Unmeasured,
}
