//! Hostile clients, one attack after the other, beside a good client of another user: whether the
//! server lives, what the good client notices, and what is left.
//!
//! Each attack has a server, a good client and an attacker, all processes of their own. What the
//! good client notices is compared with what it notices beside two loads that leave its server
//! alone: the same attack on another server, which is the same work in the same bursts, and a
//! harmless client of another server, which together take as much processor time as the attacker
//! and what the attacked server does for it.
//!
//! `NEARCALL_HOSTILE_MS` milliseconds for each attack, 100 by default; `cargo xtask hostile` runs a
//! release build for longer. `NEARCALL_HOSTILE_ATTACK` names the only attack to run.
//! **Invariants:** the test fails if a server dies, does not answer at the end, or keeps
//! descriptors, mappings, threads or names, and if a call of a good client of another user fails;
//! latencies and memory are printed, and never judged.
//! **Not here:** what the attackers do (`hostile/attacks.rs`).

mod attacks;

use std::panic::catch_unwind;

use crate::echo::{Parcel, Receipt, Span, Store, StoreDispatcher};
use crate::service::Service as StressService;
use crate::stress::{StressAsyncDispatcher, StressDispatcher};
use crate::support::good::{GoodClient, Latencies};
use crate::support::leaks::{LeakOracle, anonymous_bytes};
use crate::support::prelude::*;
use crate::support::server::ServerProcess;
use crate::support::{Holdings, number};

pub(crate) const ROLES: &[Role] = &[("hostile-server", serve_all), ("harmless", call_in_shares)];
pub(crate) use self::attacks::ROLES as ATTACKS;

/// The user of the attackers if the test may choose: another one than the good client's.
const ATTACKER_UID: u32 = 65_532;
/// What one attack takes beside its three measurements at most.
const OVERHEAD: Duration = Duration::from_secs(100);
/// A period in which a harmless client works for its share.
const PERIOD: Duration = Duration::from_millis(10);
/// Clock ticks of `/proc/PID/stat` in a second: the same on every machine that Linux runs on now.
const TICKS_PER_SECOND: f64 = 100.0;

#[test]
fn a_server_outlives_every_attack_and_keeps_nothing_of_it() {
    let time = Duration::from_millis(number("NEARCALL_HOSTILE_MS", 100));
    let only = std::env::var("NEARCALL_HOSTILE_ATTACK").ok();
    let good = User::another().unwrap_or(User::Same);
    if good == User::Same {
        println!("not root: attackers and good client are of one user");
    }
    println!("{HEAD}");
    let mut failed = Vec::new();
    for &(attack, _) in ATTACKS {
        if only.as_deref().is_none_or(|only| only == attack) {
            let run =
                move || within(3 * time + OVERHEAD, move || attack_beside(attack, good, time));
            match catch_unwind(run) {
                Ok(row) => println!("{row}"),
                Err(_) => {
                    println!("{attack:16} FAILED; the reason is above");
                    failed.push(attack);
                }
            }
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Three figures each: beside the attack, beside the same attack on another server, and beside the
/// harmless client. The ratios are those of p99 to the two loads.
const HEAD: &str = "attack            calls failed       p50 us           p99 us       ratios  \
                          cpu %   refused  memory MiB";

/// Runs one attack, then its two counterparts. Returns the row of the table.
fn attack_beside(attack: &str, good: User, time: Duration) -> String {
    let mut server = ServerSetup::new("hostile-server").start();
    let elsewhere = ServerSetup::new("hostile-server").start();
    let other = ServerProcess::start();
    warm_up(&mut server);
    let (oracle, before) = (server.leak_oracle(), anonymous_bytes(server.pid()));
    let unattacked = server.state().refusals;
    let mut good = GoodClient::start_tolerant(&server.address, good);
    // What the server works for the good client alone is no load of the attack.
    let (own, _) = good.measure_while(|| cpu_shares(&[server.pid()], time / 10));
    // Beside the attack.
    let mut attacker = start_as_attacker(attack, &server.address);
    attacker.hear("begun");
    let pids = [attacker.pid(), server.pid()];
    let (share, hostile) = good.measure_while(|| cpu_shares(&pids, time));
    let load = (share - own).max(0.0);
    assert!(attacker.is_alive(), "{attack}: the attacker has given up");
    let is_protected = User::another().is_some();
    assert!(!is_protected || hostile.failed == 0, "{attack}: {} calls failed", hostile.failed);
    attacker.kill();
    assert!(server.process().is_alive(), "{attack}: the server has died");
    // Only the good client is left; the server has dealt with everything that was under way.
    wait_until("the end of the attack", || server.state().connections == 1);
    // A client that spins keeps its server as busy as itself.
    let work = format!("{} {}", other.address, load / 2.0);
    let loads = [(attack, &elsewhere, elsewhere.address.clone()), ("harmless", &other, work)];
    let beside = loads.map(|(role, other, work)| {
        let mut counterpart = start_as_attacker(role, &work);
        counterpart.hear("begun");
        let pids = [counterpart.pid(), other.pid()];
        let measured = good.measure_while(|| cpu_shares(&pids, time));
        assert!(counterpart.is_alive(), "{role} on another server has failed");
        counterpart.kill();
        measured
    });
    good.finish();
    let refused = server.state().refusals - unattacked;
    check_end(&mut server, &oracle, attack);
    let after = anonymous_bytes(server.pid());
    let [(same, moved), (similar, harmless)] = beside;
    let measured = [(load, hostile), (same, moved), (similar, harmless)];
    let row = row(attack, measured, refused, [before, after]);
    server.finish();
    elsewhere.finish();
    other.finish();
    row
}

/// Lets a client of each mechanism that servers offer call once and go, so that what a process
/// keeps of a mechanism, such as a thread that watches, is there.
fn warm_up(server: &mut ServerProcess) {
    let offered = Mechanism::all().filter(|mechanism| mechanism.offered_by_default());
    for mechanism in offered.filter(|mechanism| mechanism.supported().is_ok()) {
        server.warm_up(&[&format!("?via={mechanism}")]);
    }
    // Until a new thread takes its name it has that of the one that started it.
    wait_until("the names of threads", || {
        Holdings::of(server.pid()).unwrap().threads.get("entry") == Some(&1)
    });
}

/// Demands that the server answers and holds what it held before the attack.
fn check_end(server: &mut ServerProcess, oracle: &LeakOracle, attack: &str) {
    server.wait_for_connections(0);
    let client = Client::new();
    let echo = EchoCaller::new(&client, &server.address).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let answer = echo.with(options).nothing(&());
    assert!(answer.is_ok(), "{attack}: the server does not answer a new client: {answer:?}");
    drop((echo, client));
    server.wait_for_connections(0);
    oracle.check(&[]);
}

fn row(attack: &str, measured: [(f64, Latencies); 3], refused: u64, memory: [u64; 2]) -> String {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let three = |figures: [f64; 3]| figures.map(|figure| format!("{figure:.0}")).join("/");
    let [p50, p99] = [measured.map(|(_, of)| us(of.p50)), measured.map(|(_, of)| us(of.p99))];
    let cpu = measured.map(|(load, _)| load * 100.0);
    let [before, after] = memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
    format!(
        "{attack:16} {:6} {:6} {:>12} {:>16} {:>12} {:>12} {refused:9}  {before:.1} -> {after:.1}",
        measured[0].1.calls,
        measured.iter().map(|(_, of)| of.failed).sum::<u64>(),
        three(p50),
        three(p99),
        format!("{:.2}/{:.2}", p99[0] / p99[1], p99[0] / p99[2]),
        three(cpu),
    )
}

fn start_as_attacker(role: &str, address: &str) -> Process {
    let mut command = command(role, address, "");
    if User::another().is_some() {
        command.uid(ATTACKER_UID).gid(ATTACKER_UID);
    }
    Process::start_as(role, command)
}

/// Waits, and returns the share of a processor that processes have taken meanwhile.
fn cpu_shares(pids: &[u32], time: Duration) -> f64 {
    let taken = || pids.iter().map(|pid| cpu_seconds(*pid)).sum::<f64>();
    let (begun, before) = (clock::now(), taken());
    clock::pause(time);
    (taken() - before) / begun.elapsed().as_secs_f64()
}

/// The processor time that a process has taken, without the system's work for others.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    // After the name, which may hold anything: state, ten numbers, then user and system time.
    let fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

/// A client that calls as fast as it can, for its share of the time: `ADDRESS SHARE`.
fn call_in_shares(work: &str) {
    let (address, share) = work.split_once(' ').unwrap();
    let busy = PERIOD.mul_f64(share.parse::<f64>().unwrap().clamp(0.0, 1.0));
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    echo.nothing(&()).unwrap();
    report("begun");
    loop {
        let end = Deadline::after(busy);
        while !end.has_passed() {
            echo.nothing(&()).unwrap();
        }
        clock::pause(PERIOD - busy);
    }
}

/// Switches of one client within a minute: one that moves by itself needs no more.
const SWITCHES_PER_MINUTE: u32 = 600;

/// A server with what the attacks call: an `Echo`, a `Store` that decodes, streams that wait in the
/// loop, and streams that are futures.
fn serve_all(address: &str) {
    let limits = Limits {
        switches_per_minute_max: SWITCHES_PER_MINUTE,
        // So that clients that do not read are cut off during a short attack as well.
        unread_timeout: Duration::from_millis(500),
        ..Limits::default()
    };
    serve(address, limits, |_, server| {
        let service = Arc::<StressService>::default();
        server.register(StoreDispatcher::new(Shelf)).unwrap();
        server.register(StressDispatcher::shared(Arc::clone(&service))).unwrap();
        server.register_as("async", StressAsyncDispatcher::shared(service)).unwrap();
    });
}

struct Shelf;

impl Store for Shelf {
    fn put(&self, _: &Context<'_>, request: &Parcel) -> Result<Receipt, Status> {
        Ok(Receipt { sum: request.more.len() as u64, ..Receipt::default() })
    }

    fn get(&self, _: &Context<'_>, _: &Span) -> Result<Parcel, Status> {
        Ok(Parcel::default())
    }

    fn forget(&self, _: &Context<'_>, _: &Span) -> Result<(), Status> {
        Ok(())
    }

    fn drop(&self, _: &Context<'_>, _: &Parcel) {}
}
