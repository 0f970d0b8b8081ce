//! Services in dynamic libraries: loading one, and exporting one, over a C interface.
//!
//! Host and library may be of different builds, compilers and languages, so that only C structs and
//! bytes cross between them (`library/abi.rs`).
//! **Invariants:** a library is loaded by the descriptor that was checked, and never unloaded: its
//! threads and thread-local values may live on. No panic crosses the boundary in either direction.
//! **Not here:** what the bytes mean (`nearcall`), which libraries are loaded (`nearcall-host`).

pub mod abi;
mod error;
mod exported;
mod file;
mod loaded;
mod parts;

pub use self::error::LoadError;
pub use self::exported::{
    CallToken, Export, HostLink, LibraryService, destroy, dispatch, expose, objects, service_table,
};
pub use self::file::LibraryFile;
pub use self::loaded::{
    EndNotice, HostFunctions, Instance, Library, PendingReply, serve_libraries,
};
pub use self::parts::{Caller, LogLevel, MethodPart, ObjectPart, ReplyPart, RequestPart};
