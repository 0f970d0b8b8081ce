//! Boost.Interprocess message queues: the row, and whether Boost was there to build it.

#[cfg(has_boost)]
mod ends;

use crate::rival::{Rival, Waiting};

#[cfg(has_boost)]
pub(crate) const ROW: Rival = Rival { missing: None, serve: ends::serve, ask: ends::ask, ..ABSENT };

#[cfg(not(has_boost))]
pub(crate) const ROW: Rival = ABSENT;

const ABSENT: Rival = Rival {
    name: "boost-mq",
    version: concat!("Boost ", env!("RIVAL_VERSION_BOOST")),
    waiting: Waiting::Sleeping,
    rate: "messages of a queue of their own",
    about: include_str!("../../about/boost.txt"),
    missing: Some(
        "<boost/interprocess/ipc/message_queue.hpp> could not be compiled when this program was \
         built; install Boost's headers (libboost-dev) and a C++ compiler, and build again",
    ),
    serve: |_| anyhow::bail!("built without Boost"),
    ask: |_| anyhow::bail!("built without Boost"),
    clean: || (),
};
