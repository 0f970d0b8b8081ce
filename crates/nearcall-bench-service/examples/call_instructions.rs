//! Counts the instructions of one empty call over `shm`, at each end, by `callgrind`.
//!
//! `cargo run --profile profiling -p nearcall-bench-service --example call_instructions`
//!
//! Client and server are two threads of one process, and both ends sleep in each wait. Counted are,
//! at the client, the generated function with everything below but the sleep, and at the server the
//! dispatcher with everything below, from the request that was received to the reply in
//! the ring. How often a loop looks for messages depends on the clock, so the rest of the server is
//! not counted. A figure is the difference of two runs by the difference of their calls, and
//! repeats to about one in two hundred. It needs a `valgrind` that knows `PR_GET_AUXV` where the
//! kernel does (Linux 6.4).
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the figures are the purpose")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use nearcall::{Client, Context, Server, Status};
use nearcall_bench_service::setup::{
    MeasureReply, MeasureRequest, Member, MemberCaller, MemberDispatcher,
};

/// Has the program make this many calls. Without it, it starts itself below `valgrind`.
const CALLS: &str = "calls";

/// Enough that what happens once in many calls is in the difference.
const FEW_CALLS: u64 = 500;
const MANY_CALLS: u64 = 4_500;

struct Empty;

impl Member for Empty {
    fn nothing(&self, _: &Context<'_>, (): &()) -> Result<(), Status> {
        Ok(())
    }

    fn measure(&self, _: &Context<'_>, _: &MeasureRequest) -> Result<MeasureReply, Status> {
        Err(Status::unimplemented("only `Nothing` is called"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, calls] = &arguments[..]
        && first == CALLS
    {
        return make_calls(calls.parse()?);
    }
    let directory = env::temp_dir().join(format!("nearcall-call-instructions-{}", process::id()));
    fs::create_dir(&directory)?;
    let counted = ENDS.map(|(end, thread, functions)| {
        let few = count(&directory, thread, functions, FEW_CALLS)?;
        let many = count(&directory, thread, functions, MANY_CALLS)?;
        Ok((end, many.saturating_sub(few) as f64 / (MANY_CALLS - FEW_CALLS) as f64))
    });
    fs::remove_dir_all(&directory)?;
    for outcome in counted {
        let (end, per_call) = outcome.map_err(|error: Box<dyn Error>| error)?;
        println!("{end}: {per_call:.0} instructions per call");
    }
    Ok(())
}

/// Each end, the number that `callgrind` gives to its thread, and the functions at whose beginnings
/// and ends the counting begins and pauses.
const ENDS: [(&str, &str, &[&str]); 2] = [
    ("client", "01", &["*call_instructions::call_nothing*", "*ShmTransport*::sleep_until*"]),
    ("server", "02", &["*SyncDispatcher*::dispatch*"]),
];

/// Calls a server in another thread of this process.
fn make_calls(calls: u64) -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-call-instructions-{}", process::id());
    let dispatcher = MemberDispatcher::new(Empty);
    let server = Server::builder().threads(1).register(dispatcher).listen(&address).start()?;
    let caller = MemberCaller::new(&Client::new(), &format!("{address}?via=shm&wait=block"))?;
    for _ in 0..calls {
        call_nothing(&caller)?;
    }
    server.stop()?;
    Ok(())
}

/// One call, as a function of its own: the generated one is compiled into its caller.
#[inline(never)]
fn call_nothing(caller: &MemberCaller) -> Result<(), Status> {
    caller.nothing(&())
}

/// Returns how many instructions a thread executes in these functions in a run of so many calls.
fn count(
    directory: &Path,
    thread: &str,
    functions: &[&str],
    calls: u64,
) -> Result<u64, Box<dyn Error>> {
    let file = directory.join("run");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes"])
        .args(functions.iter().map(|function| format!("--toggle-collect={function}")))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe()?)
        .args([CALLS, &calls.to_string()])
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind failed with {}: {text}", output.status).into());
    }
    let text = fs::read_to_string(directory.join(format!("run-{thread}")))?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    match totals.map(|totals| totals.trim().parse()) {
        Some(Ok(0)) | None => Err(format!("no call of {functions:?} was counted").into()),
        Some(total) => Ok(total?),
    }
}
