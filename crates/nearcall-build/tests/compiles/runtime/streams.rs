//! Streams of the stub: a method with a stream of requests runs when that stream has ended.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prost::Message;

use super::{
    Answer, CallOptions, Context, Incoming, Items, Method, ObjectRef, Status, take_answer,
};

/// A call with a stream on either side.
struct StreamCall {
    object: ObjectRef,
    method: &'static Method,
    bytes: Vec<u8>,
    text: &'static str,
    requests: Items,
    replies: Items,
    answer: Answer,
    has_run: AtomicBool,
}

impl StreamCall {
    fn run(&self) -> Result<(), Status> {
        if self.has_run.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let items = [&self.requests, &self.replies];
        self.object.dispatch(self.method, &self.bytes, self.text, &self.answer, items)
    }
}

/// The requests of a call.
pub struct RequestStream<Q, R> {
    call: Arc<StreamCall>,
    /// The replies are a stream too, which has the end of the call.
    has_replies: bool,
    types: PhantomData<fn(Q) -> R>,
}

impl<Q: Message, R: Message + Default> RequestStream<Q, R> {
    pub fn send(&mut self, item: &Q) -> Result<(), Status> {
        self.call.requests.lock().unwrap().push_back(item.encode_to_vec());
        Ok(())
    }

    pub fn finish(self) -> Result<R, Status> {
        self.call.run()?;
        if self.has_replies { Ok(R::default()) } else { take_answer(&self.call.answer) }
    }
}

/// The replies of a call.
pub struct ReplyStream<R> {
    call: Arc<StreamCall>,
    types: PhantomData<fn() -> R>,
}

impl<R: Message + Default> ReplyStream<R> {
    pub fn recv(&mut self) -> Result<Option<R>, Status> {
        self.call.run()?;
        match self.call.replies.lock().unwrap().pop_front() {
            Some(item) => Ok(Some(R::decode(&*item).unwrap())),
            None => take_answer::<()>(&self.call.answer).map(|()| None),
        }
    }
}

impl ObjectRef {
    fn open(
        &self,
        method: &'static Method,
        bytes: Vec<u8>,
        options: &CallOptions,
    ) -> Arc<StreamCall> {
        Arc::new(StreamCall {
            object: self.clone(),
            method,
            bytes,
            text: options.text,
            requests: Items::default(),
            replies: Items::default(),
            answer: Answer::default(),
            has_run: AtomicBool::new(false),
        })
    }

    /// Starts a call whose replies are a stream.
    pub fn open_reply_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<ReplyStream<R>, Status> {
        let call = self.open(method, request.encode_to_vec(), options);
        call.run()?;
        Ok(ReplyStream { call, types: PhantomData })
    }

    /// Starts a call whose requests are a stream.
    pub fn open_request_stream<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: &CallOptions,
    ) -> Result<RequestStream<Q, R>, Status> {
        let call = self.open(method, Vec::new(), options);
        Ok(RequestStream { call, has_replies: false, types: PhantomData })
    }

    /// Starts a call with two streams.
    pub fn open_both_streams<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        options: &CallOptions,
    ) -> Result<(RequestStream<Q, ()>, ReplyStream<R>), Status> {
        let call = self.open(method, Vec::new(), options);
        let requests =
            RequestStream { call: Arc::clone(&call), has_replies: true, types: PhantomData };
        Ok((requests, ReplyStream { call, types: PhantomData }))
    }
}

/// Sends the items of a reply.
pub struct ItemSender<R>(pub(super) Items, pub(super) PhantomData<fn(R)>);

impl<R: Message> ItemSender<R> {
    pub fn send(&mut self, item: &R) -> Result<(), Status> {
        self.0.lock().unwrap().push_back(item.encode_to_vec());
        Ok(())
    }
}

/// Receives the items of a request.
pub struct ItemReceiver<Q>(pub(super) Items, pub(super) PhantomData<fn() -> Q>);

impl<Q: Message + Default> ItemReceiver<Q> {
    pub fn recv(&mut self) -> Result<Option<Q>, Status> {
        Ok(self.0.lock().unwrap().pop_front().map(|item| Q::decode(&*item).unwrap()))
    }
}

impl Incoming<'_> {
    pub fn reply_stream<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q, ItemSender<R>) -> Result<(), Status>,
    ) {
        let (request, items) = (self.request(), self.item_sender());
        self.run(|context| serve(context, &request, items));
    }

    pub fn receive_stream<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, ItemReceiver<Q>) -> Result<R, Status>,
    ) {
        let items = self.item_receiver();
        self.run(|context| serve(context, items));
    }

    pub fn both_streams<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, ItemReceiver<Q>, ItemSender<R>) -> Result<(), Status>,
    ) {
        let (items, replies) = (self.item_receiver(), self.item_sender());
        self.run(|context| serve(context, items, replies));
    }

    pub(super) fn item_sender<R>(&self) -> ItemSender<R> {
        ItemSender(Arc::clone(&self.replies), PhantomData)
    }

    pub(super) fn item_receiver<Q>(&self) -> ItemReceiver<Q> {
        ItemReceiver(Arc::clone(&self.requests), PhantomData)
    }
}
