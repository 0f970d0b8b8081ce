//! The directory: runs come in, are found again and are counted.
//!
//! Always true: a file is never overwritten or seen half written; of several runs that come in at
//! once either all are taken or none; a run lies in the directory of its machine. Files that are no
//! runs, such as a README, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::identity::{kind_of_run, place, published, run_id};
use crate::run::{LoadError, Run, create_beside, printable, read_text};

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

/// What a data set has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inventory {
    /// Always [`INVENTORY_SCHEMA`].
    pub schema: String,
    /// The machines, by id.
    pub machines: Vec<MachineLine>,
    /// Files that cannot be used, or lie where they should not.
    pub problems: Vec<Problem>,
}

/// One machine of a data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineLine {
    /// Its id, which is the name of its directory.
    pub machine_id: String,
    /// The processor.
    pub cpu_model: String,
    /// CPUs that the system sees.
    pub cpus: Option<u32>,
    /// Runs of it.
    pub runs: u64,
    /// Cells of all lists of these runs.
    pub cells: u64,
    /// When the first of the runs began, in seconds since 1970 (UTC).
    pub first_unix_s: u64,
    /// When the last of them began.
    pub last_unix_s: u64,
    /// The kinds of runs.
    pub kinds: BTreeSet<&'static str>,
}

/// What is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where it lies in the data set.
    pub file: String,
    /// What is wrong.
    pub what: String,
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
    /// [`StoreError::Io`], and [`StoreError::TooMany`] above [`FILES_MAX`].
    pub fn places(&self) -> Result<Vec<String>, StoreError> {
        let mut places = Vec::new();
        for machine in names(&self.directory)?.into_iter().filter(|name| is_machine_id(name)) {
            let names = names(&self.directory.join(&machine))?;
            let runs = names.into_iter().filter(|name| name.ends_with(".json"));
            places.extend(runs.map(|name| format!("{machine}/{name}")));
            if places.len() > FILES_MAX {
                return Err(StoreError::TooMany { directory: self.directory.clone() });
            }
        }
        Ok(places)
    }

    /// Reads a run of the data set.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; a link is not followed.
    pub fn load(&self, place: &str) -> Result<Run, LoadError> {
        let path = self.directory.join(place);
        if !fs::symlink_metadata(&path).map_err(LoadError::Io)?.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(LoadError::Io(error));
        }
        Run::load(&path)
    }

    /// Takes runs in: all of them, or none if one of them is no run. The host's name and the
    /// directories of paths are taken out first; `keep_host_name` keeps the former.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the data set is as it was then.
    pub fn add(&self, files: &[PathBuf], keep_host_name: bool) -> Result<Vec<Arrival>, StoreError> {
        for file in files {
            check(&Run::load(file).map_err(|error| StoreError::load(file, error))?, file)?;
        }
        let mut arrivals: Vec<Arrival> = Vec::new();
        for file in files {
            // Read once more, so that no more than one is in memory.
            let read = || {
                let text = read_text(file)?;
                Ok((Run::parse(&text).map_err(LoadError::Parse)?, text))
            };
            let taken = read()
                .map_err(|error| StoreError::load(file, error))
                .and_then(|(run, text)| self.take_in(&run, &text, file, keep_host_name));
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

    /// Takes one run in that is no file yet; `from` is what it was made of.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the data set is as it was then.
    pub fn add_run(&self, run: &Run, from: &Path) -> Result<Arrival, StoreError> {
        self.take_in(run, &run.to_json(), from, false)
    }

    fn take_in(
        &self,
        run: &Run,
        text: &str,
        file: &Path,
        keep_host_name: bool,
    ) -> Result<Arrival, StoreError> {
        check(run, file)?;
        let io = |file: &Path, error| StoreError::Io { file: file.to_owned(), error };
        let text = published(text, keep_host_name).map_err(|error| io(file, error.into()))?;
        let place = place(run);
        let path = self.directory.join(&place);
        let outcome = match write_new(&path, &text) {
            Ok(()) => Outcome::Added,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = self.load(&place).map_err(|error| StoreError::load(&path, error))?;
                if run_id(&there) != run_id(run) {
                    return Err(StoreError::Changed { file: path });
                }
                Outcome::Duplicate
            }
            Err(error) => return Err(io(&path, error)),
        };
        Ok(Arrival { from: file.to_owned(), place, outcome })
    }

    /// Reads every run and tells what there is.
    ///
    /// # Errors
    ///
    /// As [`DataSet::places`]. A file that cannot be read is a problem and no error.
    pub fn inventory(&self) -> Result<Inventory, StoreError> {
        let mut machines: BTreeMap<String, MachineLine> = BTreeMap::new();
        let mut problems = Vec::new();
        for file in self.places()? {
            let what = match self.load(&file) {
                Ok(run) if file.starts_with(&format!("{}/", run.machine.id)) => {
                    machines.entry(run.machine.id.clone()).or_default().add(&run);
                    continue;
                }
                Ok(run) => format!("is a run of the machine {}", run.machine.id.escape_debug()),
                Err(error) => error.to_string(),
            };
            problems.push(Problem { file, what });
        }
        let machines = machines.into_values().collect();
        Ok(Inventory { schema: INVENTORY_SCHEMA.to_owned(), machines, problems })
    }
}

impl MachineLine {
    fn add(&mut self, run: &Run) {
        if self.runs == 0 {
            self.machine_id.clone_from(&run.machine.id);
            self.cpu_model.clone_from(&run.machine.cpu_model);
            self.cpus = run.machine.cpus;
            self.first_unix_s = run.started_unix_s;
        }
        self.runs += 1;
        self.cells += run.keyed_cells().count() as u64;
        self.first_unix_s = self.first_unix_s.min(run.started_unix_s);
        self.last_unix_s = self.last_unix_s.max(run.started_unix_s);
        self.kinds.insert(kind_of_run(run));
    }
}

/// Why runs were not taken in, or not found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file is no run that this program knows.
    #[error("{}: {error}", shown(file))]
    Load {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        error: LoadError,
    },
    /// The run's machine id is not made of 16 hexadecimal digits.
    #[error(
        "{}: its machine has no id of 16 hexadecimal digits, so it has no place here",
        shown(file)
    )]
    MachineId {
        /// Which.
        file: PathBuf,
    },
    /// A file of the data set has this run's name and another content.
    #[error("{}: was changed under its name; rename it, then add again", shown(file))]
    Changed {
        /// Which.
        file: PathBuf,
    },
    /// More than [`FILES_MAX`] files.
    #[error("{}: more than {FILES_MAX} runs", shown(directory))]
    TooMany {
        /// Where.
        directory: PathBuf,
    },
    /// The file system refuses.
    #[error("{}: {error}", shown(file))]
    Io {
        /// What was read or written.
        file: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

impl StoreError {
    pub(super) fn load(file: &Path, error: LoadError) -> Self {
        Self::Load { file: file.to_owned(), error }
    }
}

/// The name of a file, which may be anybody's, in one harmless line.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// Refuses a run that has no place in a data set.
fn check(run: &Run, file: &Path) -> Result<(), StoreError> {
    match is_machine_id(&run.machine.id) {
        true => Ok(()),
        false => Err(StoreError::MachineId { file: file.to_owned() }),
    }
}

/// As `Machine::set_id` makes them. Nothing else becomes the name of a directory.
fn is_machine_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names in a directory, in order; none if it is not there or is no directory.
fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::Io { file: directory.to_owned(), error };
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

/// What `data list --json` prints.
pub const INVENTORY_SCHEMA: &str = "nearcall.data-list/1";

/// Runs in one data set. Whoever has more asks a database, and this stops a wrong directory.
pub const FILES_MAX: usize = 100_000;
