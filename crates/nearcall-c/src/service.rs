//! Services: functions of C that serve calls.
//!
//! **Invariants:** a call is answered once; one whose service returns without an answer, and has
//! not deferred it, fails.
//! **Not here:** where they are served (`server.rs`).

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall::dynamic::{Encoded, EncodedSlice, interface_from_descriptor_set};
use nearcall::service::{Dispatcher, Incoming, Interface, MethodKind, Responder};
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{Context, Status};

use crate::border::{Border, border, put_entry, put_entry_at, value_or};
use crate::given::give_bytes;
use crate::handles::{self, Ids, Kind};
use crate::metadata::bad_entry;
use crate::room::Room;
use crate::status::{code, nearcall_status};
use crate::types::{
    NEARCALL_SHAPE_BOTH_STREAMS, NEARCALL_SHAPE_ONEWAY, NEARCALL_SHAPE_REPLY_STREAM,
    NEARCALL_SHAPE_REQUEST_STREAM, NEARCALL_SHAPE_UNARY, nearcall_bytes, nearcall_call,
    nearcall_loan, nearcall_request, nearcall_service, nearcall_view,
};

/// A service of an interface.
#[derive(Clone)]
pub(crate) struct Service(Arc<Implementation>);

struct Implementation {
    interface: &'static Interface,
    /// In the order of the interface.
    names: Vec<CString>,
    table: nearcall_service,
    /// The library releases it.
    is_owned: AtomicBool,
}

// SAFETY: by the header the functions may be called in all threads of their server, and the data
// are only passed to them.
unsafe impl Send for Implementation {}
// SAFETY: as above.
unsafe impl Sync for Implementation {}

impl Drop for Implementation {
    fn drop(&mut self) {
        if let (Some(release), true) = (self.table.release, *self.is_owned.get_mut()) {
            // SAFETY: by the header, once, and nothing uses the service any more.
            unsafe { release(self.table.data) };
        }
    }
}

impl Service {
    pub(crate) fn new(
        set: &[u8],
        interface: &str,
        table: nearcall_service,
    ) -> Result<Self, Status> {
        if table.serve.is_none() {
            return Err(Status::invalid_argument("`service.serve` is null"));
        }
        let interface = interface_from_descriptor_set(set, interface)?;
        let name = |name: &str| CString::new(name).unwrap_or_default();
        let names = interface.methods.iter().map(|method| name(method.name)).collect();
        let is_owned = AtomicBool::new(false);
        Ok(Self(Arc::new(Implementation { interface, names, table, is_owned })))
    }

    /// From now on the library releases it.
    pub(crate) fn belongs_to_server(&self) {
        self.0.is_owned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn dispatcher(self) -> ServiceDispatcher {
        ServiceDispatcher(self)
    }

    /// Serves a call, whose reply lies in `room`.
    fn serve<'r>(
        &self,
        context: &Context<'_>,
        index: usize,
        message: &[u8],
        streams: Streams,
        room: &'r Room,
    ) -> Result<EncodedSlice<'r>, Status> {
        let Implementation { interface, names, table, .. } = &*self.0;
        let Some(serve) = table.serve else { return Err(Status::internal("no function")) };
        let answer = THREAD.with(|thread| {
            let (id, outer, answer) = (thread.ids.next(), thread.current.get(), Cell::default());
            let current = Current { id, service: self, context, room, answer, streams, outer };
            let request = nearcall_request {
                size: size_of::<nearcall_request>(),
                method: names[index].as_ptr(),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                shape: shape(interface.methods[index].kind),
                message: nearcall_view { data: message.as_ptr(), size: message.len() },
            };
            let within = Within::enter(&thread.current, &current);
            // SAFETY: the service is not released yet; the request outlives the call; the function
            // lets nothing unwind, by the header.
            unsafe { serve(table.data, nearcall_call { id }, &raw const request) };
            drop(within);
            current.answer.take()
        });
        match answer {
            Answer::Reply => Ok(room.reply()),
            Answer::Error(status) => Err(*status),
            Answer::Deferred(status) => Err(*status),
            Answer::None => {
                let method = interface.methods[index].name;
                Err(Status::internal(format!("the service has not answered `{method}`")))
            }
        }
    }
}

fn shape(kind: MethodKind) -> u32 {
    match kind {
        MethodKind::Unary => NEARCALL_SHAPE_UNARY,
        MethodKind::Oneway => NEARCALL_SHAPE_ONEWAY,
        MethodKind::ReplyStream => NEARCALL_SHAPE_REPLY_STREAM,
        MethodKind::RequestStream => NEARCALL_SHAPE_REQUEST_STREAM,
        MethodKind::BothStreams => NEARCALL_SHAPE_BOTH_STREAMS,
    }
}

/// Brings calls to a service.
#[derive(Clone)]
pub(crate) struct ServiceDispatcher(Service);

impl Dispatcher for ServiceDispatcher {
    fn interface(&self) -> &'static Interface {
        self.0.0.interface
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        let (service, methods) = (&self.0, self.interface().methods);
        let Some(index) = methods.iter().position(|method| method.id == incoming.method()) else {
            return incoming.unimplemented();
        };
        let room = Room::new();
        match methods[index].kind {
            MethodKind::Unary => incoming.reply_encoded(|context, request| {
                service.serve(context, index, request, Streams::default(), &room)
            }),
            MethodKind::Oneway => incoming.oneway(|context, request: &Encoded| {
                // No caller waits for it.
                let _ = service.serve(context, index, request.bytes(), Streams::default(), &room);
            }),
            MethodKind::ReplyStream => {
                incoming.reply_stream(|context, request: &Encoded, replies| {
                    let streams = Streams::new(None, Some(replies));
                    service.serve(context, index, request.bytes(), streams, &room).map(drop)
                });
            }
            MethodKind::RequestStream => incoming.receive_stream(|context, requests| {
                let streams = Streams::new(Some(requests), None);
                service.serve(context, index, &[], streams, &room)
            }),
            MethodKind::BothStreams => incoming.both_streams(|context, requests, replies| {
                let streams = Streams::new(Some(requests), Some(replies));
                service.serve(context, index, &[], streams, &room).map(drop)
            }),
        }
    }
}

/// The items of a call, for its service.
#[derive(Clone, Default)]
struct Streams {
    requests: Option<Arc<Mutex<ItemReceiver<Encoded>>>>,
    replies: Option<Arc<ItemSender<Encoded>>>,
}

impl Streams {
    fn new(requests: Option<ItemReceiver<Encoded>>, replies: Option<ItemSender<Encoded>>) -> Self {
        let requests = requests.map(|it| Arc::new(Mutex::new(it)));
        Self { requests, replies: replies.map(Arc::new) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call whose service runs in this thread.
struct Current<'a> {
    id: u64,
    service: &'a Service,
    context: &'a Context<'a>,
    room: &'a Room,
    answer: Cell<Answer>,
    streams: Streams,
    /// The call whose service waits in this thread, and has this one served meanwhile.
    outer: *const Current<'static>,
}

#[derive(Default)]
enum Answer {
    #[default]
    None,
    /// It lies in the room of the call.
    Reply,
    Error(Box<Status>),
    /// With what the method returns, which goes nowhere.
    Deferred(Box<Status>),
}

/// What a thread that serves has.
struct Thread {
    current: Cell<*const Current<'static>>,
    ids: Ids,
}

thread_local! {
    static THREAD: Thread =
        const { Thread { current: Cell::new(std::ptr::null()), ids: Ids::new() } };
}

/// While this lives, a call is the current one of its thread.
struct Within<'a> {
    place: &'a Cell<*const Current<'static>>,
    outer: *const Current<'static>,
}

impl<'a> Within<'a> {
    #[inline]
    fn enter(place: &'a Cell<*const Current<'static>>, current: &Current<'_>) -> Self {
        place.set(std::ptr::from_ref(current).cast());
        Self { place, outer: current.outer }
    }
}

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.set(self.outer);
    }
}

/// A call that is answered later.
pub(crate) struct DeferredCall {
    responder: Mutex<Option<Responder<Encoded>>>,
    streams: Streams,
    /// What answers it may use the data of the service.
    _service: Service,
}

impl Kind for DeferredCall {
    const NAME: &'static str = "call";
}

/// A call of which a function was given the handle.
enum Phase<'a> {
    Now(&'a Current<'a>),
    Later(Arc<DeferredCall>),
}

impl Border {
    fn call(&self, call: nearcall_call) -> Result<Phase<'_>, Status> {
        let mut at = THREAD.with(|thread| thread.current.get());
        // SAFETY: `Within` keeps it and those below alive while it is set, and this function ends
        // before that.
        while let Some(current) = unsafe { at.as_ref() } {
            if current.id == call.id && !current.is_deferred() {
                return Ok(Phase::Now(current));
            }
            at = current.outer;
        }
        Ok(Phase::Later(handles::get(call.id)?))
    }

    /// The same, where what is asked for is only known while the service runs.
    fn current(&self, call: nearcall_call) -> Result<&Current<'_>, Status> {
        match self.call(call)? {
            Phase::Now(current) => Ok(current),
            Phase::Later(_) => {
                let text = "this is known until the call is deferred: ask for it before";
                Err(Status::failed_precondition(text))
            }
        }
    }
}

impl Current<'_> {
    /// Looks at the answer.
    #[inline]
    fn is(&self, look: impl FnOnce(&Answer) -> bool) -> bool {
        let answer = self.answer.take();
        let is = look(&answer);
        self.answer.set(answer);
        is
    }

    #[inline]
    fn is_deferred(&self) -> bool {
        self.is(|answer| matches!(answer, Answer::Deferred(_)))
    }

    /// Refuses what is done before the answer.
    #[inline]
    fn expect_unanswered(&self) -> Result<(), Status> {
        match self.is(|answer| matches!(answer, Answer::None)) {
            true => Ok(()),
            false => Err(Status::failed_precondition("the call was answered already")),
        }
    }
}

impl Phase<'_> {
    fn streams(&self) -> Streams {
        match self {
            Self::Now(current) => current.streams.clone(),
            Self::Later(call) => call.streams.clone(),
        }
    }
}

/// An answer that C gives.
enum Given<'a> {
    Copied(&'a [u8]),
    Kept(Encoded),
    Error(Status),
}

fn answer(at: &Border, call: nearcall_call, with: Given<'_>) -> Result<(), Status> {
    match at.call(call)? {
        Phase::Now(current) => {
            current.expect_unanswered()?;
            current.answer.set(match with {
                Given::Copied(reply) => {
                    current.room.copy(reply);
                    Answer::Reply
                }
                Given::Kept(reply) => {
                    current.room.keep(reply);
                    Answer::Reply
                }
                Given::Error(status) => Answer::Error(Box::new(status)),
            });
        }
        Phase::Later(_) => answer_deferred(call, with)?,
    }
    Ok(())
}

#[inline(never)]
fn answer_deferred(call: nearcall_call, with: Given<'_>) -> Result<(), Status> {
    let deferred = handles::take::<DeferredCall>(call.id)?;
    let responder = lock(&deferred.responder).take();
    if let Some(responder) = responder {
        responder.finish(match with {
            Given::Copied(reply) => Ok(reply.to_vec().into()),
            Given::Kept(reply) => Ok(reply),
            Given::Error(status) => Err(status),
        });
    }
    Ok(())
}

/// Answers a call with a reply. Where the reply is a stream, ends it well: `reply` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_reply(
    call: nearcall_call,
    reply: nearcall_view,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| answer(at, call, Given::Copied(at.bytes("reply", reply)?))) }
}

/// Lends `size` bytes for the reply of a call, without waiting, before `nearcall_call_defer`. Write
/// the encoded reply to `data`, then answer by `nearcall_call_reply_loan`, or give the loan back by
/// `nearcall_loan_free`. `RESOURCE_EXHAUSTED`: the caller has not given back enough of what it was
/// lent before; reply with other memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_loan(
    call: nearcall_call,
    size: usize,
    loan: *mut nearcall_loan,
    data: *mut *mut u8,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("loan", loan)?;
            at.place("data", data)?;
            at.lend(at.current(call)?.context.loan(size)?, loan, data)
        })
    }
}

/// Answers a call with a reply that is the first bytes of a loan, which it uses up, also if it
/// fails. Where the mechanism can, the caller gets the memory itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_reply_loan(
    call: nearcall_call,
    reply: nearcall_view,
    loan: nearcall_loan,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| answer(at, call, Given::Kept(at.lent_message(loan, reply)?))) }
}

/// Answers a call with an error: a code of gRPC from 1 to 16, and a text that says what happened
/// and what can be done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_fail(
    call: nearcall_call,
    error: u32,
    message: *const c_char,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let status = Status::new(code(error)?, at.text("message", message)?);
            answer(at, call, Given::Error(status))
        })
    }
}

/// Has a call answered later, from any thread: from now on its handle is for all threads, and has
/// to be answered, also if the caller does not wait any more. What is read of the call, such as its
/// metadata, is read before. `RESOURCE_EXHAUSTED`: its user holds too much of this server already;
/// the caller gets this status, and the call is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_defer(call: nearcall_call) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let current = at.current(call)?;
            current.expect_unanswered()?;
            let keep = |responder| {
                let responder = Mutex::new(Some(responder));
                let streams = current.streams.clone();
                let _service = current.service.clone();
                handles::add_as(call.id, DeferredCall { responder, streams, _service });
            };
            let refused = current.context.answer_later(keep);
            let status = refused.map(|_: Encoded| ()).err();
            let status = status.unwrap_or_else(|| Status::internal("no responder"));
            current.answer.set(Answer::Deferred(Box::new(status.clone())));
            match handles::get::<DeferredCall>(call.id) {
                Ok(_) => Ok(()),
                // It holds too much of this server: the caller gets this status.
                Err(_) => Err(status),
            }
        })
    }
}

/// Receives the next item of the request, and waits for it: in the thread of the loop by serving
/// others meanwhile, in any other thread, after `nearcall_call_defer`, by blocking it. One thread
/// at a time. `has_item` is set to 0 at their end; else `item` is set: release it by
/// `nearcall_bytes_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_receive(
    call: nearcall_call,
    item: *mut nearcall_bytes,
    has_item: *mut u32,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("item", item)?;
            at.place("has_item", has_item)?;
            let requests = at.call(call)?.streams().requests;
            let requests = requests.ok_or_else(|| {
                Status::failed_precondition("the request of this method is no stream")
            })?;
            // Whoever waits here, perhaps below in this thread, is the one that receives.
            let requests = requests.try_lock().map_err(|_| {
                Status::failed_precondition("the items of this call are received by another")
            })?;
            let received = requests.recv()?;
            at.put("has_item", has_item, received.is_some().into())?;
            at.put("item", item, give_bytes(received.unwrap_or_default().into_bytes()))
        })
    }
}

/// Sends an item of the reply, and waits for credit and for room, as `nearcall_call_receive` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_send(
    call: nearcall_call,
    item: nearcall_view,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let item = Encoded::from(at.bytes("item", item)?.to_vec());
            let replies = at.call(call)?.streams().replies;
            let replies = replies.ok_or_else(|| {
                Status::failed_precondition("the reply of this method is no stream")
            })?;
            replies.send(&item)
        })
    }
}

/// Returns 1 if the caller does not wait any more, or the handle is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_is_cancelled(call: nearcall_call) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(1, |at| match at.call(call).ok()? {
            Phase::Now(current) => Some(current.context.is_cancelled().into()),
            Phase::Later(later) => {
                let responder = lock(&later.responder);
                Some(responder.as_ref().is_none_or(Responder::is_cancelled).into())
            }
        })
    }
}

/// Returns how much time is left until the call ends by itself, in nanoseconds; `UINT64_MAX`: it
/// has no deadline, or was answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_remaining_ns(call: nearcall_call) -> u64 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(u64::MAX, |at| {
            let left = match at.call(call).ok()? {
                Phase::Now(current) => current.context.remaining()?,
                Phase::Later(later) => lock(&later.responder).as_ref()?.remaining()?,
            };
            u64::try_from(left.as_nanos()).ok()
        })
    }
}

/// Finds an entry that came with the request. Returns 1 and sets `value`, which is valid until the
/// service returns, or returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_entry(
    call: nearcall_call,
    key: *const c_char,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let (key, current) = (at.text("key", key).ok()?, at.current(call).ok()?);
            let metadata = current.context.metadata();
            put_entry(at, value, metadata.get_bin(key))
        })
    }
}

/// Gives the entry with a number, from 0 on, that came with the request. Returns 1 and sets `key`
/// and `value`, which are valid until the service returns, or returns 0: there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_entry_at(
    call: nearcall_call,
    number: usize,
    key: *mut nearcall_view,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let metadata = at.current(call).ok()?.context.metadata();
            put_entry_at(at, [key, value], metadata.iter(), number)
        })
    }
}

/// Says who calls, by the kernel: sets the user id and the process id. Returns 1, or 0 where it
/// does not know them, as over `tcp://`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_peer(
    call: nearcall_call,
    uid: *mut u32,
    pid: *mut i32,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let peer = at.current(call).ok()?.context.peer();
            let (known_uid, known_pid) = (peer.uid()?, peer.pid().unwrap_or(0));
            at.put_if_wanted(uid, || known_uid);
            at.put_if_wanted(pid, || known_pid);
            Some(1)
        })
    }
}

/// Sends an entry with the end of the call, with a reply and with an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_add_trailer(
    call: nearcall_call,
    key: *const c_char,
    value: nearcall_view,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| add_entry(at, call, key, value, false)) }
}

/// Sends an entry before the first item and the reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_add_header(
    call: nearcall_call,
    key: *const c_char,
    value: nearcall_view,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| add_entry(at, call, key, value, true)) }
}

fn add_entry(
    at: &Border,
    call: nearcall_call,
    key: *const c_char,
    value: nearcall_view,
    is_header: bool,
) -> Result<(), Status> {
    let (key, value) = (at.text("key", key)?, at.bytes("value", value)?);
    let added = match (at.call(call)?, is_header) {
        (Phase::Now(current), true) => current.context.add_header_bin(key, value),
        (Phase::Now(current), false) => current.context.add_reply_metadata_bin(key, value),
        (Phase::Later(later), _) => match (lock(&later.responder).as_mut(), is_header) {
            (Some(to), true) => to.add_header_bin(key, value),
            (Some(to), false) => to.add_reply_metadata_bin(key, value),
            (None, _) => Ok(()),
        },
    };
    added.map_err(bad_entry)
}
