//! Two named pipes, whose names are gone before any process opens them.
//!
//! The server makes both in the runtime directory, takes hold of them and removes their names;
//! the client gets what it holds. Each end opens its own ends, so the open files are its own.
//!
//! **Invariants:** no name is left once `offer` returns. A kill inside it can leave one.
//! **Not here:** fragments (`stream.rs`), reading and writing (`pipe.rs`).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;

use nearcall_os::descriptor;
use nearcall_os::pipe::{End, create_unlinked_fifo, fifo_open};

use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::kernel::pipe::{HowNow, ask_for_size, channel};
use crate::open::{Accepted, Offer};
use crate::runtime_dir;
use crate::settings::Settings;
use crate::wait::WaitPolicy;

/// Returns whether FIFOs can be made.
pub(crate) fn probe() -> Result<(), Unsupported> {
    let refused = |error| Unsupported::RuntimeDir { directory: runtime_dir::path(), error };
    runtime_dir::create().map(drop).map_err(refused)
}

/// Opens the server's end.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, OpenError> {
    let directory = runtime_dir::create().and_then(File::open);
    let directory = directory.map_err(OpenError::doing("opening the runtime directory"))?;
    let make = || create_unlinked_fifo(&directory).map_err(OpenError::doing("making a FIFO"));
    let (to_server, to_client) = (make()?, make()?);
    let read = open(&to_server, End::Read)?;
    ask_for_size(&read, settings);
    let keep = duplicate(to_client.as_fd())?;
    let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![to_client, to_server] };
    let settings = settings.clone();
    let finish = move |answer: ChannelFds| {
        answer.expect_nothing_more()?;
        // The client has opened its reading end before it answered; if not, this fails.
        let write = open(&keep, End::Write)?;
        ask_for_size(&write, &settings);
        channel(read, write, &settings, how_now(settings.wait))
    };
    Ok(Offer { parts, finish: Box::new(finish) })
}

/// Opens the client's end.
pub(crate) fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Accepted, OpenError> {
    let [to_client, to_server]: [OwnedFd; 2] = parts.take_descriptors()?;
    parts.expect_nothing_more()?;
    for fifo in [&to_client, &to_server] {
        expect_fifo(fifo.as_fd())?;
    }
    let read = open(&to_client, End::Read)?;
    let write = open(&to_server, End::Write)?;
    let channel = channel(read, write, settings, how_now(settings.wait))?;
    Ok(Accepted { parts: ChannelFds::default(), channel })
}

/// Opening something else by its descriptor could wait, or touch a device.
fn expect_fifo(held: BorrowedFd<'_>) -> Result<(), OpenError> {
    let found = descriptor::path(held).and_then(std::fs::metadata);
    match found.map_err(OpenError::doing("looking at a FIFO"))? {
        metadata if metadata.file_type().is_fifo() => Ok(()),
        _ => Err(OpenError::bad_parts("no FIFO")),
    }
}

fn open(held: &OwnedFd, end: End) -> Result<OwnedFd, OpenError> {
    fifo_open(held.as_fd(), end).map_err(OpenError::doing("opening a FIFO"))
}

/// Each end has opened its own files, so O_NONBLOCK may be relied on where nothing blocks.
fn how_now(wait: WaitPolicy) -> HowNow {
    match wait {
        WaitPolicy::Block | WaitPolicy::Adaptive => HowNow::AskFirst,
        WaitPolicy::Spin | WaitPolicy::Poll => HowNow::NeverBlocks,
    }
}

fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, OpenError> {
    descriptor::duplicate(fd).map_err(OpenError::doing("keeping a FIFO"))
}
