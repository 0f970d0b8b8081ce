//! Tests of the crate from outside: a server of nearcall, and peers of gRPC.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod forwarder;
mod gateway;
mod limits;
mod outbound;
mod raw;
mod reflection_and_health;
mod stage;
mod tls;

use self::stage::in_time;
