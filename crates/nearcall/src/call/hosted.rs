//! Calls of a library to another service of its host whose methods do not wait: function calls with
//! bytes.
//!
//! **Invariants:** such a call has the results and errors of one over a connection. It ends by its
//! deadline, unless the method breaks its promise not to wait.
//! **Not here:** what the host does with it (`nearcall-host`); started calls, one-way messages and
//! streams, which go over a connection: what a caller does not wait for must not run meanwhile.

use std::rc::Rc;

use nearcall_os::library::{Caller, ReplyPart, RequestPart};

use super::ObjectRef;
use crate::clients::{Binding, HostedObject, Target, unbind};
use crate::codec::{self, AnyMessage, Body, Message};
use crate::options::CallSpec;
use crate::services::library_reply::read_reply;
use crate::status::Status;

impl ObjectRef {
    /// Calls an object of the same host, or over a connection if it is not there any more.
    #[cold]
    #[inline(never)]
    pub(super) fn call_hosted<Q: Message, R: Message + Default>(
        &self,
        (binding, object): (&Rc<Binding>, HostedObject),
        request: &Q,
        spec: CallSpec<'_>,
    ) -> Result<R, Status> {
        let mut result = None;
        let mut read = |reply: &ReplyPart<'_>| {
            result = Some(codec::decode(Body::copied(reply.body))?);
            Ok(())
        };
        if let Some(called) = binding.call_hosted(object, AnyMessage::new(request), spec, &mut read)
        {
            return called.and_then(|()| result.ok_or_else(not_passed_on));
        }
        let binding = self.binding_elsewhere(spec)?;
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Shared(..) => return self.call_shared(&binding, request, spec),
            Target::Local(..) | Target::Hosted(_) => return Err(no_connection()),
        };
        self.call_remote(&binding, connection, request, spec)
    }

    /// Returns a connection to an object that is not in this host any more.
    #[cold]
    fn binding_elsewhere(&self, spec: CallSpec<'_>) -> Result<Rc<Binding>, Status> {
        unbind(&self.object.slot);
        self.binding_with_connection(spec)
    }
}

impl Binding {
    /// Calls an object of the same host, and has `read` read the result. `None`: it is not there
    /// any more, and did not run.
    fn call_hosted(
        &self,
        object: HostedObject,
        request: AnyMessage<'_>,
        spec: CallSpec<'_>,
        read: &mut dyn FnMut(&ReplyPart<'_>) -> Result<(), Status>,
    ) -> Option<Result<(), Status>> {
        let CallSpec { method, options, deadline } = spec;
        if deadline.has_passed() {
            return Some(Err(Status::not_answered_in_time()));
        }
        if let Err(status) = self.core.check_metadata(options) {
            return Some(Err(status));
        }
        let body = match codec::encode_vec(&request) {
            Ok(body) => body,
            Err(status) => return Some(Err(status)),
        };
        let request = RequestPart {
            object: 0,
            method: method.id,
            is_oneway: false,
            deadline,
            metadata: options.metadata_bytes(),
            body: &body,
            caller: Caller::Local,
        };
        let mut result = Err(not_passed_on());
        let is_there = object.call(request, |reply| {
            result = read_reply(reply).and_then(|_| read(reply));
        });
        is_there.then(|| result.map_err(|status| self.name.explain(status)))
    }
}

#[cold]
fn not_passed_on() -> Status {
    Status::internal("the host did not pass the reply on")
}

/// A connection was spec for, and there is none.
#[cold]
pub(super) fn no_connection() -> Status {
    Status::internal("a connection was spec for, and the object is in this process")
}
