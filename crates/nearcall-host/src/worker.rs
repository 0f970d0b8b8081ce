//! The process of a group of libraries, as the host starts it.
//!
//! **Invariants:** its end runs nothing of a library but `destroy`: no static destructor and no
//! exit handler, which other threads of the libraries would not survive.

use std::fmt;
use std::io::{self, Read, Write};

use nearcall_os::process;

use nearcall_channel::secure_inherited;
use nearcall_os::process::raise_descriptor_limit;

use crate::library::{self, GroupError, LibraryConfig};
use crate::limits::{DESCRIPTORS_OF_WORKER, DESCRIPTORS_PER_LIBRARY};

/// Why the process of a group ends with an error.
#[derive(Debug)]
enum WorkerError {
    /// The libraries were not read from its input: it was not started by a host.
    Input(io::Error),
    /// A library was not loaded, or one of them cannot serve.
    Group(GroupError),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(
                f,
                "the libraries cannot be read from standard input: {error}; this process is \
                 started by `nearcall host`"
            ),
            Self::Group(error) => error.fmt(f),
        }
    }
}

/// Reads from `input` which libraries to serve, serves them until SIGTERM or SIGINT comes, and ends
/// the process: with 0, or with 1 and the reason on stderr if they cannot be read, loaded or
/// served.
///
/// What the program has registered for its exit does not run: methods that have not returned, and
/// threads of the libraries, go on until the process is gone.
pub fn run_worker(input: impl Read) -> ! {
    let code = match serve(input) {
        Ok(()) => 0,
        Err(error) => {
            // One write, so that the line stays whole.
            let _ = io::stderr().write_all(format!("error: {error}\n").as_bytes());
            1
        }
    };
    process::exit_at_once(code)
}

fn serve(mut input: impl Read) -> Result<(), WorkerError> {
    let mut text = Vec::new();
    input.read_to_end(&mut text).map_err(WorkerError::Input)?;
    let libraries: Vec<LibraryConfig> =
        serde_json::from_slice(&text).map_err(|error| WorkerError::Input(error.into()))?;
    // Before a library runs code, which may start programs. An error comes again where the first
    // service listens.
    let _ = secure_inherited();
    let needed = DESCRIPTORS_OF_WORKER + libraries.len() as u64 * DESCRIPTORS_PER_LIBRARY;
    // Where it may not have so many, its servers share what there is.
    let _ = raise_descriptor_limit(needed);
    library::run_group(&libraries).map_err(WorkerError::Group)
}
