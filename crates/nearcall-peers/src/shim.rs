//! The only code of this crate that the compiler cannot judge: what rivals' interfaces demand.
//!
//! **Invariants:** what leaves this module is safe to use, whatever its user does. Tidy allows
//! unsafe code here and in `nearcall-os`, nowhere else.

#[cfg(has_boost)]
pub(crate) mod boost;
pub(crate) mod loan;
