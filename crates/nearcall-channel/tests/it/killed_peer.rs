//! The storm: either end is killed in the middle of traffic, again and again, over each mechanism.
//!
//! `NEARCALL_KILLS` says how often; `cargo xtask kill-storm` runs a thousand per mechanism.
//!
//! **Invariants:** the survivor learns of it and never hangs, and afterwards nothing is left.
//! **Not here:** deaths at chosen moments (`conformance/killed.rs`).

use std::sync::{Mutex, Once, PoisonError, mpsc};

use crate::support::diagnosis::describe;
use crate::support::play::{self, Case};
use crate::support::prelude::*;
use crate::support::stage::Run;

const KILLS: &str = "NEARCALL_KILLS";
/// Enough for a daily run to see that a mechanism survives at all.
const KILLS_DEFAULT: u64 = 3;
/// What one kill may take: two processes start, meet and talk for a few milliseconds.
const PER_KILL: Duration = Duration::from_secs(2);
/// A kill comes up to this long after the traffic has begun.
const KILL_AFTER_MAX_US: u64 = 3000;
/// Messages up to this long, so that a kill often comes in the middle of one.
const MESSAGE_BYTES_MAX: usize = 60_000;

fn kills() -> u64 {
    std::env::var(KILLS).map_or(KILLS_DEFAULT, |text| text.parse().expect("a number of kills"))
}

/// What goes on when the kill comes.
#[derive(Debug, Clone, Copy)]
enum Traffic {
    Echo,
    ToSurvivor,
    FromSurvivor,
}

impl Traffic {
    fn of(seed: u64) -> Self {
        [Self::Echo, Self::ToSurvivor, Self::FromSurvivor][(seed % 3) as usize]
    }
}

fn options(play: &Play) -> Options {
    Options { buffer_bytes: 16 << 10, ..play.options() }
}

/// Exchanges messages until the other end is gone. The victim sees this only by chance.
fn talk(endpoint: &mut Endpoint, seed: u64, survives: bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![7; MESSAGE_BYTES_MAX];
    let traffic = Traffic::of(seed);
    let mut begins = matches!(traffic, Traffic::Echo) && survives;
    loop {
        let sends = match traffic {
            Traffic::Echo => {
                begins = !begins;
                !begins
            }
            Traffic::ToSurvivor => !survives,
            Traffic::FromSurvivor => survives,
        };
        if sends {
            let len =
                if random.bool() { random.usize(0..200) } else { random.usize(0..bytes.len()) };
            match endpoint.send(&bytes[..len], Deadline::NEVER) {
                Ok(()) => {}
                Err(SendError::PeerGone) => return,
                Err(error) => panic!("{traffic:?}: {error:?}"),
            }
        } else {
            let received = endpoint.receive(Deadline::NEVER).and_then(|mut it| it.read(&mut bytes));
            match received {
                Ok(_) => {}
                Err(ReceiveError::PeerGone) => return,
                Err(error) => panic!("{traffic:?}: {error:?}"),
            }
        }
    }
}

fn storm(play: &mut Play) {
    if !play.is_first() {
        let mut endpoint = play.meet_with(&options(play));
        talk(&mut endpoint, play.seed, false);
        return;
    }
    let kills = kills();
    let mut random = fastrand::Rng::with_seed(play.seed);
    let mut took_ns = Vec::new();
    for number in 0..kills {
        if number > 0 {
            // Each end in turn is the one that listened.
            play.next_second(random.u64(..), number % 2 == 0);
        }
        let mut endpoint = play.meet_with(&options(play));
        let after = Duration::from_micros(random.u64(0..KILL_AFTER_MAX_US));
        took_ns.push(survive(play, &mut endpoint, after));
    }
    took_ns.sort_unstable();
    let (median, max) = (took_ns[took_ns.len() / 2], took_ns[took_ns.len() - 1]);
    assert!(Duration::from_nanos(max) < DEATH_NOTICED, "noticed only after {max} ns");
    note(&row(&play.mechanism.to_string(), &kills.to_string(), &ms(median), &ms(max)));
}

/// Talks until the other end, killed `after` a while, is gone. Says how long noticing took, in ns.
fn survive(play: &Play, endpoint: &mut Endpoint, after: Duration) -> u64 {
    let (survived, survival) = mpsc::channel();
    let (victim, seed) = (play.victim(), play.seed);
    let killer = thread::spawn(move || kill(&victim, after, &survival, seed));
    talk(endpoint, play.seed, true);
    let noticed_ns = clock::monotonic_ns();
    survived.send(()).unwrap();
    // A survivor may see a closed channel before the killer's call has come back.
    noticed_ns.saturating_sub(killer.join().unwrap())
}

/// Kills, and ends this whole process when its survivor hangs. Says when it killed, in ns.
fn kill(victim: &OwnedFd, after: Duration, survival: &mpsc::Receiver<()>, seed: u64) -> u64 {
    clock::pause(after);
    let killed_ns = clock::monotonic_ns();
    process::kill_pidfd(victim).unwrap();
    if let Err(mpsc::RecvTimeoutError::Timeout) = survival.recv_timeout(PATIENCE) {
        let traffic = Traffic::of(seed);
        note(&format!("the survivor hangs in {traffic:?}, seed {seed}"));
        note(&describe(process::pid().unsigned_abs()));
        std::process::abort();
    }
    killed_ns
}

fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

fn row(mechanism: &str, kills: &str, median: &str, max: &str) -> String {
    format!("{mechanism:<16}{kills:>8}{median:>16}{max:>16}")
}

const CASES: &[(&str, Case)] = &[("storm", storm)];

/// Where the processes begin; nothing when the harness runs it.
#[test]
fn entry() {
    play::enter(CASES);
}

fn run(mechanism: Mechanism) {
    static HEADER: Once = Once::new();
    // One storm at a time: times to notice mean little when the survivor gets no CPU.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    HEADER.call_once(|| report(&row("mechanism", "kills", "median, ms", "max, ms")));
    if let Err(reason) = mechanism.supported() {
        return report(&format!("{mechanism:<16}unsupported: {reason}"));
    }
    let timeout = PATIENCE + PER_KILL * u32::try_from(kills()).unwrap();
    // The product's own in every way that it waits, the others in their usual one.
    let waits =
        if mechanism == Mechanism::Shm { mechanism.waits() } else { &mechanism.waits()[..1] };
    for &wait in waits {
        let entry = "killed_peer::entry";
        let run = Run { entry, case: "storm", mechanism, wait, first_serves: true, timeout };
        for line in run.run() {
            match line.starts_with("unsupported") {
                true => report(&format!("{mechanism:<16}{line}")),
                false => report(&line),
            }
        }
    }
}

macro_rules! storms {
    ($($name:ident $mechanism:ident,)*) => {
        $(
            #[test]
            fn $name() {
                run(Mechanism::$mechanism);
            }
        )*
        const TESTED: &[Mechanism] = &[$(Mechanism::$mechanism),*];
    };
}

super::for_each_mechanism! { storms }

#[test]
fn every_mechanism_is_tested() {
    assert_eq!(Mechanism::all().collect::<Vec<_>>(), TESTED);
}
