//! The service behind the fuzz target `dispatcher`: every shape of a method, none of which waits or
//! panics.
//!
//! **Not here:** what is sent to it (`fuzzing.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use nearcall::service::Responder;
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{Code, Context, Status};

use nearcall_testkit::echo::{Echo, Failure, Seen, Span, Words};
use nearcall_testkit::streams::{Item, Plan, Streams};
use nearcall_testkit::support::Stateless;

/// The service, with the calls that it has not answered yet.
pub(super) struct Service(pub(super) Kept, pub(super) Stateless);

/// Calls that are answered later.
#[derive(Clone, Default)]
pub(super) struct Kept(Rc<RefCell<Calls>>);

#[derive(Default)]
struct Calls {
    later: Vec<(Words, Responder<Words>)>,
    streams: Vec<(ItemReceiver<Item>, ItemSender<Item>, Responder<()>)>,
}

impl Kept {
    /// Replies to the oldest call, and moves every stream on.
    pub(super) fn reply(&self) {
        let mut calls = self.0.borrow_mut();
        if !calls.later.is_empty() {
            let (words, responder) = calls.later.remove(0);
            responder.finish(Ok(words));
        }
        let streams = std::mem::take(&mut calls.streams);
        drop(calls);
        for (items, replies, responder) in streams {
            match exchange_all(&items, &replies) {
                Ok(true) => self.0.borrow_mut().streams.push((items, replies, responder)),
                Ok(false) => responder.finish(Ok(())),
                Err(status) => responder.finish(Err(status)),
            }
        }
    }

    /// Drops all calls, which fail.
    pub(super) fn clear(&self) {
        let calls = std::mem::take(&mut *self.0.borrow_mut());
        drop(calls);
    }
}

/// Returns each item that is there. False at their end.
fn exchange_all(items: &ItemReceiver<Item>, replies: &ItemSender<Item>) -> Result<bool, Status> {
    // One that was sent meanwhile is met the next time.
    for _ in 0..16 {
        match items.try_recv() {
            Ok(Some(item)) => match replies.try_send(&item) {
                Err(status) if status.code() != Code::ResourceExhausted => return Err(status),
                _ => {}
            },
            Ok(None) => return Ok(false),
            Err(status) if status.code() == Code::ResourceExhausted => return Ok(true),
            Err(status) => return Err(status),
        }
    }
    Ok(true)
}

impl Echo for Service {
    nearcall_testkit::forward_echo!(1: say nothing note quick);

    fn fail(&self, _context: &Context<'_>, request: &Failure) -> Result<(), Status> {
        let code = Code::from_number(u16::try_from(request.code).unwrap_or(2));
        let text: String = request.text.chars().take(100).collect();
        Err(Status::new(code.unwrap_or(Code::Unknown), text))
    }

    fn panic(&self, context: &Context<'_>, _request: &()) -> Result<(), Status> {
        // What a panic becomes has tests of its own; a fuzzer would stop at it.
        Err(Status::aborted(format!("{} is not called here", context.method())))
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        context.answer_later(|responder| {
            self.0.0.borrow_mut().later.push((request.clone(), responder));
        })
    }

    fn look(&self, context: &Context<'_>, _request: &()) -> Result<Seen, Status> {
        let metadata = context.metadata().iter();
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_vec().into()));
        Ok(Seen { metadata: metadata.collect(), ..Seen::default() })
    }

    fn work(&self, context: &Context<'_>, request: &Span) -> Result<Words, Status> {
        match context.is_cancelled() {
            true => Err(Status::cancelled("the caller does not wait any more")),
            false => Ok(Words { number: request.ms.into(), ..Words::default() }),
        }
    }
}

impl Streams for Service {
    fn count(
        &self,
        _context: &Context<'_>,
        request: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        for number in 0..request.items.min(20) {
            let data = vec![7; request.bytes.min(2000) as usize].into();
            items.try_send(&Item { number, data })?;
        }
        Ok(())
    }

    fn count_quickly(
        &self,
        context: &Context<'_>,
        request: &Plan,
        items: ItemSender<Item>,
    ) -> Result<(), Status> {
        Streams::count(self, context, request, items)
    }

    fn sum(&self, _context: &Context<'_>, items: ItemReceiver<Item>) -> Result<Item, Status> {
        let mut number = 0_u64;
        while let Ok(Some(item)) = items.try_recv() {
            number = number.wrapping_add(item.number);
        }
        Ok(Item { number, ..Item::default() })
    }

    fn drain(&self, _context: &Context<'_>, items: ItemReceiver<Item>) -> Result<(), Status> {
        drop(items);
        Ok(())
    }

    fn exchange(
        &self,
        context: &Context<'_>,
        items: ItemReceiver<Item>,
        replies: ItemSender<Item>,
    ) -> Result<(), Status> {
        context.answer_later(|responder| {
            self.0.0.borrow_mut().streams.push((items, replies, responder));
        })
    }

    fn say(&self, _context: &Context<'_>, request: &Item) -> Result<Item, Status> {
        Ok(request.clone())
    }
}
