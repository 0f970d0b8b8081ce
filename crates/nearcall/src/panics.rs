//! Running code of users whose panic must end nothing but itself.
//!
//! **Invariants:** nothing unwinds out of here, whatever value the code panics with. The panic was
//! reported by the hook of the process.
//! **Not here:** what ends with the panic (`services/dispatch.rs`, `tasks/service_task.rs`).
//!
//! **Invariant:** a service that panics, with whatever value, fails its own call and nothing else,
//! and the text of the panic stays in its process; a waker or an interceptor that panics ends
//! nothing but itself. *Checked by* `src/panics.rs`, `src/waking.rs`,
//! `a_panic_is_unknown_and_the_server_lives`.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of a user. None: it has panicked.
#[inline]
pub(crate) fn contain<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Its drop is code of the user as well.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsAgain(u32);

    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            std::panic::panic_any(Self(self.0 + 1));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaks what panics in its drop, by intent")]
    fn a_panic_goes_no_further_whatever_it_panics_with() {
        assert_eq!(contain(|| 7), Some(7));
        assert_eq!(contain(|| -> u32 { panic!("asked for it") }), None);
        assert_eq!(contain(|| -> u32 { std::panic::panic_any(PanicsAgain(1)) }), None);
    }
}
