//! Handlers that wait on one stack: what a client whose calls wait can do to the others.
//!
//! **Not here:** the shares of users (`src/nesting.rs`).

use crate::stage::prelude::*;

/// A server whose `Say` waits for a `Later` of `last`, and how many of these calls have begun.
fn gateway(last: &Served, limits: Limits) -> (Served, Arc<AtomicUsize>) {
    let (to, begun) = (last.via("#s"), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&begun);
    let served = serve_scripted(limits, move |event_loop| {
        let next = EchoCaller::new(&Client::in_loop(event_loop), &to).unwrap();
        // Connects now, so that no method runs inside the wait of another for the connection.
        next.nothing(&()).unwrap();
        Scripted::new(move |_, request| {
            count.fetch_add(1, Ordering::Relaxed);
            next.later(request)
        })
    });
    (served, begun)
}

fn caller(served: &Served) -> EchoCaller {
    served.echo("#s")
}

/// Starts a call that waits in the gateway, in a thread of its own. It has no deadline.
fn wait_in(served: &Served) -> thread::JoinHandle<Status> {
    let echo = caller(served);
    let echo = echo.with(CallOptions::new().no_deadline());
    thread::spawn(move || echo.say(&words(1)).unwrap_err())
}

#[timed]
fn a_call_without_a_deadline_holds_up_no_other_beyond_its_deadline() {
    let last = serve_scripted(Limits::default(), |_| keeper());
    let (gate, begun) = gateway(&last, Limits::default());
    let (honest, hostile) = (caller(&gate), caller(&gate));
    // Connected, so that the hostile call begins well within the time of the honest one.
    honest.nothing(&()).unwrap();
    hostile.nothing(&()).unwrap();
    let options = CallOptions::new().deadline(Duration::from_secs(3));
    let honest = honest.with(options).start_say(&words(0));
    wait_until("the honest call", || begun.load(Ordering::Relaxed) == 1);
    let options = CallOptions::new().no_deadline();
    let hostile = hostile.with(options).start_say(&words(1));
    wait_until("the hostile call", || begun.load(Ordering::Relaxed) == 2);
    // Its method goes on when that of the hostile call has ended, so it may come late.
    let _ = honest.wait();
    expect_code(hostile.wait(), Code::DeadlineExceeded);
    caller(&last).say(&words(command::DROP)).unwrap();
}

#[timed]
fn a_call_that_asks_for_more_gets_the_longest_deadline_of_the_server() {
    let last = serve_scripted(Limits::default(), |_| keeper());
    let limits = Limits { deadline_max: Duration::from_millis(200), ..Limits::default() };
    let (gate, begun) = gateway(&last, limits);
    for options in [
        CallOptions::new().deadline(PATIENCE),
        CallOptions::new().deadline_at(clock::now() + PATIENCE),
    ] {
        expect_code(caller(&gate).with(options.clone()).say(&words(1)), Code::DeadlineExceeded);
    }
    // One that asks for none has none, unless it runs inside the wait of another.
    let before = begun.load(Ordering::Relaxed);
    let outer = wait_in(&gate);
    wait_until("the outer call", || begun.load(Ordering::Relaxed) > before);
    assert_eq!(wait_in(&gate).join().unwrap().code(), Code::DeadlineExceeded);
    assert!(!outer.is_finished());
    drop(last);
    assert_eq!(outer.join().unwrap().code(), Code::Unavailable);
}

#[timed]
fn waiting_calls_of_one_client_do_not_refuse_everybody() {
    let last = serve_scripted(Limits::default(), |_| keeper());
    let (gate, begun) = gateway(&last, Limits::default());
    let hostile = caller(&gate);
    let hostile = hostile.with(CallOptions::new().no_deadline());
    let calls: Vec<_> = (0..64).map(|_| hostile.start_say(&words(1))).collect();
    let (mut waiting, mut refused) = (Vec::new(), 0);
    for call in calls {
        if refused + waiting.len() < 8 {
            waiting.push(call);
            continue;
        }
        expect_error(call.wait(), Code::ResourceExhausted, &["BlockingPool"]);
        refused += 1;
    }
    assert_eq!((waiting.len(), refused, begun.load(Ordering::Relaxed)), (8, 56, 8));
    let good = CallOptions::new().deadline(PATIENCE / 2);
    caller(&gate).with(good.clone()).nothing(&()).unwrap();
    // Also one whose method waits, and whose answer comes first.
    let good = caller(&gate).with(good.clone()).start_say(&words(7));
    let keeper = caller(&last);
    let kept = || keeper.say(&words(command::WANTED)).unwrap().number;
    wait_until("the good call", || kept() == 9);
    keeper.say(&words(command::ANSWER)).unwrap();
    assert_eq!(good.wait().unwrap().number, 7);
    for call in waiting {
        assert_eq!(call.wait().unwrap().number, 1);
    }
}
