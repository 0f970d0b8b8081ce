//! The one table of mechanisms: names, what each can do, and how it is opened.
//!
//! **Invariants:** a name is stable, since it stands in addresses, command lines and stored runs.
//! The conformance suite runs over this table and checks what each row claims; what a message
//! costs (`mechanism/costs.rs`) is counted by `nearcall profile`.
//! **Not here:** what the mechanisms do (`kernel/`, `shm/`).
//!
//! **Invariant:** a mechanism either keeps a promise or states in its `Capabilities` that it does
//! not. There is no third case, and no silent truncation of a long message. *Checked by*
//! `tests/it/conformance.rs`, over every row of the table with the second end in another process,
//! both answers.

use std::fmt;
use std::str::FromStr;

use crate::error::{Unsupported, debug_as_display};
use crate::nearest::nearest_name;
use crate::open::{AcceptFn, OfferFn};
use crate::wait::WaitPolicy;

mod costs;
mod set;
mod table;

pub use costs::{Calls, Copies, Costs};
pub use set::{BadMechanismSet, MechanismSet};

/// A way to move messages between two processes of one machine.
///
/// What it can do, [`Mechanism::capabilities`] says; what it costs, [`Mechanism::costs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mechanism {
    /// Shared memory; the waiter spins while that pays, then sleeps on a futex or a descriptor.
    Shm,
    /// Two anonymous pipes.
    Pipe,
    /// Two named pipes, whose names are gone before the first message.
    Fifo,
    /// A pair of unix stream sockets.
    UnixStream,
    /// A pair of unix sockets that keep message boundaries and order.
    UnixSeqpacket,
    /// Unix datagram sockets.
    UnixDgram,
    /// TCP over the loopback interface.
    Tcp,
    /// UDP over the loopback interface, with a window of credits.
    Udp,
    /// POSIX message queues.
    PosixMq,
    /// System V message queues.
    SysvMq,
    /// Pages spliced into a pipe instead of copied.
    Vmsplice,
    /// The receiver reads the sender's memory.
    Cma,
    /// A unix stream socket driven by io_uring.
    Uring,
    /// Shared memory; the waiter spins.
    ShmSpin,
    /// Shared memory; the waiter sleeps on a futex.
    ShmFutex,
    /// Shared memory; woken by an eventfd.
    ShmEventfd,
    /// Shared memory; woken by a byte on a unix socket.
    ShmUnix,
    /// Shared memory; woken by a byte in a pipe.
    ShmPipe,
    /// Shared memory; woken by a signal.
    ShmSignal,
    /// Shared memory; woken by a POSIX queue.
    ShmPosixMq,
    /// Shared memory; woken by a POSIX semaphore.
    ShmSemaphore,
    /// A bounded buffer in shared memory under a mutex, with condition variables.
    ShmCondvar,
    /// A queue of messages in shared memory under a mutex, the kind that Boost has.
    ShmMq,
}

/// The path of the bytes from one end to the other.
///
/// See [`Mechanism::data_path`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataPath {
    /// The kernel copies them.
    KernelCopies,
    /// They lie in memory that both processes map.
    SharedMemory,
}

impl DataPath {
    /// Returns the name that is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KernelCopies => "kernel copies",
            Self::SharedMemory => "shared memory",
        }
    }

    /// Returns the most mappings of memory that one end of a connection holds, beside segments.
    pub(crate) const fn mappings(self) -> usize {
        match self {
            // Pages that the other end reads, or the queues of an io_uring.
            Self::KernelCopies => 3,
            // The memory of either end, and that of a doorbell.
            Self::SharedMemory => 3,
        }
    }
}

/// The capabilities of a mechanism. The conformance suite checks both answers of each.
///
/// See [`Mechanism::capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Has a descriptor that an event loop can wait on.
    pub pollable: bool,
    /// Only works while the waiter holds a CPU.
    pub needs_spinning: bool,
    /// Makes progress when both ends share one CPU.
    pub same_cpu_safe: bool,
    /// Descriptors can be passed beside the messages, over the control line, which sets connections
    /// up in the same way: [`Endpoint::pass_descriptors`](crate::Endpoint::pass_descriptors). A
    /// capability of the channel alone: calls and streams of the runtime carry none.
    pub descriptor_passing: bool,
    /// A message larger than the room of the channel passes, in parts.
    pub survives_oversized: bool,
    /// The largest message that may travel as one unit, in bytes, where the kernel or the structure
    /// has units. A small room or a limit of the kernel lowers it for a connection:
    /// [`Endpoint::fragment_bytes_max`](crate::Endpoint::fragment_bytes_max).
    pub atomic_message_bytes_max: Option<u32>,
    /// A hostile peer can neither change what we wrote nor hold a lock that we need.
    pub isolation: bool,
    /// The kernel object itself reports the death of the other end; otherwise the control line
    /// does.
    pub tells_of_death: bool,
    /// All that an end had sent when it was killed can still be received.
    pub delivers_after_death: bool,
    /// A kill at any moment leaves the other end nothing to hang in, by what the kernel and the
    /// standards promise. Otherwise it may break a lock of the C library, and the other end gets
    /// out of that by means that no standard allows.
    pub kill_safe: bool,
    /// Nothing is left in the system if both ends are killed in the same instant.
    pub vanishes_with_both: bool,
}

/// Whether a server opens a mechanism for every client that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It does, unless the server names other mechanisms.
    ByDefault,
    /// Only if the server names it, because of this.
    WhenNamed(&'static str),
}

/// One row of the table.
pub(crate) struct Row {
    pub(crate) mechanism: Mechanism,
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) data_path: DataPath,
    pub(crate) wake_up: &'static str,
    pub(crate) waits: &'static [WaitPolicy],
    pub(crate) capabilities: Capabilities,
    pub(crate) offered: Offered,
    /// Descriptors that one end of a connection holds open, beside the control line.
    pub(crate) descriptors: usize,
    /// Tries whether this kernel can do it now.
    pub(crate) probe: fn() -> Result<(), Unsupported>,
    pub(crate) offer: OfferFn,
    pub(crate) accept: AcceptFn,
}

impl Mechanism {
    /// All mechanisms, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        table::ROWS.iter().map(|row| row.mechanism)
    }

    pub(crate) fn row(self) -> &'static Row {
        let row = table::ROWS.iter().find(|row| row.mechanism == self);
        row.expect("each mechanism has a row; a test walks them all")
    }

    /// Its name on command lines, in addresses and in stored runs.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// One sentence on what it is.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// Returns the path of the bytes from one end to the other.
    pub fn data_path(self) -> DataPath {
        self.row().data_path
    }

    /// Describes how a sleeping end is woken.
    pub fn wake_up(self) -> &'static str {
        self.row().wake_up
    }

    /// The wait policies that it can be opened with, the usual one first.
    pub fn waits(self) -> &'static [WaitPolicy] {
        self.row().waits
    }

    /// Returns how many descriptors one end of a connection holds open for it, beside the control
    /// line.
    pub(crate) fn descriptors(self) -> usize {
        self.row().descriptors
    }

    /// Returns the capabilities of the mechanism.
    pub fn capabilities(self) -> Capabilities {
        self.row().capabilities
    }

    /// Returns whether a server that names no mechanisms opens this one for its clients.
    pub fn offered_by_default(self) -> bool {
        self.row().offered == Offered::ByDefault
    }

    /// Returns why a server has to name the mechanism before a client can have it.
    pub fn reason_to_be_named(self) -> Option<&'static str> {
        match self.row().offered {
            Offered::ByDefault => None,
            Offered::WhenNamed(reason) => Some(reason),
        }
    }

    /// Returns whether the mechanism exists to be compared with others and is not for use: it lies
    /// in shared memory, and a client can still change what the server sent, hold a lock that it
    /// needs, or make its wake-ups wait. `shm` does the same work without that.
    pub fn measured_only(self) -> bool {
        self.data_path() == DataPath::SharedMemory && !self.capabilities().isolation
    }

    /// Returns whether a server's event loop serves one connection of it: it has no descriptor, and
    /// a loop can sleep inside one such connection only. The second client is refused.
    pub fn one_client_in_a_loop(self) -> bool {
        let can = self.capabilities();
        !can.pollable && !can.needs_spinning
    }

    /// Asks this kernel whether the mechanism works here and now.
    ///
    /// # Errors
    ///
    /// What is missing: the text of an [`Unsupported`], which names the limit or the permission.
    pub fn supported(self) -> Result<(), String> {
        (self.row().probe)().map_err(|reason| reason.to_string())
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no mechanism.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownMechanism {
    /// The word; of a long one the first 64 letters.
    pub word: String,
}

impl fmt::Display for UnknownMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = nearest_name(&self.word, Mechanism::all().map(Mechanism::name));
        let all: Vec<_> = Mechanism::all().map(Mechanism::name).collect();
        write!(f, "unknown mechanism `{}`", self.word)?;
        match nearest {
            Some(name) => write!(f, ", did you mean `{name}`?")?,
            None => f.write_str(".")?,
        }
        write!(f, " There are: {}", all.join(" "))
    }
}

impl std::error::Error for UnknownMechanism {}

debug_as_display!(UnknownMechanism);

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = table::ROWS.iter().find(|row| row.name == word);
        // A peer may have written it.
        let word = || word.chars().take(WORD_MAX).collect();
        found.map(|row| row.mechanism).ok_or_else(|| UnknownMechanism { word: word() })
    }
}

/// Letters that are kept of a word that is no mechanism: longer ones cannot be near any name.
const WORD_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_parsed_back_to_its_mechanism() {
        for mechanism in Mechanism::all() {
            assert_eq!(mechanism.name().parse(), Ok(mechanism));
            assert!(!mechanism.waits().is_empty(), "{mechanism}");
            let polls = mechanism.waits().contains(&WaitPolicy::Poll);
            assert_eq!(polls, mechanism.capabilities().pollable, "{mechanism}");
        }
        assert_eq!(Mechanism::all().len(), 23);
    }

    #[test]
    fn what_is_offered_by_default_isolates_sleeps_survives_kills_and_shares_memory_of_nobody() {
        for mechanism in Mechanism::all().filter(|it| it.offered_by_default()) {
            let can = mechanism.capabilities();
            assert!(can.isolation && can.kill_safe && can.vanishes_with_both, "{mechanism}");
            assert!(can.pollable && !can.needs_spinning && can.same_cpu_safe, "{mechanism}");
        }
        let named = Mechanism::all().filter_map(Mechanism::reason_to_be_named);
        assert_eq!(named.count(), Mechanism::all().len() - 5);
    }

    #[test]
    fn what_exists_to_be_measured_is_never_offered_by_default() {
        let names = |fits: fn(&Mechanism) -> bool| -> Vec<&'static str> {
            Mechanism::all().filter(fits).map(Mechanism::name).collect()
        };
        let measured_only =
            ["shm-eventfd", "shm-posix-mq", "shm-semaphore", "shm-condvar", "shm-mq"];
        assert_eq!(names(|it| it.measured_only()), measured_only);
        let one_client = ["sysv-mq", "shm-futex", "shm-semaphore", "shm-condvar", "shm-mq"];
        assert_eq!(names(|it| it.one_client_in_a_loop()), one_client);
        let unfit = |it: &Mechanism| it.measured_only() || it.one_client_in_a_loop();
        assert!(Mechanism::all().filter(unfit).all(|it| !it.offered_by_default()));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_and_the_list() {
        let text = "shm-futx".parse::<Mechanism>().unwrap_err().to_string();
        assert!(text.contains("did you mean `shm-futex`?"), "{text}");
        assert!(text.contains("posix-mq"), "{text}");
        let text = "carrier-pigeon-with-a-hat".parse::<Mechanism>().unwrap_err().to_string();
        assert!(!text.contains("did you mean"), "{text}");
    }
}
