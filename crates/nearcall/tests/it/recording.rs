//! Recordings of a server, as whoever asks for them sees them.
//!
//! **Not here:** callers of other users (`../faults`), files (`nearcall-recording`).

use std::collections::BTreeMap;

use nearcall::control::recorded_event::What;
use nearcall::control::{
    ConnectionsRequest, HealthRequest, RecordReply, RecordRequest, RecordedDrop, RecordedEvent,
    ServerCaller,
};
use nearcall::prost::Message;
use nearcall::stream::ReplyStream;

use crate::server_threads::shared_echo;
use crate::stage::prelude::*;
use crate::streams::served::{Item, Kind, Plan, Served as ServedStreams, item};

/// A recording that has begun.
struct Recorded {
    parts: ReplyStream<RecordReply>,
    events: Vec<RecordedEvent>,
}

impl Recorded {
    fn start(address: &str, request: &RecordRequest) -> Self {
        let mut parts =
            ServerCaller::new(&Client::new(), address).unwrap().record(request).unwrap();
        assert_eq!(parts.recv().unwrap(), Some(RecordReply::default()), "it has begun");
        Self { parts, events: Vec::new() }
    }

    fn all(address: &str) -> Self {
        Self::start(address, &RecordRequest::default())
    }

    /// Returns all events once `is_all` of them.
    fn until(mut self, is_all: impl Fn(&[RecordedEvent]) -> bool) -> Vec<RecordedEvent> {
        while !is_all(&self.events) {
            let part = self.parts.recv().unwrap().expect("it goes on");
            assert!(!part.events.is_empty());
            self.events.extend(part.events);
        }
        self.events
    }

    /// Returns all events once so many calls have ended.
    fn ended(self, calls: usize) -> Vec<RecordedEvent> {
        self.until(|events| events.iter().filter(|event| is_end(event)).count() >= calls)
    }
}

fn is_end(event: &RecordedEvent) -> bool {
    matches!(&event.what, Some(What::Result(_) | What::Failure(_) | What::Cancel(_)))
        || matches!(&event.what, Some(What::Request(request)) if request.is_oneway)
}

/// One letter for each event of each call.
fn shapes(events: &[RecordedEvent]) -> BTreeMap<u64, String> {
    let mut shapes = BTreeMap::<_, String>::new();
    for event in events {
        shapes.entry(event.call).or_default().push(match event.what.as_ref().unwrap() {
            What::Request(_) => 'q',
            What::RequestItem(_) => 'i',
            What::HalfClose(_) => 'h',
            What::Headers(_) => 'm',
            What::ReplyItem(_) => 'o',
            What::Result(_) => 'r',
            What::Failure(_) => 'f',
            What::Cancel(_) => 'c',
            What::Dropped(_) => 'd',
        });
    }
    shapes
}

#[timed]
fn every_shape_is_recorded_whatever_thread_serves_it() {
    for kind in Kind::ALL {
        let served = ServedStreams::start(kind);
        let recorded = Recorded::all(&served.address);
        let streams = served.caller(&Client::new(), "");
        assert_eq!(streams.say(&item(9, 100)).unwrap(), item(9, 100));
        let plan = Plan { items: 3, bytes: 9000, code: Code::Aborted as u32 };
        assert_eq!(streams.count(&plan).unwrap().count(), 4);
        let mut upload = streams.sum().unwrap();
        (0..3).for_each(|number| upload.send(&item(number, 20_000)).unwrap());
        assert_eq!(upload.finish().unwrap().number, 3);
        let (mut requests, mut replies) = streams.exchange().unwrap();
        for number in 0..2 {
            requests.send(&item(number, 5)).unwrap();
            assert_eq!(replies.recv().unwrap(), Some(item(number, 5)));
        }
        requests.finish().unwrap();
        assert_eq!(replies.recv().unwrap(), None);
        let events = recorded.ended(4);
        let shapes = shapes(&events);
        assert_eq!((&*shapes[&1], &*shapes[&2]), ("qr", "qooof"), "{kind:?}");
        // The reply may come from another thread before the loop has the end of the items.
        assert_eq!(shapes[&3], "qiiihr", "{kind:?}");
        assert_eq!(shapes[&4], "qioiohr", "{kind:?}");
        let times: Vec<_> = events.iter().map(|event| event.time_ns).collect();
        assert!(times.is_sorted(), "{times:?}");
        let bodies = events.iter().filter_map(|event| match event.what.as_ref()? {
            What::RequestItem(body) if event.call == 3 => Some(&body.data[..]),
            _ => None,
        });
        let items: Vec<_> = bodies.map(|data| Item::decode(data).unwrap()).collect();
        assert_eq!(items, [0, 1, 2].map(|number| item(number, 20_000)));
        let Some(What::Request(request)) = &events[0].what else { panic!("{events:?}") };
        assert_eq!((&*request.object, &*request.method), ("streams.v1.Streams", "Say"));
        assert!(!request.has_request_items && !request.has_reply_items && !request.is_oneway);
    }
}

#[timed]
fn metadata_errors_deadlines_and_one_way_messages_are_recorded() {
    let served = Served::start();
    let recorded = Recorded::all(&served.address);
    let echo = served.echo("");
    let options = CallOptions::new().metadata("room", "attic").unwrap();
    let options = options.metadata_bin("key-bin", &[0, 255]).unwrap();
    echo.with(options).say(&words(1)).unwrap();
    echo.note(&words(2)).unwrap();
    let failure = Failure { code: Code::NotFound as u32, text: "no such room".into() };
    expect_code(echo.fail(&failure), Code::NotFound);
    // Not answered before its deadline.
    let short = CallOptions::new().deadline(Duration::from_millis(30));
    expect_code(echo.with(short).later(&words(3)), Code::DeadlineExceeded);
    expect_code(echo.panic(&()), Code::Unknown);
    let events = recorded.ended(5);
    let shapes: Vec<_> = shapes(&events).into_values().collect();
    assert_eq!(shapes, ["qr", "q", "qf", "qc", "qf"]);
    let requests = events.iter().filter_map(|event| match event.what.as_ref()? {
        What::Request(request) => Some(request),
        _ => None,
    });
    let requests: Vec<_> = requests.collect();
    let entries = requests[0].metadata.iter().map(|entry| (&*entry.key, &entry.value[..]));
    assert_eq!(entries.collect::<Vec<_>>(), [("room", &b"attic"[..]), ("key-bin", &[0, 255])]);
    assert!(requests[1].is_oneway && requests[1].method == "Note");
    assert!(requests[3].timeout_ns.unwrap() <= 30_000_000 && requests[0].timeout_ns.is_none());
    let failed = events.iter().find_map(|event| match event.what.as_ref()? {
        What::Failure(failure) => Some((failure.code, failure.message.as_str())),
        _ => None,
    });
    assert_eq!(failed, Some((Code::NotFound as i32, "no such room")));
    let cancelled = events.iter().find_map(|event| match event.what.as_ref()? {
        What::Cancel(cancel) => Some(cancel.by_deadline),
        _ => None,
    });
    assert_eq!(cancelled, Some(true));
}

#[timed]
fn all_loops_are_recorded_and_connections_that_come_later() {
    let server = Server::builder().threads(3).register(shared_echo());
    let server = server.listen(&unique_address()).start().unwrap();
    let address = server.address().to_string();
    let before = [0, 1].map(|_| EchoCaller::new(&Client::new(), &address).unwrap());
    before.iter().for_each(|echo| drop(echo.say(&words(1)).unwrap()));
    let recorded = Recorded::all(&address);
    let after = [0, 1].map(|_| EchoCaller::new(&Client::new(), &address).unwrap());
    for echo in before.iter().chain(&after) {
        echo.say(&words(2)).unwrap();
    }
    let events = recorded.ended(4);
    let connections: std::collections::BTreeSet<_> = events
        .iter()
        .filter_map(|event| match event.what.as_ref()? {
            What::Request(request) => Some(request.connection),
            _ => None,
        })
        .collect();
    assert_eq!(connections.len(), 4, "{events:?}");
    drop(server);
}

#[timed]
fn only_what_is_chosen_is_recorded_and_never_the_server_itself() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        server.register_as("hall", EchoDispatcher::new(Service::default())).unwrap();
    });
    let (hall, echo) = (served.echo("#hall"), served.echo(""));
    echo.nothing(&()).unwrap();
    let caller = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let listed = caller.connections(&ConnectionsRequest::default()).unwrap();
    let own = listed.connections.iter().find(|it| !it.is_asking).unwrap().number;
    let methods = vec!["echo.v1.Echo/Say".to_owned()];
    let request = RecordRequest { methods, ..RecordRequest::default() };
    let recorded = Recorded::start(&served.address, &request);
    echo.nothing(&()).unwrap();
    caller.health(&HealthRequest::default()).unwrap();
    hall.say(&words(4)).unwrap();
    let events = recorded.ended(1);
    assert_eq!(shapes(&events).into_values().collect::<Vec<_>>(), ["qr"]);
    let Some(What::Request(request)) = &events[0].what else { panic!("{events:?}") };
    assert_eq!(request.object, "echo.v1.Echo@hall");
    let request = RecordRequest { connections: vec![own], ..RecordRequest::default() };
    let recorded = wait_for(&served.address, &request);
    hall.say(&words(4)).unwrap();
    echo.nothing(&()).unwrap();
    let events = recorded.ended(1);
    let Some(What::Request(request)) = &events[0].what else { panic!("{events:?}") };
    assert_eq!((&*request.method, request.connection), ("Nothing", own));
}

/// Records as soon as the recording before has ended.
fn wait_for(address: &str, request: &RecordRequest) -> Recorded {
    let caller = ServerCaller::new(&Client::new(), address).unwrap();
    loop {
        let mut parts = caller.record(request).unwrap();
        match parts.recv() {
            Ok(part) => {
                assert_eq!(part, Some(RecordReply::default()));
                return Recorded { parts, events: Vec::new() };
            }
            Err(status) => assert_eq!(status.code(), Code::FailedPrecondition, "{status}"),
        }
    }
}

#[timed]
fn a_server_has_one_recording_and_may_have_the_next() {
    let served = Served::start();
    let recorded = Recorded::all(&served.address);
    let caller = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let refused = caller.record(&RecordRequest::default()).unwrap().recv();
    expect_error(refused, Code::FailedPrecondition, &["another recording"]);
    let large = RecordRequest { memory_bytes_max: 1 << 40, ..RecordRequest::default() };
    expect_error(caller.record(&large).unwrap().recv(), Code::InvalidArgument, &["268435456"]);
    drop(recorded);
    let next = wait_for(&served.address, &RecordRequest::default());
    served.echo("").say(&words(1)).unwrap();
    assert_eq!(next.ended(1).len(), 2);
}

#[timed]
fn what_is_not_read_is_counted_and_no_call_waits_for_it() {
    let served = Served::start();
    let (memory_bytes_max, body_bytes_max) = (64 << 10, 1000);
    let request = RecordRequest { memory_bytes_max, body_bytes_max, ..RecordRequest::default() };
    let recorded = Recorded::start(&served.address, &request);
    let echo = served.echo("");
    let long = Words { data: vec![7; 5000].into(), number: 1 };
    // Far more than the window of the stream and the memory.
    for _ in 0..3000 {
        echo.say(&long).unwrap();
    }
    let dropped = |events: &[RecordedEvent]| {
        events.iter().fold(RecordedDrop::default(), |sum, event| match &event.what {
            Some(What::Dropped(more)) => RecordedDrop {
                calls: sum.calls + more.calls,
                events: sum.events + more.events,
                bytes: sum.bytes + more.bytes,
            },
            _ => sum,
        })
    };
    let requests = |events: &[RecordedEvent]| {
        events.iter().filter(|event| matches!(event.what, Some(What::Request(_)))).count() as u64
    };
    let events = recorded.until(|events| requests(events) + dropped(events).calls >= 3000);
    let lost = dropped(&events);
    assert_eq!(requests(&events) + lost.calls, 3000);
    assert!(lost.calls > 500 && lost.bytes >= 1000 * lost.calls, "{lost:?}");
    for event in &events {
        if let Some(What::Request(request)) = &event.what {
            let body = request.body.as_ref().unwrap();
            assert_eq!((body.data.len(), body.cut_from_bytes), (1000, 5005));
        }
    }
}

#[timed]
fn a_server_that_ends_does_not_wait_for_its_recording() {
    let server = Server::builder().register(shared_echo()).listen(&unique_address());
    let server = server.start().unwrap();
    let mut recorded = Recorded::all(&server.address().to_string());
    assert!(server.drain(PATIENCE));
    assert_eq!(recorded.parts.recv(), Ok(None));
}
