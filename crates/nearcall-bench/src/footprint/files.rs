//! The program and the library of the services that set-ups are made of: found, and copied.
//!
//! Each service gets a file of its own, as different services have: with one file for all of them
//! the kernel would share their code, and the dynamic linker would load it once.
//! **Invariants:** copies lie in a new directory that only this user may enter, which is removed
//! with them.
//! **Not here:** what the files are, which is the crate `nearcall-bench-service`.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nearcall_bench_service::{LIBRARY, PROGRAM};
use nearcall_os::{clock, process};

/// The files of the measured services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFiles {
    program: PathBuf,
    library: PathBuf,
}

impl ServiceFiles {
    /// Finds both files in the directory that [`SERVICE_VARIABLE`] names, or beside the running
    /// program, where Cargo puts them.
    ///
    /// # Errors
    ///
    /// One sentence on which file is missing, and how it is made.
    pub fn find() -> Result<Self, String> {
        let named = env::var_os(SERVICE_VARIABLE).filter(|value| !value.is_empty());
        let directories = match named {
            Some(directory) => vec![PathBuf::from(directory)],
            None => {
                let own = env::current_exe();
                let own = own.map_err(|error| format!("cannot find this program: {error}"))?;
                let own = own.parent().unwrap_or(Path::new("/"));
                // A library that was built as a dependency lies there.
                vec![own.to_owned(), own.join("deps")]
            }
        };
        let find = |name| find_newest(&directories, name);
        Ok(Self { program: find(PROGRAM)?, library: find(LIBRARY)? })
    }
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

/// A directory with copies of both files, and room for sockets.
pub(super) struct Copies(PathBuf);

impl Copies {
    /// Makes `count` copies of each file, and one of the program that is a host of libraries: what
    /// measures would share its pages otherwise.
    pub(super) fn new(files: &ServiceFiles, count: u32, host: &Path) -> io::Result<Self> {
        let name = format!("nearcall-setups-{}-{:x}", process::pid(), clock::monotonic_ns());
        let copies = Self(env::temp_dir().join(name));
        DirBuilder::new().mode(0o700).create(&copies.0)?;
        write(copies.host(), &read_loaded(host)?)?;
        let (program, library) = (read_loaded(&files.program)?, read_loaded(&files.library)?);
        for number in 0..count {
            write(copies.program(number), &program)?;
            write(copies.library(number), &library)?;
        }
        Ok(copies)
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

    /// Where a service listens.
    pub(super) fn address(&self, number: u32) -> String {
        format!("unix:{}", self.0.join(number.to_string()).display())
    }

    /// Where programs write what goes wrong.
    pub(super) fn stderr(&self) -> PathBuf {
        self.0.join("stderr")
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
    Read::by_ref(&mut file).take(HEAD_BYTES).read_to_end(&mut bytes)?;
    let wanted = loaded_bytes(&bytes).unwrap_or(u64::MAX);
    file.take(wanted.saturating_sub(HEAD_BYTES)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where the last loaded segment of an ELF file ends. `None` if it is no such file of 64 bits.
fn loaded_bytes(head: &[u8]) -> Option<u64> {
    let number = |offset: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(head.get(offset..offset.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(value))
    };
    // 64 bits, the low byte first.
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut end = None;
    for index in 0..entries {
        let at = usize::try_from(table.checked_add(index * entry)?).ok()?;
        if number(at, 4)? == SEGMENT_LOADED {
            end = end.max(Some(number(at + 8, 8)?.checked_add(number(at + 32, 8)?)?));
        }
    }
    end
}

/// Holds the segments of every program.
const HEAD_BYTES: u64 = 4_096;

/// The kind of a segment that is loaded.
const SEGMENT_LOADED: u64 = 1;

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
