//! Where, how long and how exactly something is measured: the same for every kind of plan.
//!
//! Always true: `None` means that the kind of measurement decides, by its [`Usual`] values. What is
//! measured is in the plans themselves.

use std::time::Duration;

use super::Place;
use crate::scene::Load;

/// Where and how to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct How {
    /// Where both ends run; what needs one CPU takes the server's.
    pub placement: Place,
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

impl Default for How {
    /// As each thing is usual, idle, with a fixed seed.
    fn default() -> Self {
        Self {
            placement: Place::default(),
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
pub struct Usual {
    /// Launches per cell.
    pub launches: u32,
    /// The same with [`How::quick`].
    pub launches_quick: u32,
    /// For all.
    pub budget: Duration,
    /// The same with [`How::quick`].
    pub budget_quick: Duration,
    /// For one cell in one launch; `None`: as for mechanisms.
    pub cell_max: Option<Duration>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Launches per cell.
    pub launches: u32,
    /// The time for all.
    pub budget: Duration,
    /// The time for one cell in one launch; `None`: as for mechanisms.
    pub cell_max: Option<Duration>,
}

impl How {
    /// How much is measured, if `usual` stands where nothing was said.
    #[must_use]
    pub fn extent(&self, usual: &Usual) -> Extent {
        let (launches, budget) = match self.quick {
            true => (usual.launches_quick, usual.budget_quick),
            false => (usual.launches, usual.budget),
        };
        Extent {
            launches: self.launches.unwrap_or(launches),
            budget: self.time_budget.unwrap_or(budget),
            cell_max: usual.cell_max,
        }
    }
}
