//! A service and its client in two processes.
//!
//! ```text
//! cargo run --example thermostat -- serve                 in one terminal
//! cargo run --example thermostat -- set 21.5              in another
//! ```
//!
//! An address names the place, and optionally the mechanism: `set 21.5 'thermostat?via=shm-futex'`,
//! `serve unix:/tmp/room.sock`, `serve unix:@room`. Without arguments it runs both
//! ends, in two processes.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::env;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::process::{self, Command, ExitCode};

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::server::{ListenError, TerminationSignals};
use nearcall::{Client, Context, Deadline, EventLoop, Server, Status};

use self::home::{Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

const USAGE: &str = "usage: thermostat [serve [ADDRESS] | set CELSIUS [ADDRESS]]";
/// A name in the runtime directory: any process of the same user can connect to it.
const ADDRESS: &str = "thermostat";

/// The implementation. One thread serves all calls, so a `Cell` is enough and no lock is needed.
struct Room {
    wanted: Cell<f64>,
}

impl Thermostat for Room {
    fn set_target(
        &self,
        context: &Context<'_>,
        request: &Temperature,
    ) -> Result<Temperature, Status> {
        if !(5.0..=30.0).contains(&request.celsius) {
            return Err(Status::out_of_range("a room has 5 to 30 degrees"));
        }
        let before = self.wanted.replace(request.celsius);
        // The kernel provides the credentials of the caller.
        let caller = context.peer().pid().unwrap_or_default();
        println!("process {caller} wants {} °C", request.celsius);
        Ok(Temperature { celsius: before })
    }
}

/// A wrong use of the command line; exit code 2.
#[derive(Debug)]
struct BadUsage(String);

impl fmt::Display for BadUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadUsage {}

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => in_two_processes(),
        ["serve"] => serve(ADDRESS),
        ["serve", address] => serve(address),
        ["set", celsius] => set(celsius, ADDRESS),
        ["set", celsius, address] => set(celsius, address),
        _ => Err(BadUsage(USAGE.into()).into()),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    // Without a reader of stderr, the exit code still reports the failure.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::from(if error.is::<BadUsage>() { 2 } else { 1 })
}

/// Starts a server in `event_loop` that listens at `address`.
fn server(event_loop: &EventLoop, address: &str) -> Result<Server, Box<dyn Error>> {
    let server = Server::new(event_loop);
    server.register(ThermostatDispatcher::new(Room { wanted: Cell::new(18.0) }))?;
    let address = server.listen(address).map_err(|error| match error {
        ListenError::BadAddress(error) => BadUsage(error.to_string()).into(),
        other => Box::<dyn Error>::from(other),
    })?;
    println!("listening at {address}");
    Ok(server)
}

/// Serves until SIGTERM or SIGINT, then lets the calls under way end and removes the socket.
fn serve(address: &str) -> Outcome {
    // Who reads that it listens may stop it before it waits for signals.
    let _termination = TerminationSignals::install()?;
    let event_loop = EventLoop::new()?;
    let server = server(&event_loop, address)?;
    Ok(server.run_until_signal(&event_loop)?)
}

fn set(celsius: &str, address: &str) -> Outcome {
    let celsius = celsius.parse().map_err(|_| BadUsage(format!("no number: `{celsius}`")))?;
    let client = Client::new();
    let thermostat =
        ThermostatCaller::new(&client, address).map_err(|error| BadUsage(error.to_string()))?;
    let before = thermostat.set_target(&Temperature { celsius })?;
    println!("the room was to have {} °C, now {celsius} °C", before.celsius);
    Ok(())
}

/// Serves in this process, and calls in another one, until that has ended.
fn in_two_processes() -> Outcome {
    let address = format!("unix:@nearcall-thermostat-{}", process::id());
    let event_loop = EventLoop::new()?;
    let _server = server(&event_loop, &address)?;
    let mut caller = Command::new(env::current_exe()?)
        .args(["set", "21.5", &address])
        .stdin(process::Stdio::piped())
        .spawn()?;
    // The pipe to its stdin breaks when it ends.
    let pipe = caller.stdin.as_ref().ok_or("the second process has no stdin")?;
    event_loop.add_descriptor(pipe, Interest::HangUp)?;
    while !matches!(event_loop.next(Deadline::NEVER)?, Some(Event::Descriptor(..))) {}
    match caller.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("the second process: {status}").into()),
    }
}
