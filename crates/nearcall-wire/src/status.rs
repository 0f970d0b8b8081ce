//! How a call ended, as the 17 status codes of gRPC with their numbers.
//!
//! **Invariants:** the numbers are those of gRPC and never change.
//! **Not here:** the text that goes with a status, which travels as the body of an error.

use core::fmt;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $text:literal;)+) => {
        /// A status code of gRPC.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Code {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Code {
            /// All of them, ordered by number.
            pub const ALL: [Self; 17] = [$(Self::$name),+];

            /// The name in the specification of gRPC.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

statuses! {
    /// The call succeeded. Never the status of an error.
    Ok = 0, "OK";
    /// The call was given up on behalf of the caller.
    Cancelled = 1, "CANCELLED";
    /// The implementation failed in a way that has no name, or panicked.
    Unknown = 2, "UNKNOWN";
    /// The arguments are wrong whatever the state of the server.
    InvalidArgument = 3, "INVALID_ARGUMENT";
    /// Time was up. The method may or may not have run.
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    /// What the service was asked for does not exist. A missing object is `Unimplemented`.
    NotFound = 5, "NOT_FOUND";
    /// What should be created exists already.
    AlreadyExists = 6, "ALREADY_EXISTS";
    /// The caller may not do this.
    PermissionDenied = 7, "PERMISSION_DENIED";
    /// Too large, or too many.
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    /// The state of the server does not allow this now; the caller must change it first.
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    /// A concurrent change got in between. Try the whole sequence again.
    Aborted = 10, "ABORTED";
    /// Past the end of what exists.
    OutOfRange = 11, "OUT_OF_RANGE";
    /// The server has no such object, or the object has no such method.
    Unimplemented = 12, "UNIMPLEMENTED";
    /// Bytes that make no sense, or a broken promise inside the server.
    Internal = 13, "INTERNAL";
    /// The peer is gone or going. Try again later or elsewhere.
    Unavailable = 14, "UNAVAILABLE";
    /// Data are lost or damaged for good.
    DataLoss = 15, "DATA_LOSS";
    /// The caller did not prove its identity.
    Unauthenticated = 16, "UNAUTHENTICATED";
}

impl Code {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The status with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_and_statuses_go_both_ways() {
        for (number, status) in (0_u16..).zip(Code::ALL) {
            assert_eq!(u16::from(status.number()), number);
            assert_eq!(Code::from_number(number), Some(status));
        }
        assert_eq!(Code::from_number(17), None);
    }
}
