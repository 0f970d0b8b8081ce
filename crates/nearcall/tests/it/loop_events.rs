//! The events that a loop reports: timers, descriptors, signals, being stopped; and a loop in the
//! hands of another one.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;

use nearcall::event_loop::{DescriptorId, Event, EventLoop, Interest, Signal, TimerId};
use nearcall_os::poll::{PollFd, poll, poll_one};
use nearcall_os::{pipe, process, signal};

use crate::stage::prelude::*;

const SOON: Duration = Duration::from_millis(2);

/// The next event, which must come.
fn next(event_loop: &EventLoop) -> Event {
    let until = Deadline::at(clock::now() + PATIENCE);
    event_loop.next(until).unwrap().expect("no event came")
}

fn next_timer(event_loop: &EventLoop) -> TimerId {
    match next(event_loop) {
        Event::Timer(timer) => timer,
        other => panic!("{other:?}"),
    }
}

fn next_descriptor(event_loop: &EventLoop) -> DescriptorId {
    match next(event_loop) {
        Event::Descriptor(descriptor, ready) if ready.readable => descriptor,
        other => panic!("{other:?}"),
    }
}

fn nothing_more(event_loop: &EventLoop) {
    let event = event_loop.next(Deadline::at(clock::now() + 5 * SOON)).unwrap();
    assert!(event.is_none(), "{event:?}");
}

#[test]
fn a_timer_is_due_once_or_again_and_again() {
    let event_loop = EventLoop::new().unwrap();
    let start = clock::now();
    let once = event_loop.add_timer(SOON, None);
    assert_eq!(next_timer(&event_loop), once);
    assert!(clock::now() >= start + SOON);
    nothing_more(&event_loop);
    let beat = event_loop.add_timer(SOON, Some(SOON));
    for _ in 0..5 {
        assert_eq!(next_timer(&event_loop), beat);
    }
    assert!(clock::now() >= start + 6 * SOON);
    assert!(event_loop.remove_timer(beat));
    assert!(!event_loop.remove_timer(beat));
    nothing_more(&event_loop);
}

#[test]
fn a_timer_that_was_removed_is_not_reported() {
    let event_loop = EventLoop::new().unwrap();
    let timers = [event_loop.add_timer(SOON, None), event_loop.add_timer(SOON, None)];
    clock::pause(2 * SOON);
    // Both are due in one round; the second one is not reported yet.
    assert_eq!(next_timer(&event_loop), timers[0]);
    assert!(event_loop.remove_timer(timers[1]));
    nothing_more(&event_loop);
}

#[test]
fn a_descriptor_is_reported_while_it_is_ready() {
    let event_loop = EventLoop::new().unwrap();
    let (one, other) = (pipe::create().unwrap(), pipe::create().unwrap());
    let id = event_loop.add_descriptor(&one.read, Interest::Readable).unwrap();
    let removed = event_loop.add_descriptor(&other.read, Interest::Readable).unwrap();
    nothing_more(&event_loop);
    pipe::write(&one.write, b"x").unwrap();
    for _ in 0..3 {
        assert_eq!(next_descriptor(&event_loop), id, "it was not read yet");
    }
    pipe::read(&one.read, &mut [0; 8]).unwrap();
    nothing_more(&event_loop);
    pipe::write(&other.write, b"x").unwrap();
    assert!(event_loop.remove_descriptor(removed));
    assert!(!event_loop.remove_descriptor(removed));
    nothing_more(&event_loop);
    // Ours is a duplicate: the user may close his.
    drop(one.read);
    pipe::write(&one.write, b"x").unwrap();
    assert_eq!(next_descriptor(&event_loop), id);
}

#[timed]
fn a_file_is_always_ready_and_keeps_nothing_from_its_turn() {
    let event_loop = EventLoop::new().unwrap();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let id = event_loop.add_descriptor(&file, Interest::Readable).unwrap();
    let server = Server::new(&event_loop);
    server.register(EchoDispatcher::new(Service::default())).unwrap();
    let at = server.listen(&everything(&unique_address())).unwrap().to_string();
    let beat = event_loop.add_timer(SOON, Some(SOON));
    let client = thread::spawn(move || {
        let echo = EchoCaller::new(&Client::new(), &at).unwrap();
        let echo = echo.with(CallOptions::new().deadline(PATIENCE / 2));
        (0..10).try_for_each(|_| echo.nothing(&()))
    });
    let (mut files, mut beats) = (0, 0);
    while !client.is_finished() || beats < 3 {
        match next(&event_loop) {
            Event::Descriptor(other, _) if other == id => files += 1,
            Event::Timer(other) if other == beat => beats += 1,
            other => panic!("{other:?}"),
        }
    }
    client.join().unwrap().unwrap();
    assert!(files > 0);
    assert!(event_loop.remove_descriptor(id));
    assert!(event_loop.remove_timer(beat));
    nothing_more(&event_loop);
}

#[timed]
fn a_signal_is_an_event() {
    let event_loop = EventLoop::new().unwrap();
    event_loop.add_signals(&[Signal::USR1]).unwrap();
    nothing_more(&event_loop);
    // To this thread alone: no other one blocks it.
    signal::send_to_thread(process::pid(), process::tid(), Signal::USR1).unwrap();
    match next(&event_loop) {
        Event::Signal(info) => assert_eq!(info.signal, Signal::USR1.as_raw()),
        other => panic!("{other:?}"),
    }
    nothing_more(&event_loop);
}

#[timed]
fn a_loop_is_stopped_from_another_thread_or_from_a_service() {
    let event_loop = EventLoop::new().unwrap();
    let stopper = event_loop.stopper();
    let thread = thread::spawn(move || stopper.stop());
    event_loop.run().unwrap();
    thread.join().unwrap();
    let server = Server::new(&event_loop);
    let stopper = event_loop.stopper();
    let stops = Scripted::new(move |_, _| {
        stopper.stop();
        Ok(words(1))
    });
    server.register(EchoDispatcher::new(stops)).unwrap();
    let at = server.listen(&everything(&unique_address())).unwrap().to_string();
    let client = thread::spawn(move || {
        EchoCaller::new(&Client::new(), &at).unwrap().say(&words(0)).map(|reply| reply.number)
    });
    event_loop.run().unwrap();
    assert_eq!(client.join().unwrap(), Ok(1));
    assert!(matches!(event_loop.next(Deadline::NOW), Ok(None)), "stopped once");
}

#[test]
fn a_loop_that_is_asked_in_passing_serves_over_any_mechanism() {
    each_in_time(
        ["", "?via=shm-futex", "?via=shm-eventfd", "?via=shm-spin", "?via=sysv-mq"],
        |way| {
            let (event_loop, _server, at) =
                serve_here(&unique_address(), EchoDispatcher::new(Service::default()));
            let at = format!("{at}{way}");
            let client = thread::spawn(move || {
                let echo = EchoCaller::new(&Client::new(), &at).unwrap();
                (0..10).try_for_each(|number| {
                    let options = CallOptions::new().deadline(PATIENCE / 4);
                    echo.with(options).say(&words(number)).map(drop)
                })
            });
            while !client.is_finished() {
                assert!(event_loop.next(Deadline::NOW).unwrap().is_none());
                thread::yield_now();
            }
            assert_eq!(client.join().unwrap(), Ok(()), "{way}");
        },
    );
}

/// Whether the loop's descriptor is readable now.
fn is_due(event_loop: &EventLoop) -> bool {
    poll_one(event_loop, Interest::Readable, Some(Duration::ZERO)).unwrap().is_some()
}

/// Does as another loop does: waits for the loop's descriptor and for one of its own, and turns
/// whenever the former is readable, until the latter is.
fn host_until(event_loop: &EventLoop, own: impl AsFd) {
    event_loop.turn().unwrap();
    loop {
        let readable = Interest::Readable.into();
        let mut fds =
            [own.as_fd(), event_loop.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, readable));
        assert!(poll(&mut fds, Some(PATIENCE / 4)).unwrap() > 0, "nothing woke the host");
        if !fds[0].revents().is_empty() {
            return;
        }
        event_loop.turn().unwrap();
    }
}

/// Turns until the loop has nothing to do, which must come soon.
fn settle(event_loop: &EventLoop) {
    for _ in 0..100 {
        event_loop.turn().unwrap();
        if !is_due(event_loop) {
            return;
        }
    }
    panic!("the descriptor stays readable");
}

#[test]
fn a_hosted_loop_is_due_only_when_there_is_something_to_do() {
    each_in_time(
        ["", "?via=shm-eventfd&wait=poll", "?via=shm-unix&wait=poll", "?via=unix-dgram"],
        |way| {
            let (event_loop, _server, at) =
                serve_here(&unique_address(), EchoDispatcher::new(Service::default()));
            let at = format!("{at}{way}");
            settle(&event_loop);
            let (go, wait) = mpsc::channel::<u8>();
            let done = pipe::create().unwrap();
            let client = thread::spawn(move || {
                let echo = EchoCaller::new(&Client::new(), &at).unwrap();
                while let Ok(number) = wait.recv_timeout(PATIENCE) {
                    let reply = echo.say(&words(number.into())).unwrap();
                    pipe::write(&done.write, &[u8::try_from(reply.number).unwrap()]).unwrap();
                }
            });
            for number in 0..20 {
                go.send(number).unwrap();
                // However long the client takes to read its answer: it has it, then it writes here.
                host_until(&event_loop, &done.read);
                let mut reply = [u8::MAX];
                assert_eq!(pipe::read(&done.read, &mut reply).unwrap(), 1);
                assert_eq!(reply, [number]);
                settle(&event_loop);
            }
            drop(go);
            client.join().unwrap();
        },
    );
}

#[timed]
fn a_hosted_loop_wakes_its_host_for_timers_descriptors_and_the_end() {
    let event_loop = EventLoop::new().unwrap();
    settle(&event_loop);
    let timer = event_loop.add_timer(SOON, None);
    let mut events = Vec::new();
    while events.is_empty() {
        assert!(poll_one(&event_loop, Interest::Readable, Some(PATIENCE)).unwrap().is_some());
        events.extend(event_loop.turn().unwrap());
    }
    assert!(matches!(events[..], [Event::Timer(due)] if due == timer), "{events:?}");
    settle(&event_loop);

    let own = pipe::create().unwrap();
    let id = event_loop.add_descriptor(&own.read, Interest::Readable).unwrap();
    settle(&event_loop);
    for _ in 0..3 {
        pipe::write(&own.write, b"x").unwrap();
        assert!(is_due(&event_loop));
        let events = event_loop.turn().unwrap();
        assert!(
            events.iter().any(|event| matches!(event, Event::Descriptor(it, _) if *it == id)),
            "{events:?}"
        );
        pipe::read(&own.read, &mut [0; 8]).unwrap();
        // Between the turns: the host does not turn again for what it has read itself.
    }
    settle(&event_loop);

    event_loop.stopper().stop();
    assert!(is_due(&event_loop));
    let events = event_loop.turn().unwrap();
    assert!(matches!(events[..], [Event::Stopped]), "{events:?}");
    settle(&event_loop);
}

#[test]
fn a_hosted_loop_notices_what_is_done_between_its_turns() {
    each_in_time(["", "?via=shm-eventfd&wait=poll", "?via=shm-pipe&wait=poll"], |way| {
        let served = serve_scripted(Limits::default(), |_| keeper());
        let service = Arc::<Service>::default();
        let (event_loop, _server, _) =
            serve_here("inproc:own", EchoDispatcher::shared(Arc::clone(&service)));
        let client = Client::in_loop(&event_loop);
        let far = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
        let own = EchoCaller::new(&client, "inproc:own").unwrap();
        // A call that waits turns the loop inside.
        far.nothing(&()).unwrap();
        settle(&event_loop);
        // A message to a service of the loop itself.
        own.note(&words(1)).unwrap();
        host_between(&event_loop, || service.notes.get() == 1);
        settle(&event_loop);
        // A call that is answered, one that only its deadline ends.
        for _ in 0..20 {
            let started = far.start_nothing(&());
            host_between(&event_loop, || started.is_done());
            started.wait().unwrap();
            settle(&event_loop);
        }
        let started = far.with(CallOptions::new().deadline(SOON)).start_later(&words(0));
        host_between(&event_loop, || started.is_done());
        started.wait().unwrap_err();
        // Calls that wait, between the turns, leave nothing behind.
        for _ in 0..20 {
            let started = far.start_nothing(&());
            far.nothing(&()).unwrap();
            host_between(&event_loop, || started.is_done());
            started.wait().unwrap();
        }
        settle(&event_loop);
    });
}

/// As `host_until`, but does not turn before the descriptor is readable.
fn host_between(event_loop: &EventLoop, mut done: impl FnMut() -> bool) {
    while !done() {
        let ready = poll_one(event_loop.as_fd(), Interest::Readable, Some(PATIENCE / 4)).unwrap();
        assert!(ready.is_some(), "nothing woke the host");
        event_loop.turn().unwrap();
    }
}

#[timed]
fn a_dropped_loop_leaves_no_descriptor() -> io::Result<()> {
    let kinds = || -> io::Result<HashSet<_>> {
        let tid = process::tid();
        let entries = std::fs::read_dir(format!("/proc/self/task/{tid}/fd"))?;
        Ok(entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect())
    };
    let event_loop = EventLoop::new()?;
    let own = pipe::create()?;
    event_loop.add_descriptor(&own.read, Interest::Readable)?;
    let name = kinds()?.into_iter().find(|link| {
        std::fs::read_link(format!("/proc/self/fd/{}", fd_number(&own.write)))
            .is_ok_and(|mine| mine == *link)
    });
    let name = name.expect("the pipe is there");
    drop((event_loop, own));
    assert!(!kinds()?.contains(&name), "the duplicate is still open");
    Ok(())
}

fn fd_number(fd: &impl std::os::fd::AsRawFd) -> i32 {
    fd.as_raw_fd()
}
