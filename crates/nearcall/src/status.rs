//! How a call ended: a code of gRPC and a sentence for people.
//!
//! Always true: an error never carries [`Code::Ok`].
//! Not here: which code the protocol gives to what (`nearcall-wire`).

use std::fmt;

pub use nearcall_wire::Status as Code;

/// Why a call failed.
///
/// Services return one to refuse a call; the runtime makes one when the call itself fails:
/// `UNAVAILABLE` (the peer is not there), `DEADLINE_EXCEEDED`, `CANCELLED`, `RESOURCE_EXHAUSTED`
/// (too large or too many), `UNIMPLEMENTED` (no such object or method), `INTERNAL` (bad bytes) and
/// `UNKNOWN` (the implementation panicked).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    code: Code,
    message: String,
}

macro_rules! constructors {
    ($($(#[doc = $doc:literal])+ $name:ident $code:ident;)+) => {
        impl Status {
            $($(#[doc = $doc])+ pub fn $name(message: impl Into<String>) -> Self {
                Self::new(Code::$code, message)
            })+
        }
    };
}

constructors! {
    /// `CANCELLED`: the caller gave the call up.
    cancelled Cancelled;
    /// `UNKNOWN`: a failure that has no name.
    unknown Unknown;
    /// `INVALID_ARGUMENT`: the request is wrong, whatever the state of the server.
    invalid_argument InvalidArgument;
    /// `DEADLINE_EXCEEDED`: time was up; the method may or may not have run.
    deadline_exceeded DeadlineExceeded;
    /// `NOT_FOUND`: what was asked for does not exist.
    not_found NotFound;
    /// `ALREADY_EXISTS`: what should be created is there.
    already_exists AlreadyExists;
    /// `PERMISSION_DENIED`: this caller may not do this.
    permission_denied PermissionDenied;
    /// `RESOURCE_EXHAUSTED`: too large, or too many.
    resource_exhausted ResourceExhausted;
    /// `FAILED_PRECONDITION`: the caller must change the state of the server first.
    failed_precondition FailedPrecondition;
    /// `ABORTED`: try the whole sequence again.
    aborted Aborted;
    /// `OUT_OF_RANGE`: past the end of what exists.
    out_of_range OutOfRange;
    /// `UNIMPLEMENTED`: there is no such object or method.
    unimplemented Unimplemented;
    /// `INTERNAL`: bytes that make no sense, or a broken promise inside the server.
    internal Internal;
    /// `UNAVAILABLE`: the server is not there; try again later or elsewhere.
    unavailable Unavailable;
    /// `DATA_LOSS`: data are damaged for good.
    data_loss DataLoss;
    /// `UNAUTHENTICATED`: the caller did not prove who it is.
    unauthenticated Unauthenticated;
}

impl Status {
    /// A status with any code. [`Code::Ok`] is no failure and becomes `UNKNOWN`.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let code = if code == Code::Ok { Code::Unknown } else { code };
        Self { code, message: message.into() }
    }

    /// Which of the 16 ways to fail.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened and what can be done, for people. May be empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// From an error of the peer. The text is hostile: bytes that are no UTF-8 are replaced.
    pub(crate) fn from_peer(code: Code, text: &[u8]) -> Self {
        Self::new(code, String::from_utf8_lossy(text))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.name())?;
        if self.message.is_empty() {
            return Ok(());
        }
        // The text may come from a peer, and a terminal obeys control characters.
        f.write_str(": ")?;
        for c in self.message.chars() {
            match c.is_control() {
                true => write!(f, "{}", c.escape_default())?,
                false => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_no_failure() {
        assert_eq!(Status::new(Code::Ok, "").code(), Code::Unknown);
    }

    #[test]
    fn a_text_from_a_peer_cannot_steer_a_terminal() {
        let status = Status::from_peer(Code::NotFound, b"no\x1b[2J \xff here");
        assert_eq!(status.to_string(), "NOT_FOUND: no\\u{1b}[2J \u{fffd} here");
    }
}
