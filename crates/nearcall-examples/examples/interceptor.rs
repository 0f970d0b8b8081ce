//! Interceptors at both ends: the client adds a token, the server checks it and counts.
//!
//! An interceptor sees each call before it starts and after it has ended, and may refuse it. A
//! client or server without one pays nothing for the possibility.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nearcall::observe::{CallEnd, InterceptedCall, Interceptor};
use nearcall::{Client, Code, Context, Server, Status};

use self::home::{Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

const TOKEN: &str = "open-sesame";

struct Room;

impl Thermostat for Room {
    fn set_target(&self, _: &Context<'_>, wanted: &Temperature) -> Result<Temperature, Status> {
        Ok(*wanted)
    }
}

/// At the client.
struct AddToken;

impl Interceptor for AddToken {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        call.add_metadata("token", TOKEN)
            .map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

/// At the server.
#[derive(Default)]
struct CheckToken {
    served: AtomicU32,
    refused: AtomicU32,
}

impl Interceptor for CheckToken {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        if call.metadata().get("token") == Some(TOKEN) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Status::unauthenticated("this server wants a token"))
    }

    fn end(&self, end: &CallEnd<'_>) {
        if end.code() == Code::Ok {
            self.served.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-interceptor-{}", process::id());
    let check = Arc::new(CheckToken::default());
    let server = Server::builder()
        .interceptor(Arc::clone(&check))
        .register(ThermostatDispatcher::new(Room))
        .listen(&address)
        .start()?;

    let wanted = Temperature { celsius: 21.0 };
    let stranger = ThermostatCaller::new(&Client::new(), &address)?;
    match stranger.set_target(&wanted) {
        Err(status) if status.code() == Code::Unauthenticated => println!("{status}"),
        other => return Err(format!("it should have been refused: {other:?}").into()),
    }
    let client = Client::builder().interceptor(AddToken).build();
    ThermostatCaller::new(&client, &address)?.set_target(&wanted)?;

    server.stop()?;
    let (served, refused) =
        (check.served.load(Ordering::Relaxed), check.refused.load(Ordering::Relaxed));
    println!("served {served}, refused {refused}");
    Ok(())
}
