//! The directory: runs come in and are found again.
//!
//! **Invariants:** a file is never overwritten or seen half written; of several runs that come in
//! at once either all are taken or none; a run lies in the directory of its machine, and two
//! machines with one id never share a directory. Files that are no runs, such as a README, are left
//! alone.
//!
//! **Invariant:** a run's path in a data set (`<machine id>/<date>-<kind>-<hash>.json`) is derived
//! from its content, so no index can become inconsistent, contributions do not conflict, and
//! duplicates are recognised. A file is written completely and never overwritten. *Checked by*
//! `tests/it/dataset.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::identity::{place, published, run_id};
use crate::run::{LoadError, Machine, Run, create_beside, printable, read_text};

/// A directory of runs.
#[derive(Clone, Debug)]
pub struct DataSet {
    directory: PathBuf,
}

/// What became of a run that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The file that was given.
    pub from: PathBuf,
    /// Where the run lies now, or lay already, in the data set.
    pub place: String,
    /// Whether it is new.
    pub outcome: Outcome,
}

/// Whether a run is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not there.
    Added,
    /// The same run is there.
    Duplicate,
}

impl DataSet {
    /// The data set in this directory, which need not be there yet.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Every file that should be a run, as `<machine id>/<name>.json`, in order. None if there is
    /// no such directory.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: the file system refuses, or there are more than [`FILES_MAX`].
    pub fn places(&self) -> Result<Vec<String>, StoreError> {
        let mut places = Vec::new();
        for machine in names(&self.directory)?.into_iter().filter(|name| is_machine_id(name)) {
            let names = names(&self.directory.join(&machine))?;
            let runs = names.into_iter().filter(|name| name.ends_with(".json"));
            places.extend(runs.map(|name| format!("{machine}/{name}")));
            if places.len() > FILES_MAX {
                return Err(StoreProblem::TooMany.of(&self.directory));
            }
        }
        Ok(places)
    }

    /// Reads a run of the data set.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: it is no run, or that of another machine. A link is not followed.
    pub fn load(&self, place: &str) -> Result<Run, StoreError> {
        let file = self.directory.join(place);
        let found = fs::symlink_metadata(&file).and_then(|found| match found.is_file() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        });
        let run = found.map_err(LoadError::Io).and_then(|()| Run::load(&file));
        let run = run.map_err(|error| StoreProblem::Load(error).of(&file))?;
        match place.starts_with(&format!("{}/", run.machine.id)) {
            true => Ok(run),
            false => Err(StoreProblem::Misplaced(run.machine.id).of(&file)),
        }
    }

    /// Takes runs in: all of them, or none if one of them is no run. The host's name and the
    /// directories of paths are taken out first; `keep_host_name` keeps the former.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the data set is as it was then.
    pub fn add(&self, files: &[PathBuf], keep_host_name: bool) -> Result<Vec<Arrival>, StoreError> {
        let mut machines = Machines::default();
        for file in files {
            let run = Run::load(file).map_err(|error| StoreProblem::Load(error).of(file))?;
            self.check(&mut machines, &run, file)?;
        }
        let mut arrivals: Vec<Arrival> = Vec::new();
        for file in files {
            // Read once more, so that no more than one is in memory.
            let read = || {
                let text = read_text(file)?;
                Ok((Run::parse(&text).map_err(LoadError::Parse)?, text))
            };
            let read = read().map_err(|error| StoreProblem::Load(error).of(file));
            let taken = read.and_then(|(run, text)| {
                // Once more: the file may be another one by now.
                self.check(&mut machines, &run, file)?;
                self.take_in(&run, &text, file, keep_host_name)
            });
            match taken {
                Ok(arrival) => arrivals.push(arrival),
                Err(error) => {
                    for new in arrivals.iter().filter(|one| one.outcome == Outcome::Added) {
                        // Nothing more can be done about a file that does not go away.
                        let _ = fs::remove_file(self.directory.join(&new.place));
                    }
                    return Err(error);
                }
            }
        }
        Ok(arrivals)
    }

    /// Refuses a run that has no place in this data set.
    fn check(&self, machines: &mut Machines, run: &Run, file: &Path) -> Result<(), StoreError> {
        let id = &run.machine.id;
        if !is_machine_id(id) {
            return Err(StoreProblem::MachineId.of(file));
        }
        if !machines.0.contains_key(id) {
            let names = names(&self.directory.join(id))?;
            let mut runs = names.iter().filter(|name| name.ends_with(".json"));
            // A run that cannot be read is no evidence about the machine; `export` reports it.
            if let Some(first) = runs.find_map(|name| self.load(&format!("{id}/{name}")).ok()) {
                machines.check(&first, file)?;
            }
        }
        machines.check(run, file)
    }

    fn take_in(
        &self,
        run: &Run,
        text: &str,
        file: &Path,
        keep_host_name: bool,
    ) -> Result<Arrival, StoreError> {
        let text = published(text, keep_host_name);
        let text = text.map_err(|error| StoreProblem::Io(error.into()).of(file))?;
        let place = place(run);
        let path = self.directory.join(&place);
        let outcome = match write_new(&path, &text) {
            Ok(()) => Outcome::Added,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if run_id(&self.load(&place)?) != run_id(run) {
                    return Err(StoreProblem::Changed.of(&path));
                }
                Outcome::Duplicate
            }
            Err(error) => return Err(StoreProblem::Io(error).of(&path)),
        };
        Ok(Arrival { from: file.to_owned(), place, outcome })
    }
}

/// Why runs were not taken in, or not found.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", printable(&file.display().to_string()))]
pub struct StoreError {
    /// The file or the directory that has the problem.
    pub file: PathBuf,
    /// The problem.
    pub problem: StoreProblem,
}

/// What is wrong with a file or a directory of a data set.
#[derive(Debug, thiserror::Error)]
pub enum StoreProblem {
    /// It is no run that this program knows.
    #[error("{0}")]
    Load(LoadError),
    /// The run's machine id is not made of 16 hexadecimal digits.
    #[error("its machine has no id of 16 hexadecimal digits, so it has no place here")]
    MachineId,
    /// The run's machine has this id, which another one has.
    #[error("another machine has the id {0} in this data set; give one of them another")]
    TwoMachines(String),
    /// The run names this machine and lies in the directory of another one.
    #[error("is a run of the machine {}", printable(.0))]
    Misplaced(String),
    /// A file of the data set has this run's name and another content.
    #[error("was changed under its name; rename it, then add again")]
    Changed,
    /// More than [`FILES_MAX`] files.
    #[error("more than {FILES_MAX} runs")]
    TooMany,
    /// The file system refuses.
    #[error("{0}")]
    Io(io::Error),
}

impl StoreProblem {
    pub(super) fn of(self, file: &Path) -> StoreError {
        StoreError { file: file.to_owned(), problem: self }
    }
}

/// Each machine by its id, with the facts of the first run that was seen.
#[derive(Default)]
pub(super) struct Machines(BTreeMap<String, Machine>);

impl Machines {
    /// Refuses a run of another machine than the first one with its id.
    pub(super) fn check(&mut self, run: &Run, file: &Path) -> Result<(), StoreError> {
        let facts = facts(&run.machine);
        let machine = run.machine.id.clone();
        match *self.0.entry(machine.clone()).or_insert_with(|| facts.clone()) == facts {
            true => Ok(()),
            false => Err(StoreProblem::TwoMachines(machine).of(file)),
        }
    }
}

/// The facts that tell machines apart. Others, such as the kernel's command line, people shorten
/// before they publish a run, and keep the id.
fn facts(machine: &Machine) -> Machine {
    let Machine { cpu_model, architecture, topology, kernel, caches, .. } = machine.clone();
    let (cpus, memory_bytes) = (machine.cpus, machine.memory_bytes);
    let rest = Machine::default();
    Machine { cpu_model, architecture, topology, kernel, caches, cpus, memory_bytes, ..rest }
}

/// As `Machine::set_id` makes them. Nothing else becomes the name of a directory.
fn is_machine_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names in a directory, in order; none if it is not there or is no directory.
fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreProblem::Io(error).of(directory);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries.take(FILES_MAX + 1) {
        // A name that is no text is none of ours.
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    Ok(names.into_iter().collect())
}

/// Writes a file that must not be there yet, all of it or nothing. Makes its directory.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let (beside, mut file) = create_beside(path)?;
    let outcome = file.write_all(text.as_bytes()).and_then(|()| {
        match fs::hard_link(&beside, path) {
            // A file system without links: only between the look above and here could another
            // program have made the file.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                fs::rename(&beside, path).map_err(|_| error)
            }
            outcome => outcome,
        }
    });
    let _ = fs::remove_file(&beside);
    outcome
}

/// Runs in one data set: more need a database, and the limit stops a wrong directory.
pub const FILES_MAX: usize = 100_000;
