//! One call and all that belongs to it: how it ends, its deadline, its context, giving it up,
//! answering it later.

use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll};

use nearcall_os::process;

use nearcall_testkit::tasks;

use crate::stage::prelude::*;

/// A caller of the plain service of a server, in a client without a loop.
fn plain(served: &Served) -> EchoCaller {
    served.echo("")
}

/// A caller of the scripted service of a server, in a client without a loop.
fn scripted(served: &Served) -> EchoCaller {
    served.echo("#s")
}

fn keeping() -> Served {
    serve_scripted(Limits::default(), |_| keeper())
}

#[timed]
fn every_code_and_its_text_travel() {
    let served = Served::start();
    let echo = plain(&served);
    for number in 1..=16 {
        let text = format!("the text of {number}, with \u{e4} and \u{1f600}");
        let status = echo.fail(&Failure { code: number, text: text.clone() }).unwrap_err();
        assert_eq!(u32::from(status.code().number()), number);
        assert_eq!(status.message(), text);
    }
    let status = echo.fail(&Failure::default()).unwrap_err();
    assert_eq!(status, Status::unknown(""), "success is no failure");
}

#[timed]
fn metadata_of_both_kinds_travel() {
    let served = Served::start();
    let echo = plain(&served);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let options = CallOptions::new().metadata("traceparent", trace).unwrap();
    let options = options.metadata_bin("token-bin", &[0, 255, 10]).unwrap();
    let seen = echo.with(options.clone()).look(&()).unwrap();
    assert_eq!(seen.metadata.len(), 2);
    assert_eq!(seen.metadata["traceparent"], trace.as_bytes());
    assert_eq!(seen.metadata["token-bin"], &[0, 255, 10][..]);
    assert!(echo.look(&()).unwrap().metadata.is_empty());
}

#[test]
fn bad_metadata_never_leave() {
    for (key, value) in [("", "v"), ("Upper", "v"), ("a b", "v"), ("\u{e4}", "v"), ("a", "\n")] {
        let error = CallOptions::new().metadata(key, value).unwrap_err();
        assert!(error.to_string().contains(&format!("`{key}`")), "{error}");
    }
    assert!(CallOptions::new().metadata_bin("text", &[0]).is_err());
    assert!(CallOptions::new().metadata(&"k".repeat(256), "v").is_err());
    in_time(|| {
        let served = Served::start();
        let echo = plain(&served);
        let options = CallOptions::new().metadata("long", &"v".repeat(9_000)).unwrap();
        expect_code(echo.with(options).nothing(&()), Code::ResourceExhausted);
        echo.nothing(&()).unwrap();
    });
}

#[timed]
fn the_context_names_the_caller_and_the_method() {
    let served = Served::start();
    let echo = plain(&served);
    let seen = echo.look(&()).unwrap();
    assert_eq!((seen.uid, seen.pid), (process::user_id(), process::pid()));
    assert_eq!(seen.method, "Look");
    assert_eq!(seen.remaining_ns, 0, "it has no deadline");
    assert!(!seen.local);
    let options = CallOptions::new().deadline(PATIENCE);
    let left = Duration::from_nanos(echo.with(options).look(&()).unwrap().remaining_ns);
    assert!(!left.is_zero() && left < PATIENCE, "{left:?}");
}

#[timed]
fn a_deadline_ends_a_call_without_an_answer() {
    let served = keeping();
    let echo = scripted(&served);
    let short = Duration::from_millis(5);
    let start = clock::now();
    for options in [
        CallOptions::new().deadline(short),
        CallOptions::new().deadline_at(clock::now() + short),
        CallOptions::new().deadline(Duration::ZERO),
        CallOptions::new().deadline_at(clock::now()),
    ] {
        expect_code(echo.with(options.clone()).later(&words(0)), Code::DeadlineExceeded);
    }
    assert!(clock::now() >= start + short);
    // The server has noticed, too: by its own clock, or by the cancellation.
    while echo.say(&words(command::WANTED)).unwrap().number > 0 {}
    // A generous one does no harm, nor does one that is further away than the clock counts.
    for generous in [PATIENCE, Duration::MAX] {
        echo.with(CallOptions::new().deadline(generous)).nothing(&()).unwrap();
    }
}

#[timed]
fn a_method_brings_its_deadline_from_the_proto_file() {
    let served = keeping();
    let echo = scripted(&served);
    expect_code(echo.quick(&words(1)), Code::DeadlineExceeded);
    let options = CallOptions::new().deadline(PATIENCE);
    let left = echo.with(options.clone()).quick(&words(0)).unwrap().number;
    assert!(left > 1_000_000_000, "options go before the file: {left}");
}

/// A server whose `Say` looks at another one and gives back what was left there, with a deadline
/// of its own far above what the caller gives.
fn hop(to: String) -> Served {
    serve_scripted(Limits::default(), move |event_loop| {
        let next = EchoCaller::new(&Client::in_loop(event_loop), &to).unwrap();
        Scripted::new(move |context, request| {
            let before = context.remaining().map_or(u128::MAX, |left| left.as_nanos());
            let options = match request.number {
                0 => CallOptions::new(),
                _ => CallOptions::new().deadline(10 * PATIENCE),
            };
            let after = if next_is_hop(&next) {
                next.with(options.clone()).say(request)?.number
            } else {
                next.with(options.clone()).look(&())?.remaining_ns
            };
            if u128::from(after) >= before {
                return Err(Status::internal(format!("{after} is left of {before}")));
            }
            Ok(words(after))
        })
    })
}

fn next_is_hop(next: &EchoCaller) -> bool {
    format!("{next:?}").contains("#s")
}

#[timed]
fn nested_calls_inherit_what_is_left() {
    let last = Served::start();
    let second = hop(last.address.clone());
    let first = hop(second.via("#s"));
    let echo = scripted(&first);
    for own in [0, 1] {
        let options = CallOptions::new().deadline(PATIENCE);
        let left = echo.with(options).say(&words(own)).unwrap().number;
        assert!(left > 0 && u128::from(left) < PATIENCE.as_nanos());
    }
    // Nothing is left over for a call without one.
    assert_eq!(echo.say(&words(0)).unwrap().number, 0);
}

#[timed]
fn a_nested_call_ends_with_the_call_that_it_serves() {
    let last = keeping();
    let to = last.via("#s");
    let (give, take) = mpsc::channel();
    let first = serve_scripted(Limits::default(), move |event_loop| {
        let next = EchoCaller::new(&Client::in_loop(event_loop), &to).unwrap();
        next.nothing(&()).unwrap();
        Scripted::new(move |_, request| {
            let ended = next.later(request);
            give.send(ended.clone().unwrap_err()).unwrap();
            ended
        })
    });
    let echo = scripted(&first);
    // Both are connected, so that all of the time is the calls'.
    echo.nothing(&()).unwrap();
    let options = CallOptions::new().deadline(Duration::from_millis(200));
    expect_code(echo.with(options).say(&words(0)), Code::DeadlineExceeded);
    let status = take.recv_timeout(PATIENCE).unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

#[test]
fn a_cancellation_reaches_a_service_that_works() {
    each_in_time(
        ["", "?via=shm-eventfd", "?via=shm-futex", "?via=pipe", "?via=shm-spin&wait=spin"],
        |parameters| {
            let (give, take) = mpsc::channel();
            let served = serve_scripted(Limits::default(), |_| {
                Scripted::new(move |context, _| {
                    give.send("entered").unwrap();
                    while !context.is_cancelled() {}
                    give.send("cancelled").unwrap();
                    Err(Status::cancelled(""))
                })
            });
            let at = served.via(&format!("{parameters}#s"));
            let echo = EchoCaller::new(&Client::new(), &at).unwrap();
            for by_drop in [false, true] {
                let started = echo.start_say(&words(0));
                assert_eq!(take.recv_timeout(PATIENCE).unwrap(), "entered", "{parameters}");
                if by_drop {
                    drop(started)
                } else {
                    started.cancel()
                }
                assert_eq!(take.recv_timeout(PATIENCE).unwrap(), "cancelled", "{parameters}");
            }
            echo.nothing(&()).unwrap();
        },
    );
}

#[timed]
fn a_responder_learns_that_its_caller_is_gone() {
    let served = keeping();
    let echo = scripted(&served);
    let mut started: Vec<_> = (0..3).map(|number| echo.start_later(&words(number))).collect();
    let wanted = || echo.say(&words(command::WANTED)).unwrap().number;
    assert_eq!(wanted(), 3);
    started.remove(1).cancel();
    assert_eq!(wanted(), 2);
    drop(started.remove(0));
    assert_eq!(wanted(), 1);
    assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, 3);
    assert_eq!(started.remove(0).wait().unwrap().number, 2);
}

#[timed]
fn a_responder_outlives_its_caller() {
    let served = keeping();
    let echo = scripted(&served);
    let gone = scripted(&served);
    let started = gone.start_later(&words(0));
    while echo.say(&words(command::WANTED)).unwrap().number == 0 {}
    drop((started, gone));
    while echo.say(&words(command::WANTED)).unwrap().number > 0 {}
    assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, 1);
}

#[timed]
fn answers_come_in_any_order_and_are_taken_in_any() {
    let served = keeping();
    let echo = scripted(&served);
    let mut started: Vec<_> = (0..5).map(|number| Some(echo.start_later(&words(number)))).collect();
    assert!(started.iter().flatten().all(|started| !started.is_done()));
    assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, 5);
    // The answers went out before that of the command.
    assert!(started.iter().flatten().all(nearcall::client::PendingCall::is_done));
    for index in [1, 4, 0, 3, 2] {
        let reply = started[index].take().unwrap().wait().unwrap();
        assert_eq!(reply.number, index as u64);
    }
}

#[timed]
fn a_call_that_is_dropped_unanswered_is_an_internal_error() {
    let served = keeping();
    let echo = scripted(&served);
    let started = echo.start_later(&words(0));
    assert_eq!(echo.say(&words(command::DROP)).unwrap().number, 1);
    expect_code(started.wait(), Code::Internal);
}

#[timed]
fn a_panic_is_unknown_and_the_server_lives() {
    let served = keeping();
    let echo = scripted(&served);
    for _ in 0..3 {
        let status = expect_code(echo.panic(&()), Code::Unknown);
        assert!(!status.message().contains("asked for it"), "the text stays there: {status}");
        expect_code(echo.later(&words(u64::MAX)), Code::Unknown);
    }
    echo.nothing(&()).unwrap();
}

#[timed]
fn a_started_call_is_a_future_of_a_loop() {
    let served = keeping();
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let (woken, waker) = tasks::waker();
    let mut task = TaskContext::from_waker(&waker);
    let mut started = pin!(echo.start_later(&words(7)));
    assert!(started.as_mut().poll(&mut task).is_pending());
    let command = echo.start_say(&words(command::ANSWER));
    turn_until(&event_loop, || woken.count() > 0);
    let Poll::Ready(reply) = started.as_mut().poll(&mut task) else {
        panic!("woken before the end")
    };
    assert_eq!(reply.unwrap().number, 7);
    assert_eq!(command.wait().unwrap().number, 1);
    // One that ends by its deadline wakes as well.
    let before = woken.count();
    let options = CallOptions::new().deadline(Duration::from_millis(5));
    let mut started = pin!(echo.with(options).start_later(&words(7)));
    assert!(started.as_mut().poll(&mut task).is_pending());
    turn_until(&event_loop, || woken.count() > before);
    let Poll::Ready(reply) = started.as_mut().poll(&mut task) else {
        panic!("woken before the end")
    };
    assert_eq!(reply.unwrap_err().code(), Code::DeadlineExceeded);
}

#[timed]
fn a_waker_that_panics_ends_neither_the_loop_nor_other_calls() {
    let served = keeping();
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let ((woken, good), bad) = (tasks::waker(), tasks::panicking());
    // They end together.
    let mut calls = [&bad, &bad, &good].map(|waker| {
        let mut started = Box::pin(echo.start_later(&words(7)));
        assert!(started.as_mut().poll(&mut TaskContext::from_waker(waker)).is_pending());
        started
    });
    let command = echo.start_say(&words(command::ANSWER));
    turn_until(&event_loop, || woken.count() > 0);
    assert_eq!(command.wait().unwrap().number, 3);
    for call in &mut calls {
        let polled = call.as_mut().poll(&mut TaskContext::from_waker(&good));
        assert!(matches!(polled, Poll::Ready(Ok(_))), "{polled:?}");
    }
}

#[test]
fn oneways_behind_a_call_that_is_given_up_arrive_although_the_client_is_gone() {
    each_in_time(["", "?via=shm-eventfd", "?via=shm-futex", "?via=pipe"], |way| {
        let (entered, wait_entered) = mpsc::channel();
        let (leave, wait_leave) = mpsc::channel();
        let wait_leave = std::cell::RefCell::new(Some(wait_leave));
        let served = serve_scripted(Limits::default(), |_| {
            let base = Arc::<Service>::default();
            let notes = Arc::clone(&base);
            let say = move |context: &Context<'_>, request: &Words| {
                if request.number == 0 {
                    return Ok(words(notes.notes.get()));
                }
                entered.send(()).unwrap();
                let wait = wait_leave.borrow_mut().take().unwrap();
                let () = wait.recv_timeout(PATIENCE).unwrap();
                // Reads on until the end of the connection is found.
                for _ in 0..1_000 {
                    let _ = context.is_cancelled();
                }
                Err(Status::cancelled(""))
            };
            Scripted { base, say: Box::new(say) }
        });
        let echo = scripted(&served);
        let at = served.via(&format!("{way}#s"));
        let other = EchoCaller::new(&Client::new(), &at).unwrap();
        let started = other.start_say(&words(1));
        wait_entered.recv_timeout(PATIENCE).unwrap();
        for number in 0..10 {
            other.note(&words(number)).unwrap();
        }
        drop((started, other));
        leave.send(()).unwrap();
        let until = clock::now() + PATIENCE / 2;
        while echo.say(&words(0)).unwrap().number < 10 {
            assert!(clock::now() < until, "some were lost {way}");
        }
    });
}
