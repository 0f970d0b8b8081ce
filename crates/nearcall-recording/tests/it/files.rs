//! Files that are whole, cut off, damaged at any byte, newer, or something else.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use nearcall::control::record::Content;
use nearcall::control::recorded_event::What;
use nearcall::control::{
    Record, RecordedBody, RecordedDrop, RecordedEvent, RecordedInterface, RecordedRequest,
    RecordedResult, RecordingHeader,
};
use nearcall::prost::Message;
use nearcall_recording::{FileEnd, ReadError, Reader, Writer, fuzz};
use nearcall_testkit::home::ThermostatCaller;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{DescriptorPool, DynamicMessage};

fn header() -> RecordingHeader {
    let interface = ThermostatCaller::INTERFACE;
    let interface = RecordedInterface {
        name: interface.name.to_owned(),
        descriptor_set: interface.descriptor_set.into(),
    };
    RecordingHeader {
        address: "thermostat".into(),
        interfaces: vec![interface],
        ..RecordingHeader::default()
    }
}

fn body(bytes: usize) -> Option<RecordedBody> {
    Some(RecordedBody { data: vec![7; bytes].into(), cut_from_bytes: 0 })
}

fn events(calls: u64) -> Vec<RecordedEvent> {
    let both = |call: u64| {
        let request = RecordedRequest {
            connection: 1,
            object: "home.v1.Thermostat".into(),
            method: "SetTarget".into(),
            body: body(9),
            ..RecordedRequest::default()
        };
        let result = RecordedResult { body: body(200), metadata: Vec::new() };
        [What::Request(request), What::Result(result)].map(|what| RecordedEvent {
            time_ns: call * 1000,
            call,
            what: Some(what),
        })
    };
    (1..=calls).flat_map(both).collect()
}

fn written(events: &[RecordedEvent]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, header()).unwrap();
    events.iter().for_each(|event| writer.event(event.clone()).unwrap());
    writer.finish().unwrap();
    file
}

/// An offset as an index.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// All events that can be read, and the end.
fn read(file: impl Read) -> (Vec<RecordedEvent>, Result<FileEnd, ReadError>) {
    let mut events = Vec::new();
    let mut reader = match Reader::new(BufReader::new(file)) {
        Ok(reader) => reader,
        Err(error) => return (events, Err(error)),
    };
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(*reader.end().unwrap())),
            Err(error) => return (events, Err(error)),
        }
    }
}

#[test]
fn what_is_written_is_read() {
    let mut all = events(3);
    let dropped = RecordedDrop { calls: 4, events: 5, bytes: 6 };
    all.push(RecordedEvent { time_ns: 9, call: 0, what: Some(What::Dropped(dropped)) });
    let file = written(&all);
    let (events, end) = read(&file[..]);
    assert_eq!(events, all);
    let Ok(FileEnd::Whole(end)) = end else { panic!("{end:?}") };
    assert_eq!((end.calls, end.events, end.dropped), (3, 7, Some(dropped)));
    let reader = Reader::new(&file[..]).unwrap();
    assert_eq!((reader.header().version, &*reader.header().address), (1, "thermostat"));
    assert!(!reader.header().descriptor_set.is_empty());
}

/// As any protobuf library reads it.
#[test]
fn a_file_is_length_delimited_records() {
    let file = written(&events(1));
    let mut rest = &file[..];
    let mut contents = Vec::new();
    while !rest.is_empty() {
        contents.push(Record::decode_length_delimited(&mut rest).unwrap().content.unwrap());
    }
    assert!(matches!(
        contents[..],
        [Content::Header(_), Content::Event(_), Content::Event(_), Content::End(_)]
    ));
}

/// Returns the bytes of a field that has a length.
fn field(message: &[u8], number: u32) -> &[u8] {
    let mut rest = message;
    while !rest.is_empty() {
        let (tag, wire_type) = decode_key(&mut rest).unwrap();
        let bytes = match wire_type {
            WireType::Varint => {
                decode_varint(&mut rest).unwrap();
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::LengthDelimited => {
                usize::try_from(decode_varint(&mut rest).unwrap()).unwrap()
            }
            other => panic!("{other:?}"),
        };
        let (value, later) = rest.split_at(bytes);
        if tag == number && wire_type == WireType::LengthDelimited {
            return value;
        }
        rest = later;
    }
    panic!("no field {number}")
}

/// By what `docs/book/src/reference/recording.md` says, and nothing else.
#[test]
fn a_file_is_read_by_the_descriptors_that_it_has() {
    let file = written(&events(1));
    let mut rest = &file[..];
    let first_bytes = usize::try_from(decode_varint(&mut rest).unwrap()).unwrap();
    let set = field(field(&rest[..first_bytes], 2), 6);
    let mut pool = DescriptorPool::global();
    pool.decode_file_descriptor_set(set).unwrap();
    let record = pool.get_message_by_name("nearcall.v1.Record").unwrap();
    let mut rest = &file[..];
    let mut names = Vec::new();
    while !rest.is_empty() {
        let record_bytes = usize::try_from(decode_varint(&mut rest).unwrap()).unwrap();
        let (whole, later) = rest.split_at(record_bytes);
        let record = DynamicMessage::decode(record.clone(), whole).unwrap();
        let (field, _) = record.fields().find(|(field, _)| field.name() != "check").unwrap();
        names.push(field.name().to_owned());
        rest = later;
    }
    assert_eq!(names, ["header", "event", "event", "end"]);
}

#[test]
fn a_file_that_is_cut_off_is_read_to_its_last_whole_record() {
    let all = events(2);
    let file = written(&all);
    let header_bytes = written(&[]).len() - written_end_bytes();
    for length in header_bytes..file.len() {
        let (events, end) = read(&file[..length]);
        let Ok(FileEnd::CutOff { offset }) = end else { panic!("{length}: {end:?}") };
        assert!(place(offset) <= length && events.len() <= 4);
        assert_eq!(events, all[..events.len()], "{length}");
        // It ends where the events do.
        assert_eq!(read(&file[..place(offset)]).0.len(), events.len());
    }
    for length in 0..header_bytes {
        let end = read(&file[..length]).1;
        assert!(matches!(end, Err(ReadError::NotARecording)), "{length}: {end:?}");
    }
}

/// The length of the last record of a file without events.
fn written_end_bytes() -> usize {
    let file = written(&[]);
    let mut rest = &file[..];
    Record::decode_length_delimited(&mut rest).unwrap();
    rest.len()
}

#[test]
fn damage_of_any_byte_is_found_at_its_record() {
    let all = events(2);
    let file = written(&all);
    let mut starts = vec![0];
    let mut rest = &file[..];
    while !rest.is_empty() {
        Record::decode_length_delimited(&mut rest).unwrap();
        starts.push(file.len() - rest.len());
    }
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= [1, 0x80, 0xff][at % 3];
        let start = *starts.iter().rfind(|start| **start <= at).unwrap();
        let (events, end) = read(&damaged[..]);
        assert_eq!(events, all[..events.len()], "byte {at}");
        match end {
            Err(ReadError::Damaged { offset, .. }) => assert_eq!(place(offset), start, "{at}"),
            Err(ReadError::NotARecording) => assert_eq!(start, 0),
            // A length that leads behind the end of the file.
            Ok(FileEnd::CutOff { offset }) => assert_eq!(place(offset), start, "byte {at}"),
            end => panic!("byte {at}: {end:?}"),
        }
    }
    let mut longer = file.clone();
    longer.push(0);
    assert!(matches!(read(&longer[..]).1, Err(ReadError::Damaged { .. })));
    // Records in another order are not what was written.
    let (second, third) = (starts[1], starts[2]);
    let swapped = [&file[..second], &file[third..], &file[second..third]].concat();
    let end = read(&swapped[..]).1;
    assert!(matches!(end, Err(ReadError::Damaged { offset, .. }) if place(offset) == second));
}

#[test]
fn newer_files_and_other_ones_are_refused_with_what_to_do() {
    let file = written(&[]);
    let mut record = Record::decode_length_delimited(&file[..]).unwrap();
    if let Some(Content::Header(header)) = &mut record.content {
        header.version = 7;
        header.nearcall_version = "9.1.0".into();
    }
    let content = Record { check: 0, content: record.content }.encode_to_vec();
    let length = content.len() as u64 + 9;
    let mut head = 0_u64.to_le_bytes().to_vec();
    head.extend_from_slice(&length.to_le_bytes());
    let mut newer = Vec::new();
    prost::encoding::encode_varint(length, &mut newer);
    newer.push(0x09);
    newer.extend_from_slice(&crc32fast_of(&head));
    newer.extend_from_slice(&crc32fast_of(&content));
    newer.extend_from_slice(&content);
    let error = read(&newer[..]).1.unwrap_err().to_string();
    assert!(error.contains("format 7") && error.contains("9.1.0"), "{error}");
    assert!(error.contains("a later one"), "{error}");
    for other in [&b"#!/bin/sh\n"[..], b"", &[0xff; 100], &[0; 100], b"12 1.5 read(4, 1) = 1\n"] {
        let error = read(other).1.unwrap_err();
        assert!(matches!(error, ReadError::NotARecording), "{other:?}: {error}");
        assert!(error.to_string().contains("nearcall record NAME -o FILE"));
    }
}

/// As `docs/book/src/reference/recording.md` has it: the CRC-32 of zlib.
fn crc32fast_of(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    (!crc).to_le_bytes()
}

/// A disk that has room for so many bytes.
struct Disk {
    file: Vec<u8>,
    room: usize,
}

impl Write for &mut Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room - self.file.len());
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_full_disk_has_is_read() {
    let all = events(100);
    let mut disk = Disk { file: Vec::new(), room: written(&all).len() / 2 };
    let mut writer = Writer::new(&mut disk, header()).unwrap();
    let failed = all.iter().position(|event| writer.event(event.clone()).is_err()).unwrap();
    assert_eq!(writer.summary().events, failed as u64);
    drop(writer);
    let (events, end) = read(&disk.file[..]);
    assert_eq!(events, all[..failed]);
    assert!(matches!(end, Ok(FileEnd::CutOff { .. })), "{end:?}");
}

/// A file that is never in memory as a whole.
#[test]
fn a_file_is_read_as_a_stream() {
    struct Endless {
        start: io::Cursor<Vec<u8>>,
        read: u64,
    }
    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.read += into.len() as u64;
            match self.start.read(into)? {
                0 => Err(io::Error::other("no test reads so far")),
                bytes => Ok(bytes),
            }
        }
    }
    let file = written(&events(10_000));
    let mut endless = Endless { start: io::Cursor::new(file), read: 0 };
    let mut reader = Reader::new(BufReader::with_capacity(4096, &mut endless)).unwrap();
    for _ in 0..100 {
        assert!(reader.next_event().unwrap().is_some());
    }
    drop(reader);
    assert!(endless.read < 100_000, "{}", endless.read);
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(&corpus).unwrap();
        let file = written(&events(2));
        for (name, bytes) in
            [("whole", &file[..]), ("cut", &file[..file.len() - 20]), ("header", &file[..200])]
        {
            std::fs::write(corpus.join(name), bytes).unwrap();
        }
    }
    let files = std::fs::read_dir(&corpus).unwrap();
    let files: Vec<_> = files.map(|it| std::fs::read(it.unwrap().path()).unwrap()).collect();
    assert!(files.len() >= 3);
    for (seed, file) in files.iter().enumerate() {
        fuzz(file);
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        for _ in 0..300 {
            let mut changed = file.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(0..changed.len());
                changed[at] = rng.u8(..);
            }
            changed.truncate(rng.usize(0..=changed.len()));
            fuzz(&changed);
        }
    }
}
