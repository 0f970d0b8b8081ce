//! Moves whole messages both ways between two processes, by any mechanism that Linux has.
//!
//! A client and a server meet over a unix socket or TCP ([`connect`], [`Listener`]), agree on a
//! [`Mechanism`], and each gets an [`Endpoint`]: claim room, write in place, commit; receive, read,
//! release. What a mechanism can do stands in its [`Capabilities`].
//! Knows nothing of calls, objects or `.proto` files.
#![forbid(unsafe_code)]

pub mod account;
pub mod address;
mod channel;
mod control;
mod due_time;
pub mod endpoint;
pub mod error;
mod fds;
mod fragment;
#[doc(hidden)]
pub mod fuzzing;
mod growing;
pub mod handshake;
mod hang_up;
mod inherited;
pub mod interrupt;
mod kernel;
mod last_use;
pub mod limits;
mod liveness;
pub mod mechanism;
mod open;
mod packet;
mod posted_flag;
pub mod runtime_dir;
pub mod settings;
mod shm;
mod socket_file;
pub mod spin;
mod sync;
mod transport;
pub mod wait;
mod wake_flags;
mod watcher;

pub use address::{Address, BadAddress, NamedSocket, named_sockets};
pub use due_time::DueTime;
pub use endpoint::{Claim, Endpoint, Message};
pub use error::{BadParts, OpenError, ReceiveError, SendError, Unsupported, Violation};
pub use growing::grow;
pub use handshake::{
    BadOptions, CannotSwitch, Handshake, HandshakeError, InUse, Invitation, Invited, Listener,
    MeetingClient, Options, Rendezvous, accept_over, connect, connect_over,
};
pub use hang_up::HangUp;
pub use inherited::{HEALTH_SUFFIX, secure_inherited, take_inherited};
pub use interrupt::Interrupt;
pub use last_use::{ClosedFlag, UseCount};
pub use mechanism::{
    BadMechanismSet, Capabilities, DataPath, Mechanism, MechanismSet, UnknownMechanism,
};
pub use packet::{Refusal, VERSION, Version};
pub use posted_flag::PostedFlag;
pub use settings::{Peer, PeerIdentity};
pub use shm::arena::{Borrowed, Borrower, Lender, Loan, LoanError, Place};
pub use shm::doorbell::signal::signals_taken;
pub use socket_file::{SOCKET_MODE_DEFAULT, SocketAccess, has_lock};
pub use spin::{SpinOptions, SpinPlan, Spinner, measure_wake_up_cost, wake_up_cost};
pub use wait::{Deadline, Interest, Readiness, UnknownWaitPolicy, WaitPolicy, WakeCounts};
pub use wake_flags::WakeFlags;
