//! Unknown processes at a server's socket: another protocol, noise, silence, too many of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Instant;

use nearcall_channel::limits::HANDSHAKE_TIMEOUT;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{UnixAddress, recv, send, unix_connect};

use crate::observed::{Observed, PATIENCE};
use crate::stage::prelude::*;

const HTTP: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.5.0\r\n\r\n";

/// Connects to a server's abstract socket and sends nothing.
fn connect(server: &Observed) -> OwnedFd {
    let name = server.address.strip_prefix("unix:@").unwrap();
    unix_connect(UnixAddress::Abstract(name.as_bytes()), Some(PATIENCE)).unwrap()
}

/// What the server answers last, before it closes.
fn answer(socket: &OwnedFd) -> Vec<u8> {
    let mut last = Vec::new();
    loop {
        let ready = poll_one(socket, Interest::Readable, Some(PATIENCE)).unwrap();
        assert!(ready.is_some(), "the process is not turned away");
        let mut buffer = [0; 2048];
        // A process that has left something unread is reset.
        match recv(socket, &mut buffer) {
            Ok(0) | Err(_) => return last,
            Ok(bytes) => last = buffer[..bytes].to_vec(),
        }
    }
}

fn first_call(address: &str) {
    EchoCaller::new(&Client::new(), address).unwrap().nothing(&()).expect("a new client gets in");
}

/// No process that has connected since `start` has been waited for until its time was up.
#[track_caller]
fn expect_no_wait(start: Instant) {
    let took = start.elapsed();
    assert!(took < HANDSHAKE_TIMEOUT, "{took:?}");
}

/// Connects as a few unknown processes at once, for `leaves_nothing`.
pub(super) fn make_noise(local: &Observed, remote: &Observed, number: u64) {
    drop(connect(local));
    let noisy = connect(local);
    let bytes = usize::try_from(number % 100).unwrap();
    send(&noisy, &HTTP.repeat(2)[..=bytes]).unwrap();
    answer(&noisy);
    say(remote.address.strip_prefix("tcp://").unwrap(), &b"NEARCALC"[..bytes % 9]);
}

#[test]
fn another_protocol_is_turned_away_with_a_reason() {
    Observed::beside_a_good_client(|server| {
        for noise in [HTTP, b"\x00", b"NEARCALL", b"NEARCALL\x01\x09\x00", &[0xff; 900]] {
            let socket = connect(server);
            send(&socket, noise).unwrap();
            let answer = String::from_utf8_lossy(&answer(&socket)).into_owned();
            assert!(answer.contains("invalid control packet"), "{answer}");
        }
        // Longer than any packet of the handshake.
        let long = connect(server);
        send(&long, &[b'x'; 100_000]).unwrap();
        answer(&long);
    });
}

#[test]
fn random_packets_are_turned_away() {
    Observed::beside_a_good_client(|server| {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut noise = vec![0; random.usize(1..1024)];
            random.fill(&mut noise);
            if random.bool() {
                // Into what comes after the magic.
                let opening = b"NEARCALL\x01";
                let bytes = noise.len().min(opening.len());
                noise[..bytes].copy_from_slice(&opening[..bytes]);
            }
            let socket = connect(server);
            send(&socket, &noise).unwrap();
            // A few are good greetings by chance, and say no more after the answer.
            let _ = nearcall_os::socket::shutdown(&socket, nearcall_os::socket::Half::Send);
            answer(&socket);
        }
    });
}

#[test]
fn a_stream_does_not_get_to_the_server() {
    Observed::beside_a_good_client(|server| {
        let name = server.address.strip_prefix("unix:@").unwrap();
        let place = SocketAddr::from_abstract_name(name).unwrap();
        assert!(UnixStream::connect_addr(&place).is_err(), "the kernel distinguishes the two");
    });
}

#[test]
fn a_process_that_comes_and_goes_at_once_is_forgotten() {
    let server = Observed::start();
    server.while_a_good_client_calls(|| (0..200).for_each(|_| drop(connect(&server))));
    server.wait_for_connections(0);
}

#[test]
fn one_silent_process_delays_no_client() {
    Observed::beside_a_good_client(|server| {
        let start = clock::now();
        let _silent = connect(server);
        first_call(&server.address);
        expect_no_wait(start);
    });
}

#[test]
fn r12_silent_processes_do_not_keep_a_client_out() {
    Observed::beside_a_good_client(|server| {
        let start = clock::now();
        // More than the 96 handshakes that one user has at most.
        let silent: Vec<_> = (0..140).map(|_| connect(server)).collect();
        first_call(&server.address);
        expect_no_wait(start);
        // They were told, those at least that had to make room.
        let told = answer(&silent[0]);
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("others wait"), "{told}");
    });
}

#[test]
fn r12_processes_that_send_half_a_handshake_do_not_keep_a_client_out() {
    let server = Observed::start();
    let hello = nearcall_channel::VERSION;
    let mut greeting = b"NEARCALL\x01".to_vec();
    greeting.extend(hello.major.to_le_bytes());
    greeting.extend(hello.minor.to_le_bytes());
    greeting.extend((4_u32 << 20).to_le_bytes());
    greeting.extend((256_u32 << 10).to_le_bytes());
    greeting.extend(b"shm-futex");
    server.while_a_good_client_calls(|| {
        let start = clock::now();
        let half: Vec<_> = (0..140).map(|_| connect(&server)).collect();
        for socket in &half {
            let _ = send(socket, &greeting);
        }
        first_call(&server.address);
        expect_no_wait(start);
    });
}

#[test]
fn r12_processes_that_make_room_are_refused_with_the_reason() {
    let server = Observed::start();
    let start = clock::now();
    // More than the 96 handshakes of one user; the kernel's queue holds 128.
    let silent: Vec<_> = (0..150).map(|_| connect(&server)).collect();
    let client = Client::new();
    client.hunt(&server.address, PATIENCE).unwrap();
    EchoCaller::new(&client, &server.address).unwrap().nothing(&()).unwrap();
    expect_no_wait(start);
    // Those that made room, and those whose time was up.
    for socket in &silent[..90] {
        let told = answer(socket);
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("try again") || told.contains("in time"), "{told}");
    }
}

fn tcp_server() -> (Observed, String) {
    let server = Observed::at("tcp://127.0.0.1:0", Limits::default());
    let place = server.address.strip_prefix("tcp://").unwrap().to_owned();
    (server, place)
}

/// Says something and waits until the server has had enough.
fn say(place: &str, noise: &[u8]) {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may have closed already.
    let _ = stream.write_all(noise);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn another_protocol_over_tcp_is_closed() {
    let (server, place) = tcp_server();
    server.while_a_good_client_calls(|| {
        for noise in [HTTP, b"", b"N", b"NEARCALC", b"NEARCALS", &[0; 100_000]] {
            say(&place, noise);
        }
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut noise = vec![0; random.usize(1..300)];
            random.fill(&mut noise);
            let opening = b"NEARCALC\x01\x00\x00\x00";
            let bytes = random.usize(0..=opening.len()).min(noise.len());
            noise[..bytes].copy_from_slice(&opening[..bytes]);
            say(&place, &noise);
        }
    });
    server.wait_for_connections(0);
}

#[test]
fn a_message_over_the_limit_is_cut_off_over_tcp() {
    let (server, place) = tcp_server();
    server.while_a_good_client_calls(|| {
        for announced in [u32::MAX, 1 << 31, (4 << 20) + 1] {
            let mut bytes = b"NEARCALC\x01\x00\x00\x00".to_vec();
            bytes.extend((4_u32 << 20).to_le_bytes());
            bytes.extend((256_u32 << 10).to_le_bytes());
            bytes.extend([0; 4]);
            // A piece of a message of that length.
            bytes.extend(announced.to_le_bytes());
            bytes.extend((16_u32 << 10).to_le_bytes());
            bytes.extend([7; 100]);
            let mut stream = TcpStream::connect(&place).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&bytes).unwrap();
            let mut answer = Vec::new();
            // The writing half stays open, so only the server can end this.
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.len() < 200, "greetings and no more");
        }
    });
}

#[test]
fn r12_silence_or_a_byte_now_and_then_over_tcp_keeps_no_client_out() {
    let (server, place) = tcp_server();
    let drip = |lines: &mut [TcpStream], byte: u8| {
        for line in lines {
            // The server may have closed it.
            let _ = line.write_all(&[byte]);
        }
    };
    server.while_a_good_client_calls(|| {
        let mut silent: Vec<_> = (0..140).map(|_| TcpStream::connect(&place).unwrap()).collect();
        // Half of them send a greeting byte by byte.
        for byte in &b"NEARCALL"[..3] {
            drip(&mut silent[..70], *byte);
            let start = clock::now();
            first_call(&server.address);
            let took = start.elapsed();
            assert!(took < PATIENCE, "{took:?}");
        }
    });
}
