//! The packages of Debian: a directory with a control file each, made into a package by `dpkg-deb`.
//!
//! What a package needs of other packages, `dpkg-shlibdeps` finds in its programs. No script of a
//! package touches what runs: dpkg renames new files over old ones, and processes keep theirs.
//! **Not here:** what is in the programs and libraries (`program.rs`, `languages.rs`, `wheel.rs`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::program::{GNU, Programs};
use super::{Made, Places, VERSION, bill, install, install_text, trial, wheel};
use crate::child::succeed;
use crate::languages::{self, SONAME};

/// Who answers for the packages. Whoever publishes them sets it.
const MAINTAINER: &str = "The developers of nearcall <nearcall@localhost>";
/// The revision of the packages of one version of the program.
const REVISION: u32 = 1;
/// The longest line of a control file that tools show without wrapping it.
const LINE_MAX: usize = 80;

/// What the control file of a package says.
struct Package {
    name: &'static str,
    section: &'static str,
    /// Beside what its programs are linked to; `=` stands for this version.
    depends: &'static [&'static str],
    recommends: &'static [&'static str],
    summary: &'static str,
    /// Lines of at most [`LINE_MAX`] bytes.
    description: &'static [&'static str],
    /// What dpkg runs: the name and the text.
    scripts: &'static [(&'static str, &'static str)],
}

/// The shared library: the name ends with the version of its binary interface.
const LIBRARY: Package = Package {
    name: "libnearcall0",
    section: "libs",
    depends: &[],
    recommends: &[],
    summary: "calls between processes at memory speed: shared library",
    description: &[
        "Clients and services in C and C++ call each other over shared memory, sockets",
        "and queues of one machine. This is the library that such programs load.",
    ],
    scripts: &[],
};

/// Compiles modules, as all of Debian's packages for Python do.
const COMPILE: &str = "#!/bin/sh\nset -e\nif command -v py3compile >/dev/null; then\n    \
    py3compile -p python3-nearcall\nfi\n";
/// Removes what was compiled, also what Python has compiled by itself.
const CLEAN: &str = "#!/bin/sh\nset -e\nif command -v py3clean >/dev/null; then\n    \
    py3clean -p python3-nearcall\nfi\n";

const PACKAGES: [Package; 4] = [
    Package {
        name: "nearcall",
        section: "net",
        depends: &[],
        recommends: &["man-db"],
        summary: "calls between processes at memory speed: programs",
        description: &[
            "nearcall measures what each way of Linux to pass a message costs on this",
            "machine and recommends one; it generates code for interfaces, lists and calls",
            "running servers. nearcall-host keeps a set of services running and restarts",
            "them without losing a call.",
        ],
        scripts: &[],
    },
    LIBRARY,
    Package {
        name: "libnearcall-dev",
        section: "libdevel",
        depends: &["libnearcall0 (=)"],
        recommends: &["nearcall (=)", "pkg-config", "libprotobuf-dev", "protobuf-compiler"],
        summary: "calls between processes at memory speed: for programs in C and C++",
        description: &[
            "Headers for C and C++, the static library, and what pkg-config and CMake read.",
            "nearcall and protoc generate code for interfaces in C++.",
        ],
        scripts: &[],
    },
    Package {
        name: "python3-nearcall",
        section: "python",
        depends: &["python3 (>= 3.9)", "python3-protobuf (>= 3.21)"],
        recommends: &["nearcall (=)"],
        summary: "calls between processes at memory speed: for Python",
        description: &[
            "Clients and services in Python, for threads and asyncio, in the shapes of gRPC.",
            "nearcall generates code for interfaces.",
        ],
        scripts: &[("postinst", COMPILE), ("prerm", CLEAN)],
    },
];

/// Checks the control files of all packages.
pub(super) fn check(places: &Places) -> io::Result<()> {
    let soname = SONAME.rsplit('.').next().unwrap_or_default();
    if LIBRARY.name != format!("libnearcall{soname}") {
        let text = format!("{} does not have the library {SONAME}", LIBRARY.name);
        return Err(io::Error::other(text));
    }
    for package in &PACKAGES {
        let control = package.control("amd64", &full_version(VERSION), "libc6 (>= 2.34)", 1);
        let problem = problem(&control, places);
        problem.map_err(|why| io::Error::other(format!("{}: {why}", package.name)))?;
    }
    Ok(())
}

/// Has Debian's own tool read a control file, where there is one, and checks its lines.
fn problem(control: &str, places: &Places) -> io::Result<()> {
    if let Some(line) = control.lines().find(|line| line.len() > LINE_MAX && line.starts_with(' '))
    {
        return Err(io::Error::other(format!("the line `{line}` is too long")));
    }
    let stage = places.stage("control")?;
    install_text(&stage, control, "DEBIAN/control")?;
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return Ok(());
    }
    // It refuses directories that others than the owner may not read, as some masks make them.
    succeed(Command::new("chmod").args(["-R", "u=rwX,go=rX,g-s"]).arg(&stage))?;
    let package = stage.with_extension("deb");
    succeed(Command::new("dpkg-deb").args(["-Znone", "--build"]).args([&stage, &package]))?;
    succeed(Command::new("dpkg-deb").arg("--info").arg(package)).map(drop)
}

/// Makes the packages, and older ones of the same; installs, upgrades and removes them.
pub(super) fn make(places: &Places) -> io::Result<Vec<Made>> {
    let programs = Programs::build(places, GNU)?;
    let stages = PACKAGES
        .iter()
        .map(|package| {
            let stage = places.stage(package.name)?;
            lay_out(places, package, &programs, &stage)?;
            Ok((package, stage))
        })
        .collect::<io::Result<Vec<_>>>()?;
    let old = places.stage("older")?;
    let new = places.out.join("debian");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    let mut made = Vec::new();
    for (package, stage) in &stages {
        build(places, package, stage, "0.0.1", &old)?;
        made.push(build(places, package, stage, VERSION, &new)?);
    }
    let alone = trial::alone(&stages[0].1, &programs);
    let installed = trial::debian(places, &old, &new, &programs);
    let tried = |first: bool| match (first, &alone) {
        (true, Ok(alone)) => installed.clone().map(|installed| format!("{alone}; {installed}")),
        (true, Err(why)) => Err(why.clone()),
        (false, _) => installed.clone(),
    };
    let all = made.into_iter().enumerate();
    Ok(all.map(|(at, file)| Made { file, tried: tried(at == 0) }).collect())
}

/// Lays out what a package installs.
fn lay_out(
    places: &Places,
    package: &Package,
    programs: &Programs,
    stage: &Path,
) -> io::Result<()> {
    install_text(stage, &copyright(places)?, &format!("usr/share/doc/{}/copyright", package.name))?;
    let library = || languages::lay_out(&places.root, places.dev);
    match package.name {
        "nearcall" => programs.lay_out(places, stage),
        "libnearcall0" => {
            install(
                stage,
                &library()?.join("lib").join(SONAME),
                &format!("usr/lib/{SONAME}"),
                0o644,
            )?;
            let bill = bill::of(&places.root, "nearcall-c", GNU)?;
            install_text(stage, &bill, &format!("usr/share/doc/{}/sbom.cdx.json", package.name))
        }
        "libnearcall-dev" => {
            let from = library()?;
            let usr = stage.join("usr");
            succeed(
                Command::new("cp")
                    .arg("-r")
                    .args([from.join("include"), from.join("share")])
                    .arg(&usr),
            )?;
            for part in ["lib/cmake", "lib/pkgconfig", "lib/libnearcall.a"] {
                fs::create_dir_all(usr.join("lib"))?;
                succeed(Command::new("cp").arg("-r").arg(from.join(part)).arg(usr.join("lib")))?;
            }
            std::os::unix::fs::symlink(SONAME, usr.join("lib/libnearcall.so"))
        }
        _ => wheel::unpack(places, &stage.join("usr/lib/python3/dist-packages")),
    }
}

/// Makes a package of what lies in `stage`; returns its file.
fn build(
    places: &Places,
    package: &Package,
    stage: &Path,
    version: &str,
    directory: &Path,
) -> io::Result<PathBuf> {
    let architecture = succeed(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let is_shipped = !places.dev && version == VERSION;
    let version = full_version(version);
    let size = succeed(Command::new("du").args(["-sk", "--apparent-size"]).arg(stage.join("usr")))?;
    let kib = size.split_whitespace().next().and_then(|size| size.parse().ok()).unwrap_or(1);
    let linked = linked_to(places, stage)?;
    let control = package.control(architecture, &version, &linked, kib);
    install_text(stage, &control, "DEBIAN/control")?;
    if package.name == LIBRARY.name {
        let soname = SONAME.rsplit('.').next().unwrap_or_default();
        let text = format!("libnearcall {soname} {} (>= {version})\n", package.name);
        install_text(stage, &text, "DEBIAN/shlibs")?;
        install_text(stage, "activate-noawait ldconfig\n", "DEBIAN/triggers")?;
    }
    for (name, text) in package.scripts {
        install_text(stage, text, &format!("DEBIAN/{name}"))?;
        succeed(Command::new("chmod").arg("+x").arg(stage.join("DEBIAN").join(name)))?;
    }
    succeed(Command::new("chmod").arg("-R").arg("u=rwX,go=rX").arg(stage))?;
    let file = directory.join(format!("{}_{version}_{architecture}.deb", package.name));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", &places.time).args(["--root-owner-group", "--build"]);
    // What is not shipped is not worth a minute of compression.
    build.args((!is_shipped).then_some("-Znone"));
    succeed(build.args([stage, &file]))?;
    Ok(file)
}

/// Returns the packages with the libraries that the programs below `stage` are linked to.
fn linked_to(places: &Places, stage: &Path) -> io::Result<String> {
    let work = places.stage("shlibdeps")?;
    install_text(
        &work,
        "Source: nearcall\n\nPackage: nearcall\nArchitecture: any\n",
        "debian/control",
    )?;
    let mut find = Command::new("find");
    let found = succeed(find.arg(stage.join("usr")).args(["-type", "f"]))?;
    let is_linked = |file: &&str| {
        file.contains("/bin/")
            || Path::new(file).extension().is_some_and(|it| it == "so")
            || file.ends_with(SONAME)
    };
    let files: Vec<&str> = found.lines().filter(is_linked).collect();
    if files.is_empty() {
        return Ok(String::new());
    }
    let mut ask = Command::new("dpkg-shlibdeps");
    let answer = succeed(ask.current_dir(&work).arg("-O").args(files))?;
    let line = answer.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(line.unwrap_or_default().to_owned())
}

impl Package {
    /// Returns the control file.
    fn control(&self, architecture: &str, version: &str, linked: &str, kib: u64) -> String {
        let Self { name, section, summary, .. } = self;
        let mut text = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: \
             {MAINTAINER}\nInstalled-Size: {kib}\nSection: {section}\nPriority: optional\n"
        );
        let same = |other: &&str| other.replace("(=)", &format!("(= {version})"));
        let linked = Some(linked.to_owned()).filter(|linked| !linked.is_empty());
        let depends: Vec<String> =
            linked.into_iter().chain(self.depends.iter().map(same)).collect();
        let recommends: Vec<String> = self.recommends.iter().map(same).collect();
        for (field, values) in [("Depends", depends), ("Recommends", recommends)] {
            if !values.is_empty() {
                let _ = writeln!(text, "{field}: {}", values.join(", "));
            }
        }
        let _ = writeln!(text, "Description: {summary}");
        self.description.iter().for_each(|line| {
            let _ = writeln!(text, " {line}");
        });
        text
    }
}

fn full_version(version: &str) -> String {
    format!("{version}-{REVISION}")
}

/// Returns the file `copyright`, as Debian's policy has it.
fn copyright(places: &Places) -> io::Result<String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: nearcall\n\nFiles: *\nCopyright: the developers of nearcall\n\
         License: Expat or Apache-2.0\n",
    );
    for (name, file) in [("Expat", "LICENSE-MIT"), ("Apache-2.0", "LICENSE-APACHE")] {
        let license = fs::read_to_string(places.root.join(file))?;
        let _ = writeln!(text, "\nLicense: {name}");
        for line in license.lines() {
            let _ = writeln!(text, " {}", if line.trim().is_empty() { "." } else { line });
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_names_this_version_and_what_is_linked() {
        let [_, _, development, _] = &PACKAGES;
        let control = development.control("amd64", "0.1.0-1", "libc6 (>= 2.34)", 12);
        assert!(control.contains("\nDepends: libc6 (>= 2.34), libnearcall0 (= 0.1.0-1)\n"));
        assert!(control.contains("\nInstalled-Size: 12\n") && control.ends_with("C++.\n"));
        let [nearcall, ..] = &PACKAGES;
        assert!(!nearcall.control("amd64", "1-1", "", 1).contains("Depends"));
    }
}
