//! How long one message keeps a loop busy that decodes it: the longest ones by default, of each
//! kind that grows, with the bound of the decoded size and without; and how long one message of any
//! kind keeps another client waiting.

use nearcall::control::ServerCaller;
use nearcall::prost::encoding::encode_varint;
use nearcall::service::Interface;

use super::rounds;
use crate::decoded_size::{Counts, Raw, nested, serve};
use crate::stage::prelude::*;
use nearcall_testkit::sizes::{Count, SizesCaller, SizesDispatcher};

/// The longest body: a message with its header is 4 MiB.
const BODY_BYTES: usize = (4 << 20) - 64;

/// As many of `field` as fit into so many bytes.
fn repeated(field: impl Fn(usize) -> Vec<u8>, bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes);
    for index in 0.. {
        let field = field(index);
        if body.len() + field.len() > bytes {
            break;
        }
        body.extend(field);
    }
    body
}

/// What a field is, and the field of this number of a message of `Send`.
type Kind = (&'static str, fn(usize) -> Vec<u8>);

const KINDS: [Kind; 8] = [
    ("empty structs of 288 bytes", |_| vec![1 << 3 | 2, 0]),
    ("empty structs within structs", |_| vec![8 << 3 | 2, 2, 8 << 3 | 2, 0]),
    ("texts of one byte", |_| vec![3 << 3 | 2, 1, b'x']),
    ("blobs of one byte", |_| vec![4 << 3 | 2, 1, b'x']),
    ("entries of a map", |index| {
        let key = format!("{index:x}");
        let bytes = u8::try_from(key.len()).unwrap();
        [&[5 << 3 | 2, bytes + 2, 1 << 3 | 2, bytes][..], key.as_bytes()].concat()
    }),
    ("one number again and again", |_| vec![10 << 3, 1]),
    ("one struct again and again", |_| vec![9 << 3 | 2, 0]),
    ("fields that no type has", |_| vec![15 << 3, 1]),
];

/// `NEARCALL_ROUNDS` rounds. Beside other work the least one counts.
#[test]
fn time_of_the_longest_messages() {
    let send = method(SizesCaller::INTERFACE, "Send");
    for (bound, limits) in [
        ("without a bound", Limits { decoded_bytes_max: u32::MAX, ..Limits::default() }),
        ("by default", Limits::default()),
    ] {
        let served = serve(limits);
        let object = object(&Client::new(), SizesCaller::INTERFACE, &served.address);
        let call = |body: &[u8]| {
            let body = Raw(body.to_vec());
            let start_ns = clock::monotonic_ns();
            let outcome = object.start::<_, Count>(send, &body).wait();
            ((clock::monotonic_ns() - start_ns) as f64 / 1e6, outcome.is_ok())
        };
        let packed = numbers();
        let all =
            KINDS.iter().map(|(kind, field)| (*kind, repeated(field, BODY_BYTES), Some(field)));
        for (kind, body, field) in all.chain([("numbers of one byte", packed, None)]) {
            let (whole_ms, is_taken) = call(&body);
            let longest = match field {
                Some(field) if !is_taken => longest_taken(|bytes| {
                    let body = repeated(field, bytes);
                    call(&body).1.then_some(body)
                }),
                _ => body,
            };
            let (least, most) = (0..rounds())
                .map(|_| call(&longest).0)
                .fold((f64::MAX, 0.0_f64), |(least, most), ms| (least.min(ms), most.max(ms)));
            let whole = if is_taken { "is taken" } else { "is refused" };
            eprintln!(
                "{bound}, {kind}: 4 MiB {whole} in {whole_ms:.1} ms; {} bytes are taken in \
                 {least:.1} to {most:.1} ms",
                longest.len(),
            );
        }
    }
}

/// Returns the longest body that is taken, to 4 KiB.
fn longest_taken(try_bytes: impl Fn(usize) -> Option<Vec<u8>>) -> Vec<u8> {
    let (mut low, mut high, mut longest) = (0, BODY_BYTES, Vec::new());
    while high - low > 4096 {
        let middle = usize::midpoint(low, high);
        match try_bytes(middle) {
            Some(body) => (low, longest) = (middle, body),
            None => high = middle,
        }
    }
    longest
}

/// The message of numbers of one byte that is as long as possible.
fn numbers() -> Vec<u8> {
    let mut packed = vec![2 << 3 | 2];
    encode_varint((BODY_BYTES - 5) as u64, &mut packed);
    packed.resize(BODY_BYTES, 1);
    packed
}

/// A message with one field, number 1, of so many equal bytes.
fn field(byte: u8, bytes: usize) -> Vec<u8> {
    let mut body = vec![1 << 3 | 2];
    encode_varint(bytes as u64, &mut body);
    body.resize(body.len() + bytes, byte);
    body
}

/// How much longer a message may keep a loop busy than copying one, where it needs no decoding, and
/// than the first of the growing ones, where it does.
const STALL_RATIO_MAX: f64 = 12.0;

/// What a message is, and where it goes.
type Case = (&'static str, &'static Interface, &'static str, Vec<u8>);

/// Messages that need no decoding but of one field, or fail at once.
fn plain_cases() -> Vec<Case> {
    let (sizes, server) = (SizesCaller::INTERFACE, ServerCaller::INTERFACE);
    let long = |byte| field(byte, BODY_BYTES - 5);
    vec![
        ("a field that no type has", sizes, "Nothing", long(b'x')),
        ("Health of a long name", server, "Health", long(0x7f)),
        ("Describe of a long name", server, "Describe", long(0x7f)),
        ("Switch to a long name", server, "Switch", long(0x7f)),
        ("100,000 levels", sizes, "Send", nested(100_000)),
    ]
}

/// Messages that grow: as long as they may be, and about as long as the loop still decodes them.
fn growing_cases() -> Vec<Case> {
    let sizes = SizesCaller::INTERFACE;
    let mut bad = numbers();
    *bad.last_mut().unwrap() = 0x80;
    let [structs, _, texts, _, entries, ..] = KINDS.map(|(_, make)| make);
    vec![
        ("numbers of one byte", sizes, "Send", numbers()),
        ("numbers of which the last is bad", sizes, "Send", bad),
        ("structs, refused", sizes, "Send", repeated(structs, BODY_BYTES)),
        ("structs, taken", sizes, "Send", repeated(structs, 200_000)),
        ("texts of one byte, taken", sizes, "Send", repeated(texts, 1_200_000)),
        ("entries of a map, taken", sizes, "Send", repeated(entries, 1_000_000)),
    ]
}

/// The longest round of a loop that gets one message, which is how long every other client waits
/// for its turn. In processor time of the loop's thread: beside other work the time by the clock
/// is that of the other work.
#[test]
fn longest_stall_by_one_message() {
    let (give, take) = mpsc::channel();
    let (longest_ns, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let ended = AtomicU64::new(0);
    let stalls: Vec<Vec<_>> = thread::scope(|scope| {
        scope.spawn(|| {
            let (event_loop, _server, address) =
                serve_here(&unique_address(), SizesDispatcher::new(Counts));
            give.send(address).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let begin_ns = clock::thread_cpu_ns();
                event_loop.next(Deadline::NOW).unwrap();
                let round_ns = clock::thread_cpu_ns() - begin_ns;
                longest_ns.fetch_max(round_ns, Ordering::AcqRel);
                ended.fetch_add(1, Ordering::Release);
                thread::yield_now();
            }
        });
        let (client, address) = (Client::new(), take.recv().unwrap());
        let stall_ns = |(_, interface, name, body): &Case| {
            let object = object(&client, interface, &address);
            longest_ns.store(0, Ordering::Release);
            let sent = object.start::<_, Raw>(method(interface, name), &Raw(body.clone()));
            let is_taken = sent.wait().is_ok();
            // The round that sent the reply may go on.
            let at_reply = ended.load(Ordering::Acquire);
            while ended.load(Ordering::Acquire) == at_reply {
                thread::yield_now();
            }
            (longest_ns.load(Ordering::Acquire), is_taken)
        };
        let least = |case: Case, rounds: usize| {
            let (least_ns, is_taken) = (0..rounds).map(|_| stall_ns(&case)).min().unwrap();
            let (what, .., body) = &case;
            let outcome = if is_taken { "taken" } else { "refused" };
            let least_ms = least_ns as f64 / 1e6;
            eprintln!("{what}, {} bytes, {outcome}: {least_ms:.2} ms", body.len());
            (*what, least_ms)
        };
        let all = |(cases, rounds): (Vec<Case>, usize)| {
            cases.into_iter().map(|case| least(case, rounds)).collect()
        };
        let stalls = [(plain_cases(), 10), (growing_cases(), rounds())].into_iter().map(all);
        let stalls = stalls.collect();
        is_over.store(true, Ordering::Relaxed);
        stalls
    });
    let copying = ("copying and checking such a text", copying_ms());
    for (list, base) in stalls.iter().zip([copying, stalls[1][0]]) {
        for (what, ms) in list {
            let ratio = ms / base.1;
            assert!(ratio < STALL_RATIO_MAX, "{what}: {ratio:.1} times as long as {}", base.0);
        }
    }
}

/// How long it takes to copy a text as long as a message may be and to check it, in processor time.
fn copying_ms() -> f64 {
    let text = vec![b'x'; BODY_BYTES];
    let copy_ns = || {
        let begin_ns = clock::thread_cpu_ns();
        let copy = std::hint::black_box(&text).clone();
        assert!(std::str::from_utf8(std::hint::black_box(&copy)).is_ok());
        clock::thread_cpu_ns() - begin_ns
    };
    let least_ns = (0..10).map(|_| copy_ns()).min().unwrap();
    eprintln!("copying and checking such a text: {:.2} ms", least_ns as f64 / 1e6);
    least_ns as f64 / 1e6
}
