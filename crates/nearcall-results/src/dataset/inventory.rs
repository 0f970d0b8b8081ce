//! What a data set has: a line for each machine, and what is wrong with it.
//!
//! Nothing is stored: the answer follows from the files each time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::run_id::kind_of_run;
use super::store::{DataSet, Facts, StoreError, facts};

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
    /// Its id, which is the name of its folder.
    pub machine_id: String,
    /// The processor.
    pub cpu_model: String,
    /// CPUs that the system sees.
    pub cpus: Option<u32>,
    /// Runs of it.
    pub runs: u64,
    /// Runs that were imported from other programs.
    pub imported: u64,
    /// Cells of all lists of these runs.
    pub cells: u64,
    /// When the first of the runs began, in seconds since 1970 (UTC).
    pub first_unix_s: u64,
    /// When the last of them began.
    pub last_unix_s: u64,
    /// The kinds of runs.
    pub kinds: BTreeSet<String>,
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
    /// Reads every run and tells what there is.
    ///
    /// # Errors
    ///
    /// As [`DataSet::places`]. A file that cannot be read is a problem and no error.
    pub fn inventory(&self) -> Result<Inventory, StoreError> {
        let mut machines: BTreeMap<String, (MachineLine, Facts)> = BTreeMap::new();
        let mut problems = Vec::new();
        for file in self.places()? {
            let (run, content) = match self.load_content(&file) {
                Ok(loaded) => loaded,
                Err(error) => {
                    problems.push(Problem { file, what: error.to_string() });
                    continue;
                }
            };
            let (line, there) = machines.entry(run.machine.id.clone()).or_insert_with(|| {
                let line = MachineLine {
                    machine_id: run.machine.id.clone(),
                    cpu_model: run.machine.cpu_model.clone(),
                    cpus: run.machine.cpus,
                    first_unix_s: run.started_unix_s,
                    ..MachineLine::default()
                };
                (line, facts(&run.machine))
            });
            let home = content.place(&run);
            let folder = |place: &str| place.split('/').next().map(str::to_owned);
            let mut problem = |what: String| problems.push(Problem { file: file.clone(), what });
            if folder(&home) != folder(&file) {
                problem(format!("is a run of the machine {}", run.machine.id.escape_debug()));
            } else if !is_name_of(&file, &home) {
                problem(format!("its content has another name: {home}"));
            }
            if *there != facts(&run.machine) {
                problem("its machine has the id of another one".to_owned());
            }
            line.runs += 1;
            line.imported += u64::from(run.imported.is_some());
            line.cells += run.keyed_cells().count() as u64;
            line.first_unix_s = line.first_unix_s.min(run.started_unix_s);
            line.last_unix_s = line.last_unix_s.max(run.started_unix_s);
            line.kinds.insert(kind_of_run(&run).to_owned());
        }
        let machines = machines.into_values().map(|(line, _)| line).collect();
        Ok(Inventory { schema: INVENTORY_SCHEMA.to_owned(), machines, problems })
    }
}

/// Whether a file may have this name if its content has the name `home`: that one, or with a number
/// behind it.
fn is_name_of(file: &str, home: &str) -> bool {
    let number = file.strip_prefix(home.trim_end_matches(".json"));
    let number = number.and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|rest| {
        rest.is_empty()
            || rest.strip_prefix('-').is_some_and(|digits| digits.parse::<u32>().is_ok())
    })
}

/// What `data list --json` prints.
pub const INVENTORY_SCHEMA: &str = "nearcall.data-list/1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_number_behind_it() {
        for (file, expected) in
            [("a/x.json", true), ("a/x-2.json", true), ("a/x-y.json", false), ("a/y.json", false)]
        {
            assert_eq!(is_name_of(file, "a/x.json"), expected, "{file}");
        }
    }
}
