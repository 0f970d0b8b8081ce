//! Generates the test services of gRPC twice: for nearcall, and for tonic with the same messages.
//! Those of the storm and of the languages are for nearcall alone.
#![forbid(unsafe_code)]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = "grpc/testing/test.proto";
    nearcall_build::Builder::new()
        .include("proto")
        .file(format!("proto/{file}"))
        .file("proto/storm/v1/storm.proto")
        .file("proto/conformance/v1/notes.proto")
        .compile()?;
    let descriptors = protox::compile([file], ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join("tonic");
    std::fs::create_dir_all(&out)?;
    tonic_prost_build::configure()
        .out_dir(out)
        .extern_path(".grpc.testing", "crate::testing")
        .compile_fds(descriptors)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
