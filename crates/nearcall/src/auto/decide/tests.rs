//! A connection over which calls of a script are made, without clocks or channels.

use nearcall_channel::spin::tuning::Tuning;

use super::*;

/// A machine on which `shm` is best for small messages, and `shm-unix` for long ones.
const STORED: &str = "nearcall.tuning/1
machine = m
wake_up_ns = 5000
cost = shm two-cpus busy 64 1000 2000
cost = shm two-cpus busy 1048576 400000 800000
cost = shm two-cpus rare 64 30000 60000
cost = shm two-cpus rare 1048576 500000 900000
cost = shm-unix two-cpus busy 64 4000 8000
cost = shm-unix two-cpus busy 1048576 100000 200000
cost = shm-unix two-cpus rare 64 29000 58000
cost = shm-unix two-cpus rare 1048576 400000 800000
";

const LOOK_NS: u64 = 100_000_000;

/// A connection over which calls are made, in steps of a look.
struct World {
    decider: Decider,
    now_ns: u64,
    mechanism: Mechanism,
    switches: Vec<(u64, Mechanism)>,
    notes: Vec<String>,
}

impl World {
    fn new() -> Self {
        let profile = Profile::of(&Tuning::parse(STORED).unwrap().costs).unwrap();
        let decider = Decider::new(Arc::new(profile), Weights::default());
        let (mechanism, switches, notes) = (Mechanism::Shm, Vec::new(), Vec::new());
        Self { decider, now_ns: LOOK_NS, mechanism, switches, notes }
    }

    /// Calls of so many bytes until the next look, each of which takes `latency_ns`.
    fn look(&mut self, bytes: usize, rare_share: f64, latency_ns: f64) {
        self.now_ns += LOOK_NS;
        let calls = 1_000;
        let traffic = traffic(calls, bytes);
        let seen = Observation {
            now_ns: self.now_ns,
            elapsed_ns: LOOK_NS,
            calls,
            traffic,
            rare_share,
            latency_ns: Some(latency_ns).filter(|it| *it > 0.0),
            placement: EndPlacement::TwoCpus,
            is_loaded: false,
        };
        if let Advice::Switch(to) = self.decider.look(&seen, self.mechanism) {
            assert_ne!(to, self.mechanism, "a switch leads elsewhere");
            self.decider.begun(self.now_ns);
            self.switches.push((self.now_ns, to));
            self.mechanism = to;
        }
        self.notes.extend(self.decider.take_note().map(|note| note.text));
    }

    fn looks(&mut self, seconds: u64, bytes: usize, latency_ns: impl Fn(Mechanism) -> f64) {
        for _ in 0..seconds * 10 {
            self.look(bytes, 0.0, latency_ns(self.mechanism));
        }
    }

    fn explanation(&self) -> String {
        let mut text = String::new();
        self.decider.explain(&mut text);
        text
    }

    /// The most switches within any minute.
    fn most_in_a_minute(&self) -> usize {
        let begun = |at: u64| {
            let within = |it: &&(u64, Mechanism)| (at..at + ns(AUTO_MINUTE)).contains(&it.0);
            self.switches.iter().filter(within).count()
        };
        self.switches.iter().map(|(at, _)| begun(*at)).max().unwrap_or(0)
    }
}

/// So many requests of so many bytes, with short replies.
fn traffic(calls: u64, bytes: usize) -> Traffic {
    let mut traffic = Traffic::default();
    for (counts, bytes) in [(&mut traffic.sent, bytes), (&mut traffic.received, 40)] {
        counts.count(bytes);
        counts.bytes *= calls;
        counts.by_size = counts.by_size.map(|count| count * calls);
    }
    traffic
}

/// As the table says.
fn as_stored(bytes: usize) -> impl Fn(Mechanism) -> f64 {
    move |mechanism| match (mechanism, bytes > 100_000) {
        (Mechanism::Shm, false) => 1_000.0,
        (Mechanism::Shm, true) => 400_000.0,
        (_, false) => 4_000.0,
        (_, true) => 100_000.0,
    }
}

#[test]
fn what_is_best_is_kept() {
    let mut world = World::new();
    world.looks(30, 64, as_stored(64));
    assert!(world.switches.is_empty());
}

#[test]
fn a_clear_gain_is_taken_after_two_looks_and_its_worth_is_noted() {
    let mut world = World::new();
    world.looks(2, 64, as_stored(64));
    let begun_ns = world.now_ns;
    world.looks(10, 1 << 20, as_stored(1 << 20));
    assert_eq!(world.switches, [(begun_ns + 2 * LOOK_NS, Mechanism::ShmUnix)]);
    let [note] = &world.notes[..] else { panic!("{:?}", world.notes) };
    assert!(note.contains("seen: 10000 calls/s of 1048576 B"), "{note}");
    assert!(note.contains("% less") && note.contains("worth: -75 %"), "{note}");
}

#[test]
fn phases_are_followed_four_times_a_minute_and_the_last_time_to_what_is_best_over_all() {
    let mut world = World::new();
    for _ in 0..12 {
        world.looks(5, 64, as_stored(64));
        world.looks(5, 1 << 20, as_stored(1 << 20));
    }
    assert_eq!(world.most_in_a_minute(), AUTO_SWITCHES_MAX);
    // By cost the long messages are nearly all.
    let to = |it: &(u64, Mechanism)| it.1;
    assert_eq!(world.switches.iter().map(to).next(), Some(Mechanism::ShmUnix));
}

#[test]
fn a_switch_that_made_things_worse_is_taken_back_and_remembered() {
    let mut world = World::new();
    let opposite = |mechanism| if mechanism == Mechanism::Shm { 300_000.0 } else { 900_000.0 };
    world.looks(200, 1 << 20, opposite);
    let to: Vec<Mechanism> = world.switches.iter().map(|it| it.1).collect();
    assert_eq!(to, [Mechanism::ShmUnix, Mechanism::Shm]);
    assert!(world.notes[0].contains("worth: +200 %"), "{:?}", world.notes);
    // Small messages, then long ones again: it is still known.
    world.looks(5, 64, as_stored(64));
    world.looks(60, 1 << 20, opposite);
    assert_eq!(world.switches.len(), 2);
    // After some minutes it is tried again, and then for twice as long not.
    world.looks(300, 1 << 20, opposite);
    assert_eq!(world.switches.len(), 4);
    world.looks(300, 1 << 20, opposite);
    assert_eq!(world.switches.len(), 4);
}

#[test]
fn what_is_worse_is_left_once_the_minute_has_room() {
    let mut world = World::new();
    world.decider.begun_ns.extend([world.now_ns; AUTO_SWITCHES_MAX - 1]);
    let opposite = |mechanism| if mechanism == Mechanism::Shm { 300_000.0 } else { 900_000.0 };
    world.looks(2, 1 << 20, opposite);
    assert_eq!(world.mechanism, Mechanism::ShmUnix);
    assert!(world.notes[0].contains("worth: +200 %"), "{:?}", world.notes);
    world.looks(100, 1 << 20, opposite);
    let to: Vec<Mechanism> = world.switches.iter().map(|it| it.1).collect();
    assert_eq!(to, [Mechanism::ShmUnix, Mechanism::Shm]);
}

#[test]
fn looks_without_a_timed_call_do_not_count() {
    let mut world = World::new();
    world.now_ns += ns(AUTO_STAY_MIN);
    for look in 0..8 {
        let is_timed = look < 5;
        world.look(1 << 20, 0.0, if is_timed { as_stored(1 << 20)(world.mechanism) } else { 0.0 });
    }
    assert!(world.notes[0].contains("worth: -75 %"), "{:?}", world.notes);
    assert!(world.notes[0].ends_with("by 2000 calls"), "{:?}", world.notes);
    let mut world = World::new();
    (0..20).for_each(|_| world.look(1 << 20, 0.0, 0.0));
    assert!(world.notes[0].contains("too few calls were timed"), "{:?}", world.notes);
}

#[test]
fn a_connection_that_others_move_is_not_judged() {
    let mut world = World::new();
    world.looks(1, 1 << 20, as_stored(1 << 20));
    world.mechanism = Mechanism::Shm;
    world.looks(3, 1 << 20, as_stored(1 << 20));
    assert!(world.notes[0].ends_with("moved by others before it was judged"), "{:?}", world.notes);
    // Later switches are not held up.
    assert_eq!(world.switches.len(), 2);
}

#[test]
fn a_situation_is_avoided_longer_only_for_itself() {
    let mut decider = World::new().decider;
    let regime = |log_bytes| Regime { placement: EndPlacement::TwoCpus, is_rare: false, log_bytes };
    for (log_bytes, at) in [(6.0, 0), (20.0, 0), (6.0, ns(AUTO_AVOID))] {
        decider.avoid(Mechanism::Shm, regime(log_bytes), at, 1.0);
    }
    let spans: Vec<u64> = decider.avoided.iter().map(|it| it.span_ns).collect();
    assert_eq!(spans, [ns(AUTO_AVOID), 2 * ns(AUTO_AVOID)]);
    decider.avoid(Mechanism::Pipe, regime(6.0), 2 * ns(AUTO_AVOID_MAX), 1.0);
    assert_eq!(decider.avoided.len(), 1);
}

#[test]
fn what_cannot_be_had_is_left_alone() {
    let mut world = World::new();
    world.looks(1, 1 << 20, as_stored(1 << 20));
    assert_eq!(world.mechanism, Mechanism::ShmUnix);
    world.mechanism = Mechanism::Shm;
    let why = "cannot move to shm-unix: too often".to_owned();
    world.decider.failed(Mechanism::ShmUnix, world.now_ns, why.clone(), AUTO_MINUTE);
    world.looks(59, 1 << 20, as_stored(1 << 20));
    assert_eq!(world.switches.len(), 1);
    // It is still said why.
    assert!(world.explanation().ends_with(&why), "{}", world.explanation());
    world.looks(2, 1 << 20, as_stored(1 << 20));
    assert_eq!(world.switches.len(), 2);
    assert!(!world.explanation().contains("cannot"), "{}", world.explanation());
}

#[test]
fn few_calls_do_not_pay_for_a_switch() {
    let mut world = World::new();
    let mut look = |calls: u64| {
        world.now_ns += LOOK_NS;
        let traffic = traffic(calls, 4_000);
        let seen = Observation {
            now_ns: world.now_ns,
            elapsed_ns: 100 * LOOK_NS,
            calls,
            traffic,
            rare_share: 0.0,
            latency_ns: None,
            placement: EndPlacement::TwoCpus,
            is_loaded: false,
        };
        world.decider.look(&seen, Mechanism::ShmUnix)
    };
    assert!((0..20).all(|_| look(8) == Advice::Stay));
    assert!((0..20).any(|_| look(80_000) == Advice::Switch(Mechanism::Shm)));
}

/// Sizes, pauses and times at random: never more than the limit, and rarely at all while only the
/// times are disturbed.
#[test]
fn noise_makes_nothing_flap() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut world = World::new();
        for _ in 0..1_500 {
            let noise = 2.0_f64.powf(rng.f64() * 2.0 - 1.0);
            let bytes = 1 << rng.u32(6..21);
            world.look(bytes, rng.f64(), as_stored(bytes)(world.mechanism) * noise);
        }
        assert!(world.most_in_a_minute() <= AUTO_SWITCHES_MAX, "seed {seed}");
        let mut world = World::new();
        for _ in 0..1_500 {
            let noise = 2.0_f64.powf(rng.f64() * 2.0 - 1.0);
            world.look(1 << 20, 0.0, as_stored(1 << 20)(world.mechanism) * noise);
        }
        assert!(world.switches.len() <= 1, "seed {seed}: {:?}", world.switches);
    }
}

#[test]
fn a_size_between_the_mechanisms_does_not_flap() {
    let mut world = World::new();
    for step in 0..3_000_usize {
        // Where both cost about the same.
        let bytes = if step.is_multiple_of(2) { 9_000 } else { 7_000 };
        world.look(bytes, 0.0, 9_000.0);
    }
    assert!(world.switches.len() <= 1, "{:?}", world.switches);
}
