//! How a call ended: a code of gRPC and a sentence for people.
//!
//! **Invariants:** an error never carries [`Code::Ok`]; nothing branches on a text.
//! **Not here:** which code the protocol gives to what (`nearcall-wire`).

use std::fmt;

mod details;

pub use nearcall_wire::Code;

use crate::limits::ERROR_TEXT_BYTES_MAX;
use crate::metadata::{BadMetadata, Entries, Metadata, ReplyMetadata};

/// Why a call failed.
///
/// Services return one to refuse a call; the runtime makes one when the call itself fails:
/// `UNAVAILABLE` (the peer is not there), `DEADLINE_EXCEEDED`, `CANCELLED`, `RESOURCE_EXHAUSTED`
/// (too large or too many), `UNIMPLEMENTED` (no such object or method), `INTERNAL` (bad bytes) and
/// `UNKNOWN` (the implementation panicked).
///
/// ```
/// use nearcall::{Code, Status};
///
/// let status = Status::not_found("no such room").with_metadata("room", "attic")?;
/// assert_eq!(status.code(), Code::NotFound);
/// assert_eq!(status.to_string(), "NOT_FOUND: no such room");
/// # Ok::<(), Status>(())
/// ```
#[derive(Clone)]
pub struct Status {
    code: Code,
    message: String,
    lack: Option<Lack>,
    fate: Fate,
    /// Those of the service. Few errors have any.
    metadata: Option<Box<ReplyMetadata>>,
}

/// What is known of the method of a call that failed, at the end that made it. Does not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fate {
    /// Nothing more than the code says: a service or a runtime has answered.
    #[default]
    Answered,
    /// It has not begun and will not: no server was reached, or it took no more calls.
    NotBegun,
    /// The connection ended before an answer came: it may or may not have run.
    Lost,
}

/// The capability that the runtime of a server lacks, for the runtime of the client, which knows
/// the names.
///
/// It travels as metadata of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    NoSuchObject,
    NoSuchMethod,
}

impl Lack {
    /// Returns the encoded metadata: one entry.
    pub(crate) fn metadata(self) -> &'static [u8] {
        match self {
            Self::NoSuchObject => b"\x07nc-lack\x06\0object",
            Self::NoSuchMethod => b"\x07nc-lack\x06\0method",
        }
    }

    /// Takes it from the start of the metadata of an error, and returns the rest.
    fn take_from(metadata: &[u8]) -> (Option<Self>, &[u8]) {
        let lacks = [Self::NoSuchObject, Self::NoSuchMethod].into_iter();
        let mut found = lacks.filter_map(|it| Some((it, metadata.strip_prefix(it.metadata())?)));
        found.next().map_or((None, metadata), |(lack, rest)| (Some(lack), rest))
    }
}

/// Two are equal if code and text are.
impl PartialEq for Status {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.message == other.message
    }
}

impl Eq for Status {}

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
    /// Returns `CANCELLED`: the caller gave the call up.
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
    /// `UNAUTHENTICATED`: the caller did not prove its identity.
    unauthenticated Unauthenticated;
}

impl Status {
    /// A status with any code. [`Code::Ok`] is no failure and becomes `UNKNOWN`.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let code = if code == Code::Ok { Code::Unknown } else { code };
        let (lack, fate, metadata) = (None, Fate::Answered, None);
        Self { code, message: message.into(), lack, fate, metadata }
    }

    /// Returns the code: which of the 16 ways to fail.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns what happened and what can be done, for people. May be empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether the method has certainly not begun, and will not: no server was reached, or
    /// the one that was took no more calls. Such a call may be made again, whatever it does. False:
    /// it may have run, or that is not known.
    ///
    /// Calls that wait and calls of async callers are sent again by themselves as far as their
    /// [`ReconnectPolicy`](crate::client::ReconnectPolicy) allows.
    pub fn has_not_begun(&self) -> bool {
        self.fate == Fate::NotBegun
    }

    /// Sends an entry with the error: a key of lower-case letters, digits and `-_.`, and printable
    /// ASCII. The caller reads it by [`metadata`](Self::metadata).
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn with_metadata(mut self, key: &str, value: &str) -> Result<Self, BadMetadata> {
        self.metadata.get_or_insert_default().trailers.add(key, value.as_bytes())?;
        Ok(self)
    }

    /// Sends an entry with bytes for its value with the error; the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn with_metadata_bin(mut self, key: &str, value: &[u8]) -> Result<Self, BadMetadata> {
        self.metadata.get_or_insert_default().trailers.add(key, value)?;
        Ok(self)
    }

    /// Returns what the service sent beside the error.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(self.metadata.as_ref().map_or(&[], |sent| sent.trailers.as_bytes()))
    }

    /// Returns what the service sent beside the error, owned by the caller.
    pub(crate) fn reply_metadata(&self) -> ReplyMetadata {
        self.metadata.as_deref().cloned().unwrap_or_default()
    }

    /// Returns the same with these entries before its own.
    pub(crate) fn with_entries(mut self, mut entries: Entries) -> Self {
        if !entries.is_empty() {
            entries.append(self.metadata().as_bytes());
            self.metadata.get_or_insert_default().trailers = entries;
        }
        self
    }

    /// Returns the same with these headers of its call.
    pub(crate) fn with_headers(mut self, headers: Entries) -> Self {
        if !headers.is_empty() {
            self.metadata.get_or_insert_default().headers = headers;
        }
        self
    }

    /// Returns the status of an error that the peer sent. The text is hostile: it is cut to what
    /// this end would send, and bytes that are no UTF-8 are replaced.
    pub(crate) fn from_peer(code: Code, metadata: &[u8], text: &[u8]) -> Self {
        let (lack, metadata) = Lack::take_from(metadata);
        let text = &text[..text.len().min(ERROR_TEXT_BYTES_MAX)];
        let status = Self { lack, ..Self::new(code, String::from_utf8_lossy(text)) };
        status.with_entries(Entries::from_peer(metadata))
    }

    /// Returns the same with what is known of the method.
    #[cold]
    pub(crate) fn with_fate(self, fate: Fate) -> Self {
        Self { fate, ..self }
    }

    /// Returns the same as the answer of a method, which has run: what this status says of a call
    /// that the method itself has made is not the caller's concern.
    #[cold]
    pub(crate) fn of_method(self) -> Self {
        self.with_fate(Fate::Answered)
    }

    /// Returns what is known of the method.
    pub(crate) fn fate(&self) -> Fate {
        self.fate
    }

    /// Returns the same with what the server lacks.
    pub(crate) fn with_lack(self, lack: Lack) -> Self {
        Self { lack: Some(lack), ..self }
    }

    /// Returns what the server lacks, if that is why the call failed.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack
    }

    /// Returns the status of a call whose message has no room in memory.
    #[cold]
    pub(crate) fn no_memory(error: impl fmt::Display) -> Self {
        Self::resource_exhausted(format!("{error}; try again later, or send less at once"))
    }

    /// Returns the status of a call whose answer came after its deadline: it does not count, at
    /// whichever end it is noticed.
    #[cold]
    pub(crate) fn answered_late() -> Self {
        Self::deadline_exceeded("the service did not answer in time; the method has run")
    }

    /// Returns the status of a call in this thread whose answer has not come by its deadline.
    #[cold]
    pub(crate) fn not_answered_in_time() -> Self {
        Self::deadline_exceeded("the service did not answer in time; the method may have run")
    }

    /// Returns the status of a call whose service panicked. The panic's own text stays in this
    /// process: it may reveal more than a peer should know.
    #[cold]
    pub(crate) fn panicked() -> Self {
        Self::unknown("the service panicked; its server goes on")
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), Status>`.
impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For services that send metadata: `INTERNAL`.
impl From<BadMetadata> for Status {
    fn from(error: BadMetadata) -> Self {
        Self::internal(error.to_string())
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
    fn what_a_server_lacks_travels() {
        for lack in [Lack::NoSuchObject, Lack::NoSuchMethod] {
            let status = Status::from_peer(Code::Unimplemented, lack.metadata(), b"");
            assert_eq!(status.lack(), Some(lack));
            let [(key, _)] = Metadata::new(lack.metadata()).iter().collect::<Vec<_>>()[..] else {
                panic!("one entry");
            };
            assert_eq!(key, crate::metadata::RESERVED_KEY);
        }
        assert_eq!(Status::from_peer(Code::Unimplemented, b"x", b"").lack(), None);
    }

    #[test]
    fn metadata_travel_behind_what_a_server_lacks() {
        let sent = Status::unimplemented("").with_metadata("since", "v2").unwrap();
        let travels = [Lack::NoSuchMethod.metadata(), sent.metadata().as_bytes()].concat();
        let status = Status::from_peer(Code::Unimplemented, &travels, b"");
        assert_eq!(status.lack(), Some(Lack::NoSuchMethod));
        assert_eq!(status.metadata().iter().collect::<Vec<_>>(), [("since", &b"v2"[..])]);
        assert!(Status::aborted("").with_metadata("Bad", "").is_err());
        assert_eq!(Status::aborted("").metadata().iter().count(), 0);
    }

    #[test]
    fn a_text_from_a_peer_cannot_steer_a_terminal() {
        let status = Status::from_peer(Code::NotFound, b"", b"no\x1b[2J \xff here");
        assert_eq!(status.to_string(), "NOT_FOUND: no\\u{1b}[2J \u{fffd} here");
        let long = Status::from_peer(Code::NotFound, b"", &vec![b'x'; 4 << 20]);
        assert_eq!(long.message().len(), ERROR_TEXT_BYTES_MAX);
    }
}
