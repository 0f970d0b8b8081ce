//! What the server's process holds at quiet points, when no client is connected: it must not have
//! more and more of anything.
//!
//! **Invariants:** descriptors, threads and mapped files are at every quiet point no more than at
//! any one before; memory is reported, and not judged. A record takes no memory that grows.
//! **Not here:** what makes the load (`main.rs`).

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use nearcall::Deadline;
use nearcall_os::clock;
use nearcall_os::procfs_memory::rollup;

use crate::Stress;

/// Parts of the time, of each of which the least memory is kept: more than two, so that a table
/// shows whether it goes on growing.
const PARTS: usize = 10;
/// The time between two lines on a terminal.
const LINE_PERIOD: Duration = Duration::from_secs(60);

/// What a process must not have more and more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resources {
    descriptors: usize,
    threads: usize,
    /// Files of memory that are mapped: rings, lanes, arenas.
    mapped_files: usize,
}

/// What was held at quiet points.
pub(crate) struct Record {
    begun: Instant,
    time: Duration,
    /// The least that was held at any quiet point.
    least: Resources,
    points: u64,
    /// The least private memory in each part of the time, in bytes.
    memory: [Option<u64>; PARTS],
    next_line: Deadline,
}

impl Record {
    /// Begins at a quiet point, and goes on for `time`.
    pub(crate) fn new(time: Duration) -> Self {
        let least = Resources::of_this_process();
        let next_line = Deadline::after(LINE_PERIOD);
        Self { begun: clock::now(), time, least, points: 0, memory: [None; PARTS], next_line }
    }

    /// Waits until this process holds no more than before, which may take threads and the
    /// descriptors of the last connections a moment.
    #[track_caller]
    pub(crate) fn note_quiet_point(&mut self, stress: &Stress, deadline: Deadline) {
        loop {
            let (now, least) = (Resources::of_this_process(), self.least);
            self.least = least.min(now);
            if now == self.least {
                break;
            }
            let Stress { seed, rounds, .. } = stress;
            assert!(!deadline.has_passed(), "seed {seed}, round {rounds}: {least:?} -> {now:?}");
            clock::pause(Duration::from_millis(1));
        }
        self.points += 1;
        let private = rollup(0).map(|rollup| rollup.private_bytes);
        let part = self.begun.elapsed().as_nanos() * PARTS as u128 / self.time.as_nanos().max(1);
        let part = usize::try_from(part).unwrap_or(PARTS).min(PARTS - 1);
        self.memory[part] = [self.memory[part], private].into_iter().flatten().min();
        if self.next_line.has_passed() && std::io::stderr().is_terminal() {
            self.next_line = Deadline::after(LINE_PERIOD);
            let minutes = self.begun.elapsed().as_secs() / 60;
            let (Stress { clients, kills, .. }, kib) = (stress, private.unwrap_or(0) >> 10);
            eprintln!("{minutes} min: {clients} clients, {kills} kills, {kib} KiB of memory");
        }
    }

    /// The table, for people.
    pub(crate) fn table(&self, stress: &Stress) -> String {
        let Resources { descriptors, threads, mapped_files } = self.least;
        let Stress { seed, rounds, clients, kills, total, switches, .. } = stress;
        let (seconds, points) = (self.begun.elapsed().as_secs(), self.points);
        let parts: Vec<_> = self.memory_kib().iter().map(u64::to_string).collect();
        format!(
            "time             {seconds} s, seed {seed}\n\
             load             {rounds} rounds, {clients} clients, {kills} killed; of survivors \
             {} calls, {} messages, {} items, {switches} switches\n\
             quiet points     {points}, at each of which were held:\n\
             descriptors      {descriptors}\n\
             threads          {threads}\n\
             mapped files     {mapped_files}\n\
             memory           {} KiB in {PARTS} parts of the time; growth from the second to the \
             last {} KiB",
            total.calls,
            total.messages,
            total.items,
            parts.join(" "),
            self.growth_kib(),
        )
    }

    /// The same as one JSON document.
    pub(crate) fn json(&self, stress: &Stress) -> String {
        let Resources { descriptors, threads, mapped_files } = self.least;
        let Stress { seed, rounds, clients, kills, total, switches, .. } = stress;
        let (seconds, points) = (self.begun.elapsed().as_secs(), self.points);
        let (calls, messages, items) = (total.calls, total.messages, total.items);
        let (memory_kib, growth_kib) = (self.memory_kib(), self.growth_kib());
        format!(
            r#"{{"schema":"nearcall.soak/1","seconds":{seconds},"seed":{seed},"rounds":{rounds},
"clients":{clients},"kills":{kills},"calls":{calls},"messages":{messages},"items":{items},
"switches":{switches},"quiet_points":{points},"descriptors":{descriptors},"threads":{threads},
"mapped_files":{mapped_files},"memory_kib":{memory_kib:?},"growth_kib":{growth_kib}}}
"#
        )
    }

    /// The least private memory in each part of the time that had a quiet point.
    fn memory_kib(&self) -> Vec<u64> {
        self.memory.iter().flatten().map(|bytes| bytes >> 10).collect()
    }

    /// How much more there was in the last part than in the second, when the process was warm.
    fn growth_kib(&self) -> i64 {
        let kib = self.memory_kib();
        let [warm, last] = [kib.get(1), kib.last()].map(|kib| kib.map_or(0, |kib| *kib as i64));
        last - warm
    }
}

impl Resources {
    /// Returns the smaller of each.
    fn min(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.min(other.descriptors),
            threads: self.threads.min(other.threads),
            mapped_files: self.mapped_files.min(other.mapped_files),
        }
    }

    fn of_this_process() -> Self {
        let entries = |path: &str| std::fs::read_dir(path).unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            mapped_files: maps.lines().filter(|line| line.contains("/memfd:")).count(),
        }
    }
}
