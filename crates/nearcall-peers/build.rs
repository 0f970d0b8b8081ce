//! Generates what the rows call, and passes to the program the versions it was built with.
//!
//! Needs no network and none of the rivals' own compilers.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    nearcall_build::Builder::new().file("proto/echo.proto").compile()?;
    tonic()?;
    ttrpc()?;
    capnp()?;
    boost();
    versions(&std::fs::read_to_string(LOCK)?);
    fixed_addresses();
    println!("cargo::rerun-if-changed={LOCK}");
    for input in ["build.rs", "proto", "schema", "shim"] {
        println!("cargo::rerun-if-changed={input}");
    }
    Ok(())
}

fn tonic() -> Result<(), Box<dyn Error>> {
    let files = protox::compile(["proto/rival.proto", "proto/notes.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}

fn ttrpc() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("ttrpc");
    std::fs::create_dir_all(&out)?;
    let customize =
        ttrpc_codegen::Customize { async_all: true, gen_mod: true, ..Default::default() };
    ttrpc_codegen::Codegen::new()
        .out_dir(&out)
        .include("proto")
        .inputs(["proto/rival.proto", "proto/notes.proto"])
        .rust_protobuf()
        .customize(customize)
        .run()?;
    // Attributes of a whole file cannot be included into another.
    let modules = std::fs::read_to_string(out.join("mod.rs"))?;
    let modules: Vec<&str> = modules.lines().filter(|line| !line.starts_with("#!")).collect();
    std::fs::write(out.join("mod.rs"), modules.join("\n"))?;
    Ok(())
}

/// Generates from `schema/rival.capnp` as its compiler has parsed it, so that the compiler is not
/// needed. To parse it again: `capnp compile -o- --src-prefix=schema -I/usr/include
/// schema/rival.capnp > schema/rival.request`.
fn capnp() -> Result<(), Box<dyn Error>> {
    let parsed = std::fs::File::open("schema/rival.request")?;
    capnpc::codegen::CodeGenerationCommand::new()
        .output_directory(PathBuf::from(std::env::var("OUT_DIR")?))
        .default_parent_module(vec!["rivals".into(), "capnp".into()])
        .run(parsed)?;
    Ok(())
}

/// Compiles the shim for Boost's message queue, if its headers are here and work.
fn boost() {
    println!("cargo::rustc-check-cfg=cfg(has_boost)");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(3).warnings(false).cargo_warnings(false);
    build.cargo_metadata(true);
    let expanded = build.clone().file("shim/version.cpp").try_expand().unwrap_or_default();
    let expanded = String::from_utf8_lossy(&expanded);
    let version = expanded.lines().rfind(|line| line.starts_with('"'));
    let version = version.map(|version| version.trim_matches('"').replace('_', "."));
    let mut compile = || build.file("shim/boost.cpp").try_compile("rival_boost").is_ok();
    let is_here = version.is_some() && compile();
    if is_here {
        println!("cargo::rustc-cfg=has_boost");
    }
    println!("cargo::rustc-env=RIVAL_VERSION_BOOST={}", version.as_deref().unwrap_or("(none)"));
}

/// Makes `RIVAL_VERSION_NAME` of every package that is measured.
fn versions(lock: &str) {
    for rival in RIVALS {
        let head = format!("name = \"{rival}\"\nversion = \"");
        let version = lock.split_once(&head).and_then(|(_, rest)| rest.split_once('"'));
        let version = version.map_or("unknown", |(version, _)| version);
        // What is packed comes after a plus.
        let version = version.split_once('+').map_or(version, |(_, packed)| packed);
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
const RIVALS: &[&str] =
    &["capnp-rpc", "iceoryx2", "shmipc", "tarpc", "tonic", "ttrpc", "zbus", "zenoh", "zeromq-src"];
