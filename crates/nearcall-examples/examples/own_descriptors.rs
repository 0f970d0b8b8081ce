//! A timer and stdin in the loop, beside a server.
//!
//! `EventLoop::next` returns the events of the program, and serves calls inside. There is one
//! thread, no callback and no lock. Type temperatures; end with Ctrl-D.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::Cell;
use std::io::{self, Read};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use nearcall::event_loop::Interest;
use nearcall::{Client, Context, Deadline, Event, EventLoop, Server, Status};
use nearcall_examples::home::v1::{Sensor, SensorCaller, SensorDispatcher, Temperature};
use nearcall_examples::{BadUsage, Outcome, SecondProcess, main as run, own_address};

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

fn main() -> ExitCode {
    run(|arguments| match arguments {
        [] => serve(),
        ["ask", address] => ask(address),
        _ => Err(BadUsage("usage: own_descriptors".into()).into()),
    })
}

fn serve() -> Outcome {
    let event_loop = EventLoop::new()?;
    let server = Server::new(&event_loop);
    let room = Rc::new(Room::default());
    server.register(SensorDispatcher::shared(Rc::clone(&room)))?;
    let address = own_address("sensor");
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
    // Stdin has ended; another process calls while the timer goes on.
    SecondProcess::start(&["ask", &address])?.serve_until_it_ends(&event_loop)?;
    while beats == 0 {
        // Stdin may have ended before the timer was due for the first time.
        beats += u32::from(matches!(event_loop.next(Deadline::NEVER)?, Some(Event::Timer(_))));
    }
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

/// The second process.
fn ask(address: &str) -> Outcome {
    let client = Client::new();
    let sensor = SensorCaller::new(&client, address)?;
    for _ in 0..3 {
        println!("another process reads {:.0} °C", sensor.read(&())?.celsius);
    }
    Ok(())
}
