//! The syntax of the file: its keys, and the types of their values.
//!
//! **Invariants:** a key that is not known is an error, and so is a service that is there twice.
//! **Not here:** what fits together (`config.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use crate::limits::SPAN_MAX;

/// The file as it stands there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    #[serde(default)]
    pub(super) host: RawHost,
    #[serde(default)]
    pub(super) service: BTreeMap<Spanned<String>, RawService>,
    #[serde(default)]
    pub(super) gateway: BTreeMap<Spanned<String>, RawGateway>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) listen: Option<Spanned<String>>,
}

/// The table of one service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawService {
    pub(super) run: Run,
    pub(super) file: Spanned<PathBuf>,
    pub(super) group: Option<Spanned<String>>,
    pub(super) arguments: Option<Spanned<Vec<String>>>,
    pub(super) environment: Option<Spanned<BTreeMap<String, String>>>,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) socket_mode: Option<Spanned<String>>,
    pub(super) socket_owner: Option<Spanned<String>>,
    pub(super) interfaces: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) after: Vec<Spanned<String>>,
    pub(super) restart: Option<Spanned<Restart>>,
    pub(super) restart_limit: Option<Spanned<u32>>,
    pub(super) back_off_min: Option<Spanned<Span>>,
    pub(super) back_off_max: Option<Spanned<Span>>,
    pub(super) ready_within: Option<Span>,
    pub(super) stop_within: Option<Span>,
    pub(super) watchdog: Option<Span>,
    pub(super) log_rate: Option<u32>,
}

/// The table of one gateway: the options of `nearcall gateway`, and those of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawGateway {
    #[serde(default)]
    pub(super) listen: Places,
    #[serde(default)]
    pub(super) expose: BTreeMap<Spanned<String>, Vec<String>>,
    #[serde(default)]
    pub(super) forward: BTreeMap<Spanned<String>, String>,
    pub(super) descriptors: Option<Spanned<PathBuf>>,
    pub(super) cert: Option<Spanned<PathBuf>>,
    pub(super) key: Option<Spanned<PathBuf>>,
    pub(super) client_ca: Option<Spanned<PathBuf>>,
    pub(super) ca: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) insecure: bool,
    #[serde(default)]
    pub(super) balance: bool,
    pub(super) max_message_bytes: Option<u32>,
    pub(super) environment: Option<Spanned<BTreeMap<String, String>>>,
    pub(super) socket_mode: Option<Spanned<String>>,
    pub(super) socket_owner: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) after: Vec<Spanned<String>>,
    pub(super) restart: Option<Spanned<Restart>>,
    pub(super) restart_limit: Option<Spanned<u32>>,
    pub(super) back_off_min: Option<Spanned<Span>>,
    pub(super) back_off_max: Option<Spanned<Span>>,
    pub(super) ready_within: Option<Span>,
    pub(super) stop_within: Option<Span>,
    pub(super) watchdog: Option<Span>,
    pub(super) log_rate: Option<u32>,
}

/// One place such as `127.0.0.1:50051`, or a list of them.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "OneOrMany")]
pub(super) struct Places(pub(super) Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Places {
    fn from(places: OneOrMany) -> Self {
        Self(match places {
            OneOrMany::One(place) => vec![place],
            OneOrMany::Many(places) => places,
        })
    }
}

/// How a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Run {
    /// As a program, in a process of its own.
    Process,
    /// As a dynamic library, in a process of the host that it may share with others of its group.
    Library,
    /// As the program of gateways, in a process of its own. Has a table of its own.
    #[serde(skip_deserializing)]
    Gateway,
}

/// What follows when a service ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Restart {
    /// It has ended.
    Never,
    /// It is started again, unless it has exited with 0.
    #[default]
    OnFailure,
    /// It is started again.
    Always,
}

impl Restart {
    /// Returns the word of the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

impl Run {
    /// Returns the word of the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Library => "library",
            Self::Gateway => "gateway",
        }
    }
}

/// A span of time, as text with its unit: `"250ms"`, `"10s"`, `"2m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SpanVisitor).map(Self)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, such as \"250ms\", \"10s\" or \"2m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse_span(text).map_err(E::custom)
    }
}

/// Parses a whole number and its unit.
fn parse_span(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shown = text.escape_debug();
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => {
            return Err(format!("`{shown}` is no time: write a whole number and ms, s, m or h"));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{shown}` is no time: write a whole number and ms, s, m or h"))?;
    let span = number.checked_mul(unit_ms).map(Duration::from_millis);
    match span {
        Some(span) if span.is_zero() => Err("a time of 0 ends at once: give it some".to_owned()),
        Some(span) if span <= SPAN_MAX => Ok(span),
        _ => Err(format!("`{shown}` is above the longest time, 24h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units_and_limits() {
        assert_eq!(parse_span("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_span("10 s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_span("24h"), Ok(SPAN_MAX));
        for bad in ["", "10", "s", "-1s", "1.5s", "0s", "25h", "99999999999999999999s", "1 year"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}
