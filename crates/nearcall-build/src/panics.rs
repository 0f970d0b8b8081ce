//! Turns a panic of the parser or of prost into an error, so that a build script and `nearcall gen`
//! end with a message instead of a backtrace.
//!
//! # Invariants
//!
//! - A panic that is caught prints nothing; any other reaches the hook that was set before.
//!
//! **Not here:** the inputs that are known to panic, which are refused before with their place
//! (`type_names.rs`, `source_text.rs`).
//!
//! **Invariant:** no `.proto` file leads to a panic of a build script. Panics of prost and protox
//! become errors (`panics.rs`). *Checked by* `tests/it/builder.rs`, a table of malformed files.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether the panics of this thread are caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, and returns the message of its panic. What `work` has changed is not used then.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                before(info);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    result.map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        let number = 7;
        assert_eq!(catch(|| panic!("number {number}")), Err::<(), _>("number 7".to_owned()));
    }
}
