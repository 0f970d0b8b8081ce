//! Generates what the rows call, and tells the program which versions it was built with.
//!
//! Needs no network and none of the rivals' own compilers.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    nearcall_build::Builder::new().file("proto/echo.proto").compile()?;
    tonic()?;
    versions(&std::fs::read_to_string(LOCK)?);
    fixed_addresses();
    println!("cargo::rerun-if-changed={LOCK}");
    for input in ["build.rs", "proto"] {
        println!("cargo::rerun-if-changed={input}");
    }
    Ok(())
}

fn tonic() -> Result<(), Box<dyn Error>> {
    let files = protox::compile(["proto/rival.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}

/// Makes `RIVAL_VERSION_NAME` of every package that is measured.
fn versions(lock: &str) {
    for rival in RIVALS {
        let head = format!("name = \"{rival}\"\nversion = \"");
        let version = lock.split_once(&head).and_then(|(_, rest)| rest.split_once('"'));
        let version = version.map_or("unknown", |(version, _)| version);
        let name = rival.to_uppercase().replace('-', "_");
        println!("cargo::rustc-env=RIVAL_VERSION_{name}={version}");
    }
}

/// Loads the program at a fixed address. Else every process has private copies of the tables of all
/// libraries in it, and an idle server would seem to need memory for its rivals.
fn fixed_addresses() {
    let is_here = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    if is_here && Path::new(LOCK).exists() {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// Where the versions are.
const LOCK: &str = "../../Cargo.lock";

/// The packages of the rivals.
const RIVALS: &[&str] = &["tonic"];
