//! Where a client goes whose handshake is done: to the loop of its server with the fewest clients.
//!
//! **Invariants:** a client that is refused after all gets the reason.
//! **Not here:** handshakes (`handshakes.rs`), the limits that decide (`census.rs`).

use std::sync::Arc;

use nearcall_channel::{Endpoint, Interest, Refusal, WaitPolicy};

use super::Reactor;
use super::handshakes::NOT_LISTENING;
use crate::deadline::Deadline;
use crate::listen_policy::ListenPolicy;
use crate::peer::Peer;
use crate::reactor::acceptor::Acceptor;
use crate::reactor::census::{Admission, OwnLoop};
use crate::refusals::RefusalKind;
use crate::status::Status;
use crate::tasks::mailbox::{Mailbox, Post};

impl Reactor {
    /// Finds the loop for a client whose handshake is done, and hands the client to it.
    pub(crate) fn place_client(
        &self,
        acceptor: &Acceptor,
        policy: &Arc<ListenPolicy>,
        mailboxes: &[Arc<Mailbox>],
        mut endpoint: Endpoint,
    ) {
        let is_fdless = endpoint.wait_policy() != WaitPolicy::Spin
            && endpoint.readiness(Interest::Receive).is_none();
        // Others may have come in during its handshake.
        let (census, peer) = (&acceptor.census, Peer::of(&endpoint));
        let admission = match census.admit(self.own_loop(acceptor), peer.uid(), is_fdless) {
            Ok(admission) => admission,
            Err(text) => {
                let kind = RefusalKind::ConnectionLimit;
                census.refusals.note(kind, peer.uid(), peer.pid(), &text);
                return endpoint.refuse(Refusal::Other, &text);
            }
        };
        match mailboxes.get(admission.loop_index()) {
            Some(mailbox) if admission.loop_index() != acceptor.loop_index => {
                let policy = Arc::clone(policy);
                hand_over(mailbox, HandedOver { endpoint, policy, admission });
            }
            _ => self.accept_client(acceptor, policy, endpoint, admission),
        }
    }

    /// Accepts a client whose handshake another loop of its server has made.
    fn accept_handed_over(&self, client: HandedOver) {
        let HandedOver { mut endpoint, policy, admission } = client;
        let acceptor = {
            let acceptors = self.acceptors.borrow();
            let mut acceptors = acceptors.iter().filter_map(|(_, acceptor)| acceptor.upgrade());
            acceptors.find(|acceptor| admission.is_of(&acceptor.census))
        };
        match acceptor {
            Some(acceptor) => self.accept_client(&acceptor, &policy, endpoint, admission),
            None => endpoint.refuse(Refusal::Draining, NOT_LISTENING),
        }
    }

    /// Accepts a client that was admitted to this loop.
    fn accept_client(
        &self,
        acceptor: &Acceptor,
        policy: &ListenPolicy,
        mut endpoint: Endpoint,
        admission: Admission,
    ) {
        if acceptor.is_draining() {
            return endpoint.refuse(Refusal::Draining, NOT_LISTENING);
        }
        let (buffers, activity) = (&self.services.buffers, &self.activity);
        let (connection, by) = acceptor.connection(endpoint, policy, buffers, activity);
        if let Err(error) = self.add_connection(&connection) {
            return connection.refuse(Status::unavailable(error.to_string()));
        }
        self.handshakes.expect_greeting(by, &connection);
        acceptor.add(&connection, admission);
        connection.send_control(Deadline::NOW);
    }

    /// Returns what the placement of a client must know of this loop.
    pub(super) fn own_loop(&self, acceptor: &Acceptor) -> OwnLoop {
        OwnLoop { index: acceptor.loop_index, has_fdless: self.has_fdless() }
    }
}

/// A client of a server with several loops, whose handshake another loop made.
struct HandedOver {
    endpoint: Endpoint,
    policy: Arc<ListenPolicy>,
    /// Its place in the loop that it is handed to.
    admission: Admission,
}

/// Hands a client to another loop. If that has closed, or closes before it takes the client, the
/// client sees its connection close.
fn hand_over(to: &Arc<Mailbox>, client: HandedOver) {
    let mailbox = Arc::downgrade(to);
    let accept = move || {
        let reactor = mailbox.upgrade().and_then(|mailbox| Reactor::of_thread(&mailbox));
        if let Some(reactor) = reactor {
            reactor.accept_handed_over(client);
        }
    };
    let _ = to.post(Post::Run(Box::new(accept)));
}
