//! The deadline that travels with a call of gRPC: `grpc-timeout`.
//!
//! **Invariants:** what is no timeout by the protocol is refused, not taken as none.
//! **Not here:** who keeps to it (`calls.rs`, `nearcall::CallOptions`).

use std::time::Duration;

use http::HeaderMap;
use tonic::Status;

use super::limits::{CALL_TIMEOUT_MAX, TIMEOUT_DIGITS_MAX};

/// Returns the time that a call has, if it says one.
///
/// # Errors
///
/// `DEADLINE_EXCEEDED`: it has none left. `INTERNAL`: these are not up to eight digits and a unit.
pub(super) fn timeout_of(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    match parse(value.as_bytes()) {
        Some(Duration::ZERO) => Err(passed()),
        Some(timeout) => Ok(Some(timeout.min(CALL_TIMEOUT_MAX))),
        None => Err(Status::internal(format!(
            "grpc-timeout has 1 to {TIMEOUT_DIGITS_MAX} digits and one of the units HMSmun, unlike \
             {value:?}"
        ))),
    }
}

/// Returns the status of a call whose time is over.
pub(super) fn passed() -> Status {
    Status::deadline_exceeded("the time of the call (grpc-timeout) is over")
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS_MAX {
        return None;
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3_600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        let of = |text: &str| {
            let value = text.parse().unwrap();
            timeout_of(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                value,
            )]))
        };
        for (text, ns) in [("1n", 1), ("20u", 20_000), ("3m", 3_000_000), ("1S", 1_000_000_000)] {
            assert_eq!(of(text).unwrap(), Some(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(of("2M").unwrap(), Some(Duration::from_secs(120)));
        assert_eq!(of("2H").unwrap(), Some(Duration::from_secs(7_200)));
        assert_eq!(of("99999999H").unwrap(), Some(CALL_TIMEOUT_MAX));
        assert_eq!(of("00S").unwrap_err().code(), tonic::Code::DeadlineExceeded);
        for text in ["", "S", "-1S", "+1S", "1", "1s", "123456789S", "1 S", "1.5S"] {
            assert_eq!(of(text).unwrap_err().code(), tonic::Code::Internal, "{text}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()).unwrap(), None);
    }
}
