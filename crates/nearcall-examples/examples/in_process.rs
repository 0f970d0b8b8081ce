//! Caller and service in one thread: a call is a function call.
//!
//! The code is the same as for two processes; only the server is in the same loop. Nothing is
//! encoded, and results, errors and deadlines stay the same.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;

use nearcall::observe::Peer;
use nearcall::{Client, Code, Context, EventLoop, Server, Status};

use self::home::{Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

#[derive(Default)]
struct Room {
    wanted: Cell<f64>,
    direct_calls: Cell<u32>,
}

impl Thermostat for Room {
    fn set_target(
        &self,
        context: &Context<'_>,
        request: &Temperature,
    ) -> Result<Temperature, Status> {
        if request.celsius > 30.0 {
            return Err(Status::out_of_range("this is no sauna"));
        }
        if matches!(context.peer(), Peer::Local) {
            self.direct_calls.set(self.direct_calls.get() + 1);
        }
        Ok(Temperature { celsius: self.wanted.replace(request.celsius) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let dispatcher = ThermostatDispatcher::new(Room::default());
    // The program may keep a reference to the implementation.
    let room = Arc::clone(dispatcher.service());
    server.register(dispatcher)?;
    // An address for callers in the same loop only, without a socket. Any other address works as
    // well, and is open to other processes at the same time.
    server.listen("inproc:room")?;

    // A client in the same loop calls the server directly.
    let client = Client::in_loop(&event_loop);
    let thermostat = ThermostatCaller::new(&client, "inproc:room")?;
    for celsius in [19.0, 20.0, 21.0] {
        let before = thermostat.set_target(&Temperature { celsius })?;
        println!("{} °C before, {celsius} °C now", before.celsius);
    }
    match thermostat.set_target(&Temperature { celsius: 90.0 }) {
        Err(refused) if refused.code() == Code::OutOfRange => println!("{refused}"),
        other => return Err(format!("90 °C should be refused: {other:?}").into()),
    }
    println!("{} calls did not leave the thread", room.direct_calls.get());
    Ok(())
}
