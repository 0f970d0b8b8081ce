//! Calls in both directions: A calls B, and B calls A back before it replies, without a deadlock.
//!
//! Each of the two threads, which could as well be processes, is client and server in one event
//! loop. While a call of a client in a loop waits, the loop goes on serving, so the call back is
//! served. Services take `&self`, because they may be entered again while they wait.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nearcall::event_loop::Stopper;
use nearcall::{CallOptions, Client, Context, EventLoop, Server, Status};

use self::home::{
    Boiler, BoilerCaller, BoilerDispatcher, HeatReply, HeatRequest, Sensor, SensorCaller,
    SensorDispatcher, Temperature,
};

mod home {
    nearcall::include_proto!("home.v1");
}

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

/// A, the sensor: calls the boiler, which calls it back.
fn main() -> Result<(), Box<dyn Error>> {
    let sensor = format!("unix:@nearcall-sensor-{}", process::id());
    let boiler = format!("unix:@nearcall-boiler-{}", process::id());
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    server.register(SensorDispatcher::new(Thermometer(Cell::new(18.0))))?;
    server.listen(&sensor)?;

    let (send_stopper, stopper) = mpsc::channel();
    let b = thread::spawn({
        let boiler = boiler.clone();
        move || serve_boiler(&boiler, &send_stopper)
    });
    let client = Client::in_loop(&event_loop);
    client.hunt(&boiler, Duration::from_secs(10))?;
    let boiler = BoilerCaller::new(&client, &boiler)?;
    let options = CallOptions::new().deadline(Duration::from_secs(5));
    let reply = boiler.with(options).heat(&HeatRequest { celsius: 20.0, sensor })?;
    println!("A: warm after {} calls back", reply.readings);
    stopper.recv()?.stop();
    b.join().map_err(|_| "B panicked")??;
    Ok(())
}

/// B, the boiler, in a thread of its own.
fn serve_boiler(address: &str, stopper: &mpsc::Sender<Stopper>) -> io::Result<()> {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let client = Client::in_loop(&event_loop);
    let registered = server.register(BoilerDispatcher::new(Cellar { client }));
    registered.map_err(io::Error::other)?;
    server.listen(address).map_err(io::Error::other)?;
    // Without a receiver A has failed, and this process ends.
    let _ = stopper.send(event_loop.stopper());
    event_loop.run()
}
