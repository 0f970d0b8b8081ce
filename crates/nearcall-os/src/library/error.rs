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
    /// It shares its runtime with others, and the one that is here does not fit, or is missing.
    #[error("{} {why}; {remedy}", .file.display())]
    Runtime {
        /// The path as it was given.
        file: PathBuf,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: &'static str,
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

impl LoadError {
    /// Returns the error for what the dynamic linker has said of the library `file`.
    pub(super) fn of_linker(file: PathBuf, why: String) -> Self {
        const MISSING: &str = ": cannot open shared object file";
        let missing = why.split_once(MISSING).and_then(|(name, _)| name.rsplit([' ', '/']).next());
        let is_part = |name: &&str| *name == RUNTIME_FILE || name.starts_with(RUST_FILE);
        if let Some(name) = missing.filter(is_part) {
            let why = format!("shares its runtime with others, and {name} is missing");
            let remedy = "install that file, of the build that the library is of, where the \
                 dynamic linker looks (beside the library, or LD_LIBRARY_PATH), or build the \
                 library without `--cfg nearcall_shared`";
            return Self::Runtime { file, why, remedy };
        }
        let symbol = why.split_once("undefined symbol: ").map(|(_, symbol)| symbol);
        // Names of Rust, which have a hash of the toolchain, the version and the settings.
        if let Some(symbol) = symbol.filter(|it| it.starts_with("_ZN") || it.starts_with("_R")) {
            let why = format!(
                "was built by another toolchain, for another version of nearcall, or after \
                 {RUNTIME_FILE} of this process, which lacks {symbol}"
            );
            let remedy = "build the library, the host and the runtime at once, by one toolchain, \
                 or the library without `--cfg nearcall_shared`";
            return Self::Runtime { file, why, remedy };
        }
        Self::Linker { file, why }
    }
}

/// The runtime that services and hosts share: the crate `nearcall-runtime`.
const RUNTIME_FILE: &str = "libnearcall_runtime.so";

/// How the name of Rust's own library begins.
const RUST_FILE: &str = "libstd-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_shared_runtime_is_told_from_other_errors_of_the_linker() {
        let text = |why: &str| LoadError::of_linker("a.so".into(), why.to_owned()).to_string();
        for (why, parts) in [
            (
                "libnearcall_runtime.so: cannot open shared object file: No such file or directory",
                ["a.so shares its runtime", "libnearcall_runtime.so is missing", "LD_LIBRARY_PATH"],
            ),
            (
                "libstd-0c41.so: cannot open shared object file: No such file or directory",
                ["a.so shares its runtime", "libstd-0c41.so is missing", "install that file"],
            ),
            (
                "the file: undefined symbol: _ZN8nearcall5panic17h0123456789abcdefE",
                ["another toolchain", "lacks _ZN8nearcall5", "at once"],
            ),
            (
                "libm.so.9: cannot open shared object file: No such file or directory",
                ["the dynamic linker refused it", "libm.so.9", "install that"],
            ),
            (
                "the file: undefined symbol: sqrt",
                ["the dynamic linker refused it", "sqrt", "link the library"],
            ),
        ] {
            for part in parts {
                assert!(text(why).contains(part), "{part} is missing in {}", text(why));
            }
        }
    }
}
