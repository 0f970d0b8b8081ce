//! Doorbells that are descriptors: two eventfds, pipes or POSIX queues, one for each end, or a pair
//! of unix sockets. A byte, or a count of one, rings.
//!
//! **Invariants:** a ring of a pipe, a queue or a socket never waits, whatever the other end does
//! to the flags that both may share; a full one means that the bell is rung already. One read ends
//! the sleep and takes the rings back; a ring that finds the end awake costs its next sleep one
//! check. The end of a pipe or a socket reports the other end's death, without the watcher. Both
//! ends share each eventfd and each queue, so a hostile peer can take our rings away, or fill our
//! eventfd and make our ring wait. Asking before each ring would cost a system call; these
//! mechanisms exist to be measured, so they do not ask and claim no isolation. The thread that
//! watches all connections never waits for them, except for an eventfd where asynchronous I/O is
//! neither built into the kernel nor let through by a filter of system calls.
//! **Not here:** announcing sleeps and choosing the end to ring (`doorbell.rs`).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::pipe::End;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::Half;
use nearcall_os::{descriptor, eventfd, mqueue, pipe, socket};

use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::limits::RINGS_PER_READ;
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory};
use crate::wait::{Deadline, WaitPolicy};

/// A kind of descriptor, as far as the kinds differ.
pub(crate) trait BellKind: Send + 'static {
    /// `true` if an empty read or an error means that the other end is gone.
    const REPORTS_DEATH: bool;

    /// Makes the server's doorbell, and the descriptors of the client's.
    fn create() -> Result<Made, OpenError>;

    /// Takes the client's descriptors. Anything that is not of this kind is refused before a read
    /// of it could block.
    fn accept(parts: &mut ChannelFds) -> Result<Ends, OpenError>;

    /// Takes rings back. Waits for one.
    fn read(ours: &OwnedFd) -> io::Result<usize>;

    /// Takes rings back. Does not wait; `None` if there is none.
    fn try_read(ours: &OwnedFd) -> io::Result<Option<usize>>;

    /// Rings for the other end.
    fn ring(theirs: &OwnedFd) -> io::Result<()>;

    /// Ends a read of `ours`, for the thread that watches the other end's life. Must not wait: that
    /// thread serves other connections, too.
    fn wake(ours: &OwnedFd);
}

/// The descriptor that this end reads, and the one that it rings, if that is another.
pub(crate) struct Ends {
    ours: OwnedFd,
    theirs: Option<OwnedFd>,
}

/// The server's doorbell, and the descriptors of the client's.
pub(crate) struct Made {
    ends: Ends,
    descriptors: Vec<OwnedFd>,
}

/// Reads our descriptor, rings the other end's.
pub(crate) struct FdDoorbell<K> {
    ours: Arc<OwnedFd>,
    theirs: Option<OwnedFd>,
    wait: WaitPolicy,
    liveness: Arc<PeerLiveness>,
    kind: PhantomData<K>,
}

impl<K: BellKind> FdDoorbell<K> {
    fn new(ends: Ends, settings: &Settings) -> Self {
        Self {
            ours: Arc::new(ends.ours),
            theirs: ends.theirs,
            wait: settings.wait,
            liveness: Arc::clone(&settings.liveness),
            kind: PhantomData,
        }
    }

    /// Checks what a read returned: only rings leave the other end alive.
    #[inline]
    fn check(&self, received: io::Result<Option<usize>>) {
        match received {
            Ok(Some(1..) | None) => {}
            // Only a process that shares the descriptor can make a blocking read return that.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(Some(0)) | Err(_) => self.liveness.set_gone(),
        }
    }
}

impl<K: BellKind> Doorbell for FdDoorbell<K> {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        if self.wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            let received = K::read(&self.ours);
            if !K::REPORTS_DEATH {
                return received.map(drop);
            }
            self.check(received.map(Some));
        } else if poll_one(&self.ours, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        K::ring(self.theirs.as_ref().unwrap_or(&self.ours))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ours.as_fd())
    }

    #[inline]
    fn clear(&self) {
        let received = K::try_read(&self.ours);
        // Otherwise nothing there, or the other end was faster: the bell is clear.
        if K::REPORTS_DEATH {
            self.check(received);
        }
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let ours = Arc::clone(&self.ours);
        Box::new(move || K::wake(&ours))
    }
}

impl<K: BellKind> Meet for FdDoorbell<K> {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let Made { ends, descriptors } = K::create()?;
        Ok((Self::new(ends, settings), ChannelFds { bytes: Vec::new(), descriptors }))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let ends = K::accept(&mut parts)?;
        parts.expect_nothing_more()?;
        Ok(Self::new(ends, settings))
    }
}

/// Both ends of a kind whose descriptors both processes hold.
fn share(create: impl Fn() -> Result<OwnedFd, OpenError>) -> Result<Made, OpenError> {
    let (ours, theirs) = (create()?, create()?);
    let copy = |fd: &OwnedFd| {
        descriptor::duplicate(fd).map_err(OpenError::doing("duplicating a doorbell"))
    };
    let descriptors = vec![copy(&theirs)?, copy(&ours)?];
    Ok(Made { ends: Ends { ours, theirs: Some(theirs) }, descriptors })
}

/// An eventfd for each end.
pub(crate) struct Eventfd;

impl BellKind for Eventfd {
    const REPORTS_DEATH: bool = false;

    fn create() -> Result<Made, OpenError> {
        let make = || eventfd::create(eventfd::Kind::Counter);
        share(|| make().map_err(OpenError::doing("making eventfds")))
    }

    fn accept(parts: &mut ChannelFds) -> Result<Ends, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        Ok(Ends { ours, theirs: Some(theirs) })
    }

    #[inline]
    fn read(ours: &OwnedFd) -> io::Result<usize> {
        eventfd::read(ours).map(|_| 1)
    }

    #[inline]
    fn try_read(ours: &OwnedFd) -> io::Result<Option<usize>> {
        eventfd::try_read(ours).map(|_| None)
    }

    #[inline]
    fn ring(theirs: &OwnedFd) -> io::Result<()> {
        eventfd::add_one(theirs)
    }

    fn wake(ours: &OwnedFd) {
        // The other end holds it as well, and could fill it between a look and a write, which would
        // wait then. That is only for processes that have no other way. Any other error passes,
        // such as a limit that another user has exhausted: the watcher tries again.
        if let Err(error) = eventfd::signal(ours)
            && eventfd::lacks_signal(&error)
        {
            let _ = eventfd::try_add_one(ours);
        }
    }
}

/// A pipe to each end.
pub(crate) struct Pipe;

impl BellKind for Pipe {
    const REPORTS_DEATH: bool = true;

    fn create() -> Result<Made, OpenError> {
        let create = || pipe::create().map_err(OpenError::doing("making a pipe"));
        let (to_us, to_them) = (create()?, create()?);
        let ends = Ends { ours: to_us.read, theirs: Some(to_them.write) };
        Ok(Made { ends, descriptors: vec![to_them.read, to_us.write] })
    }

    fn accept(parts: &mut ChannelFds) -> Result<Ends, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        if pipe::size_bytes(&ours).is_err() || pipe::size_bytes(&theirs).is_err() {
            return Err(OpenError::bad_parts("the doorbell is no pipe"));
        }
        Ok(Ends { ours, theirs: Some(theirs) })
    }

    #[inline]
    fn read(ours: &OwnedFd) -> io::Result<usize> {
        pipe::read(ours, &mut [0; RINGS_PER_READ])
    }

    #[inline]
    fn try_read(ours: &OwnedFd) -> io::Result<Option<usize>> {
        pipe::try_read(ours, &mut [0; RINGS_PER_READ])
    }

    #[inline]
    fn ring(theirs: &OwnedFd) -> io::Result<()> {
        pipe::try_write(theirs, &[1]).map(drop)
    }

    /// For an end that hung up its control line and kept the pipe. We hold no writing end: it would
    /// keep the pipe from ending. So one is opened for this moment only. Its open file is ours
    /// alone, so `O_NONBLOCK` holds if the peer fills the pipe just now.
    fn wake(ours: &OwnedFd) {
        if let Ok(end) = pipe::fifo_open(ours.as_fd(), End::Write)
            && descriptor::set_nonblocking(&end, true).is_ok()
        {
            let _ = pipe::write(&end, &[1]);
        }
    }
}

/// One end of a pair of unix sockets.
pub(crate) struct Unix;

impl BellKind for Unix {
    const REPORTS_DEATH: bool = true;

    fn create() -> Result<Made, OpenError> {
        let pair = socket::unix_pair(socket::Kind::Stream);
        let (ours, theirs) = pair.map_err(OpenError::doing("making a pair of unix sockets"))?;
        Ok(Made { ends: Ends { ours, theirs: None }, descriptors: vec![theirs] })
    }

    fn accept(parts: &mut ChannelFds) -> Result<Ends, OpenError> {
        let [ours] = parts.take_descriptors()?;
        socket::peer_credentials(&ours)
            .map_err(|_| OpenError::bad_parts("the doorbell is no socket"))?;
        Ok(Ends { ours, theirs: None })
    }

    #[inline]
    fn read(ours: &OwnedFd) -> io::Result<usize> {
        socket::recv(ours, &mut [0; RINGS_PER_READ])
    }

    #[inline]
    fn try_read(ours: &OwnedFd) -> io::Result<Option<usize>> {
        socket::try_recv(ours, &mut [0; RINGS_PER_READ])
    }

    #[inline]
    fn ring(theirs: &OwnedFd) -> io::Result<()> {
        socket::try_send(theirs, &[1]).map(drop)
    }

    /// For an end that hung up its control line and kept this socket. Already shut is fine.
    fn wake(ours: &OwnedFd) {
        let _ = socket::shutdown(ours, Half::Both);
    }
}

/// A POSIX message queue for each end.
pub(crate) struct PosixMq;

/// Length of a queue's messages, in bytes: the shortest there is.
const QUEUE_MESSAGE_BYTES: usize = 1;

/// Messages that a queue holds: a second ring before the sleeper woke says nothing new.
const QUEUE_RINGS_MAX: usize = 1;

/// Tries whether a queue can be made; the error names the limit that forbids it.
pub(crate) fn probe_posix_mq() -> Result<(), Unsupported> {
    create_queue().map(drop)
}

fn create_queue() -> Result<OwnedFd, Unsupported> {
    mqueue::create_unlinked(QUEUE_RINGS_MAX, QUEUE_MESSAGE_BYTES).map_err(Unsupported::PosixQueue)
}

impl BellKind for PosixMq {
    const REPORTS_DEATH: bool = false;

    fn create() -> Result<Made, OpenError> {
        share(|| Ok(create_queue()?))
    }

    fn accept(parts: &mut ChannelFds) -> Result<Ends, OpenError> {
        let [ours, theirs] = parts.take_descriptors()?;
        for queue in [&ours, &theirs] {
            // A queue of longer messages would make each of our receives fail.
            let fits = mqueue::attributes(queue)
                .is_ok_and(|attributes| attributes.message_bytes_max == QUEUE_MESSAGE_BYTES);
            if !fits {
                return Err(OpenError::bad_parts("the doorbell is no queue of one byte"));
            }
        }
        Ok(Ends { ours, theirs: Some(theirs) })
    }

    #[inline]
    fn read(ours: &OwnedFd) -> io::Result<usize> {
        mqueue::receive(ours, &mut [0; QUEUE_MESSAGE_BYTES])
    }

    #[inline]
    fn try_read(ours: &OwnedFd) -> io::Result<Option<usize>> {
        mqueue::try_receive(ours, &mut [0; QUEUE_MESSAGE_BYTES])
    }

    #[inline]
    fn ring(theirs: &OwnedFd) -> io::Result<()> {
        mqueue::try_send(theirs, &[1]).map(drop)
    }

    fn wake(ours: &OwnedFd) {
        let _ = mqueue::try_send(ours, &[0]);
    }
}
