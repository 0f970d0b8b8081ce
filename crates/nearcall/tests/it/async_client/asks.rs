//! Servers that ask connections of async callers to move, for an administrator.
//!
//! **Not here:** clients that block (`switch_asks.rs`), switches that a task begins
//! (`switches.rs`).

use nearcall::control::{
    HealthRequest, ServerAsyncCaller, ServerCaller, SwitchOutcome, SwitchRequest,
};
use nearcall::observe::SwitchCause;

use super::block_on;
use crate::stage::prelude::*;
use crate::switch_asks::{address, options, request, service, start};

fn ask_all(admin: &ServerCaller, mechanism: &str) -> Vec<SwitchOutcome> {
    let all = SwitchRequest { all: true, ..request(mechanism) };
    admin.with(options()).switch(&all).unwrap().connections
}

/// Has all clients but the administrator move. One that is reported as moved can be asked again.
fn move_all(admin: &ServerCaller, mechanism: &str) {
    for outcome in ask_all(admin, mechanism) {
        assert_eq!((outcome.code, &*outcome.after), (0, mechanism), "{outcome:?}");
    }
}

fn call(caller: &ServerAsyncCaller) {
    block_on(async { caller.health(&HealthRequest::default()).await.map(drop).unwrap() });
}

/// A caller whose connection is open.
fn called(client: &Client, at: &str) -> ServerAsyncCaller {
    let caller = ServerAsyncCaller::new(client, at).unwrap();
    call(&caller);
    caller
}

async fn keep_calling(caller: ServerAsyncCaller, is_over: Arc<AtomicBool>) -> u64 {
    let mut calls = 0;
    while !is_over.load(Ordering::Relaxed) {
        caller.health(&HealthRequest::default()).await.unwrap();
        calls += 1;
    }
    calls
}

#[timed]
fn connections_that_tasks_use_move_when_an_administrator_asks() {
    let server = start(2, "?allow=all");
    let at = address(&server);
    let clients = [Client::new(), Client::new()];
    let callers = clients.each_ref().map(|client| called(client, &at));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let is_over = Arc::<AtomicBool>::default();
    let tasks: Vec<_> = callers
        .iter()
        .flat_map(|caller| [caller.clone(), caller.clone()])
        .map(|caller| runtime.spawn(keep_calling(caller, Arc::clone(&is_over))))
        .collect();
    let own = Client::new();
    let admin = service(&own, &at);
    for to in ["unix-stream", "pipe", "shm", "shm-eventfd", "shm"] {
        move_all(&admin, to);
    }
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        assert!(runtime.block_on(task).unwrap() > 0);
    }
    for (client, caller) in clients.iter().zip(&callers) {
        // Its reply comes by the new channel: this end has taken the last of the old one.
        call(caller);
        let info = client.connections().remove(0);
        assert_eq!(info.mechanism, Mechanism::Shm);
        assert_eq!(info.switches.len(), 5);
        assert!(info.switches.iter().all(|it| it.cause == SwitchCause::Asked));
    }
}

/// No task is polled: the driver takes the ask and each step.
#[timed]
fn an_idle_connection_moves_at_once() {
    let server = start(1, "?allow=all");
    let (client, at) = (Client::new(), address(&server));
    let caller = called(&client, &format!("{at}?via=unix-stream"));
    let own = Client::new();
    let admin = service(&own, &at);
    for to in ["pipe", "shm", "unix-seqpacket"] {
        move_all(&admin, to);
        assert_eq!(client.connections()[0].mechanism.name(), to);
    }
    call(&caller);
}

/// A call that finds its reply amid its looks has the driver not awake for what comes later.
#[timed]
fn one_whose_reply_was_looked_for_moves_at_its_next_call() {
    let server = start(1, "");
    let (client, at) = (Client::new(), address(&server));
    let caller = called(&client, &at);
    let own = Client::new();
    let admin = service(&own, &at);
    let soon = SwitchRequest { all: true, timeout_ms: 50, ..request("unix-stream") };
    let outcome = admin.with(options()).switch(&soon).unwrap().connections.remove(0);
    let asked_in_vain = outcome.message.contains("next call");
    assert!(outcome.code == 0 || outcome.code == Code::DeadlineExceeded as i32, "{outcome:?}");
    wait_until("the move", || {
        // One that has begun to move needs no more calls for that.
        if asked_in_vain {
            call(&caller);
        }
        client.connections()[0].mechanism == Mechanism::UnixStream
    });
}

#[timed]
fn what_no_task_can_wait_for_is_declined_with_the_reason() {
    let server = start(1, "?allow=all");
    let (client, at) = (Client::new(), address(&server));
    let unwilling = Client::builder().follow_asks(false).build();
    let via = format!("{at}?via=unix-stream");
    let callers = [&client, &unwilling].map(|client| called(client, &via));
    let own = Client::new();
    let admin = service(&own, &at);
    // Without a descriptor, for one thread, and not at all without sleeping.
    for to in ["sysv-mq", "shm-signal", "shm-spin"] {
        let stayed = ask_all(&admin, to);
        assert!(stayed[0].message.contains("cannot wait for it"), "{to}: {stayed:?}");
        assert!(stayed[1].message.contains("does not follow asks"), "{to}: {stayed:?}");
        let codes = stayed.iter().map(|it| it.code).collect::<Vec<_>>();
        assert_eq!(codes, [Code::FailedPrecondition as i32; 2], "{to}: {stayed:?}");
        assert!(stayed.iter().all(|it| it.after == "unix-stream"), "{to}: {stayed:?}");
    }
    callers.iter().for_each(call);
}
