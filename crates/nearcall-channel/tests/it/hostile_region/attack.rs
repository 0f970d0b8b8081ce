//! Clients that break the handshake, one attack after the other on one server.

use std::fs::File;

use nearcall_channel::{OpenError, Version};
use nearcall_os::pipe;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::support::prelude::*;
use crate::support::raw::{
    ACCEPT, FRAMES, LAYOUT, READY, REFUSAL, REFUSED_LIMITS, REFUSED_MECHANISM, REFUSED_OTHER,
    REFUSED_PARTS, REFUSED_VERSION, RING_BYTES, RawLine, good_hello, good_region, hello, region,
};

/// What the server must say of a client.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    BadPacket,
    BadParts,
    BadOptions,
    Mechanism,
    Version,
    Gone,
    /// The server waits so long for each step.
    Silent(Duration),
}

impl Verdict {
    fn fits(self, error: &HandshakeError) -> bool {
        match self {
            Self::BadPacket => matches!(error, HandshakeError::PeerBroken(Violation::BadPacket)),
            Self::BadParts => matches!(error, HandshakeError::Open(_, OpenError::BadParts(_))),
            Self::BadOptions => matches!(error, HandshakeError::BadOptions(_)),
            Self::Mechanism => error.to_string().contains("unknown mechanism"),
            Self::Version => matches!(
                error,
                HandshakeError::Version { ours: VERSION, theirs: Version { major: 2, minor: 0 } }
            ),
            Self::Gone => matches!(error, HandshakeError::PeerGone),
            Self::Silent(_) => matches!(error, HandshakeError::TimedOut),
        }
    }

    /// The code in the refusal that the client gets.
    fn code(self) -> u8 {
        match self {
            Self::BadPacket | Self::Gone | Self::Silent(_) => REFUSED_OTHER,
            Self::BadParts => REFUSED_PARTS,
            Self::BadOptions => REFUSED_LIMITS,
            Self::Mechanism => REFUSED_MECHANISM,
            Self::Version => REFUSED_VERSION,
        }
    }
}

type Attack = (&'static str, fn(&RawLine));

/// What a client that never takes a step has for it.
const STEP: Duration = Duration::from_millis(100);
/// What a client has for a step that it does take, and then for the one that it does not.
const LONG_STEP: Duration = Duration::from_secs(3);
/// What a busy machine may add to the steps of a client that is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(4);

fn act(play: &mut Play, attacks: &[(Verdict, &[Attack])]) {
    let attacks =
        || attacks.iter().flat_map(|(verdict, all)| all.iter().map(move |it| (it, verdict)));
    let name = format!("nearcall-hostile-{:016x}", play.seed);
    let address = format!("unix:@{name}").parse().unwrap();
    if !play.is_first() {
        for ((what, attack), verdict) in attacks() {
            let line = RawLine::connect(&name, play.mechanism);
            attack(&line);
            play.hear();
            if !matches!(verdict, Verdict::Gone) {
                let (answer, _) = line.receive();
                assert_eq!(answer[..2], [REFUSAL, verdict.code()], "{what}");
                let text = String::from_utf8(answer[2..].to_vec()).unwrap();
                if let Verdict::Version = verdict {
                    assert!(text.contains("2.0") && text.contains("1.0"), "{text}");
                }
            }
            drop(line);
            // Whoever comes next finds the server as it was.
            let mut endpoint = connect(&address, play.mechanism, &play.options()).unwrap();
            endpoint.send(b"still there?", patient()).unwrap();
            assert_eq!(endpoint.receive(patient()).unwrap().len(), 12);
        }
        return;
    }
    let listener = Listener::bind(&address).unwrap();
    for ((what, _), verdict) in attacks() {
        let step = if let Verdict::Silent(step) = verdict { *step } else { PATIENCE };
        let options = Options { handshake_timeout: step, ..play.options() };
        let ready = nearcall_os::poll::Interest::Readable;
        nearcall_os::poll::poll_one(&listener, ready, Some(PATIENCE)).unwrap();
        let started = clock::now();
        let Err(error) = listener.accept(patient(), &options) else { panic!("{what}: accepted") };
        let took = clock::now() - started;
        assert!(verdict.fits(&error), "{what}: {error:?}, not {verdict:?}");
        if let Verdict::Silent(step) = verdict {
            assert!(took < *step + GIVEN_UP_WITHIN, "{what}: given up only after {took:?}");
        }
        play.tell(0);
        let mut endpoint = listener.accept(patient(), &play.options()).unwrap();
        let mut bytes = Vec::new();
        endpoint.receive(patient()).unwrap().read_to_end(&mut bytes).unwrap();
        endpoint.send(&bytes, Deadline::NEVER).unwrap();
        let _ = endpoint.receive(patient());
    }
}

pub(super) fn an_unknown_process_is_refused(play: &mut Play) {
    act(play, &[(Verdict::BadPacket, NO_CLIENTS)]);
}

const NO_CLIENTS: &[Attack] = &[
    ("a web browser", |line| line.send(b"GET / HTTP/1.1\r\n\r\n", &[])),
    ("one zero", |line| line.send(&[0], &[])),
    ("only the mark", |line| line.send(b"NEARCALL", &[])),
    ("a greeting cut off", |line| line.send(&good_hello(line.mechanism)[..15], &[])),
    ("random bytes", |line| line.send(&random(200), &[])),
    ("a packet too long", |line| line.send(&random(2000), &[])),
    ("descriptors before a greeting is known", |line| {
        line.send(&good_hello(line.mechanism), &[good_region().1]);
    }),
    ("a name that is no text", |line| {
        line.send(&hello(VERSION, 4096, RING_BYTES, &[0xFF, 0xFE]), &[]);
    }),
    ("ready at once", |line| line.send(&[READY], &[])),
    ("ready instead of parts", |line| {
        line.greet();
        line.send(&[READY], &[]);
    }),
    ("random bytes after the offer", |line| {
        line.greet();
        line.send(&random(300), &[]);
    }),
];

/// Bytes that are no packet of the handshake, whatever follows the first.
fn random(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(len).collect();
    bytes[0] = 0x80;
    bytes
}

pub(super) fn bad_terms_are_refused(play: &mut Play) {
    const NEXT: Version = Version { major: 2, minor: 0 };
    let next: &[Attack] = &[("the next version", |line| {
        line.send(&hello(NEXT, 4096, RING_BYTES, b"shm-futex"), &[])
    })];
    let names: &[Attack] = &[
        ("an unknown name", |line| line.send(&hello(VERSION, 4096, RING_BYTES, b"pigeon"), &[])),
        ("a long name", |line| line.send(&hello(VERSION, 4096, RING_BYTES, &[b'x'; 900]), &[])),
        ("no name", |line| line.send(&hello(VERSION, 4096, RING_BYTES, b""), &[])),
    ];
    let limits: &[Attack] = &[
        ("messages of 4 GiB", |line| {
            line.send(&hello(VERSION, u32::MAX, RING_BYTES, b"shm-futex"), &[]);
        }),
        ("no room", |line| line.send(&hello(VERSION, 4096, 0, b"shm-futex"), &[])),
        ("room without end", |line| line.send(&hello(VERSION, 4096, u32::MAX, b"shm-futex"), &[])),
    ];
    let all =
        [(Verdict::Version, next), (Verdict::Mechanism, names), (Verdict::BadOptions, limits)];
    act(play, &all);
}

/// Takes the offer and answers with `fds` and `bytes`.
fn answer(line: &RawLine, bytes: &[u8], fds: &[OwnedFd]) {
    line.greet();
    line.send(&[&[ACCEPT], bytes].concat(), fds);
}

/// A file that is gone by name, as long as a region.
fn file(directory: &str) -> OwnedFd {
    let path = format!("{directory}/nearcall-hostile-{:016x}", fastrand::u64(..));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    file.set_len((FRAMES + RING_BYTES as usize) as u64).unwrap();
    file.into()
}

fn memfd(flags: MemfdFlags, bytes: usize) -> OwnedFd {
    let fd = memfd_create("hostile", flags | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, bytes as u64).unwrap();
    fd
}

fn fifo() -> OwnedFd {
    pipe::create_unlinked_fifo(File::open(std::env::temp_dir()).unwrap()).unwrap()
}

const BYTES: usize = FRAMES + RING_BYTES as usize;

/// What is no memory of ours at all.
const OTHER_PARTS: &[Attack] = &[
    ("no descriptor", |line| answer(line, &[], &[])),
    ("two descriptors", |line| answer(line, &[], &[good_region().1, good_region().1])),
    ("bytes that were not asked for", |line| answer(line, b"more", &[good_region().1])),
    ("memory without seals", |line| {
        answer(line, &[], &[memfd(MemfdFlags::ALLOW_SEALING, BYTES)]);
    }),
    ("memory that cannot be sealed", |line| {
        answer(line, &[], &[memfd(MemfdFlags::empty(), BYTES)]);
    }),
    ("too little memory", |line| {
        let backing = nearcall_os::region::Backing::Reserved;
        let small = nearcall_os::region::OwnRegion::create("small", 4096, backing);
        answer(line, &[], &[small.unwrap().1]);
    }),
    ("a regular file", |line| answer(line, &[], &[file("/var/tmp")])),
    ("a file in /dev/shm", |line| answer(line, &[], &[file("/dev/shm")])),
    ("a named pipe", |line| answer(line, &[], &[fifo()])),
    ("a pipe", |line| answer(line, &[], &[pipe::create().unwrap().read])),
];

const MANY_PARTS: &[Attack] = &[("more descriptors than any mechanism", |line| {
    answer(line, &[], &[(); 9].map(|()| good_region().1));
})];

/// Memory of the right kind that holds something else.
const OTHER_LAYOUTS: &[Attack] = &[
    ("memory without the mark", |line| answer_in(line, *b"nearshn\0", LAYOUT, RING_BYTES)),
    ("another version", |line| answer_in(line, *b"nearshm\0", LAYOUT + 1, RING_BYTES)),
    ("an older version", |line| answer_in(line, *b"nearshm\0", LAYOUT - 1, RING_BYTES)),
    ("another ring than agreed", |line| answer_in(line, *b"nearshm\0", LAYOUT, 1 << 30)),
];

/// Answers with memory of this layout.
fn answer_in(line: &RawLine, mark: [u8; 8], layout: u32, ring_bytes: u32) {
    answer(line, &[], &[region(mark, layout, ring_bytes).1]);
}

pub(super) fn r02_bad_parts_are_refused(play: &mut Play) {
    let bad = Verdict::BadParts;
    act(play, &[(bad, OTHER_PARTS), (bad, OTHER_LAYOUTS), (Verdict::BadPacket, MANY_PARTS)]);
}

pub(super) fn r02_bad_parts_of_shm_are_refused(play: &mut Play) {
    r02_bad_parts_are_refused(play);
}

pub(super) fn a_client_that_leaves_or_falls_silent_is_given_up(play: &mut Play) {
    use nearcall_os::socket::{Half, shutdown};
    let greets: &[Attack] = &[("silence after the offer", |line| drop(line.greet()))];
    let leaves: &[Attack] = &[
        ("leaving at once", |line| shutdown(&line.socket, Half::Both).unwrap()),
        ("leaving after the offer", |line| {
            line.greet();
            shutdown(&line.socket, Half::Both).unwrap();
        }),
    ];
    let silence: &[Attack] = &[("silence", |_| {})];
    let (short, long) = (Verdict::Silent(STEP), Verdict::Silent(LONG_STEP));
    act(play, &[(short, silence), (long, greets), (Verdict::Gone, leaves)]);
}
