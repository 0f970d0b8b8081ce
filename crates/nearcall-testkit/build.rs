//! Generates the interfaces that tests call, from `proto/` and from a golden file of the generator,
//! and one of them again in parts.
#![forbid(unsafe_code)]

use std::env;
use std::path::PathBuf;

use nearcall_build::{BuildError, Builder};

fn main() -> Result<(), BuildError> {
    let proto = ["echo", "sizes", "streams", "stress"].map(|name| format!("proto/{name}.proto"));
    let golden = "../nearcall-build/tests/golden";
    proto
        .iter()
        .fold(Builder::new(), Builder::file)
        .file(format!("{golden}/thermostat.proto"))
        .include("proto")
        .include(golden)
        .compile()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let streams = || Builder::new().file("proto/streams.proto").btree_map(["."]).bytes([""; 0]);
    for (name, parts) in [
        ("callers", streams().dispatchers(false)),
        ("dispatchers", streams().callers(false)),
        ("sync_api", streams().async_api(false)),
        ("async_api", streams().sync_api(false)),
        ("async_callers", streams().sync_api(false).dispatchers(false)),
        ("messages", streams().callers(false).dispatchers(false)),
    ] {
        parts.out_dir(out.join(name)).compile()?;
    }
    Ok(())
}
