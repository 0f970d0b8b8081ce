//! What an operator sees of bad input: counters with kind, user and process, and lines for the
//! subscriber of `tracing`.

use std::sync::LazyLock;

use nearcall::event_loop::Event;
use nearcall::observe::{ConnectionInfo, RefusalCount, RefusalKind, RefusedUser};
use nearcall_channel::Endpoint;
use nearcall_os::process;
use nearcall_os::socket::{UnixAddress, unix_connect};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Metadata, Subscriber};

use crate::observed::PATIENCE;
use crate::raw_frames::{call, expect_closed, greeted_at, receive};
use crate::stage::prelude::*;

/// Lines of one kind and user that may come each second.
const LINES_PER_SECOND: usize = 5;

/// What the server's thread reports every millisecond.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    counts: Vec<RefusalCount>,
    connections: Vec<ConnectionInfo>,
}

/// The subscriber of the server's thread.
struct Lines(Arc<Mutex<Report>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?};", field.name());
    }
}

impl Subscriber for Lines {
    /// Tests run side by side, and none may answer for the others.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "nearcall" && *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().lines.push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A subscriber beside that of the test. With one alone, `tracing` asks the thread that comes to a
/// line first whether it is wanted, and for all threads: a test without one would say no.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Lines(Arc::default())));

/// Does `case` with a server whose thread has a subscriber, and returns the last report.
fn report_of(limits: Limits, case: impl FnOnce(&str, &Mutex<Report>)) -> Report {
    LazyLock::force(&ANOTHER);
    let report = Arc::new(Mutex::new(Report::default()));
    let (lines, to) = (Lines(Arc::clone(&report)), Arc::clone(&report));
    let (give, take) = mpsc::channel();
    let serve = move || {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::with_limits(&event_loop, limits);
        server.register(EchoDispatcher::new(Service::default())).unwrap();
        let address = server.listen(&unique_address()).unwrap();
        give.send((event_loop.stopper(), address.to_string())).unwrap();
        event_loop.add_timer(Duration::ZERO, Some(Duration::from_millis(1)));
        while !matches!(event_loop.next(Deadline::NEVER).unwrap(), Some(Event::Stopped)) {
            let (counts, connections) = (server.refusals(), server.connections());
            let mut report = to.lock().unwrap();
            (report.counts, report.connections) = (counts, connections);
        }
    };
    let thread = thread::spawn(|| tracing::subscriber::with_default(lines, serve));
    let (stopper, address) = take.recv().unwrap();
    case(&address, &report);
    stopper.stop();
    thread.join().unwrap();
    std::mem::take(&mut report.lock().unwrap())
}

fn raw_client(address: &str) -> Endpoint {
    greeted_at(&address.parse().unwrap(), Mechanism::UnixStream)
}

fn send(endpoint: &mut Endpoint, message: &[u8]) {
    endpoint.send(message, Deadline::after(PATIENCE)).unwrap();
}

/// Waits until the server has refused this so often, to this process.
#[track_caller]
fn wait_for(report: &Mutex<Report>, kind: RefusalKind, count: u64) {
    let user = RefusedUser::Uid(process::user_id());
    wait_until(&format!("{count} of {kind}"), || {
        let counts = &report.lock().unwrap().counts;
        let row = counts.iter().find(|row| row.kind == kind && row.user == user);
        let pid = i32::try_from(std::process::id()).ok();
        row.is_some_and(|row| row.count == count && row.last_pid == pid)
    });
}

const BAD_BODY: [u8; 4] = [0x0a, 0x7f, 1, 2];

#[test]
fn what_is_refused_is_counted_and_logged_with_kind_user_and_process() {
    let limits = Limits { connections_per_uid_max: 1, ..Limits::default() };
    let violation = RefusalKind::ProtocolViolation("call-id-reused");
    let report = report_of(limits, |address, report| {
        let mut client = raw_client(address);
        send(&mut client, &call(1 << 16, "Say", &[], &BAD_BODY));
        receive(&mut client).expect("a refusal");
        wait_for(report, RefusalKind::BadRequest, 1);
        // One more than this user may have.
        let text = nearcall_channel::connect(
            &address.parse().unwrap(),
            Mechanism::UnixStream,
            &nearcall_channel::Options::default(),
        );
        assert!(text.err().unwrap().to_string().contains("its limit"));
        wait_for(report, RefusalKind::ConnectionLimit, 1);
        let of_connection = report.lock().unwrap().connections[0].refusals.clone();
        assert_eq!(of_connection, [(RefusalKind::BadRequest, 1)]);
        send(&mut client, &call(0, "Nothing", &[], &[]));
        expect_closed(client, "an id of an older call");
        wait_for(report, violation, 1);
        wait_until("the free place", || report.lock().unwrap().connections.is_empty());
        // It connects and says nothing that a client says.
        let place = UnixAddress::Abstract(address.strip_prefix("unix:@").unwrap().as_bytes());
        let line = unix_connect(place, Some(PATIENCE)).unwrap();
        nearcall_os::socket::send(&line, b"GET / HTTP/1.1").unwrap();
        wait_for(report, RefusalKind::HandshakeFailed, 1);
        drop(line);
        let spinning = nearcall_channel::connect(
            &address.parse().unwrap(),
            Mechanism::ShmSpin,
            &nearcall_channel::Options::default(),
        );
        assert!(spinning.is_err());
        wait_for(report, RefusalKind::MechanismNotOffered, 1);
    });
    let (uid, pid) = (process::user_id(), std::process::id());
    let expected = [
        (RefusalKind::BadRequest, "bad request"),
        (RefusalKind::ConnectionLimit, "this user has 1 connections"),
        (violation, "used the id of an older call"),
        (RefusalKind::HandshakeFailed, "the other end"),
        (RefusalKind::MechanismNotOffered, "shm-spin"),
    ];
    assert_eq!(report.lines.len(), expected.len(), "{:?}", report.lines);
    for (line, (kind, why)) in report.lines.iter().zip(expected) {
        let fields = format!("kind={kind};user=user {uid};pid={pid};suppressed=0;");
        assert!(line.contains(&fields) && line.contains(why), "{line}");
    }
}

#[test]
fn a_flood_of_refusals_is_counted_whole_and_logged_in_part() {
    const FLOOD: u64 = 500;
    let start = clock::now();
    let report = report_of(Limits::default(), |address, report| {
        let mut client = raw_client(address);
        for id in 1..=FLOOD {
            send(&mut client, &call(id << 16, "Say", &[], &BAD_BODY));
            receive(&mut client).expect("a refusal");
        }
        wait_for(report, RefusalKind::BadRequest, FLOOD);
    });
    let seconds = usize::try_from((clock::now() - start).as_secs()).unwrap();
    let lines = report.lines.len();
    assert!(lines >= LINES_PER_SECOND, "{:?}", report.lines);
    assert!(lines <= LINES_PER_SECOND * (seconds + 2), "{lines} lines in {seconds} s");
}
