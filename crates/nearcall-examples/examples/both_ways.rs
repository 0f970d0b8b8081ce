//! Calls in both directions: A calls B, and B calls A back before it replies, without a deadlock.
//!
//! Each process is client and server in one loop. While a call of a client in a loop waits, the
//! loop goes on serving, so the call back is served. Services take `&self`, because they may be
//! entered again while they wait.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use nearcall::{CallOptions, Client, Context, EventLoop, Server, Status};
use nearcall_examples::home::v1::{
    Boiler, BoilerCaller, BoilerDispatcher, HeatReply, HeatRequest, Sensor, SensorCaller,
    SensorDispatcher, Temperature,
};
use nearcall_examples::{
    BadUsage, Outcome, SecondProcess, main as run, own_address, serve_until_stdin_ends,
};

/// Served by A. Each reading is half a degree higher.
struct Thermometer(Cell<f64>);

impl Sensor for Thermometer {
    fn read(&self, _context: &Context<'_>, _request: &()) -> Result<Temperature, Status> {
        self.0.set(self.0.get() + 0.5);
        Ok(Temperature { celsius: self.0.get() })
    }
}

/// Served by B. Calls its caller back.
struct Cellar {
    client: Client,
}

impl Boiler for Cellar {
    fn heat(&self, _context: &Context<'_>, request: &HeatRequest) -> Result<HeatReply, Status> {
        let sensor = SensorCaller::new(&self.client, &request.sensor)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut readings = 0;
        loop {
            readings += 1;
            // Ends at the latest with the call that is being served: it inherits the deadline.
            let now = sensor.read(&())?;
            println!("B: {} °C", now.celsius);
            if now.celsius >= request.celsius {
                return Ok(HeatReply { readings });
            }
        }
    }
}

fn main() -> ExitCode {
    run(|arguments| match arguments {
        [] => caller(),
        ["boiler", address] => boiler(address),
        _ => Err(BadUsage("usage: both_ways".into()).into()),
    })
}

/// Process A.
fn caller() -> Outcome {
    let (ours, theirs) = (own_address("sensor"), own_address("boiler"));
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    server.register(SensorDispatcher::new(Thermometer(Cell::new(18.0))))?;
    server.listen(&ours)?;

    let second = SecondProcess::start(&["boiler", &theirs])?;
    let client = Client::in_loop(&event_loop);
    client.hunt(&theirs, Duration::from_secs(10))?;
    let boiler = BoilerCaller::new(&client, &theirs)?;
    let request = HeatRequest { celsius: 20.0, sensor: ours };
    let options = CallOptions::new().deadline(Duration::from_secs(5));
    let reply = boiler.heat_with(&request, &options)?;
    println!("A: warm after {} calls back", reply.readings);
    second.end()
}

/// Process B.
fn boiler(address: &str) -> Outcome {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let client = Client::in_loop(&event_loop);
    server.register(BoilerDispatcher::new(Cellar { client }))?;
    server.listen(address)?;
    Ok(serve_until_stdin_ends(&event_loop)?)
}
