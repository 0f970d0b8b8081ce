//! nearcall-channel
#![forbid(unsafe_code)]
