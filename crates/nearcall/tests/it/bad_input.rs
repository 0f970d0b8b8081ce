//! Bad input, each case with a clear error for the one at fault, while a good client of the same
//! server calls all the time and none of its calls fails.
//!
//! **Not here:** processes that die or stop (`two_processes.rs`).

mod addresses;
mod bounds;
mod frames;
mod names;
mod refusals;
mod servers;
mod unknown;

use crate::observed::Observed;
use crate::stage::prelude::*;
/// What the one at fault is told.
use crate::support::expect_error as expect;

/// Does the worst again and again, and compares what this process holds before and after.
pub(crate) fn leaves_nothing() {
    let local = Observed::start();
    let remote = Observed::at("tcp://127.0.0.1:0", Limits::default());
    let round = |number: u64| {
        unknown::make_noise(&local, &remote, number);
        for mechanism in [Mechanism::UnixStream, Mechanism::ShmFutex, Mechanism::Pipe] {
            frames::misbehave(&local, mechanism, number);
        }
        for server in [&local, &remote] {
            let client = Client::new();
            EchoCaller::new(&client, &server.address).unwrap().nothing(&()).unwrap();
            drop(client);
            server.wait_for_connections(0);
        }
    };
    // What lives as long as the process, such as the thread that watches.
    (0..20).for_each(round);
    let before = held();
    (20..120).for_each(round);
    // Threads of handshakes may need a moment.
    wait_until(&format!("{before:?} again"), || held() <= before);
}

/// How often `be_rude` is cut off over each mechanism.
pub(crate) const RUDE_ROUNDS: usize = 20;

/// Asks over `cma`, whose end waits for its reader when it closes, and over another. Does not read
/// it, is cut off, and stays a while.
pub(crate) fn be_rude(address: &str) {
    let all = [Mechanism::Cma, Mechanism::UnixStream];
    for mechanism in all.into_iter().filter(|mechanism| mechanism.supported().is_ok()) {
        for _ in 0..RUDE_ROUNDS {
            frames::ask_and_stay(address, mechanism, Duration::from_millis(120));
        }
    }
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    ["fd", "task"]
        .map(|what| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count())
        .into()
}
