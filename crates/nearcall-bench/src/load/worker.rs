//! What a worker process does: compute, write memory, write a file, or be busy by turns.
//!
//! **Invariants:** it never ends by itself; the runner kills it, and the kernel does when the
//! runner is gone. The file that it writes has no name and no more than [`FILE_BYTES_MAX`] bytes.
//! What it has done stands on the board (`board.rs`) at any time.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::Duration;

use super::board::SharedState;
use super::duty::{Cycle, Step};
use crate::exchange::Failure;
use crate::launch::Work;
use nearcall_os::{clock, cpu, process, procfs_memory, unlinked};

/// Works until it is killed.
///
/// # Errors
///
/// Why it cannot work; the board says it too.
pub(crate) fn run(work: Work) -> Result<(), Failure> {
    let board = SharedState::open(io::stdin())?;
    let outcome = match work {
        Work::Cpu => compute(&board),
        Work::Memory { bytes } => write_memory(&board, bytes),
        Work::Io => write_file(&board),
        Work::Duty { cpu, period_ns, busy_ns, phase_ns } => {
            be_busy_by_turns(&board, cpu, [period_ns, busy_ns, phase_ns])
        }
    };
    match outcome {
        Ok(never) => match never {},
        Err(error) => {
            board.say_failed(&error.to_string());
            Err(Failure::other(error))
        }
    }
}

/// What nothing returns.
enum Never {}

fn compute(board: &SharedState) -> io::Result<Never> {
    board.say_up();
    loop {
        burn(BURN_STEPS);
    }
}

/// Square roots, as `stress` computes.
fn burn(steps: u32) {
    let mut value = black_box(2.0_f64);
    for _ in 0..steps {
        value = black_box((value + 3.0).sqrt());
    }
}

fn write_memory(board: &SharedState, bytes: u64) -> io::Result<Never> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    let page_bytes = procfs_memory::page_bytes().max(1);
    board.say_up();
    loop {
        // Fresh from the kernel each time, which zeroes every page when it is first written.
        let mut block = vec![0_u8; bytes];
        for part in block.chunks_mut(MEMORY_COUNT_BYTES) {
            part.iter_mut().step_by(page_bytes).for_each(|byte| *byte = MARK);
            black_box(&mut *part);
            board.add(part.len() as u64, 0);
        }
        if block.iter().step_by(page_bytes).any(|&byte| byte != MARK) {
            return Err(io::Error::other("memory does not hold what was written to it"));
        }
    }
}

fn write_file(board: &SharedState) -> io::Result<Never> {
    let mut file = file_on_disk(board, &std::env::temp_dir())?;
    let block = vec![MARK; IO_BLOCK_BYTES];
    file.write_all(&block)?;
    board.say_up();
    let mut written = block.len();
    loop {
        if written + block.len() > FILE_BYTES_MAX {
            file.rewind()?;
            written = 0;
        }
        file.write_all(&block)?;
        file.sync_data()?;
        written += block.len();
        board.add(block.len() as u64, 1);
    }
}

/// A file in `directory`, or where temporary files are on a disk if those there are in memory.
fn file_on_disk(board: &SharedState, directory: &Path) -> io::Result<File> {
    let file = nameless_file(directory)?;
    if !procfs_memory::is_in_memory(&file) {
        return Ok(file);
    }
    match nameless_file(Path::new(DISK_FOLDER)) {
        Ok(other) if !procfs_memory::is_in_memory(&other) => Ok(other),
        _ => {
            board.say("the directories for temporary files are in memory, nothing goes to a disk");
            Ok(file)
        }
    }
}

/// A file in `directory` that is gone with this process.
fn nameless_file(directory: &Path) -> io::Result<File> {
    let told = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write in {}: {error}", directory.display()))
    };
    if let Some(file) = unlinked::create(directory).map_err(told)? {
        return Ok(file);
    }
    // A kill between these two calls leaves the name behind.
    let name = format!("nearcall-load-{}-{:x}", process::pid(), clock::monotonic_ns());
    let path = directory.join(name);
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(told)?;
    std::fs::remove_file(&path).map_err(told)?;
    Ok(file)
}

fn be_busy_by_turns(board: &SharedState, cpu: usize, times_ns: [u64; 3]) -> io::Result<Never> {
    cpu::pin_current(cpu)?;
    let [period_ns, busy_ns, phase_ns] = times_ns;
    let begin_ns = clock::monotonic_ns().saturating_add(phase_ns);
    let mut cycle = Cycle::new(period_ns, busy_ns, begin_ns, clock::thread_cpu_ns());
    board.say_up();
    loop {
        match cycle.step(clock::monotonic_ns(), clock::thread_cpu_ns()) {
            Step::Burn => burn(BURN_STEPS),
            Step::Sleep(ns) => {
                cycle.set_busy_ns(board.busy_ns().unwrap_or(busy_ns));
                clock::pause(Duration::from_nanos(ns));
            }
        }
    }
}

/// About 10 µs of computing, so that turns end in time.
const BURN_STEPS: u32 = 1_000;

/// How much memory is written between two updates of the count.
const MEMORY_COUNT_BYTES: usize = 1 << 20;

/// By convention the directory for temporary files that outlive a restart.
const DISK_FOLDER: &str = "/var/tmp";

/// What is written; anything but zero.
const MARK: u8 = b'Z';

/// One write before each wait for the disk.
const IO_BLOCK_BYTES: usize = 1 << 20;

/// The file grows no further: the disk of the user is not ours.
const FILE_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_written_is_told_by_its_name() {
        let error = nameless_file(Path::new("/proc/nothing")).unwrap_err().to_string();
        assert!(error.contains("cannot write in /proc/nothing"), "{error}");
        let directory = std::env::temp_dir();
        let file = nameless_file(&directory).unwrap();
        let own = format!("nearcall-load-{}-", process::pid());
        let left = std::fs::read_dir(directory).unwrap().flatten();
        let mut left = left.filter(|one| one.file_name().to_string_lossy().starts_with(&own));
        assert!(left.next().is_none());
        drop(file);
    }
}
