//! Linux as typed functions for nearcall: memory files, waiting, clocks, processors.
//!
//! **Invariants:** this is the only crate with unsafe code, and each unsafe block names what
//! guarantees which condition. A function here is one system call, or the few that are only right
//! together.
//! **Not here:** what the bytes mean (`nearcall-channel`), what is measured (`nearcall-bench`).

pub mod alloc_count;
pub mod alloc_fail;
pub mod capacity;
pub mod clock;
pub mod cma;
pub mod counters;
pub mod cpu;
pub mod cpu_load;
mod deadline;
pub mod descriptor;
pub mod epoll;
pub mod eventfd;
pub mod fork;
pub mod futex;
pub mod inotify;
pub mod library;
pub mod lock_file;
pub mod mqueue;
pub mod pages;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod procfs_memory;
pub mod program;
pub mod pshared;
pub mod ptrace;
pub mod random;
pub mod region;
mod seam;
pub mod sender;
pub mod signal;
#[cfg(simulation)]
pub mod simulation;
pub mod sink;
pub mod socket;
pub mod socket_activation;
pub mod syscall_names;
mod system_call;
pub mod sysv;
pub mod thread;
pub mod timerfd;
pub mod tsc;
pub mod unlinked;
pub mod uring;
pub mod users;
pub mod vmsplice;

pub use deadline::Deadline;
