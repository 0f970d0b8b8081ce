//! R26: methods that do what no method should. Each ends its own call, or its own process, and
//! nothing beside that.
//!
//! A method that never returns keeps its loop: the calls of that loop end at their deadlines, and
//! only a person, or a supervisor that asks the server now and then, ends the process. R18: a loop
//! whose looks at the kernel fail for a while.

use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::echo::{Echo, EchoDispatcher};
use crate::support::Service;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[("misbehaving", misbehave)];

/// What it is, and what does it.
type Act = (&'static str, fn() -> Words);

/// What `Say` does, by the number of its request.
const ACTS: [Act; 6] = [
    ("returns", Words::default),
    ("panics", || panic!("asked for it")),
    ("runs in a circle", || {
        loop {
            std::hint::spin_loop();
        }
    }),
    ("calls itself without end", || Words { number: overflow(1), ..Words::default() }),
    ("aborts", || std::process::abort()),
    ("exits", || std::process::exit(7)),
];

/// Uses up the stack.
fn overflow(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if frame[0] == u64::MAX { 0 } else { std::hint::black_box(overflow(frame[7] + 1)) + frame[9] }
}

/// A service that misbehaves on demand.
struct Misbehaving(Arc<Service>);

impl Echo for Misbehaving {
    nearcall_testkit::forward_echo!(0: nothing note fail panic later quick look work);

    fn say(&self, _context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        Ok(ACTS[usize::try_from(request.number).unwrap()].1())
    }
}

fn misbehave(address: &str) {
    serve(address, Limits::default(), |_, server| {
        let service = Misbehaving(Arc::default());
        server.register_as("bad", EchoDispatcher::new(service)).unwrap();
    });
}

/// Has a server do `act`. Returns what the caller gets, and what another one gets afterwards.
fn act(server: &ServerProcess, act: &str) -> (Result<Words, Status>, Result<(), Status>) {
    let number = ACTS.iter().position(|(name, _)| *name == act).unwrap() as u64;
    // What never returns ends by this; everything else by itself, however busy the machine is.
    let span = if act == "runs in a circle" { Duration::from_millis(300) } else { PATIENCE };
    let options = CallOptions::new().deadline(span);
    let caller = |at: &str| EchoCaller::new(&Client::new(), &format!("{}{at}", server.address));
    let words = Words { number, ..Words::default() };
    let bad = caller("#bad").unwrap();
    // Connected, so that all of the time is the call's.
    bad.with(CallOptions::new().deadline(PATIENCE)).nothing(&()).unwrap();
    let outcome = bad.with(options.clone()).say(&words);
    (outcome, caller("").unwrap().with(options.clone()).nothing(&()))
}

#[timed]
fn r26_a_method_that_misbehaves_ends_its_call_or_its_process_and_nothing_else() {
    let other = ServerProcess::start();
    let mut good = GoodClient::start(&other.address, User::Same);
    let mut server = ServerSetup::new("misbehaving").ulimit("-c 0").start();
    assert!(act(&server, "returns").0.is_ok());
    let (outcome, next) = act(&server, "panics");
    assert_eq!(outcome.unwrap_err().code(), Code::Unknown);
    next.unwrap();
    let (outcome, next) = act(&server, "runs in a circle");
    assert_eq!(outcome.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(next.unwrap_err().code(), Code::DeadlineExceeded);
    server.kill();
    for ends in ["calls itself without end", "aborts", "exits"] {
        let mut server = ServerSetup::new("misbehaving").ulimit("-c 0").start();
        let (outcome, next) = act(&server, ends);
        assert_eq!(outcome.unwrap_err().code(), Code::Unavailable, "{ends}");
        assert_eq!(next.unwrap_err().code(), Code::Unavailable, "{ends}");
        server.kill();
    }
    assert!(good.measure(Duration::from_millis(20)).calls > 0);
    good.finish();
    other.finish();
}

/// Has looks of a process at the kernel fail, four of each thread that runs no code of channels.
fn fail_looks(server: &ServerProcess) -> std::io::Result<Child> {
    let mut command = Command::new("strace");
    command
        .args(["-e", "trace=epoll_wait,epoll_pwait,epoll_pwait2"])
        .args(["-e", "inject=epoll_wait,epoll_pwait,epoll_pwait2:error=ENOMEM:when=2..5"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid()))? {
        let task = task?;
        if !std::fs::read_to_string(task.path().join("comm"))?.starts_with("nearcall-") {
            command.arg("-p").arg(task.file_name());
        }
    }
    command.spawn()
}

#[timed]
fn r18_a_loop_survives_looks_at_the_kernel_that_fail() {
    let mut server = ServerProcess::start();
    let mut strace = match fail_looks(&server) {
        Ok(strace) => strace,
        Err(error) => return skip("looks at the kernel that fail", &error.to_string()),
    };
    let (failed, attached) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let output = BufReader::new(strace.stderr.take().unwrap());
    let (count, is_attached) = (Arc::clone(&failed), Arc::clone(&attached));
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            count.fetch_add(usize::from(line.contains("INJECTED")), Ordering::Relaxed);
            is_attached.fetch_or(line.contains("attached"), Ordering::Relaxed);
        }
    });
    let ended = |strace: &mut Child| strace.try_wait().unwrap().is_some();
    wait_until("strace", || attached.load(Ordering::Relaxed) || ended(&mut strace));
    if !attached.load(Ordering::Relaxed) {
        return skip("looks at the kernel that fail", "strace may not attach here");
    }
    let options = CallOptions::new().deadline(PATIENCE);
    let echo = EchoCaller::new(&Client::new(), &server.address).unwrap();
    wait_until("failures", || {
        echo.with(options.clone()).nothing(&()).unwrap();
        assert_eq!(server.state().connections, 1);
        failed.load(Ordering::Relaxed) >= 4
    });
    echo.with(options.clone()).nothing(&()).unwrap();
    strace.kill().unwrap();
    strace.wait().unwrap();
    reader.join().unwrap();
    echo.with(options.clone()).nothing(&()).unwrap();
    drop(echo);
    server.finish();
}
