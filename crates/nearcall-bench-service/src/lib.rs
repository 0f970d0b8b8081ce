//! A service that does next to no work, as a dynamic library and as a program.
//!
//! `nearcall bench memory --setups` runs several of them: each as a process, as libraries of a
//! host, and linked into one program.
//! **Invariants:** a service is the same in each set-up; it takes no memory but what nearcall takes
//! for it.
//! **Not here:** the measurement (`nearcall-bench`, `footprint/setups.rs`).
//!
//! The library is built wherever the crate is a dependency, so it lies beside the program
//! `nearcall` after any build; the program is the second one of `nearcall-cli`, so that it lies
//! there, too.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use nearcall::service::ServiceSetup;
use nearcall::{CallOptions, Client, Context, EventLoop, Server, Status};
use nearcall_os::clock;

use self::setup::{MeasureReply, MeasureRequest, Member, MemberCaller, MemberDispatcher};

/// The interface, generated from `proto/setup.proto`.
pub mod setup {
    include!("golden/setup.rs");
}

/// The argument after which the program serves at all addresses that follow, in one event loop.
pub const LINKED: &str = "linked";

/// The argument by which a service declares that its methods do not wait, so that libraries of one
/// host call it as a function. Its method `Measure` must not be called by one of them then.
pub const NONBLOCKING: &str = "nonblocking";

/// The name of the program.
pub const PROGRAM: &str = "nearcall-bench-service";

/// The name of the dynamic library.
pub const LIBRARY: &str = "libnearcall_bench_service.so";

/// A service, with what makes its clients.
struct Service<C>(C);

impl<C: Fn() -> Client + 'static> Member for Service<C> {
    fn nothing(&self, _: &Context<'_>, (): &()) -> Result<(), Status> {
        Ok(())
    }

    fn measure(&self, _: &Context<'_>, request: &MeasureRequest) -> Result<MeasureReply, Status> {
        let caller = MemberCaller::new(&(self.0)(), &request.address)?
            .with(CallOptions::new().deadline(CALL_TIMEOUT));
        let batch = || (0..request.calls_per_batch).try_for_each(|_| caller.nothing(&()));
        // The first connects, and warms up.
        batch()?;
        let mut ns_per_call = Vec::new();
        for _ in 0..request.batches.min(BATCHES_MAX) {
            let begin = clock::now();
            batch()?;
            let taken = clock::now().saturating_duration_since(begin);
            let calls = f64::from(request.calls_per_batch.max(1));
            ns_per_call.push(taken.as_secs_f64() * 1e9 / calls);
        }
        Ok(MeasureReply { ns_per_call })
    }
}

/// Makes the service. The argument [`NONBLOCKING`] declares that `Nothing` alone is called.
fn make(setup: &mut ServiceSetup) -> Result<(), Box<dyn Error>> {
    if setup.arguments().iter().any(|argument| argument == NONBLOCKING) {
        setup.set_nonblocking();
    }
    setup.register(MemberDispatcher::new(Service(Client::new)));
    Ok(())
}

nearcall::service_main!("nearcall-bench-service", make);

/// Runs the program: one service, as [`main`] does, or several after the argument [`LINKED`].
pub fn program() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((LINKED, addresses)) = arguments.split_first().map(|(first, rest)| (&**first, rest))
    else {
        return main();
    };
    let Err(error) = serve(addresses) else { return ExitCode::SUCCESS };
    let _ = std::io::stderr().write_all(format!("error: {PROGRAM}: {error}\n").as_bytes());
    ExitCode::FAILURE
}

/// Serves one service at each address, until a signal ends the process.
fn serve(addresses: &[String]) -> Result<(), Box<dyn Error>> {
    let event_loop = EventLoop::new()?;
    let client = Client::in_loop(&event_loop);
    let mut servers = Vec::with_capacity(addresses.len());
    for address in addresses {
        let server = Server::new(&event_loop);
        let client = client.clone();
        server.register(MemberDispatcher::new(Service(move || client.clone())))?;
        server.listen(address)?;
        servers.push(server);
    }
    Ok(event_loop.run()?)
}

/// For one call between two services; nothing takes this long.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Batches of one measurement at most: what a request asks for is bounded.
const BATCHES_MAX: u32 = 1_000;
