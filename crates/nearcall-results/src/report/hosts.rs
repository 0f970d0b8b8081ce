//! Stored runs, put together by the machine that they measured.
//!
//! **Invariants:** figures of two machines never meet in one value; where two runs of one machine
//! measured the same thing the later one counts, and the number of such cells is kept. Runs that
//! mean different things by the same words are refused. Nothing is averaged here or anywhere above.
//!
//! **Invariant:** figures of two machines are never combined in one value. *Checked by*
//! `the_later_run_of_a_machine_counts_and_machines_stay_apart`,
//! `machines_stand_beside_each_other_and_are_never_averaged`.

use std::collections::{BTreeMap, HashMap};

use crate::run::{Cell, CellKey, Definition, Machine, Run};

/// One machine and what is known of it.
#[derive(Debug)]
pub struct Host<'a> {
    /// The machine, as the latest run describes it.
    pub machine: &'a Machine,
    /// Its runs, the latest first.
    pub runs: Vec<&'a Run>,
    /// Every cell of them, sorted by key.
    pub entries: Vec<Entry<'a>>,
    /// Cells that a later run measured again; they are not among `entries`.
    pub superseded: usize,
}

/// One cell, with what it is a measurement of.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// What was measured.
    pub key: CellKey,
    /// What was found.
    pub cell: &'a Cell,
    /// The run that it comes from.
    pub run: &'a Run,
}

/// Puts runs together. Machines come in the order in which the first run of each was given.
///
/// # Errors
///
/// [`Mismatch`] if two runs cannot stand in one table.
pub fn hosts(runs: &[Run]) -> Result<Vec<Host<'_>>, Mismatch> {
    check(&runs.iter().collect::<Vec<_>>())?;
    let mut machines: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        match machines.iter_mut().find(|of_it| of_it[0].machine.is_same(&run.machine)) {
            Some(of_it) => of_it.push(run),
            None => machines.push(vec![run]),
        }
    }
    Ok(machines.into_iter().map(host).collect())
}

/// `of_it` has at least one run.
fn host(mut of_it: Vec<&Run>) -> Host<'_> {
    // Stable: of runs of one second the one that was given first counts.
    of_it.sort_by_key(|run| std::cmp::Reverse(run.started_unix_s));
    let mut found: BTreeMap<CellKey, Entry<'_>> = BTreeMap::new();
    let mut superseded = 0;
    for &run in &of_it {
        for (key, cell) in run.keyed_cells() {
            match found.contains_key(&key) {
                true => superseded += 1,
                false => drop(found.insert(key.clone(), Entry { key, cell, run })),
            }
        }
    }
    let machine = &of_it[0].machine;
    Host { machine, runs: of_it, entries: found.into_values().collect(), superseded }
}

/// Whether runs mean the same by the same words.
///
/// # Errors
///
/// [`Mismatch`] if two of them do not.
pub fn check(runs: &[&Run]) -> Result<(), Mismatch> {
    check_touch(runs)?;
    check_definitions(runs)
}

/// Why two runs cannot stand in one table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Their payloads were touched differently.
    #[error("{}", apart(runs, &format!(
        "payload touched {:?} in one and {:?} in the other", words[0], words[1]
    )))]
    Touch {
        /// The words of two runs.
        words: [String; 2],
        /// Which two, from 0, in the order given.
        runs: [usize; 2],
    },
    /// They time the same exchange from different moments.
    #[error("{}", timed(what, definitions.map(Definition::name), runs))]
    Definition {
        /// The exchange in words.
        what: String,
        /// What one time means in each.
        definitions: [Definition; 2],
        /// Which two, from 0, in the order given.
        runs: [usize; 2],
    },
}

fn timed(what: &str, [a, b]: [&str; 2], runs: &[usize; 2]) -> String {
    match runs {
        [run, other] if run == other => {
            format!("run {} times {what} as {a} and as {b}: they cannot share a table", run + 1)
        }
        runs => apart(runs, &format!("{what} is timed as {a} in one and {b} in the other")),
    }
}

fn apart([first, second]: &[usize; 2], what: &str) -> String {
    let (first, second) = (first + 1, second + 1);
    format!(
        "runs {first} and {second} mean different things and cannot share a table: {what}; give \
         them one at a time"
    )
}

fn check_touch(runs: &[&Run]) -> Result<(), Mismatch> {
    let word = |run: &Run| match run.settings.touch.as_str() {
        "" => "full".to_owned(),
        word => word.to_owned(),
    };
    for (index, run) in runs.iter().enumerate().skip(1) {
        let words = [word(runs[0]), word(run)];
        if words[0] != words[1] {
            return Err(Mismatch::Touch { words, runs: [0, index] });
        }
    }
    Ok(())
}

/// Cells that agree in all but their definition would stand in one row.
fn check_definitions(runs: &[&Run]) -> Result<(), Mismatch> {
    let mut seen: HashMap<CellKey, (Definition, usize)> = HashMap::new();
    for (index, run) in runs.iter().enumerate() {
        for (key, _) in run.keyed_cells() {
            let definition = key.definition;
            let same = CellKey { definition: Definition::Rtt, ..key.clone() };
            let &mut (first, at) = seen.entry(same).or_insert((definition, index));
            if first != definition {
                return Err(Mismatch::Definition {
                    what: key.to_string(),
                    definitions: [first, definition],
                    runs: [at, index],
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Kind, Settings};

    fn run(id: &str, started_unix_s: u64, cells: Vec<Cell>) -> Run {
        let machine = Machine { id: id.to_owned(), ..Machine::default() };
        let mut run = Run::new(machine, Settings::default(), started_unix_s);
        run.cells = cells;
        run
    }

    #[test]
    fn the_later_run_of_a_machine_counts_and_machines_stay_apart() {
        let cell = |count| Cell { count, ..Cell::new(Kind::Latency, "pipe", 8) };
        let runs = [
            run("a", 5, vec![cell(1), Cell::new(Kind::Latency, "tcp", 8)]),
            run("b", 1, vec![cell(2)]),
            run("a", 9, vec![cell(3)]),
        ];
        let hosts = hosts(&runs).unwrap();
        assert_eq!(hosts.len(), 2);
        let counts: Vec<u64> = hosts[0].entries.iter().map(|entry| entry.cell.count).collect();
        assert_eq!((counts, hosts[0].superseded), (vec![3, 0], 1));
        assert_eq!(hosts[1].entries[0].cell.count, 2);
    }

    #[test]
    fn a_run_that_contradicts_itself_is_told_apart_from_two() {
        let mut cells = vec![Cell::new(Kind::Latency, "pipe", 8); 2];
        cells[1].definition = Definition::RttHalf;
        let error = hosts(&[run("a", 1, cells)]).unwrap_err().to_string();
        assert!(error.starts_with("run 1 times pipe ") && !error.contains("runs"), "{error}");
    }

    #[test]
    fn runs_that_mean_different_things_are_refused() {
        let mut halved = Cell::new(Kind::Latency, "pipe", 8);
        halved.definition = Definition::RttHalf;
        let mut runs =
            [run("a", 1, vec![Cell::new(Kind::Latency, "pipe", 8)]), run("b", 1, vec![])];
        runs[1].cells.push(halved);
        let error = hosts(&runs).unwrap_err().to_string();
        assert!(error.contains("runs 1 and 2") && error.contains("rtt_half"), "{error}");
        runs[1].cells.clear();
        runs[1].settings.touch = "none".to_owned();
        let error = hosts(&runs).unwrap_err().to_string();
        assert!(error.contains("\"full\"") && error.contains("\"none\""), "{error}");
    }
}
