//! TCP, over the loopback interface or from machine to machine.
//!
//! On one machine the server connects both ends itself and hands one over, so no port stays open;
//! over `tcp://` (`handshake/remote.rs`) the stream on which the two ends met becomes the channel.
//!
//! **Invariants:** Nagle's delay is off. The first send after the other end has closed succeeds as
//! far as TCP knows, so the watcher reports that, or the read that has come to the end before. An
//! end that closes in order reads what is still there first, because the kernel would answer unread
//! bytes with a reset that overtakes what was sent. An end that is killed with unread bytes may
//! still lose the last of what it sent that way.
//! **Not here:** fragments (`stream.rs`), the system calls (`unix.rs`).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::socket::{self, Half};

use crate::channel;
use crate::channel::Channel;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::kernel::Attempt;
use crate::kernel::stream::{ByteStream, StreamTransport};
use crate::kernel::unix::SocketLine;
use crate::liveness::PeerLiveness;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;
use crate::watcher::{WatchGuard, watch};

/// One end.
struct TcpLine {
    socket: SocketLine,
    liveness: Arc<PeerLiveness>,
    watch: WatchGuard,
}

impl ByteStream for TcpLine {
    fn room_bytes(&self) -> io::Result<usize> {
        self.socket.room_bytes()
    }

    #[inline]
    fn read(&self, into: &mut [u8], how: Attempt) -> io::Result<Option<usize>> {
        self.socket.read(into, how)
    }

    #[inline]
    fn write(&self, bytes: &[u8], how: Attempt) -> io::Result<Option<usize>> {
        self.socket.write(bytes, how)
    }

    fn reader(&self) -> BorrowedFd<'_> {
        self.socket.reader()
    }

    fn writer(&self) -> BorrowedFd<'_> {
        self.socket.writer()
    }

    #[inline]
    fn is_gone(&self) -> bool {
        self.liveness.is_gone()
    }
}

impl Drop for TcpLine {
    fn drop(&mut self) {
        if !self.watch.epoch().is_current() {
            return;
        }
        let _ = socket::shutdown(self.socket.writer(), Half::Send);
        let mut nowhere = [0; 4 << 10];
        for _ in 0..UNREAD_READS_MAX {
            match self.socket.read(&mut nowhere, Attempt::NonBlocking) {
                Ok(Some(1..)) => {}
                _ => return,
            }
        }
    }
}

/// Returns whether the loopback interface is there and up.
pub(crate) fn probe() -> Result<(), Unsupported> {
    socket::tcp_pair().map(drop).map_err(Unsupported::doing("connecting over TCP to 127.0.0.1"))
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let (ours, theirs) = socket::tcp_pair().map_err(OpenError::doing("connecting over TCP"))?;
    let bytes = Some((settings.buffer_bytes as usize).max(BUFFER_BYTES_MIN));
    for end in [&ours, &theirs] {
        socket::set_buffer_bytes(end, bytes, bytes).map_err(OpenError::doing("sizing a socket"))?;
    }
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        channel(ours, &settings)
    };
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![theirs] };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [socket] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    socket::buffer_bytes(&socket).map_err(|_| OpenError::bad_parts("no socket"))?;
    Ok(Accepted { parts: ChannelFds::default(), channel: channel(socket, settings)? })
}

/// Makes a channel of the stream on which two ends met.
pub(crate) fn over(socket: OwnedFd, settings: &Settings) -> Result<Box<dyn Channel>, OpenError> {
    let bytes = Some((settings.buffer_bytes as usize).max(BUFFER_BYTES_MIN));
    socket::set_buffer_bytes(&socket, bytes, bytes).map_err(OpenError::doing("sizing a socket"))?;
    channel(socket, settings)
}

fn channel(socket: OwnedFd, settings: &Settings) -> Result<Box<dyn Channel>, OpenError> {
    // Whoever sleeps on the socket is woken by the kernel.
    let guard = watch(settings, |_| ()).map_err(OpenError::doing("watching the other end"))?;
    let liveness = Arc::clone(&settings.liveness);
    let line = TcpLine { socket: SocketLine::new(socket), liveness, watch: guard };
    let transport = StreamTransport::new(line, settings.wait)?;
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// Smallest buffers that are asked for, in bytes. The loopback interface has segments of 64 KiB;
/// with a window for less than a few of them TCP waits for its timers, tens of milliseconds each.
const BUFFER_BYTES_MIN: usize = 256 << 10;

/// Reads of 4 KiB that an end makes while it closes. As much as fits in the largest room comes
/// first; a peer that goes on sending gets its reset.
const UNREAD_READS_MAX: usize = 16 << 10;
