//! A caller of the streams in each way in which a program calls: a thread that blocks, one with a
//! loop, and a task.
//!
//! **Invariants:** a case is written once, against [`Caller`], and names the way in which it fails.

use nearcall::client::ReplyMetadata;
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream, ReplyStream, RequestStream};

use super::served::{Item, Kind, Plan, Served, StreamsAsyncCaller, StreamsCaller};
use crate::hunts::Form;
use crate::stage::prelude::*;

type Outcome<T> = Result<T, Status>;

/// A caller whose methods wait, whatever their form.
#[derive(Debug)]
pub(crate) enum Caller {
    Blocking(StreamsCaller),
    Task(StreamsAsyncCaller),
}

/// The replies of a call.
#[derive(Debug)]
pub(crate) enum Replies {
    Blocking(ReplyStream<Item>),
    Task(AsyncReplyStream<Item>),
}

/// The requests of a call.
#[derive(Debug)]
pub(crate) enum Requests<R> {
    Blocking(RequestStream<Item, R>),
    Task(AsyncRequestStream<Item, R>),
}

/// Does the same in both forms of a `Caller`, of `Replies` or of `Requests`.
macro_rules! wait {
    ($self:ident, $form:ident => $call:expr) => {
        match $self {
            Self::Blocking($form) => $call,
            Self::Task($form) => block_on($call),
        }
    };
    ($self:ident, $form:ident => $call:expr, $to:ident) => {
        match $self {
            Self::Blocking($form) => $call.map($to::Blocking),
            Self::Task($form) => block_on($call).map($to::Task),
        }
    };
}

impl Caller {
    pub(crate) fn with(&self, options: CallOptions) -> Self {
        match self {
            Self::Blocking(caller) => Self::Blocking(caller.with(options)),
            Self::Task(caller) => Self::Task(caller.with(options)),
        }
    }

    pub(crate) fn say(&self, request: &Item) -> Outcome<Item> {
        wait!(self, caller => caller.say(request))
    }

    pub(crate) fn say_with_metadata(&self, request: &Item) -> (Outcome<Item>, ReplyMetadata) {
        match self {
            Self::Blocking(caller) => caller.start_say(request).wait_with_metadata(),
            Self::Task(caller) => block_on(caller.say(request).with_metadata()),
        }
    }

    pub(crate) fn count(&self, plan: &Plan) -> Outcome<Replies> {
        wait!(self, caller => caller.count(plan), Replies)
    }

    pub(crate) fn count_quickly(&self, plan: &Plan) -> Outcome<Replies> {
        wait!(self, caller => caller.count_quickly(plan), Replies)
    }

    pub(crate) fn sum(&self) -> Outcome<Requests<Item>> {
        wait!(self, caller => caller.sum(), Requests)
    }

    pub(crate) fn exchange(&self) -> Outcome<(Requests<()>, Replies)> {
        Ok(match self {
            Self::Blocking(caller) => {
                let (requests, replies) = caller.exchange()?;
                (Requests::Blocking(requests), Replies::Blocking(replies))
            }
            Self::Task(caller) => {
                let (requests, replies) = block_on(caller.exchange())?;
                (Requests::Task(requests), Replies::Task(replies))
            }
        })
    }
}

impl<R: nearcall::Message + Default> Requests<R> {
    pub(crate) fn send(&mut self, item: &Item) -> Outcome<()> {
        wait!(self, requests => requests.send(item))
    }

    pub(crate) fn finish(self) -> Outcome<R> {
        wait!(self, requests => requests.finish())
    }

    pub(crate) fn finish_with_metadata(self) -> (Outcome<R>, ReplyMetadata) {
        wait!(self, requests => requests.finish_with_metadata())
    }
}

impl Replies {
    pub(crate) fn recv(&mut self) -> Outcome<Option<Item>> {
        match self {
            Self::Blocking(replies) => replies.recv(),
            Self::Task(replies) => block_on(replies.next()).transpose(),
        }
    }

    pub(crate) fn headers(&mut self) -> ReplyMetadata {
        wait!(self, replies => replies.headers())
    }

    pub(crate) fn metadata(&self) -> ReplyMetadata {
        match self {
            Self::Blocking(replies) => replies.metadata(),
            Self::Task(replies) => replies.metadata(),
        }
    }
}

impl Iterator for Replies {
    type Item = Outcome<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

/// A caller of a client of its own.
pub(crate) fn caller(form: Form, event_loop: &EventLoop, at: &str) -> Caller {
    let blocking = |client| Caller::Blocking(StreamsCaller::new(&client, at).unwrap());
    match form {
        Form::Blocking => blocking(Client::new()),
        Form::InLoop => blocking(Client::in_loop(event_loop)),
        Form::Async => Caller::Task(StreamsAsyncCaller::new(&Client::new(), at).unwrap()),
    }
}

/// Runs a case in each form with each kind of service, in another thread. It gets their names.
pub(crate) fn in_each_form(case: impl Fn(&str, &Served, &Caller)) {
    let event_loop = EventLoop::new().unwrap();
    for kind in Kind::ALL {
        for form in Form::ALL {
            let served = Served::start(kind);
            let caller = caller(form, &event_loop, &served.address);
            case(&format!("{kind:?}, {form:?}"), &served, &caller);
        }
    }
}
