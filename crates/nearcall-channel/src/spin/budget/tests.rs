//! Waiters of many kinds, in invented time. Not in Miri: too slow there, and no memory is shared.

use super::*;

const LIMIT_NS: u64 = 30_000;
/// What a wake-up takes in this world.
const WAKE_UP_NS: u64 = 10_000;
const SECOND_NS: u64 = 1_000_000_000;
const PERCENT: u8 = 5;

/// One waiter and its clock.
struct Waiter {
    budget: SpinBudget,
    now_ns: u64,
    /// Spun without finding anything.
    wasted_ns: u64,
    sleeps: u32,
}

impl Waiter {
    fn new() -> Self {
        let budget = SpinBudget::new(LIMIT_NS, PERCENT);
        Self { budget, now_ns: SECOND_NS, wasted_ns: 0, sleeps: 0 }
    }

    /// One that has learned that spinning is without result.
    fn tired() -> Self {
        let mut waiter = Self::new();
        for _ in 0..20 {
            waiter.wait(20 * LIMIT_NS);
        }
        assert_eq!(waiter.budget.limit_ns(), 0);
        waiter
    }

    /// Waits for what comes `after_ns` from now. How much later the waiter has it.
    fn wait(&mut self, after_ns: u64) -> u64 {
        let limit_ns = self.budget.limit_ns();
        if after_ns <= limit_ns {
            self.now_ns += after_ns;
            self.budget.record_success();
            return 0;
        }
        self.sleep_after_spin(after_ns, limit_ns)
    }

    /// Waits for what comes `after_ns` from now, or that long after a spin: the end that sends it
    /// cannot run before we sleep.
    fn wait_on_shared_cpu(&mut self, after_ns: u64) {
        let limit_ns = self.budget.limit_ns();
        self.sleep_after_spin(limit_ns + after_ns, limit_ns);
    }

    fn sleep_after_spin(&mut self, after_ns: u64, limit_ns: u64) -> u64 {
        if limit_ns > 0 {
            self.wasted_ns += limit_ns;
            self.budget.record_failure(self.now_ns + limit_ns, limit_ns);
        } else {
            self.budget.credit(self.now_ns);
            if after_ns + WAKE_UP_NS <= LIMIT_NS + WAKE_UP_NS {
                self.budget.record_short_wait();
            }
        }
        self.sleeps += 1;
        self.now_ns += after_ns + WAKE_UP_NS;
        WAKE_UP_NS
    }
}

#[test]
fn short_waits_never_sleep() {
    let mut waiter = Waiter::new();
    for _ in 0..10_000 {
        assert_eq!(waiter.wait(500), 0);
    }
    assert_eq!((waiter.sleeps, waiter.wasted_ns), (0, 0));
}

#[test]
fn a_server_with_a_thousand_calls_per_second_stops_spinning_for_good() {
    let mut waiter = Waiter::new();
    for _ in 0..100_000 {
        waiter.wait(1_000_000);
    }
    assert!(waiter.wasted_ns <= 4 * LIMIT_NS, "{} ns without result", waiter.wasted_ns);
}

#[test]
fn a_pause_in_a_busy_time_is_forgiven() {
    let mut waiter = Waiter::new();
    for number in 0..10_000 {
        if number % 20 == 19 {
            waiter.wait(5_000_000);
        } else {
            assert_eq!(waiter.wait(2_000), 0, "wait {number}");
        }
    }
}

#[test]
fn two_ends_that_both_sleep_find_each_other() {
    let (mut client, mut server) = (Waiter::tired(), Waiter::tired());
    let (mut calls, mut late_ns) = (0, 0);
    // A client that calls again at once: each end waits for the other's lateness and work.
    while calls < 20 {
        let server_late_ns = server.wait(late_ns + 500);
        late_ns = client.wait(server_late_ns + 500);
        calls += 1;
    }
    let sleeps = (client.sleeps, server.sleeps);
    for _ in 0..1_000 {
        let server_late_ns = server.wait(late_ns + 500);
        late_ns = client.wait(server_late_ns + 500);
    }
    assert_eq!((client.sleeps, server.sleeps), sleeps, "they went on sleeping");
}

#[test]
fn a_client_spins_through_the_wake_up_of_a_server_that_sleeps() {
    let mut client = Waiter::new();
    for _ in 0..1_000 {
        assert_eq!(client.wait(WAKE_UP_NS + 2_000), 0);
    }
}

#[test]
fn ends_that_share_a_cpu_soon_sleep_at_once() {
    let mut waiter = Waiter::new();
    for _ in 0..10_000 {
        waiter.wait_on_shared_cpu(5_000);
    }
    let spins = waiter.wasted_ns / LIMIT_NS;
    assert!(spins <= 10_000 / u64::from(TRIAL_INTERVAL_MAX) + 16, "{spins} spins without result");
    // Moved apart, they find out.
    let mut waits = 0;
    while waiter.wait(5_000) != 0 || waiter.wait(5_000) != 0 {
        waits += 1;
        assert!(waits <= 2 * TRIAL_INTERVAL_MAX, "it never spins again");
    }
}

#[test]
fn spins_without_result_never_take_more_than_their_share() {
    for seed in 0..50_u64 {
        let (mut waiter, mut state) = (Waiter::new(), seed);
        let began_ns = waiter.now_ns;
        for _ in 0..20_000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let long = (state >> 33) % 100 < 10 + seed;
            waiter.wait(if long { 2 * LIMIT_NS } else { 1_000 });
        }
        let share_ns = (waiter.now_ns - began_ns) / 100 * u64::from(PERCENT);
        let most_ns = share_ns + (BALANCE_SPINS_MAX + 1) * LIMIT_NS;
        assert!(waiter.wasted_ns <= most_ns, "seed {seed}: {} of {most_ns} ns", waiter.wasted_ns);
    }
}

#[test]
fn time_that_goes_back_fills_no_balance() {
    let mut budget = SpinBudget::new(LIMIT_NS, 100);
    budget.debit(SECOND_NS, BALANCE_SPINS_MAX * LIMIT_NS);
    budget.credit(SECOND_NS / 2);
    assert_eq!(budget.limit_ns(), 0);
    budget.credit(2 * SECOND_NS);
    assert_eq!(budget.limit_ns(), LIMIT_NS);
}

#[test]
fn budgets_that_always_or_never_spin_do_not_learn() {
    for limit_ns in [0, u64::MAX] {
        let mut budget = SpinBudget::new(limit_ns, 100);
        for turn in 1..100 {
            budget.record_failure(turn * SECOND_NS, SECOND_NS);
            assert_eq!(budget.limit_ns(), limit_ns);
        }
    }
}
