//! How a function has ended.
//!
//! **Invariants:** null is `OK`.
//! **Not here:** reading it (`results.rs`).

use std::ffi::CString;

use nearcall::{Code, Status};

/// Why a function has failed; null: it has not. Whoever gets it releases it by
/// `nearcall_status_free`. For any thread.
pub struct nearcall_status {
    pub(crate) status: Status,
    pub(crate) text: CString,
}

impl nearcall_status {
    #[cold]
    pub(crate) fn give(status: &Status) -> *mut Self {
        let bytes = status.message().bytes().filter(|byte| *byte != 0).collect::<Vec<_>>();
        let text = CString::new(bytes).unwrap_or_default();
        Box::into_raw(Box::new(Self { status: status.clone(), text }))
    }
}

/// Reads a code of gRPC.
pub(crate) fn code(code: u32) -> Result<Code, Status> {
    let known = u16::try_from(code).ok().and_then(Code::from_number);
    match known {
        Some(code) if code != Code::Ok => Ok(code),
        _ => Err(Status::invalid_argument(format!("{code} is no code of an error: 1 to 16 are"))),
    }
}
