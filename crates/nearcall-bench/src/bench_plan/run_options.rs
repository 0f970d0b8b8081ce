//! Where, how long and how exactly something is measured: the same for every kind of plan.
//!
//! **Invariants:** `None` means that the experiment decides, by its [`ExperimentDefaults`].
//! **Not here:** what is measured (the plans).

use std::time::Duration;

use super::Placement;
use crate::conditions::Load;

/// Where and how to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Where both ends run; what needs one CPU takes the server's.
    pub placement: Placement,
    /// What runs beside all cells on purpose.
    pub load: Load,
    /// Keep CPUs out of their sleep states, if this is permitted.
    pub awake: bool,
    /// Launches per cell.
    pub launches: Option<u32>,
    /// How long the whole run may take.
    pub time_budget: Option<Duration>,
    /// Give up accuracy for speed.
    pub quick: bool,
    /// Decides the order of launches, the payloads and the resampling.
    pub seed: u64,
    /// The arguments of the program, without its name, for the record.
    pub arguments: Vec<String>,
}

impl Default for RunOptions {
    /// As each thing is usual, idle, with a fixed seed.
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            load: Load::default(),
            awake: false,
            launches: None,
            time_budget: None,
            quick: false,
            seed: 1,
            arguments: Vec::new(),
        }
    }
}

/// What a kind of measurement takes unless somebody says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct ExperimentDefaults {
    /// Launches per cell.
    pub launches: u32,
    /// The same with [`RunOptions::quick`].
    pub launches_quick: u32,
    /// For all.
    pub budget: Duration,
    /// The same with [`RunOptions::quick`].
    pub budget_quick: Duration,
    /// For one cell in one launch, unless the user says how long all takes; `None`: as for
    /// mechanisms.
    pub cell_max: Option<Duration>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Launches per cell.
    pub launches: u32,
    /// The time for all.
    pub budget: Duration,
    /// The time for one cell in one launch; `None`: as for mechanisms.
    pub cell_max: Option<Duration>,
}

impl RunOptions {
    /// How much is measured, if `defaults` stands where nothing was said.
    #[must_use]
    pub fn effort(&self, defaults: &ExperimentDefaults) -> Effort {
        let (launches, budget) = match self.quick {
            true => (defaults.launches_quick, defaults.budget_quick),
            false => (defaults.launches, defaults.budget),
        };
        Effort {
            launches: self.launches.unwrap_or(launches),
            budget: self.time_budget.unwrap_or(budget),
            cell_max: defaults.cell_max,
        }
    }
}
