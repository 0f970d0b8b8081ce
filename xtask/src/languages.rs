//! `cargo xtask languages`: makes what programs in other languages are built with, and runs such.
//!
//! Below the target directory, in `languages`, is then what a package installs: the shared library
//! with its version, the static one, the headers, `nearcall.pc`, and the package of CMake.
//! Invariants: the library exports the functions of its header and nothing else.
//! Not here: what the programs do (`crates/nearcall-c/tests`), programs with generated code
//! (`languages/cmake.rs`), errors of memory (`languages/sanitize.rs`), how the package for Python
//! is built (`crates/nearcall-python/tests/run.py`), the suite of all languages
//! (`languages/suite.rs`).

mod cmake;
mod rivals;
mod sanitize;
mod suite;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use clap::Args;

use crate::child::{Child, succeed};
use crate::facts;

/// What `cargo xtask languages` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Options {
    /// Of the build of the tests, which is larger and slower, and made sooner
    #[arg(long)]
    dev: bool,
    /// Build the package for Python as well, in a virtual environment, and run its tests: minutes
    #[arg(long)]
    python: bool,
    /// Run the suite of all languages over every mechanism; with `--dev` alone it runs over shm
    #[arg(long)]
    all: bool,
    /// Measure calls in each language beside grpc++, grpcio and iceoryx2; run no case
    #[arg(long)]
    bench: bool,
    /// Call at random between all languages for so many seconds, and kill processes; run no case
    #[arg(long, value_name = "SECONDS", conflicts_with = "bench")]
    mix: Option<u64>,
    /// Run the programs in C and C++ also with AddressSanitizer and under Valgrind, where they are
    #[arg(long)]
    sanitize: bool,
}

/// The directories of the programs of the suite, and of what they serve.
const PROGRAMS: &str = "crates/nearcall-grpc-interop/languages";
const PROTOS: &str = "crates/nearcall-grpc-interop/proto";
/// The interfaces of the suite, and the messages that they share.
const FILES: [&str; 4] = [
    "conformance/v1/notes.proto",
    "grpc/testing/empty.proto",
    "grpc/testing/messages.proto",
    "grpc/testing/test.proto",
];
/// The name by which programs load the library: that of its binary interface.
pub(crate) const SONAME: &str = "libnearcall.so.0";
/// How long the package for Python may take to be built and tested.
const PYTHON_LIMIT: Duration = Duration::from_secs(2400);
/// A program that fails where the package for Python cannot be built.
const PYTHON_NEEDS: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))";

/// How programs of a language are compiled.
#[derive(Clone, Copy)]
struct Language {
    name: &'static str,
    compiler: &'static str,
    standard: &'static str,
    source: &'static str,
}

const C: Language =
    Language { name: "C", compiler: "cc", standard: "-std=c11", source: "tests/c/streams.c" };
const CPP: Language = Language {
    name: "C++",
    compiler: "c++",
    standard: "-std=c++17",
    source: "tests/cpp/streams.cpp",
};

/// What is installed beside the library.
const HEADERS: [&str; 7] = [
    "nearcall-c/include/nearcall.h",
    "nearcall-c/include/nearcall.hpp",
    "nearcall-c/include/nearcall_base.hpp",
    "nearcall-c/include/nearcall_server.hpp",
    "nearcall-c/include/nearcall_async.hpp",
    "nearcall-c/include/nearcall_library.hpp",
    "nearcall-os/include/nearcall_service.h",
];

/// Where a package is laid out before it is installed.
struct Layout {
    root: PathBuf,
    /// As `/usr` will be.
    prefix: PathBuf,
    archive: PathBuf,
    profile: &'static str,
}

/// Makes the libraries, and runs what is built with them.
///
/// # Errors
///
/// Something cannot be built, exports more than its header says, or does not run.
pub fn run(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<()> {
    let layout = Layout::make(root, options.dev)?;
    for language in [C, CPP] {
        for (name, flags) in [("shared", &[][..]), ("static", &["--static"][..])] {
            let program = layout.compile(language, name, flags)?;
            let what = format!("a program in {}, linked {name}", language.name);
            layout.misuse(&what, &mut Command::new(program), out)?;
        }
    }
    if options.sanitize {
        sanitize::run(&layout, out)?;
    }
    match cmake::missing() {
        Some(what) => writeln!(out, "generated C++: skipped, since there is no {what} here")?,
        None => {
            cmake::check(root, &layout.prefix, &layout.generator()?)?;
            writeln!(out, "generated C++, built by CMake: ok")?;
        }
    }
    for file in [SONAME, "libnearcall.a"] {
        let bytes = fs::metadata(layout.prefix.join("lib").join(file))?.len();
        writeln!(out, "{file}: {bytes} bytes")?;
    }
    let has_python = options.python && test_python(root, options, out)?;
    if options.dev || options.all || options.bench || options.mix.is_some() {
        suite::run(&layout, Options { python: has_python, ..options }, out)?;
    }
    Ok(())
}

/// Makes what is installed, of the build for users or of that of the tests. Returns the directory
/// that `/usr` stands for.
///
/// # Errors
///
/// Something cannot be built, or exports more than its header says.
pub(crate) fn lay_out(root: &Path, is_dev: bool) -> io::Result<PathBuf> {
    Layout::make(root, is_dev).map(|layout| layout.prefix)
}

/// Builds the package for Python and runs its tests, where that is possible; returns whether it is.
fn test_python(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<bool> {
    let mut ask = Command::new("python3");
    if !ask.args(["-c", PYTHON_NEEDS]).output().is_ok_and(|answer| answer.status.success()) {
        let why = "there is no python3 of version 3.9 or later with venv and pip";
        writeln!(out, "the package for Python: skipped, {why}")?;
        return Ok(false);
    }
    let mut tests = Command::new("python3");
    tests.current_dir(root).arg("crates/nearcall-python/tests/run.py");
    tests.args((!options.dev).then_some("--release"));
    let ended = Child::start(&mut tests)?.finish(PYTHON_LIMIT)?;
    ended.map_err(|why| io::Error::other(format!("the package for Python: {why}")))?;
    writeln!(out, "the package for Python: ok")?;
    Ok(true)
}

/// Returns the names of the functions that a header declares: `nearcall_x(` outside of comments.
fn functions(header: &str) -> BTreeSet<&str> {
    let lines = header.lines().map(str::trim_start).filter(|line| !line.starts_with(['*', '/']));
    let before = lines.filter_map(|line| line.split_once('('));
    let names = before.filter_map(|(before, _)| before.rsplit([' ', '*']).next());
    names.filter(|name| name.starts_with("nearcall_")).collect()
}

impl Layout {
    fn make(root: &Path, is_dev: bool) -> io::Result<Self> {
        let layout = Self::prepare(root, is_dev)?;
        layout.link()?;
        layout.check_symbols()?;
        layout.describe()?;
        cmake::lay_out(root, &layout.prefix)?;
        Ok(layout)
    }

    fn prepare(root: &Path, is_dev: bool) -> io::Result<Self> {
        let target = facts::target_directory(root);
        let target = env::current_dir()?.join(target);
        let (profile, directory) = if is_dev { ("dev", "debug") } else { ("release", "release") };
        let mut build = Command::new("cargo");
        build.current_dir(root).args(["rustc", "--quiet", "--package", "nearcall-c", "--lib"]);
        succeed(build.args(["--profile", profile, "--crate-type", "staticlib"]))?;
        let (root, prefix) = (root.to_owned(), target.join("languages"));
        for part in ["lib/pkgconfig", "include", "bin"] {
            fs::create_dir_all(prefix.join(part))?;
        }
        let archive = target.join(directory).join("libnearcall_c.a");
        Ok(Self { root, prefix, archive, profile })
    }

    /// Builds the program `nearcall`, which generates code.
    fn generator(&self) -> io::Result<PathBuf> {
        let mut build = Command::new("cargo");
        // Without `--package`, and with an example, for which dependencies of tests count: the
        // features of packages are those of `cargo test`, which has built it in the profile `dev`.
        build.current_dir(&self.root).args([
            "build",
            "--quiet",
            "--bin",
            "nearcall",
            "--bin",
            "nearcall-host",
        ]);
        build.args(["--example", "thermostat", "--example", "streams"]);
        succeed(build.args(["--profile", self.profile]))?;
        Ok(self.archive.with_file_name("nearcall"))
    }

    fn source(&self, file: &str) -> PathBuf {
        self.root.join("crates/nearcall-c").join(file)
    }

    /// Links the shared library of the static one: Cargo has no place for versions of symbols.
    fn link(&self) -> io::Result<()> {
        let library = self.prefix.join("lib");
        let mut link = Command::new("cc");
        link.args(["-shared", "-s", "-o"]).arg(library.join(SONAME));
        link.arg(format!("-Wl,-soname,{SONAME}"));
        link.arg(format!("-Wl,--version-script={}", self.source("nearcall.map").display()));
        link.args(["-Wl,--gc-sections", "-Wl,--whole-archive"]).arg(&self.archive);
        succeed(link.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lgcc_s"]))?;
        let short = library.join("libnearcall.so");
        let _ = fs::remove_file(&short);
        std::os::unix::fs::symlink(SONAME, short)?;
        fs::copy(&self.archive, library.join("libnearcall.a"))?;
        for header in HEADERS {
            let from = self.root.join("crates").join(header);
            let name = from.file_name().unwrap_or_default();
            fs::copy(&from, self.prefix.join("include").join(name))?;
        }
        Ok(())
    }

    /// The functions of the header, and no other symbols, are what the library exports.
    fn check_symbols(&self) -> io::Result<()> {
        let mut list = Command::new("nm");
        list.args(["--dynamic", "--defined-only", "--format=posix"]);
        let listed = list.arg(self.prefix.join("lib").join(SONAME)).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        let header = fs::read_to_string(self.source("include/nearcall.h"))?;
        let declared = functions(&header);
        let mut exported = BTreeSet::new();
        for line in listed.lines().filter(|line| !line.starts_with("NEARCALL_0")) {
            let (name, version) = line.split_once("@@").unwrap_or((line, ""));
            if !version.starts_with("NEARCALL_0 ") || !declared.contains(name) {
                let text = format!("{SONAME} exports `{line}`, which its header does not have");
                return Err(io::Error::other(text));
            }
            exported.insert(name);
        }
        match declared.difference(&exported).next() {
            None => Ok(()),
            Some(name) => {
                let text = format!("{SONAME} does not export `{name}`, which its header has");
                Err(io::Error::other(text))
            }
        }
    }

    /// Writes what `pkg-config` reads.
    fn describe(&self) -> io::Result<()> {
        let text = format!(
            "prefix=${{pcfiledir}}/../..\n\nName: nearcall\nDescription: calls between processes \
             at memory speed\nVersion: {}\nCflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib \
             -lnearcall\nLibs.private: -lpthread -ldl -lm -lgcc_s\n",
            env!("CARGO_PKG_VERSION")
        );
        fs::write(self.prefix.join("lib/pkgconfig/nearcall.pc"), text)
    }

    /// Compiles a program as its author would.
    /// Has a program do what none should.
    fn misuse(&self, what: &str, program: &mut Command, out: &mut dyn Write) -> io::Result<()> {
        program.arg("misuse").env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        let ended = Child::start(program)?.finish(cmake::RUN_LIMIT)?;
        ended.map_err(|why| io::Error::other(format!("{what}: {why}")))?;
        writeln!(out, "{what}: ok")
    }

    fn compile(&self, language: Language, name: &str, flags: &[&str]) -> io::Result<PathBuf> {
        let mut ask = Command::new("pkg-config");
        ask.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig"));
        let asked = ask.args(["--cflags", "--libs", "nearcall"]).args(flags).output()?;
        if !asked.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&asked.stderr).into_owned()));
        }
        let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
        let Language { compiler, standard, source, .. } = language;
        let program = self.prefix.join("bin").join(format!("streams-{compiler}-{name}"));
        let mut compile = Command::new(compiler);
        compile.args([standard, "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        compile.arg(self.source(source));
        let is_static = !flags.is_empty();
        compile.args(is_static.then_some("-Wl,-Bstatic"));
        for flag in answer.split_whitespace() {
            let is_last = is_static && flag == "-lnearcall";
            compile.arg(flag).args(is_last.then_some("-Wl,-Bdynamic"));
        }
        succeed(&mut compile)?;
        Ok(program)
    }
}
