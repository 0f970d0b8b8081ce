//! The folder: runs come in, are found again and are counted.
//!
//! Always true: a file is never overwritten or seen half written; of several runs that come in at
//! once either all are taken or none; a run lies in the folder of its machine. What is there
//! already is recognised by its content, whatever it is called. Files that are no runs, such as a
//! README, are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::redact;
use super::run_id::Content;
use crate::run::{LoadError, Machine, Run, create_beside, printable, read_text};

/// A folder of runs.
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
    /// The same run is there, under this name or another one.
    Duplicate,
    /// Another run has its name, and both are kept: this one under a number.
    Renamed,
}

impl DataSet {
    /// The data set in this folder, which need not be there yet.
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
    /// no such folder.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], and [`StoreError::TooMany`] above [`FILES_MAX`].
    pub fn places(&self) -> Result<Vec<String>, StoreError> {
        let mut places = Vec::new();
        for machine in names(&self.directory)? {
            if !is_machine_id(&machine) {
                continue;
            }
            for name in names(&self.directory.join(&machine))? {
                if name.ends_with(".json") {
                    places.push(format!("{machine}/{name}"));
                }
            }
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
        Run::parse(&self.text(place)?).map_err(LoadError::Parse)
    }

    /// A run of the data set, and what its name follows from.
    pub(super) fn load_content(&self, place: &str) -> Result<(Run, Content), LoadError> {
        let text = self.text(place)?;
        let run = Run::parse(&text).map_err(LoadError::Parse)?;
        Ok((run, content(&text)?))
    }

    fn text(&self, place: &str) -> Result<String, LoadError> {
        let path = self.directory.join(place);
        if !fs::symlink_metadata(&path).map_err(LoadError::Io)?.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(LoadError::Io(error));
        }
        read_text(&path)
    }

    /// Takes runs in: all of them, or none if one of them is no run. The host's name and the
    /// folders of paths are taken out first; `keep_host_name` keeps the former.
    ///
    /// Reads the runs of the same machines that are there already.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the data set is as it was then.
    pub fn add(&self, files: &[PathBuf], keep_host_name: bool) -> Result<Vec<Arrival>, StoreError> {
        let mut known = Known::default();
        for file in files {
            let run = Run::load(file).map_err(|error| StoreError::load(file, error))?;
            self.check(&mut known, &run, file)?;
        }
        let mut arrivals = Vec::new();
        for file in files {
            match self.take_in_file(&mut known, file, keep_host_name) {
                Ok(arrival) => arrivals.push(arrival),
                Err(error) => {
                    self.take_back(&arrivals);
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
        self.take_in(&mut Known::default(), run, &run.to_json(), from, false)
    }

    /// Takes in every run of another data set, as [`add`](Self::add) does: names of hosts stay,
    /// folders of paths go.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; the data set is as it was then.
    pub fn merge(&self, other: &Self) -> Result<Vec<Arrival>, StoreError> {
        let places = other.places()?;
        for place in &places {
            let path = other.directory.join(place);
            let run = other.load(place).map_err(|error| StoreError::load(&path, error))?;
            if !place.starts_with(&format!("{}/", run.machine.id)) {
                return Err(StoreError::Misplaced { file: path, machine: run.machine.id });
            }
        }
        let files: Vec<PathBuf> = places.iter().map(|place| other.directory.join(place)).collect();
        self.add(&files, true)
    }

    /// Refuses a run that cannot stand in the folder of its machine.
    fn check(&self, known: &mut Known, run: &Run, file: &Path) -> Result<(), StoreError> {
        let id = &run.machine.id;
        if !is_machine_id(id) {
            return Err(StoreError::MachineId { file: file.to_owned() });
        }
        if !known.machines.contains_key(id) {
            self.read_machine(known, id)?;
        }
        let facts = facts(&run.machine);
        match known.machines.get_mut(id) {
            Some(Some(there)) if *there != facts => {
                Err(StoreError::TwoMachines { file: file.to_owned(), machine: id.clone() })
            }
            Some(there) => {
                *there = Some(facts);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Reads what is there of one machine.
    fn read_machine(&self, known: &mut Known, id: &str) -> Result<(), StoreError> {
        let mut there = None;
        for name in names(&self.directory.join(id))? {
            let place = format!("{id}/{name}");
            // What cannot be read cannot be the same run; `list` tells of it.
            let found = self.load_content(&place).ok().filter(|_| name.ends_with(".json"));
            let Some((run, content)) = found else { continue };
            if run.machine.id == id {
                there.get_or_insert_with(|| facts(&run.machine));
            }
            known.insert(&run, &content, place);
        }
        known.machines.insert(id.to_owned(), there);
        Ok(())
    }

    fn take_in_file(
        &self,
        known: &mut Known,
        file: &Path,
        keep_host_name: bool,
    ) -> Result<Arrival, StoreError> {
        let load = |error| StoreError::load(file, error);
        let text = read_text(file).map_err(load)?;
        let run = Run::parse(&text).map_err(|error| load(LoadError::Parse(error)))?;
        self.take_in(known, &run, &text, file, keep_host_name)
    }

    fn take_in(
        &self,
        known: &mut Known,
        run: &Run,
        text: &str,
        file: &Path,
        keep_host_name: bool,
    ) -> Result<Arrival, StoreError> {
        // Once more: the file may be another one by now.
        self.check(known, run, file)?;
        let content = content(text).map_err(|error| StoreError::load(file, error))?;
        let from = file.to_owned();
        if let Some(place) = self.same(known, run, &content) {
            return Ok(Arrival { from, place, outcome: Outcome::Duplicate });
        }
        let text = redact::redacted(text, keep_host_name)
            .map_err(|error| StoreError::Io { file: file.to_owned(), error: error.into() })?;
        let first = content.place(run);
        let stem = first.trim_end_matches(".json");
        for number in 1..NAMES_TRIED_MAX {
            let place = match number {
                1 => first.clone(),
                _ => format!("{stem}-{number}.json"),
            };
            let path = self.directory.join(&place);
            match write_new(&path, &text) {
                Ok(()) => {
                    known.insert(run, &content, place.clone());
                    let outcome = if number == 1 { Outcome::Added } else { Outcome::Renamed };
                    return Ok(Arrival { from, place, outcome });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::Io { file: path, error }),
            }
        }
        Err(StoreError::Io {
            file: self.directory.join(first),
            error: io::ErrorKind::AlreadyExists.into(),
        })
    }

    /// Where the same run lies already. Equal hashes are not enough: contents are compared.
    fn same(&self, known: &Known, run: &Run, content: &Content) -> Option<String> {
        let places = known.runs.get(&(run.machine.id.clone(), content.hash()))?;
        let is_same =
            |place: &&String| self.load_content(place).is_ok_and(|(_, there)| there == *content);
        places.iter().find(is_same).cloned()
    }

    fn take_back(&self, arrivals: &[Arrival]) {
        let new = arrivals.iter().filter(|arrival| arrival.outcome != Outcome::Duplicate);
        for arrival in new {
            // Nothing more can be done about a file that does not go away.
            let _ = fs::remove_file(self.directory.join(&arrival.place));
        }
    }
}

/// What is in the folders of some machines.
#[derive(Default)]
struct Known {
    /// The facts of each machine whose folder was read; `None` if it was empty.
    machines: BTreeMap<String, Option<Facts>>,
    /// Where the runs of this machine and hash lie.
    runs: BTreeMap<(String, String), Vec<String>>,
}

impl Known {
    fn insert(&mut self, run: &Run, content: &Content, place: String) {
        self.runs.entry((run.machine.id.clone(), content.hash())).or_default().push(place);
    }
}

/// The content of a text that is a run.
fn content(text: &str) -> Result<Content, LoadError> {
    Content::of(text).map_err(|error| LoadError::Io(error.into()))
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
    /// Its machine has the id of another one, which the data set has already.
    #[error(
        "{}: another machine has the id {machine} in this data set, and runs of two machines never \
         share a folder",
        shown(file)
    )]
    TwoMachines {
        /// Which.
        file: PathBuf,
        /// The id.
        machine: String,
    },
    /// It lies in the folder of another machine.
    #[error(
        "{}: is a run of the machine {} and lies in the folder of another one",
        shown(file),
        printable(machine)
    )]
    Misplaced {
        /// Which.
        file: PathBuf,
        /// The machine that it names.
        machine: String,
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
    fn load(file: &Path, error: LoadError) -> Self {
        Self::Load { file: file.to_owned(), error }
    }
}

/// The name of a file, which may be anybody's, in one harmless line.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// The facts that tell machines apart. Others, such as the kernel's command line, people shorten
/// before they publish a run, and keep the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    words: [String; 4],
    numbers: [Option<u64>; 2],
    caches: Vec<String>,
}

pub(super) fn facts(machine: &Machine) -> Facts {
    let Machine { cpu_model, architecture, topology, kernel, .. } = machine;
    Facts {
        words: [cpu_model, architecture, topology, kernel].map(String::clone),
        numbers: [machine.cpus.map(u64::from), machine.memory_bytes],
        caches: machine.caches.clone(),
    }
}

/// As `Machine::set_id` makes them. Nothing else becomes the name of a folder.
pub(super) fn is_machine_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names in a folder, in order; none if it is not there or is no folder.
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

/// Writes a file that must not be there yet, all of it or nothing. Makes its folder.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
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

/// Runs in one data set. Whoever has more asks a database, and this stops a wrong folder.
pub const FILES_MAX: usize = 100_000;

/// Runs of one name: that two have it takes an edited file or a very rare chance.
const NAMES_TRIED_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Settings;

    #[test]
    fn of_two_runs_with_one_hash_both_are_kept() {
        let path = std::env::temp_dir().join(format!("nearcall-hash-{}", std::process::id()));
        let data = DataSet::at(&path);
        let machine = Machine { id: "aaaaaaaaaaaaaaaa".to_owned(), ..Machine::default() };
        let first = Run::new(machine, Settings::default(), 5);
        let mut second = first.clone();
        second.started_unix_s = 6;
        let added = data.add_run(&first, Path::new("a")).unwrap();
        // As if both had one hash.
        let mut known = Known::default();
        data.check(&mut known, &second, Path::new("b")).unwrap();
        let text = second.to_json();
        known.insert(&second, &Content::of(&text).unwrap(), added.place);
        let mut outcome =
            || data.take_in(&mut known, &second, &text, Path::new("b"), false).unwrap().outcome;
        let found = [outcome(), outcome()];
        fs::remove_dir_all(path).unwrap();
        assert_eq!(found, [Outcome::Added, Outcome::Duplicate]);
    }
}
