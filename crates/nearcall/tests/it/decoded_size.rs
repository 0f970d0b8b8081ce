//! Messages of two bytes for each struct of three hundred: refused before they are decoded, at
//! whichever end they come.
//!
//! **Not here:** what a message is judged to take (`src/decoded_size.rs`), how long the largest
//! ones keep a loop busy (`figures/decoding.rs`).

use nearcall::Message;
use nearcall::bytes::{Buf, BufMut};
use nearcall::prost::DecodeError;
use nearcall::prost::encoding::{DecodeContext, WireType, encode_varint, encoded_len_varint};
use nearcall::stream::{ItemReceiver, ItemSender};

use crate::observed::while_a_good_client_calls;
use crate::stage::prelude::*;
use nearcall_testkit::sizes::{
    Count, Lists, Sizes, SizesAsyncCaller, SizesCaller, SizesDispatcher, Wide,
};

/// Counts what it gets, and returns as much as it is asked for.
pub(crate) struct Counts;

fn count(lists: &Lists) -> Count {
    Count { wides: lists.wides.len() as u64, numbers: lists.numbers.len() as u64 }
}

pub(crate) fn lists(wides: usize) -> Lists {
    Lists { wides: vec![Wide::default(); wides], ..Lists::default() }
}

fn asked(request: &Count) -> Lists {
    match request.numbers {
        0 => lists(usize::try_from(request.wides).unwrap()),
        levels => deep(usize::try_from(levels).unwrap()),
    }
}

/// A message with so many levels below it.
fn deep(levels: usize) -> Lists {
    (0..levels).fold(Lists::default(), |inner, _| Lists {
        inner: Some(Box::new(inner)),
        ..Lists::default()
    })
}

impl Sizes for Counts {
    fn send(&self, _context: &Context<'_>, request: &Lists) -> Result<Count, Status> {
        Ok(count(request))
    }

    fn get(&self, _context: &Context<'_>, request: &Count) -> Result<Lists, Status> {
        Ok(asked(request))
    }

    fn get_each(
        &self,
        _context: &Context<'_>,
        request: &Count,
        items: ItemSender<Lists>,
    ) -> Result<(), Status> {
        items.send(&lists(1))?;
        items.send(&asked(request))
    }

    fn send_each(
        &self,
        _context: &Context<'_>,
        items: ItemReceiver<Lists>,
    ) -> Result<Count, Status> {
        let mut wides = 0;
        while let Some(item) = items.recv()? {
            wides += item.wides.len() as u64;
        }
        Ok(Count { wides, numbers: 0 })
    }

    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }
}

pub(crate) fn serve(limits: Limits) -> Served {
    Served::with(limits, "", |_, server, _| {
        server.register(SizesDispatcher::new(Counts)).unwrap();
    })
}

/// Fields as they are sent. Nothing reads one.
#[derive(Debug, Default)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn merge_field(
        &mut self,
        _tag: u32,
        _wire_type: WireType,
        _buf: &mut impl Buf,
        _context: DecodeContext,
    ) -> Result<(), DecodeError> {
        Ok(())
    }

    fn clear(&mut self) {}
}

/// 40 KB, and six megabytes when they are decoded.
const MANY: usize = 20_000;

const SMALL: u32 = 1 << 20;

#[track_caller]
fn expect_refused<T: std::fmt::Debug>(outcome: Result<T, Status>) {
    let status = outcome.expect_err("it takes too much");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    for word in ["40000 bytes", "1048576 bytes", "limit `decoded_bytes_max`"] {
        assert!(status.message().contains(word), "`{word}` is missing in: {status}");
    }
}

#[timed]
fn r06_a_request_that_grows_too_much_is_refused_before_it_is_decoded() {
    let served = serve(Limits { decoded_bytes_max: SMALL, ..Limits::default() });
    while_a_good_client_calls(&served.address, || {
        let caller = SizesCaller::new(&Client::new(), &served.address).unwrap();
        expect_refused(caller.send(&lists(MANY)));
        assert_eq!(caller.send(&lists(3_000)).unwrap().wides, 3_000);
        let mut sending = caller.send_each().unwrap();
        sending.send(&lists(5)).unwrap();
        // The service has read the item by then, or the end of the stream says so.
        let _ = sending.send(&lists(MANY));
        expect_refused(sending.finish());
    });
}

#[timed]
fn r06_a_reply_that_grows_too_much_is_refused_before_it_is_decoded() {
    let served = serve(Limits::default());
    let limits = Limits { decoded_bytes_max: SMALL, ..Limits::default() };
    let event_loop = EventLoop::new().unwrap();
    let ask = Count { wides: MANY as u64, numbers: 0 };
    for client in [
        Client::builder().limits(limits).build(),
        Client::builder().limits(limits).in_loop(&event_loop).build(),
    ] {
        let caller = SizesCaller::new(&client, &served.address).unwrap();
        expect_refused(caller.get(&ask));
        expect_refused(caller.start_get(&ask).wait());
        let mut items = caller.get_each(&ask).unwrap();
        assert_eq!(items.recv().unwrap().unwrap().wides.len(), 1);
        expect_refused(items.recv());
        caller.nothing(&()).unwrap();
    }
    let client = Client::builder().limits(limits).build();
    let caller = SizesAsyncCaller::new(&client, &served.address).unwrap();
    block_on(async {
        expect_refused(caller.get(&ask).await);
        let mut items = caller.get_each(&ask).await.unwrap();
        assert_eq!(items.next().await.unwrap().unwrap().wides.len(), 1);
        expect_refused(items.next().await.unwrap());
        caller.nothing(&()).await.unwrap();
    });
}

#[timed]
fn r06_the_longest_list_of_small_numbers_is_taken() {
    let served = serve(Limits::default());
    let caller = SizesCaller::new(&Client::new(), &served.address).unwrap();
    let numbers = (4 << 20) - 100;
    let request = Lists { numbers: vec![1; numbers], ..Lists::default() };
    assert_eq!(caller.send(&request).unwrap().numbers, numbers as u64);
    expect_code(caller.send(&lists((2 << 20) - 100)), Code::ResourceExhausted);
    caller.nothing(&()).unwrap();
}

/// A message of `Send` within itself, so many levels deep.
pub(crate) fn nested(levels: usize) -> Vec<u8> {
    let mut lengths = vec![0_usize];
    for level in 0..levels {
        lengths.push(1 + encoded_len_varint(lengths[level] as u64) + lengths[level]);
    }
    let mut bytes = Vec::with_capacity(lengths[levels]);
    for length in lengths[..levels].iter().rev() {
        bytes.push(6 << 3 | 2);
        encode_varint(*length as u64, &mut bytes);
    }
    bytes
}

#[timed]
fn r06_malformed_messages_end_their_calls_and_nothing_else() {
    let served = serve(Limits::default());
    let send = method(SizesCaller::INTERFACE, "Send");
    let call = |bytes: Vec<u8>| {
        let object = object(&Client::new(), SizesCaller::INTERFACE, &served.address);
        object.start::<_, Count>(send, &Raw(bytes)).wait()
    };
    while_a_good_client_calls(&served.address, || {
        call(nested(99)).unwrap();
        let status = call(nested(101)).unwrap_err();
        assert!(status.message().ends_with("recursion limit reached"), "{status}");
        let long = |field: [u8; 2]| [nested(20_000), field.to_vec()].concat();
        for (what, bytes) in [
            ("101 levels", nested(101)),
            ("100,000 levels", nested(100_000)),
            ("no UTF-8", vec![3 << 3 | 2, 2, 0xff, 0xfe]),
            ("a number where a message belongs", vec![1 << 3, 1]),
            ("a message where a number belongs", vec![12 << 3, 1]),
            ("a group without an end", vec![1 << 3 | 3]),
            ("the end of no group", vec![1 << 3 | 4]),
            ("field number 0", vec![2, 0]),
            ("a wire type that does not exist", vec![1 << 3 | 7, 0]),
            ("a length behind the end", vec![3 << 3 | 2, 5, b'x']),
            ("a length of 2^63", [vec![3 << 3 | 2], vec![0x80; 8], vec![0x80, 1]].concat()),
            ("a number of 11 bytes", [vec![10 << 3], vec![0x80; 10], vec![1]].concat()),
            ("half a number", vec![10 << 3, 0x80]),
            ("much that is right before", long([3 << 3 | 2, 9])),
        ] {
            let status = call(bytes).expect_err(what);
            assert_eq!(status.code(), Code::Internal, "{what}: {status}");
            assert!(status.message().len() < 1024, "{what}: {}", status.message().len());
        }
    });
}

/// Levels by which measuring a message would overflow the stack of a thread, though dropping it
/// does not; the decoder takes a hundred.
const DEEP: usize = 3_000;

#[track_caller]
fn expect_too_deep<T: std::fmt::Debug>(outcome: Result<T, Status>, what: &str) {
    let status = outcome.expect_err("it is nested too deeply");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let text = format!("the {what} has more than 100 levels of messages");
    assert!(status.message().contains(&text), "`{text}` is missing in: {status}");
}

#[timed]
fn r06_what_is_nested_too_deeply_is_refused_before_it_is_encoded() {
    let served = serve(Limits::default());
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::builder().in_loop(&event_loop).build()] {
        let caller = SizesCaller::new(&client, &served.address).unwrap();
        caller.send(&deep(100)).unwrap();
        caller.get(&Count { wides: 0, numbers: 100 }).unwrap();
        for levels in [101, DEEP] {
            let (request, ask) = (deep(levels), Count { wides: 0, numbers: levels as u64 });
            expect_too_deep(caller.send(&request), "request");
            expect_too_deep(caller.start_send(&request).wait(), "request");
            expect_too_deep(caller.get(&ask), "reply");
            let mut sending = caller.send_each().unwrap();
            expect_too_deep(sending.send(&request), "item");
            sending.send(&lists(5)).unwrap();
            assert_eq!(sending.finish().unwrap().wides, 5);
            let mut items = caller.get_each(&ask).unwrap();
            assert_eq!(items.recv().unwrap().unwrap().wides.len(), 1);
            expect_too_deep(items.recv(), "item");
        }
        caller.nothing(&()).unwrap();
    }
}

#[timed]
fn r06_what_tasks_nest_too_deeply_is_refused_before_it_is_encoded() {
    let served = serve(Limits::default());
    let caller = SizesAsyncCaller::new(&Client::new(), &served.address).unwrap();
    block_on(async {
        let (request, ask) = (deep(DEEP), Count { wides: 0, numbers: DEEP as u64 });
        caller.send(&deep(100)).await.unwrap();
        expect_too_deep(caller.send(&request).await, "request");
        expect_too_deep(caller.get(&ask).await, "reply");
        let mut sending = caller.send_each().await.unwrap();
        expect_too_deep(sending.send(&request).await, "item");
        sending.send(&lists(5)).await.unwrap();
        assert_eq!(sending.finish().await.unwrap().wides, 5);
        caller.nothing(&()).await.unwrap();
    });
}
