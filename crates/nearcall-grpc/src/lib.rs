//! Calls of nearcall leave the machine as gRPC, and gRPC calls come in.
#![forbid(unsafe_code)]
