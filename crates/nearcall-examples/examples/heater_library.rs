//! A service that is written once and runs as a program and as a dynamic library: the library.
//!
//! The program is `heater.rs`. In a crate of its own this file is `src/lib.rs`, with
//! `crate-type = ["cdylib", "rlib"]` in `Cargo.toml`, and the program is `src/main.rs`. Where it
//! runs is a line of the file that `nearcall host` reads:
//!
//! ```text
//! [service.heater]
//! run = "library"                         or "process", with the path of the program
//! file = "target/debug/examples/libheater_library.so"
//! arguments = ["17.5"]
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Mutex;

use nearcall::service::ServiceSetup;
use nearcall::{Context, Status};

use self::home::{Temperature, Thermostat, ThermostatDispatcher};

#[allow(dead_code, reason = "a service calls nothing here")]
mod home {
    nearcall::include_proto!("home.v1");
}

/// Its methods never wait, so other libraries of its process may call it in their threads.
struct Heater {
    wanted: Mutex<f64>,
}

impl Thermostat for Heater {
    fn set_target(&self, _: &Context<'_>, request: &Temperature) -> Result<Temperature, Status> {
        let mut wanted = self.wanted.lock().map_err(|_| Status::internal("a call panicked"))?;
        Ok(Temperature { celsius: std::mem::replace(&mut *wanted, request.celsius) })
    }
}

/// Makes the service from its arguments: the temperature to begin with.
fn make(setup: &mut ServiceSetup) -> Result<(), Box<dyn Error>> {
    let celsius = match setup.arguments() {
        [] => 18.0,
        [celsius] => celsius.parse().map_err(|_| format!("no number: `{celsius}`"))?,
        _ => return Err("at most one argument is expected: a temperature".into()),
    };
    setup.set_nonblocking();
    setup.register(ThermostatDispatcher::new(Heater { wanted: Mutex::new(celsius) }));
    Ok(())
}

nearcall::service_main!("heater", make);
