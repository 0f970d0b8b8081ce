//! Answers from threads that are not the loop's.

use nearcall::client::PendingCall;
use nearcall::service::Responder;

use super::{Shelf, Threaded, code, keeping, put, serve, take_all, wait_for};
use crate::stage::prelude::*;

const WAYS: [&str; 4] = ["", "?via=shm-futex", "?via=shm-eventfd", "?via=unix-stream"];

/// Calls `Say` without waiting for the answer.
fn start(echo: &EchoCaller, number: u64) -> PendingCall<Words> {
    echo.start_say(&words(number))
}

/// As [`start`], with a deadline that passes soon.
fn start_late(echo: &EchoCaller, number: u64) -> PendingCall<Words> {
    echo.with(CallOptions::new().deadline(SOON)).start_say(&words(number))
}

/// Long enough that a call gets to its service on a busy machine.
const SOON: Duration = Duration::from_millis(500);

#[timed]
fn a_worker_thread_answers() {
    for way in WAYS {
        let (give, take) = mpsc::channel::<(Words, Responder<Words>)>();
        let worker = thread::spawn(move || {
            for (request, responder) in take {
                let data = vec![7; request.data.len()].into();
                responder.finish(Ok(Words { data, number: request.number + 1 }));
            }
        });
        let service = Threaded::new(move |context, request| {
            context.answer_later(|responder| {
                give.send((request.clone(), responder)).unwrap();
            })
        });
        let served = serve(Limits::default(), service);
        let echo = served.echo(&format!("{way}#s"));
        // Small messages, some that are shared, some in several parts.
        let lengths = [0, 100, 20_000, 1 << 20].into_iter().cycle();
        for (number, data_bytes) in (0..200).zip(lengths) {
            let data = vec![1; data_bytes].into();
            let answer = echo.say(&Words { data, number }).unwrap();
            assert_eq!(answer.number, number + 1);
            assert!(answer.data == vec![7; answer.data.len()]);
        }
        drop((echo, served));
        worker.join().unwrap();
    }
}

#[timed]
fn answers_of_several_threads_reach_their_calls() {
    for way in WAYS {
        let shelf = Shelf::default();
        let served = serve(Limits::default(), keeping(&shelf));
        let echo = served.echo(&format!("{way}#s"));
        for _ in 0..20 {
            let started: Vec<_> = (0..100).map(|number| start(&echo, number)).collect();
            let mut kept = wait_for(&shelf, 100);
            kept.reverse();
            thread::scope(|scope| {
                while !kept.is_empty() {
                    let part = kept.split_off(kept.len() - kept.len().min(25));
                    scope.spawn(move || {
                        for (number, responder) in part {
                            responder.finish(Ok(words(number * 3)));
                        }
                    });
                }
            });
            for (number, call) in started.into_iter().enumerate() {
                assert_eq!(call.wait().unwrap().number, number as u64 * 3);
            }
        }
    }
}

#[timed]
fn a_responder_that_another_thread_drops_fails_its_call() {
    let shelf = Shelf::default();
    let served = serve(Limits::default(), keeping(&shelf));
    let echo = served.echo("#s");
    let (dropped, panicked) = (start(&echo, 0), start(&echo, 1));
    let mut kept = wait_for(&shelf, 2);
    let (_, second) = kept.pop().unwrap();
    drop(kept);
    assert_eq!(code(dropped.wait()), Code::Internal);
    let thread = thread::spawn(move || {
        let _responder = second;
        panic!("asked for it");
    });
    assert_eq!(code(panicked.wait()), Code::Unknown);
    assert!(thread.join().is_err());
}

#[timed]
fn a_thread_learns_that_its_caller_has_gone() {
    for way in WAYS {
        let shelf = Shelf::default();
        let served = serve(Limits::default(), keeping(&shelf));
        let echo = served.echo(&format!("{way}#s"));
        let cancelled = start(&echo, 0);
        let late = start_late(&echo, 1);
        let left = start(&echo, 2);
        let kept = wait_for(&shelf, 3);
        let wanted = |number: u64| {
            let is_it = |(other, _): &&(u64, Responder<Words>)| *other == number;
            !kept.iter().find(is_it).unwrap().1.is_cancelled()
        };
        assert!(wanted(0) && wanted(2));
        drop(cancelled);
        // What waits sends the cancellation.
        wait_until("the cancellation", || {
            let _ = echo.nothing(&());
            !wanted(0)
        });
        assert_eq!(code(late.wait()), Code::DeadlineExceeded);
        wait_until("the deadline", || !wanted(1));
        assert!(wanted(2));
        drop(left);
        drop(echo);
        wait_until("the end of the connection", || !wanted(2));
        // Answers that come too late go nowhere.
        for (number, responder) in kept {
            responder.finish(Ok(words(number)));
        }
    }
}

/// The slot of a call that has ended is that of the next one.
#[timed]
fn a_late_answer_is_not_that_of_the_next_call() {
    let shelf = Shelf::default();
    let served = serve(Limits::default(), keeping(&shelf));
    let echo = served.echo("#s");
    let first = start(&echo, 1);
    let mut kept = wait_for(&shelf, 1);
    drop(first);
    let second = start(&echo, 2);
    kept.append(&mut wait_for(&shelf, 1));
    for (number, responder) in kept {
        responder.finish(Ok(words(number)));
    }
    assert_eq!(second.wait().unwrap().number, 2);
    echo.nothing(&()).unwrap();
}

#[timed]
fn a_responder_may_outlive_its_loop() {
    let shelf = Shelf::default();
    let served = serve(Limits::default(), keeping(&shelf));
    let echo = served.echo("#s");
    let call = start(&echo, 1);
    let mut kept = wait_for(&shelf, 1);
    drop(served);
    assert_eq!(code(call.wait()), Code::Unavailable);
    let (number, responder) = kept.pop().unwrap();
    assert!(responder.is_cancelled());
    responder.finish(Ok(words(number)));
}

/// A caller of the loop's own thread sleeps in the loop while another thread answers.
#[timed]
fn an_answer_from_a_thread_wakes_a_caller_in_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let service = Threaded::new(|context, request| {
        let number = request.number;
        context.answer_later(|responder| {
            thread::spawn(move || responder.finish(Ok(words(number + 1))));
        })
    });
    server.register(service).unwrap();
    let address = server.listen(&unique_address()).unwrap().to_string();
    for short in [true, false] {
        let client = Client::in_loop(&event_loop);
        let client = if short { client } else { client.without_short_circuit() };
        let echo = EchoCaller::new(&client, &address).unwrap();
        for number in 0..50 {
            assert_eq!(echo.say(&words(number)).unwrap().number, number + 1);
            assert_eq!(start(&echo, number).wait().unwrap().number, number + 1);
        }
    }
}

/// In the loop's own thread, too, a call that was given up is seen as such.
#[timed]
fn a_caller_in_the_loop_can_give_up() {
    let shelf = Shelf::default();
    let (event_loop, _server, address) = serve_here(&unique_address(), keeping(&shelf));
    for short in [true, false] {
        let client = Client::in_loop(&event_loop);
        let client = if short { client } else { client.without_short_circuit() };
        let echo = EchoCaller::new(&client, &address).unwrap();
        let call = start(&echo, 1);
        let late = start_late(&echo, 2);
        let mut kept = Vec::new();
        turn_until(&event_loop, || {
            kept.append(&mut take_all(&shelf));
            kept.len() == 2
        });
        assert!(!kept[0].1.is_cancelled());
        drop(call);
        turn_until(&event_loop, || kept[0].1.is_cancelled());
        turn_until(&event_loop, || kept[1].1.is_cancelled());
        assert_eq!(code(late.wait()), Code::DeadlineExceeded);
        for (number, responder) in kept {
            put(&shelf, (number, responder));
        }
        take_all(&shelf);
    }
}
