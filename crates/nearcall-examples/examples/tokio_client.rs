//! Async calls in a tokio program.
//!
//! The async caller is `Send`, `Sync` and `Clone`, its futures are `Send`, and it needs nothing of
//! the runtime: the same code runs in smol, or in a plain `block_on`. All tasks share one
//! connection. A future that is dropped cancels its call.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process;
use std::time::Duration;

use nearcall::{Client, Context, Server, Status};
use tokio::task::JoinSet;

use self::home::{Temperature, Thermostat, ThermostatAsyncCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

const TASKS: u32 = 100;

struct Room;

impl Thermostat for Room {
    fn set_target(&self, _: &Context<'_>, wanted: &Temperature) -> Result<Temperature, Status> {
        Ok(Temperature { celsius: wanted.celsius + 0.5 })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-tokio-client-{}", process::id());
    let server =
        Server::builder().register(ThermostatDispatcher::new(Room)).listen(&address).start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(call(&address))?;
    server.stop()?;
    Ok(())
}

async fn call(address: &str) -> Result<(), Box<dyn Error>> {
    let thermostat = ThermostatAsyncCaller::new(&Client::new(), address)?;
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let thermostat = thermostat.clone();
        tasks.spawn(
            async move { thermostat.set_target(&Temperature { celsius: number.into() }).await },
        );
    }
    let mut sum = 0.0;
    while let Some(reply) = tasks.join_next().await {
        sum += reply??.celsius;
    }
    println!("awaited {TASKS} calls in tasks, the sum is {sum}");

    // What the future of a call is put into works as with any other future.
    let wanted = Temperature { celsius: 20.0 };
    let call = thermostat.set_target(&wanted);
    let reply = tokio::time::timeout(Duration::from_secs(5), call).await??;
    println!("the last call returned {}", reply.celsius);
    Ok(())
}
