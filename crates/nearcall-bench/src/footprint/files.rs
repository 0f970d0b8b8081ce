//! The program and the library of the services that set-ups are made of, and the program of their
//! host: found, and copied.
//!
//! Each service gets a file of its own, as different services have: with one file for all of them
//! the kernel would share their code, and the dynamic linker would load it once.
//! **Invariants:** copies lie in a new directory that only this user may enter, which is removed
//! with them.
//! **Not here:** what the files are, which is the crate `nearcall-bench-service`.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nearcall_bench_service::{LIBRARY, PROGRAM};
use nearcall_host::program::{GROUP_PROGRAM, PROGRAM as HOST};
use nearcall_os::{clock, process};

use super::elf;

/// The files of the measured services and of their host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFiles {
    own: Build,
    /// Those that share their runtime, if they were built.
    shared: Option<Build>,
}

/// The files of one build.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Build {
    program: PathBuf,
    library: PathBuf,
    host: PathBuf,
    /// The dynamic libraries that all of them need, which each finds in its own directory.
    needed: Vec<PathBuf>,
}

impl ServiceFiles {
    /// Finds the files in the directory that [`SERVICE_VARIABLE`] names, or beside the running
    /// program, where Cargo puts them. Those that share their runtime are in `shared` there, where
    /// `cargo xtask device` puts them.
    ///
    /// # Errors
    ///
    /// One sentence on which file is missing, and how it is made. That nothing in `shared` is there
    /// is no error.
    pub fn find() -> Result<Self, String> {
        let named = env::var_os(SERVICE_VARIABLE).filter(|value| !value.is_empty());
        let directories = match named {
            Some(directory) => vec![PathBuf::from(directory)],
            None => {
                let own = env::current_exe();
                let own = own.map_err(|error| format!("cannot find this program: {error}"))?;
                let own = own.parent().unwrap_or(Path::new("/"));
                // A library that was built as a dependency lies there, and what tests start.
                vec![own.to_owned(), own.join("deps"), own.join("examples")]
            }
        };
        let shared = directories[0].join("shared");
        let shared = match shared.is_dir() {
            true => {
                let needed = fs::read_dir(&shared).into_iter().flatten().flatten();
                let needed = needed.filter(|entry| is_runtime(&entry.file_name()));
                let needed = needed.map(|entry| entry.path()).collect();
                Some(Build { needed, ..Build::find(&[shared])? })
            }
            false => None,
        };
        Ok(Self { own: Build::find(&directories)?, shared })
    }
}

impl Build {
    fn find(directories: &[PathBuf]) -> Result<Self, String> {
        let find = |name| find_newest(directories, name);
        let (program, library) = (find(PROGRAM)?, find(LIBRARY)?);
        // As a host does: the smaller program, or the host's own.
        let host = find(HOST).map(|host| find(GROUP_PROGRAM).unwrap_or(host))?;
        Ok(Self { program, library, host, needed: Vec::new() })
    }
}

/// Whether a file is part of the runtime that services share: ours, or Rust's.
fn is_runtime(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == "libnearcall_runtime.so" || (name.starts_with("libstd-") && name.ends_with(".so"))
}

/// The newest file of that name: Cargo does not replace each copy at each build.
fn find_newest(directories: &[PathBuf], name: &str) -> Result<PathBuf, String> {
    let paths = directories.iter().map(|directory| directory.join(name));
    let files = paths.filter(|path| path.is_file());
    let age = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    files.max_by_key(age).ok_or_else(|| {
        format!(
            "there is no {name} in {}: build the services that are measured by `cargo build \
             --release`, or name their directory in {SERVICE_VARIABLE}",
            directories[0].display()
        )
    })
}

/// Names the directory of the files where it is not that of the program.
pub const SERVICE_VARIABLE: &str = "NEARCALL_BENCH_SERVICE";

/// A directory with copies of the files, and room for sockets.
pub(super) struct Copies {
    directory: PathBuf,
    own: BuildCopies,
    shared: Option<BuildCopies>,
}

/// A directory with copies of the files of one build.
#[derive(Clone)]
pub(super) struct BuildCopies(PathBuf);

impl Copies {
    /// Makes `count` copies of the program and of the library, and one of everything else.
    pub(super) fn new(files: &ServiceFiles, count: u32) -> io::Result<Self> {
        let name = format!("nearcall-setups-{}-{:x}", process::pid(), clock::monotonic_ns());
        let directory = env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let (own, shared) = (directory.join("own"), directory.join("shared"));
        let shared = files.shared.as_ref().map(|build| (build, BuildCopies(shared)));
        let copies = Self {
            directory,
            own: BuildCopies(own),
            shared: shared.as_ref().map(|(_, copies)| copies.clone()),
        };
        // From here on they are removed, whatever fails.
        copies.own.write(&files.own, count)?;
        shared.iter().try_for_each(|(build, copies)| copies.write(build, count))?;
        Ok(copies)
    }

    /// Those of the build whose services have a runtime of their own each.
    pub(super) fn own(&self) -> &BuildCopies {
        &self.own
    }

    /// Those of the build whose services share their runtime, if there is one.
    pub(super) fn shared(&self) -> Option<&BuildCopies> {
        self.shared.as_ref()
    }

    /// Where a service listens.
    pub(super) fn address(&self, number: u32) -> String {
        format!("unix:{}", self.directory.join(number.to_string()).display())
    }

    /// Where programs write what goes wrong.
    pub(super) fn stderr(&self) -> PathBuf {
        self.directory.join("stderr")
    }
}

impl BuildCopies {
    fn write(&self, build: &Build, count: u32) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.0)?;
        write(self.host(), &read_loaded(&build.host)?)?;
        for path in &build.needed {
            write(self.0.join(path.file_name().unwrap_or_default()), &read_loaded(path)?)?;
        }
        let (program, library) = (read_loaded(&build.program)?, read_loaded(&build.library)?);
        for number in 0..count {
            write(self.program(number), &program)?;
            write(self.library(number), &library)?;
        }
        Ok(())
    }

    pub(super) fn host(&self) -> PathBuf {
        self.0.join("host")
    }

    pub(super) fn program(&self, number: u32) -> PathBuf {
        self.0.join(format!("{number}-{PROGRAM}"))
    }

    pub(super) fn library(&self, number: u32) -> PathBuf {
        self.0.join(format!("{number}-{LIBRARY}"))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Writes a file that only this user can read, write and run.
fn write(path: PathBuf, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o700).open(path)?.write_all(bytes)
}

/// Reads the part of a file that is ever loaded: symbols for a debugger lie behind it.
fn read_loaded(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(elf::HEAD_BYTES).read_to_end(&mut bytes)?;
    let wanted = loaded_bytes(&bytes).unwrap_or(u64::MAX);
    file.take(wanted.saturating_sub(elf::HEAD_BYTES)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where the last loaded segment of an ELF file ends. `None` if it is no such file of 64 bits.
fn loaded_bytes(head: &[u8]) -> Option<u64> {
    let mut end = None;
    for segment in elf::segments(head)?.iter().filter(|segment| segment.kind == elf::LOADED) {
        end = end.max(Some(segment.offset.checked_add(segment.file_bytes)?));
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_part_ends_with_the_last_loaded_segment() {
        let mut head = vec![0; 64 + 3 * 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (head[32], head[54], head[56]) = (64, 56, 3);
        for (index, (kind, offset, bytes)) in
            [(1, 0, 100), (1, 112, 50), (4, 200, 9)].iter().enumerate()
        {
            let at = 64 + index * 56;
            (head[at], head[at + 8], head[at + 32]) = (*kind, *offset, *bytes);
        }
        assert_eq!(loaded_bytes(&head), Some(162));
        assert_eq!(loaded_bytes(&head[..140]), None);
        assert_eq!(loaded_bytes(b"#!/bin/sh\n"), None);
        head[8 + 64..16 + 64].fill(0xff);
        assert_eq!(loaded_bytes(&head), None);
    }

    #[test]
    fn a_missing_file_is_named_with_the_remedy() {
        let error = find_newest(&["/proc/self/fd".into()], LIBRARY).unwrap_err();
        for part in [LIBRARY, "/proc/self/fd", "cargo build --release", SERVICE_VARIABLE] {
            assert!(error.contains(part), "{error}");
        }
    }
}
