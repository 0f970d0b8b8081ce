//! The programs in C and C++ with AddressSanitizer and under Valgrind.
//!
//! Invariants: a tool that is not there is named, and its runs are left out.
//! Not here: the same programs without (`languages.rs`).

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use super::{C, CPP, Language, Layout};
use crate::child::succeed;

/// What makes a program report errors of memory, and end by them.
const SANITIZE: [&str; 3] =
    ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"];
/// Ends with this code where it has found something.
const VALGRIND: [&str; 4] =
    ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];

/// Runs what needs no second program.
pub(super) fn run(layout: &Layout, out: &mut dyn Write) -> io::Result<()> {
    for language in [C, CPP] {
        let name = format!("{} with AddressSanitizer", language.name);
        match compile(layout, language)? {
            None => writeln!(out, "{name}: skipped, the compiler has none here")?,
            Some(program) => layout.misuse(&name, &mut Command::new(program), out)?,
        }
    }
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|it| it.status.success()) {
        return writeln!(out, "Valgrind: skipped, it is not installed");
    }
    for language in [C, CPP] {
        let name = format!("{} under Valgrind", language.name);
        let program = format!("bin/streams-{}-shared", language.compiler);
        let mut valgrind = Command::new("valgrind");
        valgrind.args(VALGRIND).arg(layout.prefix.join(program));
        layout.misuse(&name, &mut valgrind, out)?;
    }
    Ok(())
}

/// Compiles a program; `None` where an empty one cannot be.
fn compile(layout: &Layout, language: Language) -> io::Result<Option<std::path::PathBuf>> {
    let bin = layout.prefix.join("bin");
    let empty = bin.join(format!("empty.{}", if language.name == C.name { "c" } else { "cpp" }));
    fs::write(&empty, "int main(void) { return 0; }\n")?;
    let command = |source: &Path, name: &str| {
        let mut compile = Command::new(language.compiler);
        compile.arg(language.standard).args(SANITIZE).arg("-pthread").arg(source);
        compile.arg("-o").arg(bin.join(format!("{name}-{}", language.compiler)));
        compile
    };
    if !command(&empty, "empty").output().is_ok_and(|it| it.status.success()) {
        return Ok(None);
    }
    let name = "streams-sanitized";
    let mut compile = command(&layout.source(language.source), name);
    compile.arg("-I").arg(layout.prefix.join("include"));
    succeed(compile.arg("-L").arg(layout.prefix.join("lib")).args(["-lnearcall", "-ldl"]))?;
    Ok(Some(bin.join(format!("{name}-{}", language.compiler))))
}
