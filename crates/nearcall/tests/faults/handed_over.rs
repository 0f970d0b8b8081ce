//! R01, R02, R05, R14, R15: what a client hands over to a server is not what it should be: memory
//! that shrinks, files that are no memory, lengths without end, descriptors that get lost, that are
//! too many, or that are not read.

use std::fs::File;

use nearcall_os::descriptor::{duplicate, try_send_with_fds};
use nearcall_os::pipe;
use nearcall_os::socket::{self, Kind};

use crate::support::hello;
use crate::support::hostile::{Answer, answer, raw_line};
use crate::support::leaks::anonymous_bytes;
use crate::support::prelude::*;
use crate::support::raw::{
    ACCEPT, FRAMES, OFFER, READY, REFUSAL, RING_BYTES, RawLine, good_hello, good_region,
};

pub(crate) const ROLES: &[Role] = &[("r15-bomb", queue_descriptors)];

const WARM_UP: &[&str] = &["", "?via=unix-stream"];
/// A packet of the control line that passes descriptors to the user of the other end.
const PASSED: u8 = 0xD5;
/// Bits of a fragment's second word: its length, and that it is the last one.
const LENGTH: u32 = (1 << 27) - 1;
const LAST: u32 = 1 << 31;

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// Demands that `line` is refused with a reason or closed.
#[track_caller]
fn expect_refused(line: &RawLine, what: &str) {
    match answer(line, PATIENCE) {
        Answer::Packet(bytes, _) if bytes[0] == REFUSAL => {}
        Answer::Closed => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// Opens a connection over `shm` by hand. Returns also the descriptors of the offer and the
/// client's memory.
fn open_shm(server: &ServerProcess) -> (RawLine, Vec<OwnedFd>, OwnedFd) {
    let line = raw_line(&server.address, Mechanism::Shm);
    let offered = line.greet();
    let (_region, memory) = good_region();
    line.send(&[ACCEPT], &[duplicate(&memory).unwrap()]);
    assert_eq!(line.receive().0, [READY]);
    (line, offered, memory)
}

#[timed]
fn r01_memory_that_was_handed_over_cannot_be_truncated() {
    let mut server = ServerProcess::start();
    server.warm_up(WARM_UP);
    let oracle = server.leak_oracle();
    let (line, offered, memory) = open_shm(&server);
    let mut files = 0;
    for fd in offered.iter().chain([&memory]) {
        let file = File::from(duplicate(fd).unwrap());
        if !file.metadata().unwrap().is_file() {
            continue;
        }
        files += 1;
        for bytes in [0, 4096, 1 << 30] {
            let refused = file.set_len(bytes).expect_err("it is sealed");
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
        }
    }
    assert_eq!(files, 2, "the memory of both ends");
    assert_eq!(server.state().violations, 0);
    assert!(matches!(answer(&line, Duration::ZERO), Answer::Nothing), "the session goes on");
    drop((line, offered));
    // What can be truncated is refused, also when it is truncated at once.
    let line = raw_line(&server.address, Mechanism::Shm);
    line.greet();
    let file = unlinked_file("/dev/shm", (FRAMES + RING_BYTES as usize) as u64);
    line.send(&[ACCEPT], &[file.try_clone().unwrap().into()]);
    file.set_len(0).unwrap();
    expect_refused(&line, "a file that can be truncated");
    drop(line);
    server.wait_for_connections(0);
    oracle.check(&[]);
    server.finish();
}

/// A file without a name, of any length.
fn unlinked_file(directory: &str, bytes: u64) -> File {
    let path = format!("{directory}/nearcall-faults-{:016x}", fastrand::u64(..));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(bytes).unwrap();
    file
}

/// What is no memory of nearcall, each time anew.
fn wrong_files() -> Vec<(&'static str, OwnedFd)> {
    let bytes = (FRAMES + RING_BYTES as usize) as u64;
    vec![
        ("a regular file", unlinked_file("/var/tmp", bytes).into()),
        ("a file of /dev/shm", unlinked_file("/dev/shm", bytes).into()),
        ("a huge file", unlinked_file("/dev/shm", 1 << 40).into()),
        ("an empty file", unlinked_file("/dev/shm", 0).into()),
        ("a directory", File::open("/").unwrap().into()),
        ("a device", null()),
        ("a pipe", pipe::create().unwrap().read),
        ("a socket", socket::unix_pair(Kind::Stream).unwrap().0),
        ("a file of /proc", File::open("/proc/self/mem").unwrap().into()),
    ]
}

#[timed]
fn r02_what_is_no_sealed_memory_is_refused_and_closed() {
    let mut server = ServerProcess::start();
    server.warm_up(WARM_UP);
    let mut good = GoodClient::start(&server.address, User::Same);
    server.wait_for_connections(1);
    let oracle = server.leak_oracle();
    let mut slowest = Duration::ZERO;
    let attack = || {
        for (what, fd) in wrong_files() {
            let line = raw_line(&server.address, Mechanism::Shm);
            line.greet();
            let sent = clock::now();
            line.send(&[ACCEPT], &[fd]);
            expect_refused(&line, what);
            slowest = slowest.max(sent.elapsed());
        }
    };
    let ((), latencies) = good.measure_while(attack);
    println!("r02: refused within {slowest:?}; the good client meanwhile: {latencies:?}");
    oracle.check(&[]);
    good.finish();
    server.finish();
}

/// Opens a connection over `unix-stream` by hand. Returns also the socket of its messages.
fn open_stream(server: &ServerProcess) -> (RawLine, OwnedFd) {
    let line = raw_line(&server.address, Mechanism::UnixStream);
    let [data] = <[OwnedFd; 1]>::try_from(line.greet()).unwrap();
    line.send(&[ACCEPT], &[]);
    assert_eq!(line.receive().0, [READY]);
    (line, data)
}

fn fragment(message_bytes: u32, second: u32) -> [u8; 8] {
    (u64::from(message_bytes) | u64::from(second) << 32).to_le_bytes()
}

/// Waits until the server has closed a socket of messages.
#[track_caller]
fn expect_hung_up(data: &OwnedFd, what: &str) {
    let mut buffer = [0; 4096];
    let end = clock::now() + PATIENCE;
    // An end that left something unread is reset.
    while socket::recv(data, &mut buffer).is_ok_and(|bytes| bytes > 0) {
        assert!(clock::now() < end, "{what}: the server goes on");
    }
}

/// The largest size of the address space of a process so far, in bytes.
fn virtual_peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[timed]
fn r05_a_giant_length_ends_the_connection_and_takes_no_memory() {
    let mut server = ServerProcess::start();
    server.warm_up(WARM_UP);
    let limit = 4 << 20;
    let greeting = hello(1, 1);
    let length = u32::try_from(greeting.len()).unwrap();
    let headers = [
        ("2^31 bytes", fragment(1 << 31, 100)),
        ("2^32 - 1 bytes", fragment(u32::MAX, 100)),
        ("a byte above the limit", fragment(limit + 1, 100)),
        ("a fragment longer than its message", fragment(10, 11)),
        ("the longest fragment", fragment(10, LENGTH | LAST)),
        ("reserved bits", fragment(10, 10 | 1 << 28)),
    ];
    let attack = |header: &[u8], what| {
        let (_line, data) = open_stream(&server);
        socket::send(&data, &[&fragment(length, length | LAST)[..], &greeting].concat()).unwrap();
        socket::send(&data, header).unwrap();
        expect_hung_up(&data, what);
    };
    headers.iter().for_each(|(what, header)| attack(header, what));
    let oracle_pid = server.pid();
    let before = (anonymous_bytes(oracle_pid), virtual_peak_bytes(oracle_pid));
    for _ in 0..10 {
        headers.iter().for_each(|(what, header)| attack(header, what));
    }
    // Announced messages of which one byte comes, from several clients at once.
    let halves: Vec<_> = (0..8).map(|_| open_stream(&server)).collect();
    for (_, data) in &halves {
        socket::send(data, &[&fragment(length, length | LAST)[..], &greeting].concat()).unwrap();
        socket::send(data, &[&fragment(limit, 1)[..], &[7]].concat()).unwrap();
    }
    server.wait_for_connections(halves.len());
    let after = (anonymous_bytes(oracle_pid), virtual_peak_bytes(oracle_pid));
    let grown = (after.0.saturating_sub(before.0), after.1 - before.1);
    println!("r05: memory grew by {} KiB, address space by {} MiB", grown.0 >> 10, grown.1 >> 20);
    assert!(grown.0 < u64::from(limit), "{grown:?}: by less than one announced message");
    assert!(grown.1 < 1 << 30, "{grown:?}");
    drop(halves);
    server.wait_for_connections(0);
    server.finish();
}

#[timed]
fn r14_surplus_and_missing_descriptors_are_refused_and_closed() {
    let mut server = ServerProcess::start();
    server.warm_up(WARM_UP);
    let mut good = GoodClient::start(&server.address, User::Same);
    server.wait_for_connections(1);
    let oracle = server.leak_oracle();
    let fds = |count: usize| (0..count).map(|_| null()).collect::<Vec<_>>();
    let attack = || {
        for count in [0, 1, 3, 8, 9, 16, 32] {
            let line = raw_line(&server.address, Mechanism::Shm);
            line.greet();
            line.send(&[ACCEPT], &fds(count));
            expect_refused(&line, &format!("{count} descriptors"));
            // Before anything is known of the client.
            if count > 0 {
                let line = raw_line(&server.address, Mechanism::Shm);
                line.send(&good_hello(Mechanism::Shm), &fds(count));
                expect_refused(&line, &format!("{count} descriptors before a greeting"));
            }
            // On a message that has none.
            if count > 0 {
                let line = raw_line(&server.address, Mechanism::UnixStream);
                line.greet();
                line.send(&[ACCEPT], &fds(count));
                expect_refused(&line, &format!("{count} descriptors for a socket"));
            }
        }
    };
    let ((), latencies) = good.measure_while(attack);
    println!("r14: the good client meanwhile: {latencies:?}");
    oracle.check(&[]);
    good.finish();
    server.finish();
}

#[timed]
fn r14_descriptors_that_a_full_server_loses_end_their_handshake_only() {
    let mut server = ServerSetup::new("server").ulimit("-n 48").start();
    server.warm_up(WARM_UP);
    let mut good = GoodClient::start(&server.address, User::Same);
    server.wait_for_connections(1);
    let oracle = server.leak_oracle();
    let attack = || {
        let (mut kept, mut outcomes) = (Vec::new(), [0; 3]);
        // One descriptor more each time, so that one handshake after the other finds the last.
        for _ in 0..48 {
            // The server may have found no descriptor for what it keeps, and have closed.
            let line = raw_line(&server.address, Mechanism::Shm);
            line.send_unless_closed(&good_hello(Mechanism::Shm), &[]);
            let soon = Duration::from_millis(100);
            let (mut offered, mut outcome) = (Vec::new(), answer(&line, soon));
            if let Answer::Packet(bytes, fds) = &mut outcome
                && bytes[0] == OFFER
            {
                offered.append(fds);
                line.send_unless_closed(&[ACCEPT], &[good_region().1]);
                outcome = answer(&line, soon);
            }
            match outcome {
                Answer::Packet(bytes, _) if bytes == [READY] => outcomes[0] += 1,
                Answer::Packet(..) | Answer::Closed => outcomes[1] += 1,
                Answer::Nothing => outcomes[2] += 1,
            }
            kept.push((line, offered));
        }
        outcomes
    };
    let ([ready, refused, waiting], latencies) = good.measure_while(attack);
    println!("r14: {ready} ready, {refused} refused, {waiting} waited; good {latencies:?}");
    assert!(refused + waiting > 0, "the limit of descriptors does not hold");
    let options = CallOptions::new().deadline(Duration::from_secs(1));
    wait_until("a place", || {
        let echo = EchoCaller::new(&Client::new(), &server.address).unwrap();
        echo.with(options.clone()).nothing(&()).is_ok()
    });
    server.wait_for_connections(1);
    oracle.check(&[]);
    good.finish();
    server.finish();
}

#[timed]
fn r14_no_descriptor_of_a_server_survives_an_exec() {
    let mut server = ServerProcess::start();
    let clients: Vec<_> = ["", "?via=unix-stream", "?via=unix-seqpacket"]
        .map(|via| {
            let echo = EchoCaller::new(&Client::new(), &server.via(via)).unwrap();
            // Long, so that memory of its own is handed over for it.
            let words = Words { data: vec![7; 100_000].into(), number: 0 };
            assert_eq!(echo.say(&words).unwrap(), words);
            echo
        })
        .into();
    let (line, _offered, _memory) = open_shm(&server);
    line.send(&[PASSED], &[null(), null()]);
    server.wait_for_connections(4);
    let mut checked = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/fdinfo", server.pid())).unwrap() {
        let entry = entry.unwrap();
        let number: u32 = entry.file_name().to_str().unwrap().parse().unwrap();
        // What this process has inherited, its children have as well.
        let targets = [server.pid(), std::process::id()]
            .map(|pid| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok());
        if targets[0] == targets[1] {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        if number > 2 {
            assert!(flags & 0o2_000_000 != 0, "descriptor {number} would survive: {text}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} descriptors");
    drop((clients, line));
    server.finish();
}

/// Passes descriptors that are not read, over as many connections as it gets, until each says no.
fn queue_descriptors(address: &str) {
    let files: Vec<OwnedFd> = (0..16).map(|_| null()).collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let (mut lines, mut queued, mut last) = (Vec::new(), 0, String::new());
    for _ in 0..8 {
        let line = raw_line(address, Mechanism::Shm);
        line.send(&good_hello(Mechanism::Shm), &[]);
        let Answer::Packet(_, offered) = answer(&line, PATIENCE) else { break };
        let memory = good_region().1;
        if try_send_with_fds(&line.socket, &[ACCEPT], &[memory.as_fd()]).is_err() {
            break;
        }
        let Answer::Packet(..) = answer(&line, PATIENCE) else { break };
        loop {
            match try_send_with_fds(&line.socket, &[PASSED], &files) {
                Ok(Some(_)) => queued += files.len(),
                Ok(None) => last = "the queue is full".to_owned(),
                Err(error) => last = error.to_string(),
            }
            if !last.is_empty() {
                break;
            }
        }
        lines.push((line, offered));
    }
    report(&format!("queued {queued} over {} connections: {last}", lines.len()));
    wait_for_the_parent();
}

#[timed]
fn r15_descriptors_that_are_not_read_are_the_senders_burden() {
    let mut server = ServerProcess::start();
    server.warm_up(WARM_UP);
    let mut good = GoodClient::start(&server.address, User::Same);
    server.wait_for_connections(1);
    let oracle = server.leak_oracle();
    let mut command = command("r15-bomb", &server.address, "-n 64");
    match User::another() {
        Some(User::Uid(uid)) => drop(command.uid(uid).gid(uid)),
        _ => println!("r15: not root, the sender is of the same user"),
    }
    let attack = || {
        let mut bomb = Process::start_as("r15-bomb", command);
        let text = bomb.hear("queued");
        (bomb, text)
    };
    let ((mut bomb, text), latencies) = good.measure_while(attack);
    let held = crate::support::Holdings::of(server.pid()).unwrap().descriptor_count();
    let more = held.saturating_sub(oracle.holdings().descriptor_count());
    println!("r15: queued {text}; the server holds {more} more; good {latencies:?}");
    // What the user of the runtime may be passed, and those of the connection.
    assert!(more <= 64 + 16 + 8, "{more} descriptors");
    bomb.kill();
    server.wait_for_connections(1);
    oracle.check(&[bomb.pid()]);
    good.finish();
    server.finish();
}
