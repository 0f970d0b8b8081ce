//! Linux as typed functions for nearcall: memory files, waiting, clocks, processors.
//!
//! **Invariants:** this is the only crate with unsafe code, and each unsafe block names what
//! guarantees which condition. A function here is one system call, or the few that are only right
//! together.
//! What differs between processors and C libraries is in `platform.rs`.
//! **Not here:** what the bytes mean (`nearcall-channel`), what is measured (`nearcall-bench`).
//!
//! It has what rustix lacks and what needs `unsafe`: memory files with seals, futexes,
//! process-shared locks, queues, signals, io_uring, reading another process's memory, clocks,
//! processors, counters. There is no policy here: a function reports the kernel's result.
//!
//! The types in `region.rs` enforce the security of shared memory. `OwnRegion` is a file that only
//! this process can write; `PeerRegion` is the peer's, checked and mapped for reading;
//! `SharedRegion` can be written by both and is only for the lock-based mechanisms, as a
//! `LockRegion` and only with a process that is trusted. Bytes of a peer have the type
//! `SharedBytes`, which can be copied and never borrowed as `&[u8]`, because the peer may be
//! writing them.
//!
//! `library.rs` loads a library with services, and exports a service from one. Only C structs and
//! bytes cross between the two, and each has its size, so that they may be of different builds,
//! minor versions and languages. A library is never unloaded, and its name never used for another
//! file: the dynamic linker takes the name of a library that it has loaded for that library,
//! whatever file has the name by then.
//!
//! `seam.rs` is where a simulation takes the place of the kernel's scheduler and clock, and lets
//! system calls fail; `simulation.rs` decides that from a seed. Both do something only in a build
//! with `--cfg simulation`, as the loom models are built with `--cfg loom`: otherwise every
//! function of the seam returns its argument and is inlined.
//!
//! **Invariant:** `unsafe` exists only in this crate, at the border of `nearcall-c`, and in the
//! shim of `nearcall-peers`, because the interfaces of other libraries require it. *Checked by*
//! `every_rust_file_keeps_the_rules`, and by the attribute at the root of every other crate.
//!
//! **Invariant:** every unsafe block holds one operation and states which code guarantees its
//! conditions. *Checked by* `undocumented_unsafe_blocks`, `multiple_unsafe_ops_per_block`.

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
mod platform;
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
