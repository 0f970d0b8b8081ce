//! The bound against what the decoder really allocates.

use std::sync::LazyLock;

use prost::Message;

use super::*;
use crate::interface::{Idempotency, Method, MethodKind};

/// The messages of `sizes.proto` of `nearcall-testkit`, which these tests cannot use: it has a
/// `nearcall` of its own.
#[derive(Clone, PartialEq, Message)]
#[prost(prost_path = "crate::bounded_prost")]
struct Lists {
    #[prost(message, repeated, tag = "1")]
    wides: Vec<Wide>,
    #[prost(uint64, repeated, tag = "2")]
    numbers: Vec<u64>,
    #[prost(string, repeated, tag = "3")]
    texts: Vec<String>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    blobs: Vec<bytes::Bytes>,
    #[prost(map = "string, message", tag = "5")]
    narrows: std::collections::HashMap<String, Narrow>,
    #[prost(message, optional, boxed, tag = "6")]
    inner: Option<Box<Lists>>,
    #[prost(double, repeated, tag = "7")]
    doubles: Vec<f64>,
    #[prost(message, repeated, tag = "8")]
    more: Vec<Lists>,
    #[prost(uint64, optional, tag = "11")]
    maybe: Option<u64>,
    #[prost(message, optional, tag = "12")]
    at: Option<prost_types::Timestamp>,
    #[prost(bool, repeated, tag = "2000")]
    flags: Vec<bool>,
    #[prost(oneof = "Choice", tags = "9, 10")]
    choice: Option<Choice>,
}

#[allow(clippy::large_enum_variant, reason = "as it is generated")]
#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(prost_path = "crate::bounded_prost")]
enum Choice {
    #[prost(message, tag = "9")]
    Wide(Wide),
    #[prost(uint32, tag = "10")]
    Number(u32),
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Narrow {
    #[prost(uint32, tag = "1")]
    number: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Wide {
    #[prost(string, tag = "1")]
    a: String,
    #[prost(string, tag = "2")]
    b: String,
    #[prost(string, tag = "3")]
    c: String,
    #[prost(string, tag = "4")]
    d: String,
    #[prost(string, tag = "5")]
    e: String,
    #[prost(string, tag = "6")]
    f: String,
    #[prost(string, tag = "7")]
    g: String,
    #[prost(string, tag = "8")]
    h: String,
    #[prost(string, tag = "9")]
    i: String,
    #[prost(string, tag = "10")]
    j: String,
    #[prost(string, tag = "11")]
    k: String,
    #[prost(string, tag = "12")]
    l: String,
}

/// The method `Send` of `sizes.proto`, described by the file itself.
static SEND: Method = Method {
    id: 1,
    name: "Send",
    kind: MethodKind::Unary,
    deadline: None,
    idempotency: Idempotency::Unknown,
};
static METHODS: [&Method; 1] = [&SEND];
static SIZES: LazyLock<&'static Interface> = LazyLock::new(|| {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../nearcall-testkit/proto");
    let files = protox::compile(["sizes.proto"], [proto]).unwrap();
    Box::leak(Box::new(Interface::new("sizes.v1.Sizes", &METHODS, files.encode_to_vec().leak())))
});

fn send_request() -> MessageType {
    MessageType { interface: &SIZES, method: SEND.id, part: Part::Request }
}

/// Returns what the walk adds up for a message of `Send`.
fn judged(bytes: &[u8]) -> Result<usize, Stop> {
    shapes::with(&SIZES, |shapes| {
        let message = shapes.message(SEND.id, Part::Request).unwrap();
        let mut walk = Walk { shapes, budget: Budget { left: usize::MAX }, sliced: 0 };
        let mut rest = bytes;
        walk.message(&mut rest, End::Left(0), message, 0)?;
        Ok(usize::MAX - walk.budget.left)
    })
}

/// What an allocation costs beside its bytes, at least.
const HEADER_BYTES: usize = 8;

fn text_bytes(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + HEADER_BYTES }
}

fn list_bytes<T>(list: &[T]) -> usize {
    if list.is_empty() { 0 } else { size_of_val(list) + HEADER_BYTES }
}

fn wide_bytes(wide: &Wide) -> usize {
    let Wide { a, b, c, d, e, f, g, h, i, j, k, l } = wide;
    [a, b, c, d, e, f, g, h, i, j, k, l].iter().map(|text| text_bytes(text)).sum()
}

/// Returns the bytes that a message has on the heap.
fn heap_bytes(lists: &Lists) -> usize {
    let Lists { wides, numbers, texts, blobs, narrows, inner, doubles, more, choice, .. } = lists;
    let chosen = match choice {
        Some(Choice::Wide(wide)) => wide_bytes(wide),
        Some(Choice::Number(_)) | None => 0,
    };
    let narrow_bytes = size_of::<(String, Narrow)>();
    list_bytes(wides)
        + wides.iter().map(wide_bytes).sum::<usize>()
        + list_bytes(numbers)
        + list_bytes(texts)
        + texts.iter().map(|text| text_bytes(text)).sum::<usize>()
        + list_bytes(blobs)
        + blobs.iter().map(|blob| blob.len() + HEADER_BYTES).sum::<usize>()
        + narrows.capacity() * narrow_bytes
        + narrows.keys().map(|key| text_bytes(key)).sum::<usize>()
        + inner.as_ref().map_or(0, |inner| size_of::<Lists>() + heap_bytes(inner))
        + list_bytes(doubles)
        + list_bytes(more)
        + more.iter().map(heap_bytes).sum::<usize>()
        + list_bytes(&lists.flags)
        + chosen
}

fn text(rng: &mut fastrand::Rng) -> String {
    "x".repeat(rng.usize(..3) * rng.usize(..20))
}

fn wide(rng: &mut fastrand::Rng) -> Wide {
    Wide { a: text(rng), l: text(rng), ..Wide::default() }
}

fn lists(rng: &mut fastrand::Rng, depth: usize) -> Lists {
    let count = |rng: &mut fastrand::Rng| rng.usize(..3) * rng.usize(..6);
    let inner = (depth > 0 && rng.bool()).then(|| Box::new(lists(rng, depth - 1)));
    let more = if depth > 0 { count(rng) } else { 0 };
    Lists {
        wides: (0..count(rng)).map(|_| wide(rng)).collect(),
        numbers: (0..count(rng)).map(|_| rng.u64(..) >> rng.u32(..64)).collect(),
        texts: (0..count(rng)).map(|_| text(rng)).collect(),
        blobs: (0..count(rng)).map(|_| text(rng).into()).collect(),
        narrows: (0..count(rng)).map(|key| (key.to_string(), Narrow { number: 1 })).collect(),
        inner,
        doubles: (0..count(rng)).map(|_| rng.f64()).collect(),
        more: (0..more).map(|_| lists(rng, depth - 1)).collect(),
        choice: rng.bool().then(|| Choice::Wide(wide(rng))),
        maybe: rng.bool().then_some(7),
        at: None,
        flags: (0..count(rng)).map(|_| rng.bool()).collect(),
    }
}

#[test]
fn no_message_takes_more_than_was_judged() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bytes = lists(&mut rng, 4).encode_to_vec();
        let heap = heap_bytes(&Lists::decode(&bytes[..]).unwrap());
        let judged = judged(&bytes).unwrap() + bytes.len();
        assert!(heap <= judged, "seed {seed}: {heap} bytes, judged {judged}");
    }
}

#[test]
fn an_empty_message_costs_what_its_struct_is_long() {
    let bytes = Lists { wides: vec![Wide::default(); 1000], ..Lists::default() }.encode_to_vec();
    assert_eq!(bytes.len(), 2000);
    let judged = judged(&bytes).unwrap();
    assert!((1000 * size_of::<Wide>()..1010 * size_of::<Wide>()).contains(&judged), "{judged}");
    let bytes = Lists { more: vec![Lists::default(); 1000], ..Lists::default() }.encode_to_vec();
    let judged = self::judged(&bytes).unwrap() / 1000;
    assert!((size_of::<Lists>()..size_of::<Lists>() * 3 / 2).contains(&judged), "{judged}");
}

#[test]
fn what_is_as_long_in_memory_costs_next_to_nothing() {
    let blob = Lists { blobs: vec![vec![1; 1 << 20].into()], ..Lists::default() };
    let doubles = Lists { doubles: vec![0.0; 100_000], ..Lists::default() };
    for lists in [blob, doubles] {
        assert!(judged(&lists.encode_to_vec()).unwrap() < 256);
    }
    let numbers = Lists { numbers: vec![1; 1000], ..Lists::default() };
    assert!((7000..7300).contains(&judged(&numbers.encode_to_vec()).unwrap()));
}

#[test]
fn what_is_malformed_is_left_to_the_decoder() {
    let good = lists(&mut fastrand::Rng::with_seed(3), 3).encode_to_vec();
    for seed in 0..1000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = good[..rng.usize(..=good.len())].to_vec();
        for _ in 0..rng.usize(..4) {
            let index = rng.usize(..bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(index) {
                *byte = rng.u8(..);
            }
        }
        // Whatever it is, the walk ends; and what decodes was judged.
        let judged = judged(&bytes);
        if let Ok(decoded) = Lists::decode(&bytes[..]) {
            let judged = judged.unwrap() + bytes.len();
            assert!(heap_bytes(&decoded) <= judged, "seed {seed}");
        }
    }
    let deep = (0..200).fold(Vec::new(), |inner, _| {
        let mut outer = vec![6 << 3 | 2];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        [outer, inner].concat()
    });
    assert_eq!(judged(&deep), Err(Stop::Malformed));
}

#[test]
fn lent_parts_are_judged_and_stay() {
    let lists = Lists { blobs: vec![vec![1; 300].into(); 3], ..Lists::default() };
    let whole = lists.encode_to_vec();
    let (rest, part) = (&whole[..100], &whole[100..]);
    let mut segments = crate::borrowed::BorrowedSegments::default();
    segments.push(100, bytes::Bytes::copy_from_slice(part));
    let body = Body::borrowed(rest, &segments);
    let message = send_request();
    assert!(check_long(&body, message, 100).is_err());
    check_long(&body, message, 1000).unwrap();
    assert_eq!(crate::codec::decode::<Lists>(body).unwrap(), lists);
}

#[test]
fn what_goes_past_the_message_around_it_is_judged() {
    // The decoder notices the end of the outer message, of three bytes, only afterwards.
    let mut bytes = vec![6 << 3 | 2, 3, 6 << 3 | 2];
    prost::encoding::encode_varint(2000, &mut bytes);
    bytes.extend([1 << 3 | 2, 0].repeat(1000));
    let message = send_request();
    let refused = check_long(&Body::copied(&bytes), message, 100_000).unwrap_err();
    assert_eq!(refused.code(), crate::Code::ResourceExhausted, "{refused}");
}

#[test]
fn what_a_call_retains_is_no_less_than_what_its_request_takes() {
    let message = send_request();
    let lists = Lists { wides: vec![Wide::default(); 3], texts: vec!["a".into()], ..empty() };
    let (narrow, lists) = (Narrow { number: 1 }, [lists, empty()]);
    let shapes = [
        Lists { wides: vec![Wide::default(); 4000], ..empty() },
        Lists { numbers: vec![1; 9000], flags: vec![true; 3000], ..empty() },
        Lists { narrows: (0..500).map(|it| (it.to_string(), narrow)).collect(), ..empty() },
        Lists { more: lists.to_vec(), inner: Some(Box::new(empty())), ..empty() },
        Lists { blobs: vec![vec![1; 3].into(); 100], ..empty() },
        empty(),
    ];
    for lists in shapes {
        let bytes = lists.encode_to_vec();
        let body = Body::copied(&bytes);
        // By hand: capacities are powers of two of elements.
        let capacity = |length: usize| if length == 0 { 0 } else { length.next_power_of_two() };
        let taken = capacity(lists.wides.len()) * size_of::<Wide>()
            + capacity(lists.numbers.len()) * 8
            + lists.more.len() * size_of::<Lists>();
        let retained = retained_bytes(&body, message, DecodedSize::default(), false);
        assert!(retained >= taken, "{retained} for {taken}");
        let bound = bytes.len() * shapes::growth_max(&SIZES);
        assert!(bound >= judged(&bytes).unwrap(), "{bound} for {} bytes", bytes.len());
        let waiting = retained_bytes(&body, message, DecodedSize::default(), true);
        assert!(waiting >= retained + bytes.len());
    }
}

fn empty() -> Lists {
    Lists::default()
}

#[test]
fn a_long_request_retains_its_buffer_only_for_slices_of_it() {
    let message = send_request();
    let long = || vec![b'a'; 100_000];
    let blob = Lists { blobs: vec![long().into()], ..empty() };
    let text = Lists { texts: vec![String::from_utf8(long()).unwrap()], ..empty() };
    for (lists, most) in [(blob, 1 << 17), (text, 100_000)] {
        let bytes = lists.encode_to_vec();
        let size = check(&Body::copied(&bytes), message, 1 << 20).unwrap();
        let retained = retained_bytes(&Body::copied(&bytes), message, size, false);
        assert!((most..most + 1000).contains(&retained), "{retained}, not about {most}");
    }
}

#[test]
fn an_interface_without_a_description_is_judged_by_its_length() {
    static BARE: Interface = Interface::new("a.B", &[], &[]);
    let bytes = vec![0; 1000];
    let message = MessageType { interface: &BARE, method: 1, part: Part::Request };
    let check = |max| check_long(&Body::copied(&bytes), message, max);
    assert!(check(15_999).unwrap_err().message().contains("limit `decoded_bytes_max`"));
    check(16_000).unwrap();
}
