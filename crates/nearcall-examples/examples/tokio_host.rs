//! nearcall's event loop inside tokio's: the program runs on tokio and awaits calls of nearcall.
//!
//! The loop has a descriptor that is readable when there is work, and `turn` does the work. Any
//! other loop can host it in the same way. A pending call of a client in the loop is a future. A
//! program that only calls has it simpler with an async caller: see `tokio_client`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::os::fd::AsFd;
use std::process;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use nearcall::{Client, Context, EventLoop, Server, Status};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{LocalSet, spawn_local};

use self::home::{Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

struct Room(Mutex<f64>);

impl Thermostat for Room {
    fn set_target(&self, _: &Context<'_>, request: &Temperature) -> Result<Temperature, Status> {
        let mut wanted = self.0.lock().map_err(|_| Status::internal("a call has panicked"))?;
        Ok(Temperature { celsius: std::mem::replace(&mut *wanted, request.celsius) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-tokio-host-{}", process::id());
    let room = Room(Mutex::new(0.0));
    let server =
        Server::builder().register(ThermostatDispatcher::new(room)).listen(&address).start()?;
    // The loop belongs to one thread, so the runtime has one thread, and tasks are local.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, call(&address))?;
    server.stop()?;
    Ok(())
}

/// Runs one turn of the loop whenever its descriptor is readable.
async fn host(event_loop: Rc<EventLoop>) -> std::io::Result<()> {
    #[allow(
        deprecated,
        reason = "the newer one is unsafe; what it asks for, a `BorrowedFd` promises"
    )]
    let readable = AsyncFd::with_interest(event_loop.as_fd(), Interest::READABLE)?;
    loop {
        // Also once before the first wait: there may be work already. Work that is left for the
        // next turn makes the descriptor readable again.
        event_loop.turn()?;
        readable.readable().await?.clear_ready();
    }
}

async fn call(address: &str) -> Result<(), Box<dyn Error>> {
    let event_loop = Rc::new(EventLoop::new()?);
    let client = Client::in_loop(&event_loop);
    // Waiting for the server and connecting to it block: do both before other tasks have work.
    client.hunt(address, Duration::from_secs(10))?;
    let hosting = spawn_local(host(Rc::clone(&event_loop)));

    let thermostat = ThermostatCaller::new(&client, address)?;
    let mut calls = Vec::new();
    for celsius in 0..100 {
        let request = Temperature { celsius: celsius.into() };
        calls.push(thermostat.start_set_target(&request));
    }
    // Other work of tokio goes on meanwhile.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut last = 0.0;
    for call in calls {
        last = call.await?.celsius;
    }
    println!("awaited 100 calls, the last one found {last} °C");
    hosting.abort();
    Ok(())
}
