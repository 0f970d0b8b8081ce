//! R08: a client is killed at every step of what it does; its server frees everything, and the
//! next client works.

use std::fs::File;
use std::io::{Read, Write};

use nearcall_os::process;

use crate::support::leaks::LeakOracle;
use crate::support::prelude::*;
use crate::support::stepping::{Steps, Unit, random, sample};

pub(crate) const ROLES: &[Role] = &[("r08-client", run_phase)];

const PHASE: &str = "NEARCALL_TEST_PHASE";
/// What the client does when it is killed: it opens a connection and calls, calls, calls with an
/// argument that needs memory of its own, or closes its connection.
const PHASES: [&str; 4] = ["connect", "call", "long", "close"];
/// Far above what the kills of one test take on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(300);

/// What the client does, between the word of its parent and `done`.
fn run_phase(address: &str) {
    let phase = std::env::var(PHASE).unwrap();
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    if phase != "connect" {
        echo.say(&Words::default()).unwrap();
    }
    let data = vec![7; if phase == "long" { 100_000 } else { 8 }];
    let words = Words { data: data.into(), number: 1 };
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    report(&format!("ready {}", process::tid()));
    input.read_exact(&mut [0; 3]).unwrap();
    match phase.as_str() {
        "close" => drop((client, echo)),
        _ => assert_eq!(echo.say(&words).unwrap(), words),
    }
    // One system call, and hardly an instruction.
    output.write_all(b"\nREPORT done\n").unwrap();
    wait_for_the_parent();
}

/// A server that a good client calls while others are killed.
struct Stage {
    server: ServerProcess,
    good: GoodClient,
    oracle: LeakOracle,
    slowest: Duration,
}

impl Stage {
    fn new() -> Self {
        let mut server = ServerProcess::start();
        server.warm_up(&["", "?via=unix-stream"]);
        let good = GoodClient::start(&server.address, User::Same);
        server.wait_for_connections(1);
        let oracle = server.leak_oracle();
        Self { server, good, oracle, slowest: Duration::ZERO }
    }

    /// Runs a client that is killed at a step. Returns the number of steps until it was done;
    /// `None` without ptrace.
    fn kill(&mut self, via: &str, phase: &str, by: By, at: Option<u64>) -> Option<u64> {
        let mut command = command("r08-client", &self.server.via(via), "");
        command.env(PHASE, phase);
        let mut client = Process::start_as("r08-client", command);
        let tid = client.hear("ready").parse().unwrap();
        let unit = match by {
            By::SystemCall => Unit::SystemCalls,
            By::Instruction => Unit::Instructions { tid },
        };
        let steps = Steps::attach(&mut client, unit, at)?;
        client.tell("go");
        let is_done = client.hear_or_end("done").is_some();
        let taken = steps.taken();
        let pid = client.pid();
        steps.end(&mut client);
        let killed = clock::now();
        assert!(is_done || at.is_some(), "{phase} over `{via}` ended at step {taken}");
        self.server.wait_for_connections(1);
        self.slowest = self.slowest.max(killed.elapsed());
        self.oracle.check(&[pid]);
        Some(taken)
    }

    /// Kills clients at every step, or at a sample of them.
    fn kill_everywhere(mut self, test: &str, by: By, vias: &[&str]) {
        let mut random = random(test);
        for via in vias {
            for phase in by.phases() {
                let Some(total) = self.kill(via, phase, by, None) else { return };
                let steps = sample(total, by.kills(), &mut random);
                for step in &steps {
                    self.kill(via, phase, by, Some(*step));
                }
                println!("{test}: {phase}{via}: {} kills in {total} steps of {by:?}", steps.len());
                // Whoever comes next is served.
                self.server.warm_up_beside(&[*via], 1);
            }
        }
        println!("{test}: the server had noticed each death after {:?}", self.slowest);
        assert_eq!(self.server.state().violations, 0);
        self.good.finish();
        self.server.finish();
    }
}

#[derive(Debug, Clone, Copy)]
enum By {
    SystemCall,
    Instruction,
}

impl By {
    fn phases(self) -> &'static [&'static str] {
        match self {
            Self::SystemCall => &PHASES,
            // The others need some hundred thousand instructions, and what is left behind comes of
            // system calls.
            Self::Instruction => &["call", "close"],
        }
    }

    /// Kills of each phase by default: at all of some hundred system calls, and after some of the
    /// twenty thousand instructions, of which one takes some 40 µs.
    fn kills(self) -> u64 {
        match self {
            Self::SystemCall => 200,
            Self::Instruction => 8,
        }
    }
}

#[test]
fn r08_a_client_killed_at_every_system_call_leaves_nothing_in_its_server() {
    within(TIME_MAX, || {
        let test = "r08 by system call";
        Stage::new().kill_everywhere(test, By::SystemCall, &["", "?via=unix-stream"]);
    });
}

#[test]
fn r08_a_client_killed_at_any_instruction_leaves_nothing_in_its_server() {
    within(TIME_MAX, || {
        Stage::new().kill_everywhere("r08 by instruction", By::Instruction, &[""]);
    });
}
