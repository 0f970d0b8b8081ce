//! What the languages are measured beside: programs that call by gRPC and by iceoryx2.
//!
//! **Invariants:** a rival that cannot be built here is reported, and not left out in silence.
//! **Not here:** how is measured (`crates/nearcall-grpc-interop/src/languages/bench.rs`).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{FILES, Layout, PROGRAMS, PROTOS};
use crate::child::succeed;

/// Names the rivals that are here, each with its command.
pub(super) fn prepare(
    layout: &Layout,
    python: Option<&Path>,
    out: &mut dyn Write,
) -> io::Result<Vec<String>> {
    let mut rivals = Vec::new();
    match build_grpc(layout) {
        Ok(program) => rivals.push(format!("grpc++={}", program.display())),
        Err(why) => writeln!(out, "grpc++: skipped, {why}")?,
    }
    let programs = layout.root.join(PROGRAMS).join("rivals");
    for (name, module, file) in
        [("grpcio", "grpc", "grpcio_calls.py"), ("iceoryx2-py", "iceoryx2", "iceoryx2_calls.py")]
    {
        let has = |python: &Path| {
            let mut ask = Command::new(python);
            ask.args(["-c", &format!("import {module}")])
                .output()
                .is_ok_and(|it| it.status.success())
        };
        match python.filter(|python| has(python)) {
            // The suite has a package `grpc` of its own.
            Some(python) => rivals.push(format!(
                "{name}=env PYTHONPATH={} {} {}",
                layout.prefix.join("python/generated").display(),
                python.display(),
                programs.join(file).display()
            )),
            None => writeln!(out, "{name}: skipped, there is no such package for Python here")?,
        }
    }
    Ok(rivals)
}

/// Builds the program of grpc++.
fn build_grpc(layout: &Layout) -> io::Result<PathBuf> {
    let build = layout.prefix.join("rivals");
    fs::create_dir_all(&build)?;
    let flags =
        succeed(Command::new("pkg-config").args(["--cflags", "--libs", "grpc++", "protobuf"]))?;
    let plugin = succeed(Command::new("which").arg("grpc_cpp_plugin"))?;
    let protos = layout.root.join(PROTOS);
    let files = FILES.into_iter().filter(|file| file.starts_with("grpc/"));
    let mut protoc = Command::new("protoc");
    protoc.arg(format!("-I{}", protos.display())).arg(format!("--cpp_out={}", build.display()));
    protoc.arg(format!("--grpc_out={}", build.display()));
    protoc.arg(format!("--plugin=protoc-gen-grpc={}", plugin.trim())).args(files);
    succeed(&mut protoc)?;
    let program = build.join("grpc-calls");
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-O2", "-I"]).arg(&build).arg("-o").arg(&program);
    compile.arg(layout.root.join(PROGRAMS).join("rivals/grpc_calls.cpp"));
    for name in ["test.pb", "test.grpc.pb", "messages.pb", "empty.pb"] {
        compile.arg(build.join(format!("grpc/testing/{name}.cc")));
    }
    succeed(compile.args(flags.split_whitespace()))?;
    Ok(program)
}
