//! A server in an event loop with generated dispatchers, from the frames of one client.
#![no_main]
#![forbid(unsafe_code)]

/// The same generated code under the same names as in the tests of the runtime.
mod echo {
    include!("../../crates/nearcall-build/tests/golden/echo.rs");
}
mod streams {
    pub(crate) mod served {
        include!("../../crates/nearcall-build/tests/golden/streams.rs");
    }
}
#[path = "../../crates/nearcall/tests/it/fuzzing.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::dispatcher(bytes));
