//! The interoperability cases of gRPC: its test service and its clients, by nearcall and by tonic.
//!
//! The cases ([`cases`]) are written once, for anything that can make the calls of the test
//! service: the generated caller of nearcall ([`nearcall_client`]) and the client of tonic
//! ([`tonic_client`]). Both sides share the messages ([`testing`]). Those of compression need more
//! than a client of either offers, and build their frames themselves (`compression`).
//! Beside them there is a random run through two gateways in a row, with kills ([`storm`]), and the
//! suite that programs of all languages pass with each other ([`languages`]).
//! Not here: what is run against what, which `cargo xtask interop` decides.
//!
//! `nearcall_service.rs` and `tonic_service.rs` answer the calls, by what `replies.rs` says;
//! `compression.rs` chooses for each message whether it is compressed, and `frames.rs` builds its
//! frames. [`storm`] calls at random through the gateways, and `storm/books.rs` compares what
//! clients were told with what servers have written.
//!
//! The suite of languages has one table of cases (`languages/cases.rs`), as lines for a client and
//! what it has to answer; `cell.rs` gives them to the client of a pair, and starts and kills its
//! processes. `rust_client.rs` and `rust_server.rs` are the program in Rust; those in C, C++ and
//! Python are in the directory `languages`, each over the typed calls of its language, and are
//! examples as well. `cargo xtask languages` builds and runs them. The crate is built by name only,
//! since no other one needs tonic's server and TLS.
#![forbid(unsafe_code)]

pub mod bench;
pub mod cases;
pub mod certificates;
mod compression;
mod frames;
pub mod languages;
pub mod nearcall_client;
pub mod nearcall_service;
mod replies;
pub mod storm;
pub mod tonic_client;
pub mod tonic_service;

/// What `proto/` is for nearcall, and the messages that tonic uses as well.
pub mod testing {
    nearcall::include_proto!("grpc.testing");
}

#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
mod tonic_testing {
    include!(concat!(env!("OUT_DIR"), "/tonic/grpc.testing.rs"));
}

/// The key whose value comes back before the first message.
const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
/// The key whose value comes back behind the last message.
const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";
/// The metadata of a reply that may be kept by those that pass it on.
const CACHE_CONTROL: (&str, &str) = ("cache-control", "max-age=60, public");
