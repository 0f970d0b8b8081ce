//! Waiters of many kinds, in invented time.

use super::*;

const LIMIT_NS: u64 = 30_000;

#[test]
fn waits_that_are_always_short_always_spin() {
    let mut learner = Learner::new(LIMIT_NS, 5);
    for _ in 0..10_000 {
        assert_eq!(learner.limit_ns(), LIMIT_NS);
        learner.paid();
    }
}
