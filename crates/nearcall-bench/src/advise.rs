//! Measures what advice needs: all candidates briefly, then the best of them longer.
//!
//! Which of them to take is judged by `nearcall_results::advise`, from the runs that this gives.

pub mod busy;
pub mod costs;
mod measure;
mod specs;
pub mod store;

use nearcall_channel::Mechanism;
use nearcall_results::advise::{self, Candidate, Excluded, Requirements};

pub use measure::{Effort, MeasureError, measure, place};
pub use specs::specs;

/// Splits all that there is into what can be chosen on this machine and what cannot.
///
/// Asks the kernel what it supports; [`eligible`](advise::eligible) judges without a machine.
#[must_use]
pub fn candidates(requirements: &Requirements) -> (Vec<Candidate>, Vec<Excluded>) {
    advise::candidates(requirements, &Mechanism::supported)
}

#[cfg(test)]
mod tests {
    use nearcall_results::advise::Need;

    use super::*;

    #[test]
    fn addresses_are_those_of_the_runtime() {
        for candidate in Candidate::all() {
            for needs in [&[][..], &[Need::MultiMachine]] {
                let at = |text: String| text.replace("HOST:PORT", "[::1]:9");
                let parsed: nearcall::Address = at(candidate.address(needs)).parse().unwrap();
                assert_eq!(parsed.wait(), Some(candidate.wait));
                if needs.is_empty() {
                    assert_eq!(parsed.mechanism(), candidate.mechanism);
                }
                let listens_at = at(candidate.server_address(needs));
                assert!(nearcall::Address::of_listener(&listens_at).is_ok());
            }
        }
    }
}
