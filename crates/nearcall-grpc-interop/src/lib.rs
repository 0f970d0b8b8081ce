//! The interoperability cases of gRPC: its test service and its clients, by nearcall and by tonic.
//!
//! The cases ([`cases`]) are written once, for anything that can make the calls of the test
//! service: the generated caller of nearcall ([`nearcall_client`]) and the client of tonic
//! ([`tonic_client`]). Both sides share the messages ([`testing`]). Those of compression need more
//! than a client of either offers, and build their frames themselves (`compression`).
//! Beside them there is a random run through two gateways in a row, with kills ([`storm`]), and the
//! suite that programs of all languages pass with each other ([`languages`]).
//! Not here: what is run against what, which `cargo xtask interop` decides.
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
