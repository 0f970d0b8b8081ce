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

use nearcall::event_loop::Interest;
use nearcall::{Client, Context, Deadline, Event, EventLoop, ListenError, Server, Status};

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

fn main() -> ExitCode {
    run(|arguments| match arguments {
        [] => in_two_processes(),
        ["serve"] => serve(ADDRESS),
        ["serve", address] => serve(address),
        ["set", celsius] => set(celsius, ADDRESS),
        ["set", celsius, address] => set(celsius, address),
        _ => Err(BadUsage(USAGE.into()).into()),
    })
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

fn serve(address: &str) -> Outcome {
    let event_loop = EventLoop::new()?;
    let _server = server(&event_loop, address)?;
    Ok(event_loop.run()?)
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

fn in_two_processes() -> Outcome {
    let address = own_address("thermostat");
    let event_loop = EventLoop::new()?;
    let _server = server(&event_loop, &address)?;
    SecondProcess::start(&["set", "21.5", &address])?.serve_until_it_ends(&event_loop)
}
