//! One-way calls: messages without a reply.
//!
//! A one-way call returns when the message is in the channel: many can be in the channel while the
//! service works on the first. They arrive in order, and before any later call over the same
//! connection.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use nearcall::{Client, Context, Server, Status};

use self::home::{Meter, MeterCaller, MeterDispatcher, Usage};

mod home {
    nearcall::include_proto!("home.v1");
}

const DROPS: u64 = 10_000;

#[derive(Default)]
struct WaterMeter {
    litres: AtomicU64,
}

impl Meter for WaterMeter {
    // `option (nearcall.oneway) = true`: there is no result to return, and no error either.
    fn count(&self, _context: &Context<'_>, request: &Usage) {
        self.litres.fetch_add(request.litres, Ordering::Relaxed);
    }

    fn total(&self, _context: &Context<'_>, _request: &()) -> Result<Usage, Status> {
        Ok(Usage { litres: self.litres.load(Ordering::Relaxed) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-one-way-{}", process::id());
    // The server has a thread of its own, with an event loop.
    let server = Server::builder()
        .register(MeterDispatcher::new(WaterMeter::default()))
        .listen(&address)
        .start()?;

    let meter = MeterCaller::new(&Client::new(), &address)?;
    for _ in 0..DROPS {
        // Waits while the channel is full. An error means that the message was not sent; there is
        // no sign that it arrived.
        meter.count(&Usage { litres: 1 })?;
    }
    // A call on the same connection is served after all of them.
    let total = meter.total(&())?;
    println!("sent {DROPS}, counted {}", total.litres);
    server.stop()?;
    Ok(())
}
