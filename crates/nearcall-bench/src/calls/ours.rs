//! Nearcall's own channel, as runs of budgets and waits measure it: the one place that names it.

use nearcall_channel::{Mechanism, WaitPolicy};
pub(crate) use nearcall_results::advise::OURS;

/// How both ends of it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By spinning.
    Spin,
    /// By sleeping.
    Sleep,
    /// As it is unless somebody says otherwise.
    ExperimentDefaults,
}

impl Way {
    /// The mechanism, and how a client without a loop waits.
    pub(crate) const fn ours(self) -> (Mechanism, WaitPolicy) {
        let wait = match self {
            Self::Spin => WaitPolicy::Spin,
            Self::Sleep => WaitPolicy::Block,
            Self::ExperimentDefaults => WaitPolicy::Adaptive,
        };
        (OURS, wait)
    }
}

/// Its ways to wait that are compared with each other.
pub(crate) fn policies() -> Vec<(Mechanism, WaitPolicy)> {
    [Way::Spin, Way::Sleep, Way::ExperimentDefaults].map(Way::ours).to_vec()
}
