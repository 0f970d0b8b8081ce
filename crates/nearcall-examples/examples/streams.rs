//! A stream of replies that reports progress, and a stream of requests that uploads parts.
//!
//! Items arrive in order and none is lost. A receiver that is slow stops the sender of its stream
//! and nothing else. A stream ends with a status, as every call does. With `serve ADDRESS` it is a
//! server for clients of other processes, such as `python/plain_client.py`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::error::Error;
use std::process;
use std::thread;

use nearcall::server::TerminationSignals;
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{Bytes, Client, Context, EventLoop, Server, Status};

use self::home::{
    Archive, ArchiveCaller, ArchiveDispatcher, BrewRequest, Brewer, BrewerCaller, BrewerDispatcher,
    Part, Progress, StoreReply,
};

mod home {
    nearcall::include_proto!("home.v1");
}

const PARTS: u32 = 64;
const PART_BYTES: usize = 64 << 10;

#[derive(Clone)]
struct Machine;

impl Brewer for Machine {
    fn brew(
        &self,
        context: &Context<'_>,
        request: &BrewRequest,
        items: ItemSender<Progress>,
    ) -> Result<(), Status> {
        if request.cups == 0 {
            return Err(Status::invalid_argument("brew at least one cup"));
        }
        // The work takes a while, so another thread does it, and ends the call.
        context.answer_later(|responder| {
            thread::spawn(move || {
                let sent =
                    (1..=4).try_for_each(|step| items.send(&Progress { percent: step * 25 }));
                responder.finish(sent);
            });
        })
    }
}

impl Archive for Machine {
    fn store(
        &self,
        context: &Context<'_>,
        parts: ItemReceiver<Part>,
    ) -> Result<StoreReply, Status> {
        context.answer_later(|responder| {
            thread::spawn(move || responder.finish(count(&parts)));
        })
    }
}

fn count(parts: &ItemReceiver<Part>) -> Result<StoreReply, Status> {
    let mut reply = StoreReply::default();
    // `None`: the caller has sent its last part.
    while let Some(part) = parts.recv()? {
        reply.parts += 1;
        reply.bytes += part.bytes.len() as u64;
    }
    Ok(reply)
}

/// Serves at `address` until SIGTERM or SIGINT.
fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let _termination = TerminationSignals::install()?;
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    server.register(BrewerDispatcher::new(Machine))?;
    server.register(ArchiveDispatcher::new(Machine))?;
    println!("listening at {}", server.listen(address)?);
    Ok(server.run_until_signal(&event_loop)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [verb, address] = &words[..]
        && verb == "serve"
    {
        return serve(address);
    }
    let address = format!("unix:@nearcall-streams-{}", process::id());
    let server = Server::builder()
        .register(BrewerDispatcher::new(Machine))
        .register(ArchiveDispatcher::new(Machine))
        .listen(&address)
        .start()?;

    let client = Client::new();
    let brewer = BrewerCaller::new(&client, &address)?;
    for progress in brewer.brew(&BrewRequest { cups: 2 })? {
        println!("brewing: {} %", progress?.percent);
    }

    let mut upload = ArchiveCaller::new(&client, &address)?.store()?;
    let bytes = Bytes::from(vec![7; PART_BYTES]);
    for _ in 0..PARTS {
        upload.send(&Part { bytes: bytes.clone() })?;
    }
    let stored = upload.finish()?;
    println!("stored {} parts of {} bytes together", stored.parts, stored.bytes);
    server.stop()?;
    Ok(())
}
