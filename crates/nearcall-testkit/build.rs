//! Generates the interfaces that tests call, from `proto/` and from a golden file of the generator.
#![forbid(unsafe_code)]

fn main() -> Result<(), nearcall_build::BuildError> {
    let proto = ["echo", "sizes", "streams", "stress"].map(|name| format!("proto/{name}.proto"));
    let golden = "../nearcall-build/tests/golden";
    proto
        .iter()
        .fold(nearcall_build::Builder::new(), nearcall_build::Builder::file)
        .file(format!("{golden}/thermostat.proto"))
        .include("proto")
        .include(golden)
        .compile()
}
