//! The other end of a method: whether it still lives, and memory handed over to it.
//!
//! **Invariants:** every wait that goes through here ends soon after the other process has. Both
//! ends are this program, started by one runner, so they trust each other with shared memory.
//! **Not here:** the line between the two (`floor/meeting.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nearcall_bench::custom::{Failure, Meeting, Role};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::region::{Backing, LockRegion, RegionError, SharedRegion, Trust, TrustedRegion};

/// Reports whether the other process is there.
#[derive(Clone, Copy)]
pub(super) struct CounterProcess<'a> {
    meeting: &'a Meeting,
}

impl<'a> CounterProcess<'a> {
    pub(super) fn of(meeting: &'a Meeting) -> Self {
        Self { meeting }
    }

    /// Waits by `look` until it gives something. Each look that took a whole [`SLICE`], or stands
    /// for as much, says `None`; then the other process is looked for.
    #[inline]
    pub(super) fn wait_for<T>(
        self,
        mut look: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let mut is_gone = false;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if is_gone {
                return Err(gone());
            }
            // What it did before it went is found by one more look.
            is_gone = self.is_gone()?;
        }
    }

    /// Spins until `look` gives something, as the papers' programs do: without a pause instruction.
    #[inline]
    pub(super) fn spin_for<T>(self, look: impl Fn() -> Option<T>) -> Result<T, Failure> {
        self.wait_for(|| Ok((0..SPINS).find_map(|_| look())))
    }

    #[cold]
    fn is_gone(self) -> Result<bool, Failure> {
        let ready = poll_one(self.meeting, Interest::HangUp, Some(Duration::ZERO))?;
        Ok(ready.is_some_and(|ready| ready.hung_up || ready.error))
    }
}

/// The failure that a lost partner gives.
#[cold]
pub(super) fn gone() -> Failure {
    Failure::other("the other end is gone")
}

/// What it takes to share memory with the process at the other end of a socket.
pub(super) fn trust_of(socket: impl AsFd) -> Result<Trust, Failure> {
    Trust::of_peer(socket).ok_or_else(|| Failure::other("both ends must be of one user"))
}

/// Memory with locks in it. The server makes it and readies it by `init` before the client has it.
pub(super) fn share(
    meeting: &Meeting,
    role: Role,
    bytes: usize,
    init: impl FnOnce(&Arc<LockRegion>) -> Result<(), Failure>,
) -> Result<Arc<LockRegion>, Failure> {
    let trust = trust_of(meeting)?;
    let make = || {
        let (region, fd) = SharedRegion::create(NAME, bytes, Backing::Reserved)?;
        Ok((Arc::new(region.for_locks(trust)), fd))
    };
    let open = |fd| Ok(Arc::new(SharedRegion::open(fd, bytes..=bytes)?.for_locks(trust)));
    let region = hand_over(meeting, role, make, open, init)?;
    region.prefault().map_err(Failure::other)?;
    Ok(region)
}

/// Memory that both ends use in place.
pub(super) fn share_in_place(
    meeting: &Meeting,
    role: Role,
    bytes: usize,
) -> Result<TrustedRegion, Failure> {
    let trust = trust_of(meeting)?;
    let make = || TrustedRegion::create(NAME, bytes, Backing::Reserved, trust);
    let open = |fd| TrustedRegion::open(fd, bytes..=bytes, trust);
    let region = hand_over(meeting, role, make, open, |_| Ok(()))?;
    region.prefault().map_err(Failure::other)?;
    Ok(region)
}

fn hand_over<T>(
    meeting: &Meeting,
    role: Role,
    make: impl FnOnce() -> Result<(T, OwnedFd), RegionError>,
    open: impl FnOnce(OwnedFd) -> Result<T, RegionError>,
    init: impl FnOnce(&T) -> Result<(), Failure>,
) -> Result<T, Failure> {
    match role {
        Role::Server => {
            let (region, fd) = make().map_err(Failure::other)?;
            init(&region)?;
            meeting.say_with("memory", &[fd.as_fd()])?;
            Ok(region)
        }
        Role::Client => {
            let (_, [fd]) = meeting.hear_with::<1>()?;
            open(fd).map_err(Failure::other)
        }
    }
}

/// The longest single sleep: a process that dies is noticed well before the runner loses patience.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// Looks that stand for a slice when spinning: a millisecond or less, so that looking for the
/// other process costs next to nothing of a long wait and never happens in a usual one.
const SPINS: u32 = 1 << 18;

/// Shown in /proc/PID/maps.
const NAME: &str = "nearcall-study";
