//! Generates the interface by which a gateway is asked.
#![forbid(unsafe_code)]

fn main() -> Result<(), nearcall_build::BuildError> {
    nearcall_build::Builder::new().file("proto/nearcall/v1/gateway.proto").compile()
}
