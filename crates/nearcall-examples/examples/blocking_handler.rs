//! A method that blocks, in a pool of threads, beside one that must answer at once.
//!
//! Whether a service blocks is decided where it is registered; its interface does not change. The
//! pool is bounded: a call that finds its queue full is refused, or waits, as configured.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "it shows a method that sleeps")]

use std::error::Error;
use std::process;
use std::thread;
use std::time::Duration;

use nearcall::service::{Blocking, BlockingPool};
use nearcall::{CallOptions, Client, Context, Server, Status};

use self::home::{
    Meter, MeterCaller, MeterDispatcher, Temperature, Thermostat, ThermostatCaller,
    ThermostatDispatcher, Usage,
};

mod home {
    nearcall::include_proto!("home.v1");
}

const HEATING: Duration = Duration::from_secs(1);

struct House;

impl Thermostat for House {
    fn set_target(&self, _: &Context<'_>, wanted: &Temperature) -> Result<Temperature, Status> {
        thread::sleep(HEATING); // A device that answers late, or a query of a database.
        Ok(*wanted)
    }
}

impl Meter for House {
    fn count(&self, _context: &Context<'_>, _request: &Usage) {}

    fn total(&self, _context: &Context<'_>, _request: &()) -> Result<Usage, Status> {
        Ok(Usage { litres: 7 })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-blocking-{}", process::id());
    let pool = BlockingPool::builder().threads(4).queue(16).build();
    let server = Server::builder()
        .register(Blocking::new(ThermostatDispatcher::new(House), &pool))
        .register(MeterDispatcher::new(House))
        .listen(&address)
        .start()?;

    let client = Client::new();
    let thermostat = ThermostatCaller::new(&client, &address)?;
    let meter = MeterCaller::new(&client, &address)?;
    let options = CallOptions::new().deadline(Duration::from_secs(10));
    let heating = thermostat.with(options).start_set_target(&Temperature { celsius: 21.0 });
    let mut readings = 0;
    while !heating.is_done() {
        meter.total(&())?;
        readings += 1;
    }
    println!("heated to {} °C", heating.wait()?.celsius);
    println!("the meter was read meanwhile: {}", if readings > 1 { "yes" } else { "no" });
    server.stop()?;
    Ok(())
}
