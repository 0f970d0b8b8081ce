//! Recordings of servers of this process, replayed to the same and to changed ones.

use std::time::Duration;

use nearcall::control::recorded_event::What;
use nearcall::control::{
    RecordReply, RecordRequest, RecordedEvent, RecordedInterface, RecordingHeader, ServerCaller,
};
use nearcall::service::Interface;
use nearcall::stream::{ItemReceiver, ItemSender, ReplyStream};
use nearcall::{CallOptions, Client, Code, Context, Limits, Status};
use nearcall_recording::{Reader, ReplayError, ReplayOptions, ReplayReport, Speed, Writer, replay};
use nearcall_testkit::echo::{EchoCaller, Failure, Words};
use nearcall_testkit::home::{
    NoteRequest, SetTargetRequest, ThermostatCaller, ThermostatDispatcher,
};
use nearcall_testkit::streams::{Item, Plan, Streams, StreamsCaller, StreamsDispatcher};
use nearcall_testkit::support::{LoopThread, Room, Served, everything, unique_address};
use nearcall_testkit::timed;

/// A recording under way.
struct Recorder {
    parts: ReplyStream<RecordReply>,
    interface: &'static Interface,
}

impl Recorder {
    fn start(address: &str, interface: &'static Interface) -> Self {
        let server = ServerCaller::new(&Client::new(), address).unwrap();
        let mut parts = server.record(&RecordRequest::default()).unwrap();
        parts.recv().unwrap();
        Self { parts, interface }
    }

    /// Returns a file with the events of so many calls.
    fn file(mut self, calls: usize) -> Vec<u8> {
        let mut events = Vec::new();
        while events.iter().filter(|event| is_end(event)).count() < calls {
            events.extend(self.parts.recv().unwrap().unwrap().events);
        }
        let interfaces = vec![RecordedInterface {
            name: self.interface.name.to_owned(),
            descriptor_set: self.interface.descriptor_set.into(),
        }];
        let header = RecordingHeader { interfaces, ..RecordingHeader::default() };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, header).unwrap();
        events.into_iter().for_each(|event| writer.event(event).unwrap());
        writer.finish().unwrap();
        file
    }
}

fn is_end(event: &RecordedEvent) -> bool {
    match event.what.as_ref().unwrap() {
        What::Result(_) | What::Failure(_) | What::Cancel(_) => true,
        What::Request(request) => request.is_oneway,
        _ => false,
    }
}

fn options(speed: Speed) -> ReplayOptions {
    ReplayOptions {
        speed,
        compare: true,
        only_idempotent: false,
        connections_max: 64,
        timeout: Duration::from_secs(30),
    }
}

fn replay_file(file: &[u8], address: &str, options: &ReplayOptions) -> ReplayReport {
    let mut reader = Reader::new(file).unwrap();
    replay(&mut reader, address, options, &|| false).unwrap()
}

/// Streams in the thread of the loop; `first` is the number of the first item.
struct Counter {
    first: u64,
}

impl Streams for Counter {
    fn count(
        &self,
        _context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        for number in self.first..plan.items {
            items.send(&Item { number, data: vec![1; plan.bytes as usize].into() })?;
        }
        match u16::try_from(plan.code).ok().and_then(Code::from_number) {
            None | Some(Code::Ok) => Ok(()),
            Some(code) => Err(Status::new(code, "as planned")),
        }
    }

    fn count_quickly(
        &self,
        context: &Context<'_>,
        plan: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        self.count(context, plan, items)
    }

    fn sum(&self, _context: &Context<'_>, items: ItemReceiver<Item>) -> Result<Item, Status> {
        let mut number = self.first;
        while let Some(item) = items.recv()? {
            number += item.number;
        }
        Ok(Item { number, ..Item::default() })
    }

    fn drain(&self, context: &Context<'_>, items: ItemReceiver<Item>) -> Result<(), Status> {
        self.sum(context, items).map(drop)
    }

    fn exchange(
        &self,
        _context: &Context<'_>,
        items: ItemReceiver<Item>,
        replies: ItemSender<Item>,
    ) -> Result<(), Status> {
        while let Some(item) = items.recv()? {
            replies.send(&Item { number: item.number + self.first, ..item })?;
        }
        Ok(())
    }

    fn say(&self, _context: &Context<'_>, request: &Item) -> Result<Item, Status> {
        Ok(request.clone())
    }
}

fn serve_streams(first: u64) -> (String, LoopThread) {
    let address = unique_address();
    let at = everything(&address);
    let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        server.register(StreamsDispatcher::new(Counter { first })).unwrap();
        server.listen(&at).unwrap();
    });
    (address, thread)
}

/// Calls of each shape.
fn stream(address: &str) {
    let streams = StreamsCaller::new(&Client::new(), address).unwrap();
    let plan = Plan { items: 5, bytes: 3000, code: Code::Aborted as u32 };
    assert_eq!(streams.count(&plan).unwrap().count(), 6);
    let mut upload = streams.sum().unwrap();
    (0..4).for_each(|number| upload.send(&Item { number, ..Item::default() }).unwrap());
    assert_eq!(upload.finish().unwrap().number, 6);
    let (mut requests, mut replies) = streams.exchange().unwrap();
    for number in 0..3 {
        requests.send(&Item { number, ..Item::default() }).unwrap();
        assert_eq!(replies.recv().unwrap().unwrap().number, number);
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
    let first = streams.start_say(&Item { number: 1, ..Item::default() });
    let second = streams.start_say(&Item { number: 2, ..Item::default() });
    assert_eq!(second.wait().unwrap().number, 2);
    assert_eq!(first.wait().unwrap().number, 1);
}

#[timed]
fn calls_of_every_shape_are_equal_to_those_of_the_same_service() {
    let (address, _thread) = serve_streams(0);
    let recorder = Recorder::start(&address, StreamsCaller::INTERFACE);
    stream(&address);
    let file = recorder.file(5);
    let (again, _thread) = serve_streams(0);
    for speed in [Speed::Times(1.0), Speed::Times(4.0), Speed::Max] {
        let report = replay_file(&file, &again, &options(speed));
        assert_eq!((report.calls, report.equal, report.connections), (5, 5, 1), "{report:?}");
        assert!(report.different == 0 && report.not_compared == 0 && report.failed == 1);
        assert!(report.incomplete.is_none() && report.not_idempotent == 5, "{report:?}");
        let rows: u64 = report.intervals.iter().map(|row| row.calls).sum();
        assert_eq!(rows, 5);
    }
}

#[timed]
fn items_and_ends_that_differ_are_found() {
    let (address, _thread) = serve_streams(0);
    let recorder = Recorder::start(&address, StreamsCaller::INTERFACE);
    stream(&address);
    let file = recorder.file(5);
    let (changed, _thread) = serve_streams(1);
    let report = replay_file(&file, &changed, &options(Speed::Max));
    assert_eq!((report.calls, report.equal, report.different), (5, 2, 3), "{report:?}");
    let fields = |index: usize| -> Vec<_> {
        report.differences[index].fields.iter().map(ToString::to_string).collect()
    };
    assert_eq!(report.differences[0].method, "streams.v1.Streams/Count");
    assert_eq!(fields(0)[0], "items[0].number: 0 -> 1");
    assert_eq!(*fields(0).last().unwrap(), "items[4]: an item -> absent");
    assert_eq!(fields(1), ["reply.number: 6 -> 7"]);
    assert_eq!(fields(2)[2], "items[2].number: 2 -> 3");
}

fn serve_room(factor: f64, celsius_max: f64) -> (String, LoopThread) {
    let address = unique_address();
    let at = everything(&address);
    let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        let room = Room::new(factor, celsius_max);
        server.register_as("hall", ThermostatDispatcher::new(room)).unwrap();
        server.listen(&at).unwrap();
    });
    (address, thread)
}

#[timed]
fn a_changed_service_is_told_by_fields_and_codes() {
    let (address, _thread) = serve_room(1.0, 30.0);
    let recorder = Recorder::start(&address, ThermostatCaller::INTERFACE);
    let room = ThermostatCaller::new(&Client::new(), &format!("{address}#hall")).unwrap();
    let room = room.with(CallOptions::new().deadline(Duration::from_secs(60)));
    let set = |celsius| room.set_target(&SetTargetRequest { celsius });
    set(21.5).unwrap();
    set(28.0).unwrap();
    set(99.0).unwrap_err();
    room.note(&NoteRequest { text: "warm".into() }).unwrap();
    room.reset(&()).unwrap();
    let file = recorder.file(5);
    let (same, _thread) = serve_room(1.0, 30.0);
    let report = replay_file(&file, &same, &options(Speed::Max));
    assert_eq!((report.calls, report.equal, report.not_compared), (5, 4, 1), "{report:?}");
    let (changed, _thread) = serve_room(1.8, 25.0);
    let report = replay_file(&file, &changed, &options(Speed::Max));
    let [second] = &report.differences[..] else { panic!("{report:?}") };
    assert_eq!(second.call, 2);
    let status = second.fields[0].to_string();
    assert_eq!(status, "status: OK -> OUT_OF_RANGE: too warm");
    // `Reset` and `Note` may not be called twice.
    assert_eq!(report.not_idempotent, 2);
    let only = ReplayOptions { only_idempotent: true, ..options(Speed::Max) };
    let report = replay_file(&file, &changed, &only);
    assert_eq!((report.calls, report.left_out), (3, 2), "{report:?}");
}

#[timed]
fn connections_overlap_as_they_did_and_are_bounded() {
    let served = Served::start();
    let recorder = Recorder::start(&served.address, EchoCaller::INTERFACE);
    let callers: Vec<_> = (0..5).map(|_| served.echo("")).collect();
    for (number, caller) in (0..40).zip(callers.iter().cycle()) {
        caller.say(&Words { number, ..Words::default() }).unwrap();
    }
    let options_of = CallOptions::new().metadata("room", "attic").unwrap();
    callers[0].with(options_of).look(&()).unwrap();
    let failure = Failure { code: Code::NotFound as u32, text: "none".into() };
    callers[1].fail(&failure).unwrap_err();
    let file = recorder.file(42);
    for (connections_max, connections) in [(64, 5), (2, 2)] {
        let options = ReplayOptions { connections_max, ..options(Speed::Max) };
        let report = replay_file(&file, &served.address, &options);
        assert_eq!((report.calls, report.connections), (42, connections), "{report:?}");
        // What a method sees of its caller need not be equal.
        assert!(report.equal >= 41 && report.failed == 1, "{report:?}");
    }
    // Without a comparison nothing is equal or different.
    let options = ReplayOptions { compare: false, ..options(Speed::Max) };
    let report = replay_file(&file, &served.address, &options);
    assert_eq!((report.equal, report.different, report.not_compared), (0, 0, 42));
}

#[timed]
fn a_recording_that_is_cut_off_is_replayed_up_to_there() {
    let served = Served::start();
    let recorder = Recorder::start(&served.address, EchoCaller::INTERFACE);
    let echo = served.echo("");
    (0..10).for_each(|number| drop(echo.say(&Words { number, ..Words::default() }).unwrap()));
    let file = recorder.file(10);
    let report = replay_file(&file[..file.len() - 60], &served.address, &options(Speed::Max));
    assert!(report.equal == 9 && report.calls <= 10, "{report:?}");
    assert!(report.incomplete.unwrap().contains("cut off"));
    let mut damaged = file.clone();
    let at = file.len() - 60;
    damaged[at] ^= 0xff;
    let report = replay_file(&damaged, &served.address, &options(Speed::Max));
    assert!(report.incomplete.unwrap().contains("damaged"));
    // Stopped before it begins.
    let mut reader = Reader::new(&file[..]).unwrap();
    let report = replay(&mut reader, &served.address, &options(Speed::Times(1.0)), &|| true);
    assert_eq!(report.unwrap().calls, 0);
    let mut reader = Reader::new(&file[..]).unwrap();
    let nobody = unique_address();
    let refused = replay(&mut reader, &nobody, &options(Speed::Max), &|| false).unwrap_err();
    assert!(matches!(refused, ReplayError::Server(_)), "{refused}");
}
