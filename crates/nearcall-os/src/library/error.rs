//! Why a library was not loaded.
//!
//! **Invariants:** a text names the file, what is wrong in it, and what to do.

use std::path::PathBuf;

/// Why a library was not loaded, or has no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is not there, or may not be loaded.
    #[error("{} {why}; {remedy}", .file.display())]
    File {
        /// The path as it was given.
        file: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The dynamic linker refused it.
    #[error(
        "{}: the dynamic linker refused it: {why}; if a symbol or a library is missing, link the \
         library against what it needs, or install that",
        .file.display()
    )]
    Linker {
        /// The path as it was given.
        file: PathBuf,
        /// The linker's text.
        why: String,
    },
    /// The symbol with the service is missing.
    #[error(
        "{} has no symbol `{symbol}`: build it as a `cdylib` with `nearcall::service_main!`, or \
         export the table of nearcall_service.h",
        .file.display()
    )]
    NoSymbol {
        /// The path as it was given.
        file: PathBuf,
        /// The symbol.
        symbol: &'static str,
    },
    /// The table behind the symbol does not fit.
    #[error("{}: `{symbol}` {why}; {remedy}", .file.display())]
    Table {
        /// The path as it was given.
        file: PathBuf,
        /// The symbol.
        symbol: &'static str,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The service could not be created, or what it describes does not fit.
    #[error("{}: {why}; {remedy}", .file.display())]
    Service {
        /// The path as it was given.
        file: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
}
