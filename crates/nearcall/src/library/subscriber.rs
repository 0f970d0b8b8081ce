//! Where the events of the `tracing` crate in a library go: into the log of its host.
//!
//! A library has a copy of `tracing` of its own, which the subscriber of the host does not see.
//! **Invariants:** a subscriber that the service has installed itself stays.
//! **Not here:** what the host does with a message (`hosting.rs`).

use std::fmt::{self, Write};

use nearcall_os::library::{HostLink, LogLevel};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::clients::own_loop;

/// Has events from [`Level::INFO`] on go to the log of the host, unless the service has seen to
/// them.
pub(super) fn install(host: HostLink) {
    let _ = tracing::subscriber::set_global_default(HostSubscriber { first: host });
}

/// Gives events to the host of the library whose method runs.
pub(super) struct HostSubscriber {
    /// That of the first instance, for events outside of methods.
    first: HostLink,
}

impl Subscriber for HostSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut text = Text(format!("{}:", metadata.target()));
        event.record(&mut text);
        let level = match *metadata.level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warn,
            Level::INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        };
        own_loop::hosted_by().unwrap_or(self.first).log(level, &text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event, one after the other.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
