//! Async methods, run by the user's tokio runtime.
//!
//! A service implements the async trait of its interface. Its methods run on the event loop's own
//! executor, or, as here, in tasks of a tokio runtime, where they may await whatever tokio offers.
//! A call that is cancelled drops its future.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process;
use std::time::Duration;

use nearcall::{CallContext, Client, Server, Status};
use tokio::time;

use self::home::{Temperature, ThermostatAsync, ThermostatAsyncDispatcher, ThermostatCaller};

mod home {
    nearcall::include_proto!("home.v1");
}

const CALLS: u32 = 20;
const HEATING: Duration = Duration::from_millis(20);

struct Room;

impl ThermostatAsync for Room {
    async fn set_target(
        &self,
        _context: CallContext,
        wanted: Temperature,
    ) -> Result<Temperature, Status> {
        // A timer of tokio. Other calls are served meanwhile.
        time::sleep(HEATING).await;
        Ok(Temperature { celsius: wanted.celsius })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-tokio-server-{}", process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let tasks = runtime.handle().clone();
    let dispatcher = ThermostatAsyncDispatcher::new(Room).spawn_on(move |task| {
        tasks.spawn(task);
    });
    let server = Server::builder().register(dispatcher).listen(&address).start()?;

    let thermostat = ThermostatCaller::new(&Client::new(), &address)?;
    let start = |number: u32| thermostat.start_set_target(&Temperature { celsius: number.into() });
    let calls: Vec<_> = (0..CALLS).map(start).collect();
    let mut sum = 0.0;
    for call in calls {
        sum += call.wait()?.celsius;
    }
    println!("{CALLS} calls that wait in tokio are done, the sum is {sum}");
    server.stop()?;
    Ok(())
}
