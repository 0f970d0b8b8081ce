//! Generates the interface of the measured service.
#![forbid(unsafe_code)]

fn main() -> Result<(), nearcall_build::BuildError> {
    nearcall_build::Builder::new().file("proto/setup.proto").compile()
}
