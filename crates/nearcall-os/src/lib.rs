//! Linux as typed functions.
