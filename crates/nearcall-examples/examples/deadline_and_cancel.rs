//! Calls that end early: by their deadline, or because the caller cancels them.
//!
//! The service can see both. One that replies later checks its `Responder` before it goes on; one
//! that works in one function checks its `Context` from time to time.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io;
use std::process;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nearcall::event_loop::TimerId;
use nearcall::event_loop::{Event, Stopper};
use nearcall::service::Responder;
use nearcall::{CallOptions, Client, Code, Context, Deadline, EventLoop, Server, Status};

use self::home::{BoilRequest, GivenUpReply, Kettle, KettleCaller, KettleDispatcher, Temperature};

mod home {
    nearcall::include_proto!("home.v1");
}

struct Kitchen {
    event_loop: Rc<EventLoop>,
    boiling: RefCell<Vec<(TimerId, Responder<Temperature>)>>,
    given_up: Cell<u32>,
}

impl Kettle for Kitchen {
    /// Returns at once; `finish` replies when the timer has expired.
    fn boil(&self, context: &Context<'_>, request: &BoilRequest) -> Result<Temperature, Status> {
        let timer = self.event_loop.add_timer(Duration::from_millis(request.ms.into()), None);
        context.answer_later(|responder| self.boiling.borrow_mut().push((timer, responder)))
    }

    /// Works until the call ends. `is_cancelled` is true after a cancel and after the deadline.
    fn grind(&self, context: &Context<'_>, _request: &()) -> Result<(), Status> {
        while !context.is_cancelled() {
            // The work of one step.
        }
        self.given_up.set(self.given_up.get() + 1);
        Err(Status::cancelled("the caller has given up"))
    }

    fn given_up(&self, _: &Context<'_>, _request: &()) -> Result<GivenUpReply, Status> {
        Ok(GivenUpReply { calls: self.given_up.get() })
    }
}

impl Kitchen {
    fn finish(&self, timer: TimerId) {
        let mut boiling = self.boiling.borrow_mut();
        let Some(at) = boiling.iter().position(|(other, _)| *other == timer) else { return };
        let (_, responder) = boiling.swap_remove(at);
        if !responder.is_cancelled() {
            responder.finish(Ok(Temperature { celsius: 100.0 }));
        } else {
            self.given_up.set(self.given_up.get() + 1);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("unix:@nearcall-kettle-{}", process::id());
    let (send_stopper, stopper) = mpsc::channel();
    let kettle = thread::spawn({
        let address = address.clone();
        move || serve_kettle(&address, &send_stopper)
    });
    call(&address)?;
    stopper.recv()?.stop();
    Ok(kettle.join().map_err(|_| "the kettle panicked")??)
}

fn call(address: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    client.hunt(address, Duration::from_secs(10))?;
    let kettle = KettleCaller::new(&client, address)?;

    // The interface gives this method 5 seconds: `option (nearcall.deadline_ms) = 5000`.
    let tea = kettle.boil(&BoilRequest { ms: 10 })?;
    println!("in time: {} °C", tea.celsius);

    let hurry = CallOptions::new().deadline(Duration::from_millis(10));
    match kettle.with(hurry).boil(&BoilRequest { ms: 60 }) {
        Err(late) if late.code() == Code::DeadlineExceeded => println!("too late: {late}"),
        other => return Err(format!("it should have been too late: {other:?}").into()),
    }

    // A pending call is waited for, or cancelled. Dropping it cancels it, too.
    let boiling = kettle.start_boil(&BoilRequest { ms: 30 });
    let grinding = kettle.start_grind(&());
    grinding.cancel();
    println!("still boiling: {} °C", boiling.wait()?.celsius);
    // The second call to boil was late; after this call the kettle has counted it as cancelled.
    kettle.boil(&BoilRequest { ms: 60 })?;
    println!("the kettle knows of {} calls that were given up", kettle.given_up(&())?.calls);
    Ok(())
}

/// The service. `next` returns expired timers, and every other event that is not a call.
fn serve_kettle(address: &str, stopper: &mpsc::Sender<Stopper>) -> io::Result<()> {
    let event_loop = Rc::new(EventLoop::new()?);
    let dispatcher = KettleDispatcher::new(Kitchen {
        event_loop: Rc::clone(&event_loop),
        boiling: RefCell::default(),
        given_up: Cell::new(0),
    });
    let kitchen = Arc::clone(dispatcher.service());
    let server = Server::new(&event_loop);
    server.register(dispatcher).map_err(io::Error::other)?;
    server.listen(address).map_err(io::Error::other)?;
    // Without a receiver the caller has failed, and this process ends.
    let _ = stopper.send(event_loop.stopper());
    loop {
        match event_loop.next(Deadline::NEVER)? {
            Some(Event::Timer(timer)) => kitchen.finish(timer),
            Some(Event::Stopped) => return Ok(()),
            _ => {}
        }
    }
}
