//! The program nearcall-group: the process of a group of libraries, as a host starts it.
//!
//! A program of its own, so that the process has none of the host's code in its memory.
//! **Not here:** what it does (`nearcall_host::run_worker`), what starts it (`program.rs`).
#![forbid(unsafe_code)]

fn main() {
    nearcall_host::run_worker(std::io::stdin().lock())
}
