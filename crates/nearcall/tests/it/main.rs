//! Tests of the runtime from the outside: generated callers and dispatchers, over real channels.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod async_client;
mod attach;
mod automatic;
mod backpressure;
mod bad_input;
mod built_in;
mod busy;
mod calls;
mod counters;
mod decoded_size;
mod dynamic;
mod fdless;
mod figures;
mod fuzzing;
mod half_switches;
mod hostile_switches;
mod hunts;
mod interceptors;
mod loop_events;
mod loop_waits;
mod loops;
mod mechanisms;
mod nesting;
mod recording;
mod reply_metadata;
mod restarts;
mod scale;
mod server_signals;
mod server_threads;
mod services;
mod short_circuit;
mod stage;
mod streams;
mod switch_asks;
mod switch_history;
mod switching;
mod threads;
mod traffic;
mod two_processes;
mod upgrades;
mod zero_copy;

use nearcall_testkit::{echo, observed, raw_frames, support};

use self::stage::in_time;
