//! R09: a server is killed at every step of serving; its client gets `UNAVAILABLE` once for each
//! call, repeats none at the next server, and holds nothing of the dead one.

use crate::support::leaks::LeakOracle;
use crate::support::prelude::*;
use crate::support::stepping::{Steps, Unit, random, sample};

pub(crate) const ROLES: &[Role] = &[("r09-client", call_when_told)];

/// What is under way when the server dies: a connection and the first call, a call, a call with an
/// argument that needs memory of its own.
const PHASES: [&str; 3] = ["connect", "call", "long"];
const TIME_MAX: Duration = Duration::from_secs(300);

/// Calls as its parent says, and reports each outcome.
fn call_when_told(address: &str) {
    let mut echo = EchoCaller::new(&Client::new(), address).unwrap();
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().as_str() {
            "warm" => report(&format!("warm {}", code(warm_up(&echo)))),
            "forget" => echo = EchoCaller::new(&Client::new(), address).unwrap(),
            phase => {
                let data = vec![7; if phase == "long" { 100_000 } else { 8 }];
                let words = Words { data: data.into(), number: 1 };
                let later = echo.start_later(&words);
                let said = echo.say(&words);
                assert!(said.as_ref().map_or(true, |reply| *reply == words), "another reply");
                report(&format!("said {}", code(said)));
                report(&format!("later {}", code(later.wait())));
            }
        }
    }
}

/// Has the server do once what it does once: the first message whose size is judged has it read the
/// description of the interface, which takes some hundred thousand instructions.
fn warm_up(echo: &EchoCaller) -> Result<(), Status> {
    let data = vec![7; JUDGED_BYTES_MIN].into();
    echo.nothing(&())?;
    echo.say(&Words { data, ..Words::default() }).map(drop)
}

/// Messages from this length on are judged by their decoded size, in bytes.
const JUDGED_BYTES_MIN: usize = 16 << 10;

fn code<T>(outcome: Result<T, Status>) -> String {
    match outcome {
        Ok(_) => "OK".to_owned(),
        Err(status) if status.code() == Code::Unavailable => "UNAVAILABLE".to_owned(),
        Err(status) => status.to_string(),
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
            Self::Instruction => &["call"],
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

/// One client that sees many servers die.
struct Stage {
    address: String,
    client: Process,
    oracle: Option<LeakOracle>,
    slowest: Duration,
}

impl Stage {
    fn new(via: &str) -> Self {
        let address = unique_address();
        let client = Process::start("r09-client", &format!("{address}{via}"));
        Self { address, client, oracle: None, slowest: Duration::ZERO }
    }

    fn server(&self) -> ServerProcess {
        ServerSetup::new("server").at(&self.address).start()
    }

    /// Lets a server die at a step, and looks at the client with the next one. Returns the number
    /// of steps until the reply was there; `None` without ptrace.
    fn kill(&mut self, phase: &str, by: By, at: Option<u64>) -> Option<u64> {
        let mut server = self.server();
        match phase {
            "connect" => self.client.tell("forget"),
            _ => self.expect_warm(),
        }
        let unit = match by {
            By::SystemCall => Unit::SystemCalls,
            By::Instruction => Unit::Instructions { tid: server.tid },
        };
        let steps = Steps::attach(server.process(), unit, at)?;
        self.client.tell(phase);
        let said = self.client.hear("said");
        let taken = steps.taken();
        let killed = clock::now();
        let was_killed = steps.end(server.process());
        assert!(said == "OK" || said == "UNAVAILABLE" && was_killed, "{phase} {at:?}: {said}");
        // Exactly one outcome; and nothing answers this one.
        assert_eq!(self.client.hear("later"), "UNAVAILABLE", "{phase} {at:?}");
        self.slowest = self.slowest.max(killed.elapsed());
        drop(server);
        let mut next = self.server();
        self.expect_warm();
        let state = next.state();
        assert_eq!((state.connections, state.later), (1, 0), "{phase} {at:?}: repeated a call");
        match &self.oracle {
            Some(oracle) => oracle.check(&[]),
            None => self.oracle = Some(LeakOracle::look(self.client.pid(), None)),
        }
        next.kill();
        Some(taken)
    }

    /// The client calls the server that is there now. Its first call may still find the end of the
    /// connection to the last one.
    fn expect_warm(&mut self) {
        for _ in 0..2 {
            self.client.tell("warm");
            if self.client.hear("warm") == "OK" {
                return;
            }
        }
        panic!("the client does not find the next server");
    }

    fn kill_everywhere(mut self, test: &str, by: By) {
        let mut random = random(test);
        for phase in by.phases() {
            let Some(total) = self.kill(phase, by, None) else { return };
            let steps = sample(total, by.kills(), &mut random);
            for step in &steps {
                self.kill(phase, by, Some(*step));
            }
            println!("{test}: {phase}: {} kills in {total} steps of {by:?}", steps.len());
        }
        println!("{test}: each last call had ended after {:?}", self.slowest);
        self.client.kill();
    }
}

#[test]
fn r09_a_server_killed_at_every_system_call_ends_each_call_once() {
    within(TIME_MAX, || Stage::new("").kill_everywhere("r09 shm", By::SystemCall));
}

#[test]
fn r09_a_server_killed_at_every_system_call_ends_each_call_once_over_a_socket() {
    let via = "?via=unix-stream";
    within(TIME_MAX, move || Stage::new(via).kill_everywhere("r09 unix-stream", By::SystemCall));
}

#[test]
fn r09_a_server_killed_at_any_instruction_ends_each_call_once() {
    within(TIME_MAX, || Stage::new("").kill_everywhere("r09 shm", By::Instruction));
}
