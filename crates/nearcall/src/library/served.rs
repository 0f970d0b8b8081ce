//! The calls of a service that is loaded as a library: from the host's bytes to its dispatchers.
//!
//! **Invariants:** a call sees here what it would see in a program: its caller by the kernel, its
//! deadline, its metadata. Calls of a nonblocking service come in any thread, several at once.
//! **Not here:** the C interface (`nearcall_os::library`), the answer
//! (`services/library_reply.rs`).

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use nearcall_channel::PeerIdentity;
use nearcall_os::library::{
    CallToken, Caller, HostLink, LibraryService, MethodPart, ObjectPart, RequestPart,
};

use super::{ServiceSetup, subscriber};
use crate::clients::own_loop::{self, HostScope};
use crate::codec::Body;
use crate::event_loop::EventLoop;
use crate::interface::MethodKind;
use crate::metadata::Metadata;
use crate::nesting::Handler;
use crate::peer::Peer;
use crate::services::context::Context;
use crate::services::detached_sink::{DetachedCall, DetachedSink};
use crate::services::dispatch;
use crate::services::dispatcher::{Dispatcher, Incoming};
use crate::services::reply_sink::ReplySink;
use crate::status::Status;
use crate::tasks::mailbox::{Mailbox, Post};
use crate::tasks::service_task::ServiceTask;

/// The service of a library, while a host has it loaded.
pub struct ServedLibrary {
    objects: Vec<ServedObject>,
    is_nonblocking: bool,
}

/// An object of a service.
pub(super) struct ServedObject {
    /// Empty: the only one of its interface.
    instance: String,
    dispatcher: Box<dyn Dispatcher + Send + Sync>,
}

impl ServedObject {
    pub(super) fn new(instance: &str, dispatcher: impl Dispatcher + Send + Sync) -> Self {
        Self { instance: instance.to_owned(), dispatcher: Box::new(dispatcher) }
    }

    fn describe(&self, is_nonblocking: bool) -> ObjectPart<'_> {
        let interface = self.dispatcher.interface();
        let methods = interface.methods.iter().map(|method| MethodPart {
            id: method.id,
            kind: kind_number(method.kind),
            name: method.name,
        });
        ObjectPart {
            interface: interface.name,
            instance: &self.instance,
            descriptor_set: interface.descriptor_set,
            methods: methods.collect(),
            is_nonblocking,
        }
    }
}

impl ServedLibrary {
    /// Makes the service.
    ///
    /// # Errors
    ///
    /// That of `make`, as text.
    pub fn new(
        host: HostLink,
        arguments: Vec<String>,
        make: impl FnOnce(&mut ServiceSetup) -> Result<(), Box<dyn Error>>,
    ) -> Result<Self, String> {
        let mut setup = ServiceSetup::new(arguments);
        make(&mut setup).map_err(|error| error.to_string())?;
        subscriber::install(host);
        let ServiceSetup { objects, is_nonblocking, .. } = setup;
        Ok(Self { objects, is_nonblocking })
    }
}

impl LibraryService for ServedLibrary {
    fn objects(&self) -> Vec<ObjectPart<'_>> {
        self.objects.iter().map(|object| object.describe(self.is_nonblocking)).collect()
    }

    fn dispatch(&self, request: &RequestPart<'_>, token: CallToken) {
        let &RequestPart { method, deadline, metadata, body, caller, .. } = request;
        let _scope = HostScope::enter(token.host());
        let sink = DetachedSink::of_library(token, spawn_in_loop);
        let call = DetachedCall { sink, peer: peer_of(caller), is_trusted: false };
        let sink = ReplySink::detached(&call);
        let index = usize::try_from(request.object).unwrap_or(usize::MAX);
        let Some(object) = self.objects.get(index) else {
            let text = format!("the library has no object with the number {}", request.object);
            return sink.fail(&Status::unimplemented(text));
        };
        let (dispatcher, metadata) = (&*object.dispatcher, Metadata::new(metadata));
        dispatch::run(dispatcher, sink, Handler::of_library(deadline), || {
            let context = Context::new(deadline, metadata, dispatcher.interface(), method, sink);
            Incoming { method, body: Body::copied(body), context }
        });
    }
}

impl fmt::Debug for ServedLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.objects.iter().map(|object| object.dispatcher.interface().name);
        f.debug_list().entries(names).finish()
    }
}

/// Returns the number of a kind in the C interface.
fn kind_number(kind: MethodKind) -> u32 {
    match kind {
        MethodKind::Unary => 0,
        MethodKind::Oneway => 1,
        MethodKind::ReplyStream => 2,
        MethodKind::RequestStream => 3,
        MethodKind::BothStreams => 4,
    }
}

fn peer_of(caller: Caller<'_>) -> Peer {
    match caller {
        Caller::Local => Peer::Local,
        Caller::Process { pid, uid, gid } => {
            Peer::Process(PeerIdentity { pid, uid, gid, pidfd: None })
        }
        // A host without the address says as little as a machine that is not known.
        Caller::Remote(address) => {
            Peer::Remote(address.parse().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))))
        }
    }
}

/// Runs the future of an async service in the loop of this library, which is started with the first
/// one: calls come in threads of the host, whose loops are of another build.
fn spawn_in_loop(task: ServiceTask) {
    static LOOP: OnceLock<Option<Arc<Mailbox>>> = OnceLock::new();
    match LOOP.get_or_init(start_loop) {
        // Dropped if the loop has ended, which fails its call.
        Some(mailbox) => drop(mailbox.post(Post::Spawn(task))),
        None => drop(task),
    }
}

fn start_loop() -> Option<Arc<Mailbox>> {
    let mailbox = Arc::new(Mailbox::new().ok()?);
    let of_loop = Arc::clone(&mailbox);
    let thread = std::thread::Builder::new().name("nearcall-library".into());
    let started = thread.spawn(move || {
        if let Ok(event_loop) = EventLoop::with_mailbox(of_loop) {
            own_loop::adopt(event_loop.reactor());
            // It ends with the process.
            let _ = event_loop.run();
        }
    });
    started.ok().map(|_| mailbox)
}
