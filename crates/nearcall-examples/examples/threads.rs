//! One caller in eight threads, and one service in two event loops.
//!
//! A caller is `Send`, `Sync` and `Clone`. Each thread gets a connection of its own at its first
//! call, so that no call waits for another thread's. The server spreads the connections over its
//! loops; its service is shared by them, so it is `Send` and `Sync`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nearcall::{Client, Context, Server, Status};

use self::home::{Meter, MeterCaller, MeterDispatcher, Usage};

mod home {
    nearcall::include_proto!("home.v1");
}

const THREADS: u64 = 8;
const CALLS: u64 = 1_000;

#[derive(Default)]
struct WaterMeter {
    litres: AtomicU64,
}

impl Meter for WaterMeter {
    fn count(&self, _context: &Context<'_>, request: &Usage) {
        self.litres.fetch_add(request.litres, Ordering::Relaxed);
    }

    fn total(&self, _context: &Context<'_>, _request: &()) -> Result<Usage, Status> {
        Ok(Usage { litres: self.litres.load(Ordering::Relaxed) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-threads-{}", process::id());
    let server = Server::builder()
        .threads(2)
        .register(MeterDispatcher::new(WaterMeter::default()))
        .listen(&address)
        .start()?;

    let meter = MeterCaller::new(&Client::new(), &address)?;
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let meter = meter.clone();
            thread::spawn(move || count(&meter))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    println!("{THREADS} threads counted {} litres", meter.total(&())?.litres);
    server.stop()?;
    Ok(())
}

fn count(meter: &MeterCaller) -> Result<(), Status> {
    for _ in 0..CALLS {
        meter.count(&Usage { litres: 1 })?;
    }
    // The reply comes after what this thread has sent before it was counted.
    meter.total(&()).map(drop)
}
