#!/usr/bin/env python3
"""Builds the Python package into a virtual environment below the target directory, generates the
code of the tests, and runs them: `tests/run.py [--release] [TEST...]`. The wheel of a release has
the program `nearcall` as well.

`cargo xtask languages` runs it. It needs python3 with venv, and a network or a cache of pip the
first time."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent
CRATE = TESTS.parent
ROOT = CRATE.parent.parent
TOOLS = ["maturin>=1.7,<2", "protobuf", "grpcio-tools", "numpy", "wheel"]
PROTOS = [
    ("crates/nearcall-examples/proto", "thermostat.proto"),
    ("crates/nearcall-examples/proto", "house.proto"),
    ("crates/nearcall-testkit/proto", "streams.proto"),
    ("crates/nearcall-python/examples", "images.proto"),
]


def run(*command, **options):
    """Runs a command, and ends if it fails."""
    command = list(map(str, command))
    code = subprocess.run(command, cwd=ROOT, **options).returncode
    if code != 0:
        sys.exit(f"this has ended with {code}: {' '.join(command)}")


def prepare(work):
    """Makes the virtual environment, and returns its interpreter."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", work / "venv")
    have = subprocess.run([python, "-c", "import grpc_tools, maturin, numpy, wheel"], capture_output=True)
    if have.returncode != 0:
        run(python, "-m", "pip", "install", "--quiet", *TOOLS)
    return python


def add_program(python, wheel, program):
    """Puts the program into a wheel, for the directory of programs of whoever installs it."""
    with tempfile.TemporaryDirectory() as directory:
        run(python, "-m", "wheel", "unpack", wheel, "--dest", directory)
        unpacked = next(pathlib.Path(directory).iterdir())
        scripts = unpacked / f"{unpacked.name}.data" / "scripts"
        scripts.mkdir(parents=True)
        shutil.copy(program, scripts)
        wheel.unlink()
        run(python, "-m", "wheel", "pack", unpacked, "--dest-dir", wheel.parent)


def build(python, work, target, profile, program):
    """Builds the package, with the program if there is one, and installs it."""
    wheels = work / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    maturin = [python, "-m", "maturin", "build", "--quiet", "--profile", profile]
    maturin += ["--manifest-path", CRATE / "Cargo.toml", "--interpreter", python, "--out", wheels]
    run(*maturin, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    wheel = next(wheels.glob("*.whl"))
    if program is not None:
        add_program(python, wheel, program)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    if program is not None:
        run(python, "-m", "nearcall", "--version", env={**os.environ, "PATH": "/nowhere"})


def generate(python, work, nearcall):
    """Generates what the tests import."""
    generated = work / "generated"
    shutil.rmtree(generated, ignore_errors=True)
    generated.mkdir()
    options = ROOT / "crates/nearcall-build/proto"
    for include, name in PROTOS:
        protoc = [python, "-m", "grpc_tools.protoc", f"-I{options}", f"-I{ROOT / include}"]
        run(*protoc, f"--python_out={generated}", f"--grpc_python_out={generated}", name)
        proto = ROOT / include / name
        run(nearcall, "gen", "--lang", "python", proto, "--out-dir", generated)
    return generated


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="store_true", help="optimised, as it is shipped")
    parser.add_argument("--bench", action="store_true", help="measures, beside grpcio")
    parser.add_argument("tests", nargs="*", help="such as test_aio.Aio; all if there are none")
    options = parser.parse_args()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    work = target / "languages" / "python"
    work.mkdir(parents=True, exist_ok=True)
    profile, directory = ("release", "release") if options.release else ("dev", "debug")
    python = prepare(work)
    # Without `--package`, and with examples, for which dependencies of tests count: the features of
    # packages are those of `cargo test`, which has built them.
    cargo = ["cargo", "build", "--quiet", "--profile", profile, "--bin", "nearcall"]
    run(*cargo, "--example", "thermostat", "--example", "streams")
    program = target / directory / "nearcall"
    # That of a build for tests is ten times as large, and is compressed for longer than it runs.
    build(python, work, target, profile, program if options.release else None)
    generated = generate(python, work, program)
    environment = {
        **os.environ,
        "NEARCALL_EXAMPLES": str(target / directory / "examples"),
        "NEARCALL_PROGRAM": str(program),
        "PYTHONPATH": str(generated),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if options.bench:
        run(python, TESTS / "bench.py", env=environment)
        return
    unittest = [python, "-W", "error::ResourceWarning", "-m", "unittest"]
    if options.tests:
        run(*unittest, *options.tests, env={**environment, "PYTHONPATH": f"{generated}:{TESTS}"})
    else:
        run(*unittest, "discover", "--start-directory", TESTS, env=environment)


if __name__ == "__main__":
    main()
