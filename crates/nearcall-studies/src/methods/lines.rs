//! Lines that tell where an argument is: a stream socket, with or without poll; locked queues.
//!
//! Both ends block, and no event loop is there. A lost peer ends every wait: the socket closes, and
//! the queues' channel watches the other process.

use std::io;
use std::os::fd::OwnedFd;

use nearcall_bench::custom::{Failure, MEET_TIMEOUT, Meeting, Role, Stream, Unix};
use nearcall_channel::{
    Address, Deadline, Endpoint, Listener, Mechanism, MechanismSet, Options, connect,
};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{clock, process, socket};

use crate::methods::notice::{Line, Notice};
use crate::methods::segment::Segment;

/// Notices over a stream.
pub(super) struct StreamLine<S>(pub(super) S);

impl<S: Stream> Line for StreamLine<S> {
    #[inline]
    fn tell(&mut self, _segment: &Segment, notice: Notice) -> Result<(), Failure> {
        let bytes = notice.to_bytes();
        let mut written = 0;
        while written < bytes.len() {
            written += self.0.write(&bytes[written..])?;
        }
        Ok(())
    }

    #[inline]
    fn hear(&mut self, _segment: &Segment) -> Result<Notice, Failure> {
        let mut bytes = [0; Notice::BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.0.read(&mut bytes[filled..])? {
                0 => return Err(Failure::other("the other end is gone")),
                read => filled += read,
            }
        }
        Ok(Notice::from_bytes(bytes))
    }
}

/// A unix stream socket whose ends ask whether there is something before each receive.
pub(super) struct PolledUnix(OwnedFd);

impl PolledUnix {
    pub(super) fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        Ok(Self(Unix::meet(meeting, role)?.into_socket()))
    }
}

impl Stream for PolledUnix {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(&self.0, bytes)
    }

    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        poll_one(&self.0, Interest::Readable, None)?;
        socket::recv(&self.0, into)
    }
}

/// A queue each way in shared memory, under a mutex, with condition variables to sleep on.
///
/// It is nearcall's own `shm-mq`, which was made after Boost's.
pub(super) struct QueueLine(Endpoint);

impl QueueLine {
    pub(super) fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        let options = Options::offering(MechanismSet::ALL);
        let endpoint = match role {
            Role::Server => {
                let (pid, ns) = (process::pid(), clock::monotonic_ns());
                let name = format!("nearcall-study-{pid}-{ns:x}");
                let listener = Listener::bind(&Address::Abstract(name.clone()))?;
                meeting.say(&name)?;
                listener.accept(Deadline::after(MEET_TIMEOUT), &options)?
            }
            Role::Client => {
                connect(&Address::Abstract(meeting.hear()?), Mechanism::ShmMq, &options)?
            }
        };
        Ok(Self(endpoint))
    }
}

impl Line for QueueLine {
    #[inline]
    fn tell(&mut self, _segment: &Segment, notice: Notice) -> Result<(), Failure> {
        Ok(self.0.send(&notice.to_bytes(), Deadline::NEVER)?)
    }

    #[inline]
    fn hear(&mut self, _segment: &Segment) -> Result<Notice, Failure> {
        let mut bytes = [0; Notice::BYTES];
        match self.0.receive_into(&mut bytes, Deadline::NEVER)? {
            Notice::BYTES => Ok(Notice::from_bytes(bytes)),
            length => Err(Failure::other(format!("a notice of {length} bytes"))),
        }
    }
}
