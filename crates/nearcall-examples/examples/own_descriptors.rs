//! A timer and stdin in the loop, beside a server.
//!
//! `EventLoop::next` returns the events of the program, and serves calls inside. There is one
//! thread, no callback and no lock. Type temperatures; end with Ctrl-D.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::error::Error;
use std::io::{self, Read};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nearcall::event_loop::Event;
use nearcall::event_loop::Interest;
use nearcall::{Client, Context, Deadline, EventLoop, Server, Status};

use self::home::{Sensor, SensorCaller, SensorDispatcher, Temperature};

mod home {
    nearcall::include_proto!("home.v1");
}

const BEAT: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Room {
    celsius: Cell<f64>,
    readings: Cell<u32>,
}

impl Sensor for Room {
    fn read(&self, _context: &Context<'_>, _request: &()) -> Result<Temperature, Status> {
        self.readings.set(self.readings.get() + 1);
        Ok(Temperature { celsius: self.celsius.get() })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let dispatcher = SensorDispatcher::new(Room::default());
    let room = Arc::clone(dispatcher.service());
    server.register(dispatcher)?;
    let address = format!("unix:@nearcall-sensor-{}", process::id());
    server.listen(&address)?;

    let stdin = event_loop.add_descriptor(io::stdin(), Interest::Readable)?;
    let timer = event_loop.add_timer(BEAT, Some(BEAT));
    let mut beats = 0;
    let mut typed = Vec::new();
    loop {
        match event_loop.next(Deadline::NEVER)? {
            Some(Event::Timer(id)) if id == timer => {
                beats += 1;
                room.celsius.set(room.celsius.get() + 0.1);
            }
            Some(Event::Descriptor(id, _)) if id == stdin => {
                // One read returns what is there and does not wait; `read_line` would wait.
                let mut bytes = [0; 256];
                let count = io::stdin().read(&mut bytes)?;
                if count == 0 {
                    break;
                }
                typed.extend_from_slice(&bytes[..count]);
                take_lines(&mut typed, &room);
            }
            _ => {}
        }
    }
    event_loop.remove_descriptor(stdin);
    // Stdin has ended; another thread calls, as another process would, while the timer goes on.
    let asking = thread::spawn(move || ask(&address));
    // Stdin may have ended before the timer was due for the first time.
    while beats == 0 || !asking.is_finished() {
        beats += u32::from(matches!(event_loop.next(Deadline::NEVER)?, Some(Event::Timer(_))));
    }
    asking.join().map_err(|_| "the thread that asks has panicked")??;
    let readings = room.readings.get();
    println!("read {readings} times; stdin, timer and server had their turn");
    Ok(())
}

fn take_lines(typed: &mut Vec<u8>, room: &Room) {
    while let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = typed.drain(..=end).collect();
        match String::from_utf8_lossy(&line).trim().parse() {
            Ok(celsius) => room.celsius.set(celsius),
            Err(_) => println!("no number; type a temperature, or Ctrl-D to end"),
        }
    }
}

fn ask(address: &str) -> Result<(), Status> {
    let sensor = SensorCaller::new(&Client::new(), address)?;
    for _ in 0..3 {
        println!("another thread reads {:.0} °C", sensor.read(&())?.celsius);
    }
    Ok(())
}
