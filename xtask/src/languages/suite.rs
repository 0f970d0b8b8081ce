//! The suite of all languages: its programs are built as their authors would, and run against each
//! other.
//!
//! **Invariants:** a language that cannot be built here is reported, and not left out in silence.
//! **Not here:** the cases and the cells (`crates/nearcall-grpc-interop`).

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{FILES, Layout, Options, PROGRAMS, PROTOS, cmake, rivals};
use crate::child::{Child, succeed};

/// How long the suite may take.
const LIMIT: Duration = Duration::from_secs(1200);
/// Builds the programs and runs the suite; prints a cell for each pair and mechanism.
///
/// # Errors
///
/// A program cannot be built, or a case has failed.
pub(super) fn run(layout: &Layout, options: Options, out: &mut dyn Write) -> io::Result<()> {
    let mut build = Command::new("cargo");
    build.current_dir(&layout.root).args(["build", "--quiet", "--package"]);
    succeed(build.args(["nearcall-grpc-interop", "--profile", layout.profile]))?;
    let mut suite = Command::new(layout.archive.with_file_name("interop"));
    suite.arg("languages").env("LD_LIBRARY_PATH", layout.prefix.join("lib"));
    match cmake::missing() {
        Some(what) => writeln!(out, "C and C++ in the suite: skipped, there is no {what} here")?,
        None => {
            let [c, cpp] = build_c(layout)?;
            suite.arg("--program").arg(format!("C={}", c.display()));
            suite.arg("--program").arg(format!("C++={}", cpp.display()));
        }
    }
    let mut interpreter = None;
    if options.python {
        let (python, generated) = prepare_python(layout)?;
        let program = layout.root.join(PROGRAMS).join("interop.py");
        let command = format!("Python={} {}", python.display(), program.display());
        suite.arg("--program").arg(command);
        // Behind, what the tests of the package have generated, for grpcio.
        suite.env("PYTHONPATH", generated);
        interpreter = Some(python);
    }
    if options.bench {
        suite.arg("--bench");
        for rival in rivals::prepare(layout, interpreter.as_deref(), out)? {
            suite.arg("--rival").arg(rival);
        }
    } else if let Some(seconds) = options.mix {
        suite.args(["--mix", &seconds.to_string()]);
    } else if !options.all {
        suite.args(["--mechanism", "shm"]);
    }
    let suite = Child::start(&mut suite)?;
    while let Ok(line) = suite.wait_line(LIMIT) {
        writeln!(out, "{line}")?;
    }
    let ended = suite.finish(LIMIT)?;
    ended.map(drop).map_err(|why| io::Error::other(format!("the suite of all languages: {why}")))
}

/// Builds the programs in C and C++.
fn build_c(layout: &Layout) -> io::Result<[PathBuf; 2]> {
    let build = layout.prefix.join("cmake-suite");
    cmake::build(&layout.root.join(PROGRAMS), &build, &layout.prefix, &layout.generator()?)?;
    Ok(["interop-c", "interop-cpp"].map(|name| build.join(name)))
}

/// Generates what the program in Python imports; returns the interpreter and where that is.
fn prepare_python(layout: &Layout) -> io::Result<(PathBuf, PathBuf)> {
    let work = layout.prefix.join("python");
    // As `tests/run.py` of the package has made it.
    let python = work.join("venv/bin/python");
    let generated = work.join("suite");
    let protos = layout.root.join(PROTOS);
    // A package `grpc` of its own, since that of grpcio would hide the generated one.
    for package in ["grpc", "grpc/testing", "conformance", "conformance/v1"] {
        fs::create_dir_all(generated.join(package))?;
        fs::write(generated.join(package).join("__init__.py"), "")?;
    }
    let mut protoc = Command::new(&python);
    protoc.args(["-m", "grpc_tools.protoc"]).arg(format!("-I{}", protos.display()));
    protoc.arg(format!("-I{}", layout.root.join("crates/nearcall-build/proto").display()));
    succeed(protoc.arg(format!("--python_out={}", generated.display())).args(FILES))?;
    for file in ["conformance/v1/notes.proto", "grpc/testing/test.proto"] {
        let mut generate = Command::new(layout.generator()?);
        generate.args(["gen", "--lang", "python"]).arg(protos.join(file));
        generate.arg("--include").arg(&protos).arg("--out-dir").arg(&generated);
        succeed(&mut generate)?;
    }
    Ok((python, generated))
}
