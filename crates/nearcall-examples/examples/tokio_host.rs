//! nearcall's event loop inside tokio's: the program runs on tokio and awaits calls of nearcall.
//!
//! The loop has a descriptor that is readable when there is work, and `turn` does the work. Any
//! other loop can host it in the same way. A pending call is a future.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use nearcall::{CallOptions, Client, Context, EventLoop, Server, Status};
use nearcall_examples::home::v1::{
    Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher,
};
use nearcall_examples::{
    BadUsage, Outcome, SecondProcess, main as run, own_address, serve_until_stdin_ends,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{LocalSet, spawn_local};

struct Room(Cell<f64>);

impl Thermostat for Room {
    fn set_target(&self, _: &Context<'_>, request: &Temperature) -> Result<Temperature, Status> {
        Ok(Temperature { celsius: self.0.replace(request.celsius) })
    }
}

fn main() -> ExitCode {
    run(|arguments| match arguments {
        [] => in_tokio(),
        ["serve", address] => serve(address),
        _ => Err(BadUsage("usage: tokio_host".into()).into()),
    })
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

fn in_tokio() -> Outcome {
    let address = own_address("tokio");
    let second = SecondProcess::start(&["serve", &address])?;
    // All objects of nearcall belong to one thread, so the runtime has one thread, and tasks are
    // local.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, call(&address))?;
    second.end()
}

async fn call(address: &str) -> Outcome {
    let event_loop = Rc::new(EventLoop::new()?);
    let client = Client::in_loop(&event_loop);
    // Waiting for the server and connecting to it block: do both before other tasks have work.
    client.hunt(address, Duration::from_secs(10))?;
    let hosting = spawn_local(host(Rc::clone(&event_loop)));

    let thermostat = ThermostatCaller::new(&client, address)?;
    let mut calls = Vec::new();
    for celsius in 0..100 {
        let request = Temperature { celsius: celsius.into() };
        calls.push(thermostat.start_set_target(&request, &CallOptions::new()));
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

/// The second process, which does not use tokio.
fn serve(address: &str) -> Outcome {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    server.register(ThermostatDispatcher::new(Room(Cell::new(0.0))))?;
    server.listen(address)?;
    Ok(serve_until_stdin_ends(&event_loop)?)
}
