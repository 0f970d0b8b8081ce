//! The program that `cargo xtask corpus` builds and runs: compiles interfaces with nearcall-build,
//! and asks protoc and prost about those that it refuses.
//!
//! Arguments: protoc, the directory for crates, the step between files, and a file with one package
//! a line: name, tab, directories of its files, tab, further include directories, each separated by
//! `:`. Prints a line for each package and each file that is refused.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, panic};

use nearcall_build::Builder;
use prost::Message;

/// What became of the files of one package.
#[derive(Default)]
struct Counts {
    files: usize,
    services: usize,
    methods: usize,
    lines: usize,
    time: Duration,
    /// Files that are refused, by kind.
    refused: BTreeMap<&'static str, usize>,
}

struct Setup {
    protoc: PathBuf,
    crates: PathBuf,
    step: usize,
}

fn main() -> io::Result<()> {
    // Panics of prost are an answer here.
    panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [protoc, crates, step, plan] = &arguments[..] else { panic!("four arguments") };
    let step = step.parse().unwrap_or(1);
    let setup = Setup { protoc: protoc.into(), crates: crates.into(), step };
    let mut total = Counts::default();
    for line in fs::read_to_string(plan)?.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let directories = |text: &str| -> Vec<PathBuf> {
            text.split(':').filter(|one| !one.is_empty()).map(PathBuf::from).collect()
        };
        let (own, others) = (directories(parts[1]), directories(parts[2]));
        let start = Instant::now();
        let mut counts = compile_package(&setup, parts[0], &own, &others)?;
        counts.time = start.elapsed();
        report(parts[0], &counts);
        total.files += counts.files;
        total.services += counts.services;
        total.methods += counts.methods;
        total.lines += counts.lines;
        total.time += counts.time;
        for (kind, number) in counts.refused {
            *total.refused.entry(kind).or_default() += number;
        }
    }
    report("all", &total);
    Ok(())
}

fn report(name: &str, counts: &Counts) {
    let Counts { files, services, methods, lines, time, refused } = counts;
    let seconds = time.as_secs_f32();
    let _ = writeln!(
        io::stdout(),
        "{name}: {files} files, {services} services, {methods} methods, {lines} lines, \
         {seconds:.1} s; {refused:?}"
    );
}

/// Compiles each file of a package alone, and then all that pass into as few crates as possible.
fn compile_package(
    setup: &Setup,
    name: &str,
    own: &[PathBuf],
    others: &[PathBuf],
) -> io::Result<Counts> {
    let includes = [own, others].concat();
    let mut all = Vec::new();
    own.iter().for_each(|directory| list_files(directory, &mut all));
    all.sort();
    all.dedup();
    let has_service =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| has_service(&text));
    let with_services: Vec<PathBuf> =
        all.iter().filter(|path| has_service(path)).cloned().collect();
    // A package without services is compiled for its messages.
    let files = if with_services.is_empty() { all } else { with_services };
    let out = setup.crates.join("alone");
    let mut counts = Counts::default();
    let mut passed = Vec::new();
    for file in files.into_iter().step_by(setup.step) {
        counts.files += 1;
        match build(&[file.clone()], &includes, &out) {
            Ok(()) => passed.push(file),
            Err(text) => {
                let kind = judge(setup, &file, &includes, &text);
                *counts.refused.entry(kind).or_default() += 1;
                let _ = writeln!(io::stdout(), "{kind}: {}: {text}", file.display());
            }
        }
    }
    let mut groups = Vec::new();
    group(passed, &includes, &out, &mut groups);
    for (index, files) in groups.iter().enumerate() {
        write_crate(setup, &format!("{name}-{index}"), files, &includes, &mut counts)?;
    }
    let _ = fs::remove_dir_all(out);
    Ok(counts)
}

fn list_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "proto") {
            files.push(path);
        }
    }
}

fn has_service(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("service "))
}

fn build(files: &[PathBuf], includes: &[PathBuf], out: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(out);
    let builder = files.iter().fold(Builder::new(), Builder::file);
    let builder = includes.iter().fold(builder, Builder::include);
    let builder = builder.include_file("interfaces.rs").out_dir(out);
    let written = panic::catch_unwind(|| builder.write());
    let written = written.map_err(|_| "PANIC".to_owned())?;
    written.map(|_| ()).map_err(|error| error.to_string())
}

/// Splits files into groups that can be compiled together: two versions of one interface cannot,
/// and a crate of all files would be too large.
fn group(files: Vec<PathBuf>, includes: &[PathBuf], out: &Path, groups: &mut Vec<Vec<PathBuf>>) {
    if files.is_empty() {
        return;
    }
    let fits = files.len() <= FILES_PER_CRATE;
    if files.len() == 1 || (fits && build(&files, includes, out).is_ok()) {
        return groups.push(files);
    }
    let mut first = files;
    let second = first.split_off(first.len() / 2);
    group(first, includes, out, groups);
    group(second, includes, out, groups);
}

/// Determines the kind of a refusal: whether protoc and prost accept the file.
fn judge(setup: &Setup, file: &Path, includes: &[PathBuf], text: &str) -> &'static str {
    let set = setup.crates.join("set.bin");
    let mut protoc = Command::new(&setup.protoc);
    for include in includes {
        protoc.arg("-I").arg(include);
    }
    protoc.arg("--include_imports").arg("-o").arg(&set).arg(file);
    if !protoc.output().is_ok_and(|output| output.status.success()) {
        return "refused by protoc";
    }
    let set = fs::read(&set).unwrap_or_default();
    let prost = panic::catch_unwind(|| {
        let set = prost_types::FileDescriptorSet::decode(set.as_slice()).ok()?;
        let requests = set.file.into_iter();
        let requests = requests
            .map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file));
        prost_build::Config::new().generate(requests.collect()).ok()
    });
    match prost {
        Ok(Some(_)) if text.contains("need the same Rust name") => CLASH,
        Ok(Some(_)) => FAILURE,
        _ => "refused by prost",
    }
}

/// Writes a crate that consists of the code for `files`.
fn write_crate(
    setup: &Setup,
    name: &str,
    files: &[PathBuf],
    includes: &[PathBuf],
    counts: &mut Counts,
) -> io::Result<()> {
    let directory = setup.crates.join(name);
    let source = directory.join("src");
    build(files, includes, &source).map_err(io::Error::other)?;
    for entry in fs::read_dir(&source)? {
        let text = fs::read_to_string(entry?.path())?;
        counts.lines += text.lines().count();
        counts.services += text.matches("_INTERFACE: ::nearcall::Interface").count();
        counts.methods += text.matches(": ::nearcall::Method = ").count();
    }
    fs::rename(source.join("interfaces.rs"), source.join("lib.rs"))?;
    let manifest = format!(
        "[package]\nname = {name:?}\nedition = \"2024\"\n\n[dependencies]\n\
         nearcall = {{ workspace = true }}\n"
    );
    fs::write(directory.join("Cargo.toml"), manifest)
}

/// The files of one crate: the largest package has six million lines of generated code.
const FILES_PER_CRATE: usize = 64;
/// A file that nearcall refuses and protoc and prost accept.
const FAILURE: &str = "FAILURE";
/// Two names that are one in Rust: prost generates them, and rustc would refuse them.
const CLASH: &str = "clash of names";
