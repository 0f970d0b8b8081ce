//! Threads that run beside their starter and are not joined.
//!
//! **Invariants:** a thread that a simulation's thread starts belongs to the simulation.
//! **Not here:** pinning (`cpu.rs`), threads that are joined: `std::thread`.

use std::io;

/// Starts a thread with a name of at most 15 bytes, which ends by itself.
///
/// # Errors
///
/// The kernel's: no memory, or too many threads.
pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(simulation)]
    let body = match crate::simulation::start_beside(name, body) {
        Ok(started) => return started,
        Err(body) => body,
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
