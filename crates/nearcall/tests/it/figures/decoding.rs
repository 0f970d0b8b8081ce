//! How long one message keeps a loop busy that decodes it: the longest ones by default, of each
//! kind that grows, with the bound of the decoded size and without.

use nearcall::prost::encoding::encode_varint;
use nearcall::{CallOptions, Client, Limits};
use nearcall_os::clock;

use super::rounds;
use crate::decoded_size::sizes::{Count, SizesCaller};
use crate::decoded_size::{Raw, serve};
use crate::support::{method, object};

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
            let outcome = object.start::<_, Count>(send, &body, &CallOptions::new()).wait();
            ((clock::monotonic_ns() - start_ns) as f64 / 1e6, outcome.is_ok())
        };
        let mut packed = vec![2 << 3 | 2];
        encode_varint((BODY_BYTES - 5) as u64, &mut packed);
        packed.resize(BODY_BYTES, 1);
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
