//! The crates that are published, made as for `cargo publish`, and built from each other alone.
//!
//! **Not here:** which crates are published, which their manifests say (`publish`).

use std::fs;
use std::io;
use std::process::Command;

use serde_json::Value;

use super::{Made, Places};
use crate::child::succeed;

/// What crates.io or its readers ask of a manifest.
const FIELDS: [&str; 6] =
    ["description", "readme", "license", "keywords", "categories", "rust_version"];

/// Makes them without building any, and checks their manifests. Returns how many there are.
pub(super) fn check(places: &Places) -> io::Result<usize> {
    let packages = published(places)?;
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let has = |field: &&str| match &package[*field] {
            Value::Array(values) => !values.is_empty(),
            value => value.is_string(),
        };
        if let Some(field) = FIELDS.iter().find(|field| !has(field)) {
            return Err(io::Error::other(format!("{name}: its Cargo.toml has no `{field}`")));
        }
        if package["metadata"]["docs"]["rs"]["targets"].as_array().is_none_or(Vec::is_empty) {
            let text = format!("{name}: its Cargo.toml names no targets for docs.rs");
            return Err(io::Error::other(text));
        }
    }
    // Also of a tree with changes: this finds what is missing in a crate before it is committed.
    succeed(cargo(places, &packages).args(["--no-verify", "--allow-dirty"]))?;
    Ok(packages.len())
}

/// Makes them, and builds each from the others as they are packed, without a network.
pub(super) fn make(places: &Places) -> io::Result<Vec<Made>> {
    let packages = published(places)?;
    succeed(cargo(places, &packages).arg("--offline"))?;
    let directory = places.out.join("crates");
    fs::create_dir_all(&directory)?;
    let mut made = Vec::new();
    for package in &packages {
        let (name, version) = (package["name"].as_str(), package["version"].as_str());
        let name = format!("{}-{}.crate", name.unwrap_or_default(), version.unwrap_or_default());
        let file = directory.join(&name);
        fs::copy(places.target.join("package").join(&name), &file)?;
        made.push(Made { file, tried: Ok("built from the other crates, offline".to_owned()) });
    }
    Ok(made)
}

fn cargo(places: &Places, packages: &[Value]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&places.root).args(["package", "--quiet"]);
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    cargo.args(names.flat_map(|name| ["--package", name]));
    cargo
}

/// Returns what `cargo metadata` has of each crate that may be published.
fn published(places: &Places) -> io::Result<Vec<Value>> {
    let mut ask = Command::new("cargo");
    ask.current_dir(&places.root).args(["metadata", "--no-deps", "--format-version=1"]);
    let output = ask.output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
    let all = metadata["packages"].as_array().cloned().unwrap_or_default();
    let published: Vec<Value> =
        all.into_iter().filter(|package| package["publish"].is_null()).collect();
    match published.is_empty() {
        true => Err(io::Error::other("no crate of the workspace may be published")),
        false => Ok(published),
    }
}
