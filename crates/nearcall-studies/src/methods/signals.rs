//! A call that signals tell of: SIGUSR1 that there is one, SIGUSR2 that it is complete.
//!
//! Where its argument is stands in the segment as a named object. The server's handler puts a
//! message into a queue that its event loop waits for; the client sleeps until its own handler has
//! run. Standard signals do not queue up, which is enough for one call at a time.
//! Not here: the handler (`nearcall_os::signal::Caught`), the segment (`segment.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nearcall::event_loop::Event;
use nearcall::event_loop::{Interest, Signal};
use nearcall::{Deadline, EventLoop};
use nearcall_bench::custom::{Cause, Failure, Meeting};
use nearcall_os::mqueue::{self, CreateError};
use nearcall_os::poll::poll_one;
use nearcall_os::signal::{Caught, send_by_pidfd};
use nearcall_os::{descriptor, process, socket};

use crate::methods::notice::{Line, Notice};
use crate::methods::segment::Segment;

/// The end that calls.
pub(super) struct CallerLine {
    caught: Caught,
    seen: u32,
    server: OwnedFd,
    /// Hangs up when the server is gone.
    meeting: OwnedFd,
}

/// The end that serves, in nearcall's event loop.
pub(super) struct ServerLine {
    // Before the queue that the handler sends to.
    _caught: Caught,
    queue: OwnedFd,
    message: Vec<u8>,
    event_loop: EventLoop,
    client: OwnedFd,
    meeting: OwnedFd,
}

impl CallerLine {
    pub(super) fn meet(meeting: &Meeting) -> Result<Self, Failure> {
        let caught = Caught::new(COMPLETE, None::<OwnedFd>)?;
        let seen = caught.count();
        let (server, meeting) = meet(meeting)?;
        Ok(Self { caught, seen, server, meeting })
    }
}

impl Line for CallerLine {
    #[inline]
    fn tell(&mut self, segment: &Segment, notice: Notice) -> Result<(), Failure> {
        segment.construct(REQUEST, &notice.to_bytes())?;
        Ok(send_by_pidfd(&self.server, CALL)?)
    }

    #[inline]
    fn hear(&mut self, segment: &Segment) -> Result<Notice, Failure> {
        loop {
            let count = self.caught.wait(self.seen, LOOK_EVERY);
            if count != self.seen {
                self.seen = count;
                break;
            }
            let gone = poll_one(&self.meeting, Interest::HangUp, Some(Duration::ZERO))?;
            if gone.is_some() {
                return Err(lost());
            }
        }
        segment.destroy(REQUEST)?;
        Ok(Notice::DONE)
    }
}

impl ServerLine {
    pub(super) fn meet(meeting: &Meeting) -> Result<Self, Failure> {
        let queue =
            mqueue::create_unlinked(QUEUE_MESSAGES, QUEUE_MESSAGE_BYTES).map_err(|error| {
                let cause = match error {
                    CreateError::Os(_) => Cause::Other,
                    _ => Cause::Unsupported,
                };
                Failure { cause, text: error.to_string() }
            })?;
        let event_loop = EventLoop::new()?;
        event_loop.add_descriptor(&queue, Interest::Readable)?;
        event_loop.add_descriptor(meeting.as_fd(), Interest::HangUp)?;
        let caught = Caught::new(CALL, Some(&queue))?;
        let (client, meeting) = meet(meeting)?;
        let message = vec![0; QUEUE_MESSAGE_BYTES];
        Ok(Self { _caught: caught, queue, message, event_loop, client, meeting })
    }
}

impl Line for ServerLine {
    #[inline]
    fn tell(&mut self, _segment: &Segment, notice: Notice) -> Result<(), Failure> {
        if notice != Notice::DONE {
            let text = "by signals a server only reports that a call is complete".to_owned();
            return Err(Failure { cause: Cause::Unsupported, text });
        }
        Ok(send_by_pidfd(&self.client, COMPLETE)?)
    }

    #[inline]
    fn hear(&mut self, segment: &Segment) -> Result<Notice, Failure> {
        // The queue may have been read already when its event comes out, so it is asked each time.
        loop {
            match self.event_loop.next(Deadline::NEVER)? {
                Some(Event::Descriptor(_, ready)) => {
                    if mqueue::try_receive(&self.queue, &mut self.message)?.is_some() {
                        break;
                    }
                    let gone = poll_one(&self.meeting, Interest::HangUp, Some(Duration::ZERO))?;
                    if ready.hung_up && gone.is_some() {
                        return Err(lost());
                    }
                }
                other => return Err(Failure::other(format!("an event that is none: {other:?}"))),
            }
        }
        let mut notice = [0; Notice::BYTES];
        segment.find(REQUEST, &mut notice)?;
        Ok(Notice::from_bytes(notice))
    }
}

/// Both catch their signal before the other one may send it.
fn meet(meeting: &Meeting) -> Result<(OwnedFd, OwnedFd), Failure> {
    let peer = match socket::peer_pidfd(meeting) {
        Ok(pidfd) => pidfd,
        // Before Linux 6.5. The number is still its own, since it is at the other end.
        Err(_) => {
            let pid = socket::peer_credentials(meeting)?.pid;
            process::pidfd_open(pid.ok_or_else(|| Failure::other("the peer has no number"))?)?
        }
    };
    meeting.say(CATCHING)?;
    if meeting.hear()? != CATCHING {
        return Err(Failure::other("the other end does not catch its signal"));
    }
    Ok((peer, descriptor::duplicate(meeting)?))
}

#[cold]
fn lost() -> Failure {
    Failure::other("the other end is gone")
}

/// Reports a call to the server.
const CALL: Signal = Signal::USR1;

/// Reports to the client that it is complete.
const COMPLETE: Signal = Signal::USR2;

/// The object that says where the argument is.
const REQUEST: &str = "request";

const CATCHING: &str = "catching";

/// How often a client that waits looks whether the server still is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// One call at a time, so one is enough; the kernel's own default is ten.
const QUEUE_MESSAGES: usize = 2;

/// The messages are empty, but a queue of none cannot be made.
const QUEUE_MESSAGE_BYTES: usize = 8;
