//! `cargo xtask corpus`: generates and checks code for interfaces that others have published.
//!
//! Packages of registries that ship `.proto` files are downloaded by `cargo`, `go`, `npm` and
//! `pip`, compiled by `corpus/src/main.rs`, and the generated code is checked by `cargo check`. A
//! file fails if nearcall refuses it and protoc and prost accept it, or if its code does not
//! compile.
//!
//! Invariants: every version is pinned in [`PACKAGES`]; all that is written lies in the target
//! directory, apart from the caches of the package managers.
//! Not here: part of CI, since it downloads some hundred megabytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs, io};

use serde_json::Value;

use crate::{facts, step};

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    Cargo,
    Go,
    Npm,
    Pip,
}

/// A package: registry, name, version, and the include directories within it, separated by `:`.
type Package = (Registry, &'static str, &'static str, &'static str);

/// The compiler of protobuf itself, with the files that belong to it.
const PROTOC: Package = (Registry::Cargo, "protoc-bin-vendored-linux-x86_64", "3.3.0", "include");
/// What many interfaces import: `google/api`, `google/rpc`, `google/type`.
const COMMON: Package = (Registry::Pip, "googleapis-common-protos", "1.70.0", "");

/// The packages whose interfaces are compiled.
const PACKAGES: &[Package] = &[
    PROTOC,
    COMMON,
    (Registry::Cargo, "containerd-client", "0.9.0", "vendor"),
    (
        Registry::Cargo,
        "envoy-types",
        "0.7.7",
        "proto/data-plane-api:proto/xds:proto/protoc-gen-validate:proto/googleapis:\
         proto/opencensus-proto/src:proto/opentelemetry-proto:proto/client_model:proto/cel-spec/proto:\
         proto/ratelimit/api",
    ),
    (Registry::Cargo, "etcd-client", "0.21.1", "proto"),
    (Registry::Cargo, "fedimint-tonic-lnd", "0.4.0", "vendor"),
    (Registry::Cargo, "k8s-cri", "0.11.0", "proto"),
    (Registry::Cargo, "milvus-sdk-rust", "3.0.3", "milvus-proto/proto"),
    (Registry::Cargo, "opentelemetry-proto", "0.33.1", "src/proto/opentelemetry-proto"),
    (Registry::Cargo, "qdrant-client", "1.20.0", "proto"),
    (Registry::Cargo, "spiffe", "0.19.0", "src/proto"),
    (Registry::Cargo, "sui-rpc", "0.4.0", "proto:vendored/proto"),
    (
        Registry::Cargo,
        "temporal-sdk-core-protos",
        "0.1.0",
        "protos/api_upstream:protos/testsrv_upstream:protos/local:protos/grpc",
    ),
    (Registry::Cargo, "tikv-client", "0.4.0", "proto:proto/include"),
    (Registry::Cargo, "tonic-health", "0.14.9", "proto"),
    (Registry::Cargo, "tonic-reflection", "0.14.9", "proto"),
    (Registry::Cargo, "yellowstone-grpc-proto", "14.0.1", "proto"),
    (Registry::Go, "github.com/container-storage-interface/spec", "v1.13.0", ""),
    (Registry::Go, "github.com/grpc-ecosystem/grpc-gateway/v2", "v2.33.0", ""),
    (Registry::Go, "github.com/lightningnetwork/lnd", "v0.18.5-beta", "lnrpc"),
    (Registry::Go, "google.golang.org/protobuf", "v1.36.12", ""),
    (Registry::Go, "k8s.io/cri-api", "v0.37.2", ""),
    (Registry::Npm, "google-proto-files", "5.0.3", "package"),
];

/// Downloads, compiles and checks the packages, or the one of the name `only`: of each package
/// every file whose number is a multiple of `every`. Returns the failures.
///
/// # Errors
///
/// A package manager cannot be run or cannot download a package, or the driver cannot be built.
pub fn run(root: &Path, only: Option<&str>, every: u32) -> io::Result<Vec<String>> {
    let chosen: Vec<&Package> =
        PACKAGES.iter().filter(|package| only.is_none_or(|name| name == package.1)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = PACKAGES.iter().map(|package| package.1).collect();
        return Err(io::Error::other(format!("no such package; there are: {}", names.join(", "))));
    }
    let target = facts::target_directory(root);
    let corpus = target.join("corpus");
    let crates = corpus.join("crates");
    let _ = fs::remove_dir_all(&crates);
    fs::create_dir_all(&crates)?;
    let protoc = fetch(&PROTOC, &corpus)?;
    let shared = [fetch(&COMMON, &corpus)?, protoc.join("include")];
    let mut plan = String::new();
    for package in chosen {
        let directory = fetch(package, &corpus)?;
        let own = package.3.split(':').map(|part| directory.join(part));
        let own: Vec<PathBuf> = own.filter(|path| path.is_dir()).collect();
        let name = package.1.replace(['/', '.'], "-");
        plan.push_str(&format!("{name}\t{}\t{}\n", join(&own), join(&shared)));
    }
    fs::write(corpus.join("plan"), plan)?;
    let mut failures = drive(root, &target, &protoc.join("bin/protoc"), every)?;
    failures.extend(check(root, &target, &crates)?);
    Ok(failures)
}

fn join(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(":")
}

/// Downloads a package unless it is there, and returns its directory.
fn fetch(package: &Package, corpus: &Path) -> io::Result<PathBuf> {
    let (registry, name, version, _) = *package;
    let directory = corpus.join("packages").join(format!("{}-{version}", name.replace('/', "-")));
    let (path, exists) = (directory.display().to_string(), directory.is_dir());
    let pinned = |separator: &str| format!("{name}{separator}{version}");
    match registry {
        Registry::Cargo => {
            run_tool(corpus, "cargo", &["info", "--quiet", &pinned("@")])?;
            find_crate(&format!("{name}-{version}"))
        }
        Registry::Go => {
            let output = run_tool(corpus, "go", &["mod", "download", "-json", &pinned("@")])?;
            let answer: Value = serde_json::from_slice(&output.stdout)?;
            let found = answer["Dir"].as_str().map(PathBuf::from);
            found.ok_or_else(|| io::Error::other(format!("go names no directory for {name}")))
        }
        Registry::Npm | Registry::Pip if exists => Ok(directory),
        Registry::Npm => {
            let part = corpus.join("part");
            let archive = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.path());
            let _ = fs::remove_dir_all(&part);
            fs::create_dir_all(&part)?;
            let target = part.display().to_string();
            run_tool(
                corpus,
                "npm",
                &["pack", "--silent", "--pack-destination", &target, &pinned("@")],
            )?;
            let archive = fs::read_dir(&part)?.map(archive).next();
            let archive = archive.ok_or_else(|| io::Error::other("npm wrote no archive"))??;
            fs::create_dir_all(&directory)?;
            run_tool(corpus, "tar", &["xzf", &archive.display().to_string(), "-C", &path])?;
            Ok(directory)
        }
        Registry::Pip => {
            let words = ["install", "--quiet", "--no-deps", "--target", &path, &pinned("==")];
            run_tool(corpus, "pip", &words)?;
            Ok(directory)
        }
    }
}

/// Runs a tool that may use the network; a failure names the command and its last words.
fn run_tool(directory: &Path, program: &str, words: &[&str]) -> io::Result<Output> {
    let named = |text: &str| io::Error::other(format!("{program} {}: {text}", words.join(" ")));
    let output = Command::new(program).current_dir(directory).args(words).output();
    let output = output.map_err(|error| named(&format!("cannot start: {error}; install it")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        let line = text.trim().lines().last().unwrap_or("no message").to_owned();
        return Err(named(&format!("fails: {line}; is the registry reachable?")));
    }
    Ok(output)
}

/// Finds the sources of a crate where Cargo unpacks them.
fn find_crate(name: &str) -> io::Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let sources = home.unwrap_or_default().join("registry/src");
    let registries = fs::read_dir(&sources)?.filter_map(Result::ok);
    let mut found = registries.map(|one| one.path().join(name)).filter(|path| path.is_dir());
    let missing = || io::Error::other(format!("cargo has no {name} in {}", sources.display()));
    found.next().ok_or_else(missing)
}

/// Builds and runs the driver. Returns the failures.
fn drive(root: &Path, target: &Path, protoc: &Path, every: u32) -> io::Result<Vec<String>> {
    let corpus = target.join("corpus");
    let driver = corpus.join("driver");
    fs::create_dir_all(&driver)?;
    fs::write(driver.join("main.rs"), include_str!("../corpus/src/main.rs"))?;
    fs::copy(root.join("Cargo.lock"), driver.join("Cargo.lock"))?;
    let path = root.join("crates/nearcall-build").display().to_string();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"corpus-driver\"\nedition = \"2024\"\n\
         [[bin]]\nname = \"corpus-driver\"\npath = \"main.rs\"\n[dependencies]\n\
         nearcall-build.path = {path:?}\nprost = \"0.14\"\nprost-types = \"0.14\"\n\
         prost-build = {{ version = \"0.14\", default-features = false }}\n"
    );
    fs::write(driver.join("Cargo.toml"), manifest)?;
    let directory = target.display().to_string();
    run_tool(&driver, "cargo", &["build", "--quiet", "--release", "--target-dir", &directory])?;
    let mut program = Command::new(target.join("release/corpus-driver"));
    program.arg(protoc).arg(corpus.join("crates")).arg(every.to_string()).arg(corpus.join("plan"));
    let mut child = program.stdout(Stdio::piped()).spawn()?;
    let failures = print(child.stdout.take(), |line| line.starts_with("FAILURE: "))?;
    match child.wait()?.success() {
        true => Ok(failures),
        false => Err(io::Error::other("the driver fails")),
    }
}

/// Checks the generated crates, as one workspace. Returns their errors.
fn check(root: &Path, target: &Path, crates: &Path) -> io::Result<Vec<String>> {
    let path = root.join("crates/nearcall").display().to_string();
    let manifest = format!(
        "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n[workspace.dependencies]\n\
         nearcall.path = {path:?}\n"
    );
    fs::write(crates.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), crates.join("Cargo.lock"))?;
    let start = step::now();
    let mut cargo = Command::new("cargo");
    cargo.current_dir(crates).args(["check", "--keep-going", "--message-format", "short"]);
    cargo.arg("--quiet").arg("--target-dir").arg(target);
    let mut child = cargo.stderr(Stdio::piped()).spawn()?;
    let is_error = |line: &str| line.starts_with("error") || line.contains(": error");
    let mut failures = print(child.stderr.take(), is_error)?;
    if !child.wait()?.success() && failures.is_empty() {
        failures.push("cargo check of the generated crates fails".to_owned());
    }
    let seconds = start.elapsed().as_secs_f32();
    let _ = writeln!(io::stdout(), "check of the generated code: {seconds:.1} s");
    Ok(failures)
}

/// Prints each line of a report as it comes, and returns those that are failures.
fn print(report: Option<impl Read>, is_failure: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut failures = Vec::new();
    for line in report.into_iter().flat_map(|report| BufReader::new(report).lines()) {
        let line = line?;
        // A reader that has seen enough closes the pipe.
        let _ = writeln!(io::stdout(), "{line}");
        if is_failure(&line) {
            failures.push(line);
        }
    }
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_pinned_and_listed_once() {
        let mut names: Vec<&str> = PACKAGES.iter().map(|package| package.1).collect();
        assert!(PACKAGES.iter().all(|(_, _, version, _)| version.contains(char::is_numeric)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len());
    }

    #[test]
    fn a_tool_that_fails_is_named_with_its_last_words() {
        let error = run_tool(Path::new("."), "sh", &["-c", "echo offline >&2; exit 1"]);
        let text = error.unwrap_err().to_string();
        assert!(text.ends_with("fails: offline; is the registry reachable?"), "{text}");
        let text = run_tool(Path::new("."), "no-such-tool", &[]).unwrap_err().to_string();
        assert!(text.contains("no-such-tool : cannot start: "), "{text}");
    }
}
