//! Connections of async callers over `tcp://` that move to shared memory by themselves.
//!
//! **Not here:** those of callers that block, and what a server makes of them (`upgrades.rs`).

use nearcall::control::{HealthRequest, ServerAsyncCaller};
use nearcall::observe::{ConnectionInfo, SwitchCause};

use super::block_on;
use super::switches::{keep_calling, keep_noting, keep_streaming};
use crate::stage::prelude::*;
use crate::streams::served::StreamsAsyncCaller;
use crate::switching::BOOKS;
use crate::upgrades::{busy, moving, plain, staying};

fn only(client: &Client) -> ConnectionInfo {
    client.connections().remove(0)
}

fn call(caller: &ServerAsyncCaller) {
    block_on(async { caller.health(&HealthRequest::default()).await.map(drop).unwrap() });
}

#[timed]
fn a_connection_over_tcp_moves_while_tasks_use_it() {
    let (_server, at) = busy(moving());
    let client = Client::new();
    let echo = EchoAsyncCaller::new(&client, &at).unwrap();
    let streams = StreamsAsyncCaller::new(&client, &at).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let is_over = Arc::<AtomicBool>::default();
    let mut others: Vec<_> =
        (0..3).map(|_| runtime.spawn(keep_calling(echo.clone(), Arc::clone(&is_over)))).collect();
    others.push(runtime.spawn(keep_streaming(streams, Arc::clone(&is_over))));
    let noting = runtime.spawn(keep_noting(echo.clone(), Arc::clone(&is_over)));
    wait_until("the move", || {
        client.connections().first().is_some_and(|it| it.mechanism == Mechanism::Shm)
    });
    // Some more by the new channel.
    clock::pause(Duration::from_millis(20));
    is_over.store(true, Ordering::Relaxed);
    for other in others {
        assert!(runtime.block_on(other).unwrap() > 0);
    }
    let notes = runtime.block_on(noting).unwrap();
    assert_eq!(block_on(echo.say(&words(BOOKS))).unwrap().number, notes);
    let connection = only(&client);
    let [moved] = &connection.switches[..] else { panic!("{:?}", connection.switches) };
    assert_eq!((moved.from, moved.to), (Mechanism::Tcp, Some(Mechanism::Shm)), "{moved}");
    assert_eq!((moved.cause, &moved.outcome), (SwitchCause::Upgrade, &Ok(())), "{moved}");
    // Neither end takes the other for more than before.
    assert_eq!((connection.peer.uid(), connection.is_trusted), (None, false));
    let seen = block_on(echo.look(&())).unwrap();
    assert_eq!((seen.uid, seen.pid, seen.local), (u32::MAX, -1, false));
}

/// The driver does all of it.
#[timed]
fn an_idle_connection_over_tcp_moves_as_well() {
    let (server, at) = plain(moving(), "");
    let client = Client::new();
    let caller = ServerAsyncCaller::new(&client, &at).unwrap();
    call(&caller);
    wait_until("the move", || only(&client).mechanism == Mechanism::Shm);
    // Its reply comes by the new channel: the server has moved, too.
    call(&caller);
    assert_eq!(server.connections()[0].switches[0].cause, SwitchCause::Upgrade);
}

#[timed]
fn what_is_to_stay_on_tcp_stays() {
    for (limits, parameters, suffix) in
        [(moving(), "", "?via=tcp"), (moving(), "?allow=tcp", ""), (staying(), "", "")]
    {
        let (server, at) = plain(limits, parameters);
        let (client, at) = (Client::new(), format!("{at}{suffix}"));
        let caller = ServerAsyncCaller::new(&client, &at).unwrap();
        let end = clock::now() + Duration::from_millis(50);
        while clock::now() < end {
            call(&caller);
        }
        let case = format!("{parameters} {suffix}");
        let connection = only(&client);
        assert_eq!(connection.mechanism, Mechanism::Tcp, "{case}");
        assert!(connection.switches.is_empty(), "{case}");
        assert!(server.refusals().is_empty(), "{case}: {:?}", server.refusals());
        let refused = block_on(client.switch_async(&at, "pipe", PATIENCE)).unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{case}: {refused}");
    }
}

#[timed]
fn a_switch_that_is_asked_for_at_once_begins_from_shared_memory() {
    let (_server, at) = plain(moving(), "");
    let client = Client::new();
    let caller = ServerAsyncCaller::new(&client, &at).unwrap();
    call(&caller);
    block_on(client.switch_async(&at, "unix-stream", PATIENCE)).unwrap();
    let connection = only(&client);
    assert_eq!(connection.mechanism, Mechanism::UnixStream);
    let causes: Vec<_> = connection.switches.iter().map(|it| it.cause).collect();
    assert_eq!(causes, [SwitchCause::Upgrade, SwitchCause::Program]);
    call(&caller);
}
