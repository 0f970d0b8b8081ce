//! Opening cross-memory attach: each end sends the address of its pages and tries to read
//! those of the other.
//!
//! **Invariants:** the process is the one of the socket's own pidfd, never one that the peer names
//! nor one found by its number; an end that cannot read the other says so in the handshake, with
//! the reason.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use nearcall_os::pages::Pages;
use nearcall_os::{cma, process, socket};

use crate::channel;
use crate::channel::Channel;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::kernel::cma::{CmaTransport, PeerMemory};
use crate::limits::BUFFER_BYTES_MAX;
use crate::open::{Accepted, Offer};
use crate::settings::Settings;

/// Returns whether we can read our own memory this way, and the kernel has pidfds of sockets; the
/// other end is tried in the handshake.
pub(crate) fn probe() -> Result<(), Unsupported> {
    let pair = socket::unix_pair(socket::Kind::Stream);
    let (socket, _other) = pair.map_err(Unsupported::doing("making a socket pair"))?;
    socket::peer_pidfd(&socket)
        .map_err(Unsupported::doing("asking a socket for a pidfd (Linux 6.5 or newer)"))?;
    let pages = Pages::create(1).map_err(Unsupported::doing("taking pages"))?;
    cma::read(process::pid(), pages.address(), &mut [0; 8])
        .map(drop)
        .map_err(|error| Unsupported::CrossMemory(error.into()))
}

/// Makes the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let (here, there) = socket::unix_pair(socket::Kind::Stream)
        .map_err(OpenError::doing("making a socket pair"))?;
    let (pages, bytes) = make_pages(settings)?;
    let settings = settings.clone();
    let finish = move |mut answer: ChannelFds| {
        let peer = find_peer(&settings, &std::mem::take(&mut answer.bytes))?;
        answer.expect_nothing_more()?;
        open(here, pages, peer, &settings)
    };
    Ok(Offer { parts: ChannelFds { bytes, descriptors: vec![there] }, finish: Box::new(finish) })
}

/// Makes the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [socket] = parts.take_descriptors()?;
    let peer = find_peer(settings, &std::mem::take(&mut parts.bytes))?;
    let (pages, bytes) = make_pages(settings)?;
    let channel = open(socket, pages, peer, settings)?;
    Ok(Accepted { parts: ChannelFds { bytes, descriptors: Vec::new() }, channel })
}

fn open(
    socket: std::os::fd::OwnedFd,
    pages: Pages,
    peer: PeerMemory,
    settings: &Settings,
) -> Result<Box<dyn Channel>, OpenError> {
    let transport = CmaTransport::new(socket, pages, peer, settings);
    let transport = transport.map_err(OpenError::doing("watching the other end"))?;
    Ok(channel::over(transport, settings.message_bytes_max))
}

/// Makes pages that begin with a random number, and the packet that announces them to the peer.
fn make_pages(settings: &Settings) -> Result<(Pages, Vec<u8>), OpenError> {
    let pages = Pages::create(settings.buffer_bytes as usize);
    let mut pages = pages.map_err(OpenError::doing("taking pages"))?;
    pages.prefault();
    let cookie = RandomState::new().build_hasher().finish().to_le_bytes();
    pages[..cookie.len()].copy_from_slice(&cookie);
    let length = pages.len() as u64;
    let told = [pages.address().to_le_bytes(), length.to_le_bytes(), cookie].concat();
    Ok((pages, told))
}

/// Checks what the other end announced of its pages, and reads the number there.
fn find_peer(settings: &Settings, told: &[u8]) -> Result<PeerMemory, OpenError> {
    let ([address, length, cookie], []) = told.as_chunks::<8>() else {
        return Err(OpenError::bad_parts("no address of memory"));
    };
    let (address, length) = (u64::from_le_bytes(*address), u64::from_le_bytes(*length));
    // The other end may have larger pages than we have; so may its length be rounded up.
    let longest = u64::from(BUFFER_BYTES_MAX) + PAGE_BYTES_MAX;
    if length == 0 || length > longest || address.checked_add(length).is_none() {
        return Err(OpenError::bad_parts("memory that cannot be"));
    }
    let Some(pid) = settings.peer.pid() else {
        return Err(Unsupported::PidNamespace.into());
    };
    // A pidfd opened by number could be another process's: the peer may have handed its socket on
    // and died, and whoever has the socket now can know what lies at the address.
    let Some(pidfd) = settings.peer.pidfd().cloned() else {
        return Err(Unsupported::Missing(NO_PIDFD).into());
    };
    let mut read = [0; 8];
    let outcome = cma::read_of(&*pidfd, pid, address, &mut read);
    outcome.map_err(|error| Unsupported::CrossMemory(error.into()))?;
    if read != *cookie {
        // The pid of the connector was given to another process since.
        return Err(Unsupported::NotTheConnector { pid }.into());
    }
    let bytes = usize::try_from(length).map_err(|_| OpenError::bad_parts("too much memory"))?;
    Ok(PeerMemory { pid, pidfd, address, bytes })
}

/// Why there is no pidfd of the other end.
const NO_PIDFD: &str =
    "cma needs Linux 6.5 or newer, and at the other end the process that connected";

/// The largest page of any machine we know, in bytes.
const PAGE_BYTES_MAX: u64 = 64 << 10;
