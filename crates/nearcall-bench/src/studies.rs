//! The published studies of IPC on Linux that nearcall can repeat.

pub mod methods;
