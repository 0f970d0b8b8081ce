//! Calls of a thread over a connection that threads and tasks share, because the client, this
//! process or the server has no other one left for it.
//!
//! **Invariants:** they have the results, errors and deadlines of calls over a connection of their
//! thread; while one of a client in a loop waits, the loop goes on serving. For each method only
//! marshalling is compiled.
//! **Not here:** such a call itself (`async_call/by_threads.rs`), the places of connections
//! (`clients/shared.rs`).

use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::Loan;
use nearcall_wire::Shape;

use super::streaming::OpenedStream;
use super::{Object, ObjectRef, PendingCall};
use crate::async_call::AsyncObjectRef;
use crate::clients::{Binding, ClientCore, InUse, Target, current_binding};
use crate::codec::{Encoded, Message};
use crate::deadline::Deadline;
use crate::limits::OWN_CONNECTION_RETRY_INTERVAL;
use crate::options::{CallOptions, CallSpec};
use crate::reconnect::ReconnectPolicy;
use crate::status::{Code, Fate, Status};

impl ObjectRef {
    /// Returns the object for calls over the shared connection.
    fn shared(&self) -> &AsyncObjectRef {
        let Object { name, client, number, shared, .. } = &*self.object;
        shared.get_or_init(|| AsyncObjectRef::for_threads(client, name, *number))
    }

    /// Connects this thread to the object, or has it share a connection where there is none left
    /// for it.
    ///
    /// # Errors
    ///
    /// There is neither: the request was not sent.
    pub(super) fn connect(
        &self,
        core: &Rc<ClientCore>,
        policy: ReconnectPolicy,
        deadline: Deadline,
    ) -> Result<Target, Status> {
        let client = self.object.client.shared();
        let returned = client.returned_places();
        if client.has_many_places() && self.shared().route().is_due_for_threads() {
            // Before those of further threads, which may take what it needs. It is tried once, and
            // an error is that of a thread which needs it.
            let policy = policy.without_patience();
            let _ = core.block_on(self.shared().connect(policy, deadline))?;
        }
        let failure = match core.connect_by(policy, &self.object.name.place, deadline) {
            Ok(connection) => return Ok(Target::Remote(connection)),
            Err(failure) => failure,
        };
        let again_at = || Deadline::after(OWN_CONNECTION_RETRY_INTERVAL);
        // One that is open already.
        if failure.is_refused && self.shared().route().connection().is_some() {
            return Ok(Target::Shared(returned, again_at()));
        }
        // A simulated process has no driver thread, which serves a connection that is shared.
        if !failure.is_short || cfg!(simulation) {
            return Err(failure.status.with_fate(Fate::NotBegun));
        }
        let why = match core.block_on(self.shared().connect(policy, deadline)) {
            Ok(Ok(_)) => return Ok(Target::Shared(returned, again_at())),
            // It would be as short of that.
            Ok(Err(status)) if status.code() == Code::ResourceExhausted => failure.status,
            Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
                let text = format!(
                    "{}; and no connection can be shared: {}",
                    failure.status.message(),
                    status.message()
                );
                Status::new(failure.status.code(), text)
            }
            Ok(Err(status)) | Err(status) => status,
        };
        Err(why.with_fate(Fate::NotBegun))
    }

    /// Returns where the object is for a thread that could not send a request, because it has no
    /// connection of its own any more and found no place for another one.
    ///
    /// # Errors
    ///
    /// `status`: that is not why.
    #[cold]
    pub(super) fn shared_instead(&self, status: Status) -> Result<Rc<Binding>, Status> {
        match current_binding(&self.object.slot) {
            Some(binding) if matches!(binding.target, Target::Shared(..)) => Ok(binding),
            _ => Err(status),
        }
    }

    /// Calls a method and waits for its end.
    #[cold]
    #[inline(never)]
    pub(super) fn call_shared<R: Message + Default>(
        &self,
        binding: &Binding,
        request: &impl Message,
        spec: CallSpec<'_>,
    ) -> Result<R, Status> {
        let reply = self.call_encoded(binding, &Encoded::new(request)?, spec)?;
        binding.read_encoded(&reply, spec.method.id)
    }

    pub(super) fn call_encoded(
        &self,
        binding: &Binding,
        request: &Encoded,
        spec: CallSpec<'_>,
    ) -> Result<Encoded, Status> {
        binding.core.block_on(self.shared().call_encoded(request, spec))?
    }

    /// Starts a call whose end is taken later.
    #[cold]
    #[inline(never)]
    pub(super) fn start_shared<R: Message + Default>(
        &self,
        binding: &Rc<Binding>,
        request: &impl Message,
        spec: CallSpec<'_>,
    ) -> Result<PendingCall<R>, Status> {
        let request = Encoded::new(request)?;
        let started = binding.core.block_on(self.shared().start_encoded(&request, spec))??;
        Ok(PendingCall::shared(Rc::clone(binding), started, spec.method.id, spec.deadline))
    }

    /// Sends a message that is never answered.
    #[cold]
    #[inline(never)]
    pub(super) fn send_shared(
        &self,
        binding: &Rc<Binding>,
        request: &impl Message,
        spec: CallSpec<'_>,
    ) -> Result<(), Status> {
        binding.core.block_on(self.shared().send_encoded(&Encoded::new(request)?, spec))?
    }

    /// Starts a call that streams.
    #[cold]
    pub(super) fn open_shared(
        &self,
        binding: &Rc<Binding>,
        request: &Encoded,
        shape: Shape,
        spec: CallSpec<'_>,
    ) -> Result<OpenedStream, Status> {
        let call = binding.core.block_on(self.shared().open_encoded(request, shape, spec))??;
        Ok(OpenedStream::Shared(Arc::new(call), InUse::new(Rc::clone(binding))))
    }

    /// Returns memory to lend, once there is some.
    #[cold]
    pub(super) fn loan_shared(
        &self,
        binding: &Binding,
        bytes: usize,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<Loan, Status> {
        binding.core.block_on(self.shared().loan_by(bytes, options, deadline))?
    }
}
