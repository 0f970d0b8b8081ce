//! What a server counts of its calls, and who may read it.
//!
//! **Not here:** messages and their sizes (`traffic.rs`), callers of other users
//! (`../faults/names.rs`).

use nearcall::control::{
    CallCounts, Connection, CountersReply, CountersRequest, MethodCounts, ServerCaller,
};
use nearcall::observe::CallTimes;

use crate::server_threads::shared_echo;
use crate::stage::prelude::*;

const HEADER_BYTES: u64 = 40;

fn counters(server: &ServerCaller) -> CountersReply {
    server.counters(&CountersRequest::default()).unwrap()
}

/// Returns what was counted of a method; nothing if it was never called.
fn method(reply: &CountersReply, name: &str) -> CallCounts {
    let is_it = |it: &&MethodCounts| it.object.starts_with("echo.v1.Echo") && it.method == name;
    let found = reply.methods.iter().find(is_it);
    found.and_then(|method| method.counts.clone()).unwrap_or_default()
}

/// Returns what was counted of the only connection that does not ask.
fn connection(reply: &CountersReply) -> (&Connection, &CallCounts) {
    let mut others = reply.connections.iter().filter(|it| !it.is_asking);
    let (Some(only), None) = (others.next(), others.next()) else { panic!("{reply:?}") };
    (only, only.calls.as_ref().unwrap())
}

fn errors(counts: &CallCounts) -> Vec<(i32, u64)> {
    counts.errors.iter().map(|error| (error.code, error.count)).collect()
}

fn timed(counts: &CallCounts) -> u64 {
    counts.times.iter().copied().map(u64::from).sum()
}

#[timed]
fn calls_are_counted_by_method_and_by_connection() {
    let served = Served::start();
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let echo = EchoCaller::new(&Client::new(), &served.address).unwrap();
    for number in 0..65 {
        echo.say(&words(number)).unwrap();
    }
    echo.note(&words(1)).unwrap();
    for code in [Code::Aborted, Code::Aborted, Code::NotFound] {
        let failure = Failure { code: code.number().into(), text: "asked".into() };
        expect_code(echo.fail(&failure), code);
    }
    let reply = counters(&server);
    let (say, note, fail) = (method(&reply, "Say"), method(&reply, "Note"), method(&reply, "Fail"));
    assert_eq!((say.calls, say.in_flight, &say.errors[..]), (65, 0, &[][..]));
    // The first one and one in 32 after it.
    assert_eq!((reply.timed_one_in, timed(&say)), (32, 3));
    let longest = CallTimes::lowest_ns(say.times.len());
    assert!(longest < u64::try_from(PATIENCE.as_nanos()).unwrap(), "{longest} ns");
    assert!(say.received_bytes >= 65 * HEADER_BYTES && say.sent_bytes == say.received_bytes);
    assert_eq!((note.calls, note.in_flight, note.sent_bytes, timed(&note)), (1, 0, 0, 0));
    let (aborted, not_found) = (Code::Aborted.number().into(), Code::NotFound.number().into());
    assert_eq!(errors(&fail), [(not_found, 1), (aborted, 2)]);
    let (row, of_all) = connection(&reply);
    assert_eq!((of_all.calls, of_all.in_flight), (69, 0));
    assert_eq!(errors(of_all), errors(&fail));
    assert_eq!(timed(of_all), timed(&say) + timed(&fail));
    assert_eq!(
        of_all.received_bytes,
        row.traffic.as_ref().unwrap().received.as_ref().unwrap().bytes
    );
    assert!(row.cpu.is_some() && row.wakes_given.is_some() && row.wakes_taken.is_some());
    assert!(reply.uptime_us > 0 && reply.cpu_ns.is_some());
    // The server's own object is one as all others.
    let own = reply.methods.iter().find(|it| it.method == "Counters").unwrap();
    assert_eq!(own.counts.as_ref().unwrap().calls, 1, "this call");
    let request = CountersRequest { methods_only: true, ..CountersRequest::default() };
    let methods = server.counters(&request).unwrap();
    assert!(methods.connections.is_empty() && !methods.methods.is_empty());
}

#[timed]
fn what_there_is_not_counts_as_an_error() {
    let served = Served::start();
    let client = Client::new();
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let echo = EchoCaller::new(&client, &format!("{}#cellar", served.address)).unwrap();
    expect_code(echo.nothing(&()), Code::Unimplemented);
    let reply = counters(&server);
    let (_, counts) = connection(&reply);
    assert_eq!((counts.calls, errors(counts)), (1, vec![(12, 1)]));
    assert_eq!(method(&reply, "Nothing"), CallCounts::default());
}

#[timed]
fn a_call_is_in_flight_until_it_ends_in_any_way() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &format!("{}#s", served.address)).unwrap();
    let calls = [1, 2, 3].map(|number| echo.start_later(&words(number)));
    wait_until("the calls", || method(&counters(&server), "Later").calls == 3);
    let reply = counters(&server);
    assert_eq!(method(&reply, "Later").in_flight, 3);
    assert_eq!(connection(&reply).1.in_flight, 3);
    let [first, given_up, lost] = calls;
    drop(given_up);
    let is_cancelled = || method(&counters(&server), "Later").in_flight == 2;
    // A client without a loop sends that with its next call.
    let _ = echo.say(&words(command::WANTED)).unwrap();
    wait_until("the cancel", is_cancelled);
    assert_eq!(errors(&method(&counters(&server), "Later")), [(1, 1)]);
    echo.say(&words(command::ANSWER)).unwrap();
    assert_eq!(first.wait().unwrap().number, 1);
    wait_until("the answers", || method(&counters(&server), "Later").in_flight == 0);
    drop((lost, echo, client));
    wait_until("the end", || counters(&server).connections.len() == 1);
    let later = method(&counters(&server), "Later");
    assert_eq!((later.calls, later.in_flight), (3, 0));
}

#[timed]
fn the_end_of_a_connection_leaves_no_call_in_flight() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &format!("{}#s", served.address)).unwrap();
    let call = echo.start_later(&words(1));
    wait_until("the call", || method(&counters(&server), "Later").in_flight == 1);
    drop((call, echo, client));
    wait_until("its end", || method(&counters(&server), "Later").in_flight == 0);
}

#[timed]
fn several_loops_are_one_row_for_each_method() {
    let server = Server::builder().threads(2).register(shared_echo());
    let server = server.listen(&unique_address()).start().unwrap();
    let address = server.address().to_string();
    let callers = [3, 4].map(|calls| {
        let echo = EchoCaller::new(&Client::new(), &address).unwrap();
        for number in 0..calls {
            echo.say(&words(number)).unwrap();
        }
        echo
    });
    assert_eq!(server.connection_counts(), [1, 1]);
    let asks = ServerCaller::new(&Client::new(), &address).unwrap();
    let reply = counters(&asks);
    let say = method(&reply, "Say");
    assert_eq!((say.calls, timed(&say)), (7, 2), "each loop times its first call");
    let calls = reply.connections.iter().filter(|it| !it.is_asking);
    let mut calls: Vec<_> = calls.map(|it| it.calls.as_ref().unwrap().calls).collect();
    calls.sort_unstable();
    assert_eq!(calls, [3, 4]);
    drop(callers);
    server.stop().unwrap();
}

#[timed]
fn whoever_asks_for_the_own_user_learns_nothing_of_others() {
    let served = Served::start();
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let request = CountersRequest { own_only: true, ..CountersRequest::default() };
    let reply = server.counters(&request).unwrap();
    assert!(reply.methods.is_empty() && reply.cpu_ns.is_none(), "{reply:?}");
    assert_eq!(reply.connections.len(), 1);
    assert!(reply.connections[0].is_asking);
}

/// A server that sleeps is woken by each call, and one that polls by none.
#[timed]
fn wake_ups_are_counted_where_an_end_sleeps() {
    let served = Served::start();
    let server = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let echo = EchoCaller::new(&Client::new(), &served.address).unwrap();
    echo.nothing(&()).unwrap();
    let taken = || connection(&counters(&server)).0.wakes_taken.unwrap();
    let before = taken();
    wait_until("a call that finds the server asleep", || {
        echo.nothing(&()).unwrap();
        taken() > before
    });
}
