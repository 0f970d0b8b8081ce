//! Generates the interface of the measured calls.
#![forbid(unsafe_code)]

fn main() -> Result<(), nearcall_build::BuildError> {
    nearcall_build::Builder::new().file("proto/bench.proto").compile()
}
