//! The wheel: the package for Python, with the program `nearcall` in it.
//!
//! **Not here:** how it is built and tested (`crates/nearcall-python/tests/run.py`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::{Made, Places};
use crate::child::succeed;

/// The tests that run with the installed wheel: the examples, thermostat among them.
const TESTS: &str = "test_examples";

/// Builds the wheel, installs it into an environment of its own and tries it there.
pub(super) fn make(places: &Places) -> io::Result<Vec<Made>> {
    let mut tests = Command::new("python3");
    tests.current_dir(&places.root).arg("crates/nearcall-python/tests/run.py");
    succeed(tests.args((!places.dev).then_some("--release")).arg(TESTS))?;
    let built = built(places)?;
    let file = places.out.join(built.file_name().unwrap_or_default());
    fs::copy(&built, &file)?;
    let (file, tried) = match check(places, &file) {
        Ok((file, tried)) => (file, Ok(tried)),
        Err(error) => (file, Err(error.to_string())),
    };
    Ok(vec![Made { file, tried }])
}

/// Checks what the index of Python demands, and names the wheel by the systems that it fits: its
/// module alone may fit older ones than the program that was added to it. Returns the file.
fn check(places: &Places, file: &Path) -> io::Result<(PathBuf, String)> {
    let python = places.target.join("languages/python/venv/bin/python");
    let run = |words: &[&str]| succeed(Command::new(&python).arg("-m").args(words).arg(file));
    let tools = ["-m", "pip", "install", "--quiet", "twine", "auditwheel", "wheel"];
    succeed(Command::new(&python).args(tools))?;
    run(&["twine", "check", "--strict"])?;
    let shown = run(&["auditwheel", "show"])?.replace('\n', " ");
    let start = "following platform tag: \"";
    let tag = shown.split_once(start).and_then(|(_, rest)| rest.split_once('"'));
    let (tag, _) = tag.ok_or_else(|| io::Error::other(format!("no tag: {shown}")))?;
    let named = run(&["wheel", "tags", "--remove", "--platform-tag", tag])?;
    let name = named.lines().last().unwrap_or_default().trim();
    let tried = format!("installed, its examples run; twine: ok; fits {tag}");
    Ok((file.with_file_name(name), tried))
}

/// Returns the wheel that the tests have built last.
fn built(places: &Places) -> io::Result<PathBuf> {
    let directory = places.target.join("languages/python/wheels");
    let found = fs::read_dir(&directory)?.flatten().map(|entry| entry.path());
    let mut wheels = found.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    let none = || io::Error::other(format!("no wheel in {}", directory.display()));
    wheels.next().ok_or_else(none)
}

/// Unpacks the wheel into a directory of modules, without the program.
pub(super) fn unpack(places: &Places, modules: &Path) -> io::Result<()> {
    fs::create_dir_all(modules)?;
    let mut unpack = Command::new("python3");
    let wheel = built(places).map_err(|error| {
        io::Error::other(format!("{error}: make it by `cargo xtask package --only wheel`"))
    })?;
    succeed(unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(modules))?;
    for entry in fs::read_dir(modules)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".data") {
            // The program is in a package of its own.
            fs::remove_dir_all(entry.path())?;
        } else if name.ends_with(".dist-info") {
            // Its sums would be those of all files; dpkg has them.
            fs::remove_file(entry.path().join("RECORD"))?;
        }
    }
    Ok(())
}
