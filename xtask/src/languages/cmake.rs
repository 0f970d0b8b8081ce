//! The package of CMake: laid out, and used as by a program with generated code.
//!
//! Invariants: what was started has ended when a function returns.
//! Not here: the package itself (`crates/nearcall-c/cmake`), the programs
//! (`crates/nearcall-c/tests/cmake`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use crate::child::{Child, succeed};

/// What generated code for C++ needs, with a command that succeeds where it is.
const NEEDED: [(&str, &[&str]); 3] = [
    ("protoc", &["protoc", "--version"]),
    ("libprotobuf-dev", &["pkg-config", "--exists", "protobuf"]),
    ("CMake", &["cmake", "--version"]),
];

/// What is installed to be read, below the directory of the crates.
const EXAMPLES: [&str; 4] = [
    "nearcall-examples/cpp/thermostat.cpp",
    "nearcall-examples/cpp/room.cpp",
    "nearcall-examples/proto/thermostat.proto",
    "nearcall-grpc-interop/languages/interop.cpp",
];

/// How long a program may take.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(120);
/// The version that the package says it has.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names what this machine lacks.
pub(super) fn missing() -> Option<&'static str> {
    let runs = |words: &[&str]| {
        let ended = Command::new(words[0]).args(&words[1..]).output();
        ended.is_ok_and(|ended| ended.status.success())
    };
    NEEDED.into_iter().find(|(_, words)| !runs(words)).map(|(name, _)| name)
}

/// Puts the package below `prefix`, where `find_package` finds it.
pub(super) fn lay_out(root: &Path, prefix: &Path) -> io::Result<()> {
    let (package, proto) =
        (prefix.join("lib/cmake/nearcall"), prefix.join("share/nearcall/proto/nearcall"));
    fs::create_dir_all(&package)?;
    fs::create_dir_all(&proto)?;
    let from = root.join("crates/nearcall-c/cmake");
    fs::copy(from.join("nearcall-config.cmake"), package.join("nearcall-config.cmake"))?;
    let text = fs::read_to_string(from.join("nearcall-config-version.cmake.in"))?;
    let text = text.replace("@VERSION@", VERSION);
    fs::write(package.join("nearcall-config-version.cmake"), text)?;
    let options = root.join("crates/nearcall-build/proto/nearcall/options.proto");
    fs::copy(options, proto.join("options.proto"))?;
    let examples = prefix.join("share/nearcall/examples");
    fs::create_dir_all(&examples)?;
    for file in EXAMPLES {
        let from = root.join("crates").join(file);
        fs::copy(&from, examples.join(from.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Builds programs with generated code by the package, and runs them.
pub(super) fn check(root: &Path, prefix: &Path, generator: &Path) -> io::Result<()> {
    let directory = prefix.join("cmake-build");
    build(&root.join("crates/nearcall-c/tests/cmake"), &directory, prefix, generator)?;
    let address = format!("unix:@nearcall-languages-{}", std::process::id());
    run(&directory.join("generated"), &[&address])?.map_err(io::Error::other)?;
    let thermostat = directory.join("thermostat");
    let server = Child::start(Command::new(&thermostat).args(["serve", &address]))?;
    server.wait_for_line("ready", RUN_LIMIT)?;
    let called = run(&thermostat, &["call", &address, "21.5"])?;
    let refused = run(&thermostat, &["call", &address, "31"])?;
    let is_expected = called.as_deref() == Ok("before: 20.0\n")
        && refused.as_ref().is_err_and(|text| text == "INVALID_ARGUMENT: 30 degrees at most");
    if !is_expected {
        return Err(io::Error::other(format!("the thermostat: {called:?}, {refused:?}")));
    }
    check_room(&directory, generator)
}

/// Runs one source as a program, and as a library of a host.
fn check_room(build: &Path, nearcall: &Path) -> io::Result<()> {
    let address = format!("unix:@nearcall-languages-room-{}", std::process::id());
    let mut program = Command::new(build.join("room"));
    let program = Child::start(program.arg("19").env("NEARCALL_LISTEN", &address))?;
    expect_before(build, &address, "19.0")?;
    drop(program);
    let services = build.join("room.toml");
    let library = build.join("libroom-library.so");
    let text = format!(
        "[host]\nlisten = \"{address}-host\"\n\n[service.room]\nrun = \"library\"\n\
         file = \"{}\"\nlisten = \"{address}\"\narguments = [\"21\"]\n",
        library.display()
    );
    fs::write(&services, text)?;
    let host = Child::start(Command::new(nearcall).arg("host").arg(&services))?;
    expect_before(build, &address, "21.0")?;
    drop(host);
    Ok(())
}

/// Sets the target of a room, once it serves.
fn expect_before(build: &Path, address: &str, before: &str) -> io::Result<()> {
    let called = run(&build.join("thermostat"), &["call", address, "22"])?;
    match called.as_deref() == Ok(&*format!("before: {before}\n")) {
        true => Ok(()),
        false => Err(io::Error::other(format!("the room: {called:?} instead of {before}"))),
    }
}

/// Builds a project by the package, in a directory that is made anew.
pub(super) fn build(
    project: &Path,
    directory: &Path,
    prefix: &Path,
    generator: &Path,
) -> io::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(project).arg("-B").arg(directory);
    // What is measured is optimised, and what is tested is what is measured.
    configure.arg("-DCMAKE_BUILD_TYPE=Release");
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    configure.arg(format!("-DNEARCALL_PROGRAM={}", generator.display()));
    succeed(configure.arg(format!("-DWANTED_VERSION={VERSION}")))?;
    succeed(Command::new("cmake").arg("--build").arg(directory).args(["--parallel", "2"]))?;
    Ok(())
}

fn run(program: &Path, arguments: &[&str]) -> io::Result<Result<String, String>> {
    Child::start(Command::new(program).args(arguments))?.finish(RUN_LIMIT)
}
