//! Moves whole messages both ways between two processes, by any mechanism that Linux has.
//!
//! A client and a server meet over a unix socket or TCP ([`connect`], [`Listener`]), agree on a
//! [`Mechanism`], and each gets an [`Endpoint`]: claim room, write in place, commit; receive, read,
//! release. What a mechanism can do stands in its [`Capabilities`].
//! Knows nothing of calls, objects or `.proto` files.
//!
//! # Inside
//!
//! A mechanism implements `Transport` (`transport.rs`): it moves *fragments* of at most its largest
//! unit. `channel/` makes whole messages of them, once for all mechanisms; `Channel` erases the
//! type of the transport, with one dynamic call for each message; [`Endpoint`] is what users hold.
//! The mechanisms that copy through the kernel are in `kernel/`, those in shared memory in `shm/`;
//! the latter share one ring and differ in the *doorbell* only. Those with a descriptor to ring are
//! one file (`shm/doorbell/fd.rs`) and a row each.
//!
//! `shm` is the default. It uses the ring and the two sealed files of the other shared-memory
//! mechanisms and differs in four parts. The sleep word of the waiting end states whether it waits
//! on a futex or on a descriptor (`shm/doorbell/futex_or_fd.rs`), so a blocking client and an event
//! loop share one channel. `spin.rs` decides how long to spin first. Long messages go through a
//! *lane* (`shm/lane.rs`: slots for one long fragment or several short ones, few of them while both
//! ends are awake, up to 1 MiB for a backlog) and loans through the *arena* (`shm/arena/`). Both
//! consist of *segments* (`shm/segments.rs`): memory files that are created on demand, passed over
//! the control line (`shm/segment_table.rs`), and returned.
//!
//! `handshake/steps.rs` is a handshake in steps that never wait; `handshake/local.rs` is the
//! rendezvous over a unix socket; `handshake/remote.rs` that of `tcp://`, which has no control line
//! and passes no descriptors; `handshake/switch.rs` and `handshake/meeting.rs` open another
//! mechanism between two ends that are connected. After the handshake the control line carries
//! descriptors, segments, the line of another handshake, and the reason of a server that must
//! refuse a client after all.
//!
//! `liveness.rs` is the word that says that the peer has gone, `watcher.rs` the thread that sets it
//! for mechanisms that do not notice by themselves. `interrupt.rs` interrupts an event loop that
//! sleeps inside a mechanism without a descriptor. `wake_flags.rs`, `posted_flag.rs`, `due_time.rs`
//! and `last_use.rs` are words by which threads of `nearcall` wake each other, in this crate
//! because loom tries every interleaving here. `account.rs` counts what users hold; charges grow in
//! steps, so that no call takes its lock. `socket_file.rs` makes, watches and removes the file of a
//! listener's socket; a socket that another process has bound and handed over is adopted instead
//! (`inherited.rs`). What a process made is not used in one that was forked from it (`fork.rs` of
//! `nearcall-os`).
//!
//! **Invariant:** kernel objects have no name. Queues, FIFOs and memory files are anonymous or
//! unlinked before the peer receives them; only the rendezvous socket has a path. A killed process
//! leaves nothing, unless it is killed between the two system calls that make a FIFO or a POSIX
//! queue and remove its name. System V queues have no owner that the kernel watches, so the
//! surviving end removes them, and they stay if both ends are killed at once. *Checked by*
//! `tests/it/conformance.rs`, after every case, and `cargo xtask kill-storm`.
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
mod nearest;
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
pub use nearest::nearest_name;
pub use packet::{Refusal, VERSION, Version};
pub use posted_flag::PostedFlag;
pub use settings::{Peer, PeerIdentity};
pub use shm::arena::{Borrowed, Borrower, Lender, Loan, LoanError, Place};
pub use shm::doorbell::signal::signals_taken;
pub use socket_file::{SOCKET_MODE_DEFAULT, SocketAccess, has_lock};
pub use spin::{SpinOptions, SpinPlan, Spinner, measure_wake_up_cost, wake_up_cost};
pub use wait::{Deadline, Interest, Readiness, UnknownWaitPolicy, WaitPolicy, WakeCounts};
pub use wake_flags::WakeFlags;
