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
    /// As nearcall waits by default: by spinning while that pays, then by sleeping.
    Adaptive,
}

impl Way {
    /// The mechanism, and how a client without a loop waits.
    pub(crate) const fn ours(self) -> (Mechanism, WaitPolicy) {
        let wait = match self {
            Self::Spin => WaitPolicy::Spin,
            Self::Sleep => WaitPolicy::Block,
            Self::Adaptive => WaitPolicy::Adaptive,
        };
        (OURS, wait)
    }
}

/// Its ways to wait that are compared with each other.
pub(crate) fn policies() -> Vec<(Mechanism, WaitPolicy)> {
    [Way::Spin, Way::Sleep, Way::Adaptive].map(Way::ours).to_vec()
}
