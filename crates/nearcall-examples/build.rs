//! Generates `home.v1` from `proto/`, as the build script of any user does.
#![forbid(unsafe_code)]

fn main() -> Result<(), nearcall_build::BuildError> {
    nearcall_build::Builder::new()
        .file("proto/thermostat.proto")
        .file("proto/house.proto")
        .compile()
}
