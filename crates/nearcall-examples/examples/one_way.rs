//! One-way calls: messages without a reply.
//!
//! A one-way call returns when the message is in the channel: many can be in the channel while the
//! service works on the first. They arrive in order, and before any later call over the same
//! connection.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::process::ExitCode;

use nearcall::{Client, Context, EventLoop, Server, Status};
use nearcall_examples::home::v1::{Meter, MeterCaller, MeterDispatcher, Usage};
use nearcall_examples::{BadUsage, Outcome, SecondProcess, main as run, own_address};

const DROPS: u64 = 10_000;

#[derive(Default)]
struct WaterMeter {
    litres: Cell<u64>,
}

impl Meter for WaterMeter {
    // `option (nearcall.oneway) = true`: there is no result to return, and no error either.
    fn count(&self, _context: &Context<'_>, request: &Usage) {
        self.litres.set(self.litres.get() + request.litres);
    }

    fn total(&self, _context: &Context<'_>, _request: &()) -> Result<Usage, Status> {
        Ok(Usage { litres: self.litres.get() })
    }
}

fn main() -> ExitCode {
    run(|arguments| match arguments {
        [] => serve(),
        ["count", address] => count(address),
        _ => Err(BadUsage("usage: one_way".into()).into()),
    })
}

fn serve() -> Outcome {
    let address = own_address("meter");
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    server.register(MeterDispatcher::new(WaterMeter::default()))?;
    server.listen(&address)?;
    SecondProcess::start(&["count", &address])?.serve_until_it_ends(&event_loop)
}

/// The second process.
fn count(address: &str) -> Outcome {
    let client = Client::new();
    let meter = MeterCaller::new(&client, address)?;
    for _ in 0..DROPS {
        // An error means that the message was not sent; there is no sign that it arrived.
        meter.count(&Usage { litres: 1 })?;
    }
    // A call on the same connection is served after all of them.
    let total = meter.total(&())?;
    println!("sent {DROPS}, counted {}", total.litres);
    Ok(())
}
