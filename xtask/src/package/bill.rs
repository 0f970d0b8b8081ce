//! The bill of materials of a program or library: what is linked into it, as CycloneDX.
//!
//! Made of what `cargo metadata` has resolved, so that it needs no tool and no network.
//! **Not here:** whether the licences fit (`deny.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Returns the bill of `package` as it is built for `target`, without what only builds or tests it.
pub(super) fn of(root: &Path, package: &str, target: &str) -> io::Result<String> {
    let mut ask = Command::new("cargo");
    ask.current_dir(root).args(["metadata", "--locked", "--format-version=1"]);
    let output = ask.args(["--filter-platform", target]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
    let bill = bill(&metadata, package).ok_or_else(|| {
        io::Error::other(format!("cargo metadata has no package `{package}`, or no graph"))
    })?;
    serde_json::to_string_pretty(&bill).map_err(io::Error::other)
}

fn bill(metadata: &Value, package: &str) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let first = packages.iter().find(|(_, value)| value["name"] == package)?.0;
    let (mut linked, mut open) = (BTreeSet::new(), vec![*first]);
    let mut graph = Vec::new();
    while let Some(id) = open.pop() {
        if !linked.insert(id) {
            continue;
        }
        let uses = linked_by(nodes.get(id)?);
        let references: Vec<String> =
            uses.iter().filter_map(|used| Some(reference(packages.get(used)?))).collect();
        graph.push(json!({"ref": reference(packages.get(id)?), "dependsOn": references}));
        open.extend(uses);
    }
    let component = |id: &&str| {
        let package = packages.get(*id)?;
        // What was valid before SPDX expressions.
        let license = package["license"].as_str().map(|text| text.replace('/', " OR "));
        Some(json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(package),
            "licenses": license.map(|text| json!([{"expression": text}])).unwrap_or(json!([])),
        }))
    };
    let components: Vec<Value> =
        linked.iter().filter(|id| *id != first).filter_map(component).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(first)?},
        "components": components,
        "dependencies": graph,
    }))
}

/// Returns the dependencies of a node that are neither for tests nor for build scripts alone.
fn linked_by(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_linked = |dependency: &&Value| {
        dependency["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    dependencies.filter(is_linked).filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

fn reference(package: &Value) -> String {
    let part = |name: &str| package[name].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", part("name"), part("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_builds_it_is_not() {
        let package = |name: &str, license: &str| {
            let version = "1.0.0";
            json!({"id": name, "name": name, "version": version, "license": license})
        };
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("program", "MIT"),
                package("linked", "MIT/Apache-2.0"),
                package("compiler", "MIT"),
                package("tested", "MIT"),
            ],
            "resolve": {"nodes": [
                {"id": "program", "deps": [
                    uses("linked", Value::Null),
                    uses("compiler", json!("build")),
                    uses("tested", json!("dev")),
                ]},
                {"id": "linked", "deps": []},
            ]},
        });
        let bill = bill(&metadata, "program").unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "program");
        let [linked] = bill["components"].as_array().unwrap().as_slice() else { panic!("{bill}") };
        assert_eq!(linked["purl"], "pkg:cargo/linked@1.0.0");
        assert_eq!(linked["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/linked@1.0.0"]));
    }
}
