//! Inside the processes of a case: which part this one plays, how the two meet and talk.
//!
//! **Invariants:** the first end holds the second, and a line beside the channel on which the two
//! tell each other how far they are. A mechanism that is not to be had ends both ends quietly.

use std::cell::Cell;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_channel::{
    Address, Endpoint, HandshakeError, Listener, Mechanism, MechanismSet, OpenError, Options,
    Refusal, WaitPolicy, accept_over, connect, connect_over,
};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::{self, Child};
use nearcall_os::socket::{self, Kind};
use nearcall_os::{clock, signal};

use super::leaks::Before;
use super::{DEATH_NOTICED, PATIENCE, patient, stage};

/// Begins each line that the test shows although all went well.
pub(crate) const NOTE: &str = "note: ";

/// What both ends of a case run; they look which one they are.
pub(crate) type Case = fn(&mut Play);

/// One end of a case.
pub(crate) struct Play {
    pub(crate) mechanism: Mechanism,
    pub(crate) wait: WaitPolicy,
    pub(crate) seed: u64,
    serves: bool,
    first: bool,
    address: String,
    meetings: Cell<u32>,
    side: Option<OwnedFd>,
    second: Option<Child>,
    dies: Cell<bool>,
    seconds: Vec<u32>,
}

/// Why a case ends without having been tried.
struct Unsupported(String);

/// Plays this process's part in one of `cases`. Does nothing in a process without a part.
pub(crate) fn enter(cases: &[(&str, Case)]) {
    let Ok(part) = std::env::var(stage::PART) else { return };
    let name = variable(stage::CASE);
    let (_, case) = cases.iter().find(|(known, _)| *known == name).expect("a known case");
    match part.as_str() {
        "first" => play_first(*case),
        _ => play_second(*case),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn play_first(case: Case) {
    warm_up();
    let before = Before::look();
    let mut play = Play::new(true);
    play.start_second();
    let outcome = catch_unwind(AssertUnwindSafe(|| case(&mut play)));
    match outcome {
        Ok(()) => {}
        Err(payload) => match payload.downcast::<Unsupported>() {
            Ok(reason) => note(&format!("unsupported: {}", reason.0)),
            Err(payload) => resume_unwind(payload),
        },
    }
    play.finish_second();
    let seconds = std::mem::take(&mut play.seconds);
    drop(play);
    before.check(&seconds);
}

fn play_second(case: Case) {
    let mut play = Play::new(false);
    play.side = Some(io::stdin().as_fd().try_clone_to_owned().unwrap());
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| case(&mut play)))
        && !payload.is::<Unsupported>()
    {
        resume_unwind(payload);
    }
}

/// Starts what lives as long as the process: the thread that watches, with its descriptor.
fn warm_up() {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let server = std::thread::spawn(move || {
        accept_over(ours, &Options::offering(MechanismSet::ALL)).unwrap()
    });
    let client =
        connect_over(theirs, Mechanism::ShmFutex, &Options::offering(MechanismSet::ALL)).unwrap();
    drop((server.join().unwrap(), client));
}

/// Says a line to whoever runs the tests.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{NOTE}{line}");
}

impl Play {
    fn new(first: bool) -> Self {
        let seed = variable(stage::SEED).parse().unwrap();
        Self {
            mechanism: variable(stage::MECHANISM).parse().unwrap(),
            wait: variable(stage::WAIT).parse().unwrap(),
            seed,
            serves: (variable(stage::FIRST_SERVES) == "yes") == first,
            first,
            address: format!("unix:@nearcall-test-{seed:016x}"),
            meetings: Cell::new(0),
            side: None,
            second: None,
            dies: Cell::new(false),
            seconds: Vec::new(),
        }
    }

    /// Returns whether this is the end that starts the other and is judged for what it leaves
    /// behind.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// Returns whether this end accepts, or else connects.
    pub(crate) fn serves(&self) -> bool {
        self.serves
    }

    /// The options of a case that does not care.
    pub(crate) fn options(&self) -> Options {
        Options { wait: Some(self.wait), ..Options::offering(MechanismSet::ALL) }
    }

    /// Meets the other end with the usual options.
    pub(crate) fn meet(&self) -> Endpoint {
        self.meet_with(&self.options())
    }

    /// Meets the other end, which calls this as often as we do. Ends the case if the mechanism is
    /// not to be had here.
    pub(crate) fn meet_with(&self, options: &Options) -> Endpoint {
        // A new place each time, so that no client reaches the listener of the meeting before.
        let meeting = self.meetings.get();
        self.meetings.set(meeting + 1);
        self.meet_at(&format!("{}-{meeting}", self.address).parse().unwrap(), options)
    }

    /// Meets the other end at `address`.
    pub(crate) fn meet_at(&self, address: &Address, options: &Options) -> Endpoint {
        let met = match self.serves {
            true => Listener::bind(address).and_then(|it| it.accept(patient(), options)),
            false => connect_patiently(address, self.mechanism, options),
        };
        let unsupported = match &met {
            Err(HandshakeError::Open(_, OpenError::Unsupported(reason))) => {
                Some(reason.to_string())
            }
            Err(HandshakeError::Refused { code: Refusal::Unsupported, text }) => Some(text.clone()),
            _ => None,
        };
        match (met, unsupported) {
            (Ok(endpoint), _) => endpoint,
            (Err(_), Some(reason)) => {
                // Only a mechanism that says so beforehand may refuse.
                let said = self.mechanism.supported();
                assert!(
                    said.is_err(),
                    "{} said that it is supported, and then: {reason}",
                    self.mechanism
                );
                resume_unwind(Box::new(Unsupported(reason)))
            }
            (Err(error), None) => panic!("the two ends do not meet: {error}"),
        }
    }

    fn start_second(&mut self) {
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let entry = variable(stage::ENTRY);
        command
            .args([&entry, "--exact", "--nocapture", "--test-threads=1"])
            .env(stage::PART, "second")
            .env(stage::SEED, self.seed.to_string())
            .env(stage::FIRST_SERVES, if self.serves { "yes" } else { "no" })
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null());
        let second = Child::spawn(&mut command).unwrap();
        self.seconds.push(second.pid());
        self.second = Some(second);
        self.side = Some(ours);
    }

    /// Another second end, for a case that uses up several; it meets us at a new place.
    pub(crate) fn next_second(&mut self, seed: u64, serves: bool) {
        self.finish_second();
        self.seed = seed;
        self.serves = serves;
        self.address = format!("unix:@nearcall-test-{seed:016x}");
        self.meetings.set(0);
        self.start_second();
    }

    fn finish_second(&mut self) {
        let Some(mut second) = self.second.take() else { return };
        let status = second.wait(Some(PATIENCE)).unwrap();
        let status = status.expect("the second end ends");
        let died = self.dies.replace(false);
        match died {
            // By our SIGKILL, not by a failure before it came.
            true => assert_eq!(status.signal(), Some(9), "the second end: {status}"),
            false => assert!(status.success(), "the second end: {status}"),
        }
        self.side = None;
    }

    /// The process of the second end, for who kills it. It need not end well any more.
    pub(crate) fn victim(&self) -> OwnedFd {
        self.dies.set(true);
        self.second.as_ref().unwrap().pidfd().try_clone_to_owned().unwrap()
    }

    /// The second end's number.
    pub(crate) fn second_pid(&self) -> u32 {
        self.second.as_ref().unwrap().pid()
    }

    /// Sends the other end a number beside the channel.
    pub(crate) fn tell(&self, number: u64) {
        let side = self.side.as_ref().unwrap();
        socket::send(side, &number.to_le_bytes()).unwrap();
    }

    /// Waits until the other end sends something beside the channel.
    #[track_caller]
    pub(crate) fn hear(&self) -> u64 {
        let side = self.side.as_ref().unwrap();
        let ready = poll_one(side, Interest::Readable, Some(PATIENCE)).unwrap();
        assert!(ready.is_some(), "the other end does not say how far it is");
        let mut bytes = [0; 8];
        assert_eq!(socket::recv(side, &mut bytes).unwrap(), 8, "the other end has ended");
        u64::from_le_bytes(bytes)
    }

    /// Returns whether the other end has told something that was not heard yet.
    pub(crate) fn is_told(&self) -> bool {
        let side = self.side.as_ref().unwrap();
        poll_one(side, Interest::Readable, Some(Duration::ZERO)).unwrap().is_some()
    }

    /// For the first end: from now on the second may die, and this is when it did.
    pub(crate) fn hear_of_death(&self) -> Noticed {
        let at_ns = self.hear();
        self.dies.set(true);
        Noticed { at_ns }
    }

    /// For the first end: the second goes on living, and this is when it closed its channel.
    pub(crate) fn hear_of_close(&self) -> Noticed {
        Noticed { at_ns: self.hear() }
    }

    /// Waits until the killed second end is no more.
    pub(crate) fn wait_for_death(&self) {
        let second = self.second.as_ref().unwrap();
        assert!(process::wait_pidfd(second.pidfd(), Some(PATIENCE)).unwrap());
    }

    /// For the second end: sends the time and is killed. Nothing is dropped, nothing closed.
    pub(crate) fn die(&self) -> ! {
        self.tell(clock::monotonic_ns());
        let this = process::pidfd_open(process::pid()).unwrap();
        signal::send_by_pidfd(this, signal::Signal::KILL).unwrap();
        unreachable!("no process survives SIGKILL")
    }
}

/// When the other end went.
pub(crate) struct Noticed {
    at_ns: u64,
}

impl Noticed {
    /// Called when this end knows: notes how long that took, and judges it.
    #[track_caller]
    pub(crate) fn now(self, what: &str, play: &Play) {
        let took = Duration::from_nanos(clock::monotonic_ns().saturating_sub(self.at_ns));
        note(&format!("{} by {}: {what} noticed after {took:?}", play.mechanism, play.wait));
        assert!(took < DEATH_NOTICED, "{what} noticed only after {took:?}");
    }
}

fn connect_patiently(
    address: &Address,
    mechanism: Mechanism,
    options: &Options,
) -> Result<Endpoint, HandshakeError> {
    let end = clock::now() + PATIENCE;
    loop {
        match connect(address, mechanism, options) {
            Err(HandshakeError::NoListener(_)) if clock::now() < end => {
                clock::pause(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}
