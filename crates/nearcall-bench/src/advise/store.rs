//! What is stored of this machine for the runtime: `nearcall advise --profile`.
//!
//! A file of `nearcall_channel::spin::tuning`, with lines that only people and tools read: when it
//! was made, and which mechanism is the fastest from which size on. Always true: a file is replaced
//! whole or not at all, and what was written is what the runtime will read.
//! Not here: how the runtime uses it (`nearcall-channel`), the verb (nearcall-cli).

use std::fmt::Write;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use nearcall_channel::measure_wake_up_cost;
use nearcall_channel::spin::tuning::{self, Tuning};
use serde::{Deserialize, Serialize};

use crate::noise::Grade;
use crate::report::number;
use crate::run::{CellKey, Definition, Kind, List, Rhythm, Run, save_text};
use crate::stats;

/// The version that this program writes.
pub const SCHEMA: &str = "nearcall.tuning/1";

/// What is stored of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The machine in a line, as the runtime recognises it.
    pub machine: String,
    /// What waking a thread on another CPU costs, in nanoseconds.
    pub wake_up_ns: u64,
    /// How long an end spins before it sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// When it was measured, in seconds since 1970 (UTC).
    pub measured_unix_s: u64,
    /// Where one mechanism begins to be faster than another; empty without a run.
    pub crossovers: Vec<Crossover>,
}

/// From this size on, until that of the next, this is the fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossover {
    /// "same_llc" and so on.
    pub class: String,
    /// "echo" and so on.
    pub shape: String,
    /// The smallest size that was measured to be so.
    pub from_bytes: u64,
    /// Whether only those were compared that never spin.
    pub sleeps: bool,
    /// The mechanism and how its client waits.
    pub fastest: String,
}

/// The run of `runs` whose crossovers may be stored for the machine with this id.
///
/// # Errors
///
/// [`BadRuns`]: there are several, or it is of another machine.
pub fn run_of<'a>(machine_id: &str, runs: &'a [Run]) -> Result<Option<&'a Run>, BadRuns> {
    match runs {
        [] => Ok(None),
        [run] if run.machine.id == machine_id => Ok(Some(run)),
        [_] => Err(BadRuns::OtherMachine),
        _ => Err(BadRuns::Many),
    }
}

/// Why the crossovers of some runs are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRuns {
    /// There are several, and one is asked for.
    #[error("crossovers are those of one run; give one")]
    Many,
    /// It was measured on another machine.
    #[error("the run is of another machine, and this one's file is stored")]
    OtherMachine,
}

/// Measures what the runtime needs, and takes crossovers from `run`, which [`run_of`] gave.
///
/// Takes some tens of milliseconds and two threads. `None` if those could not be had.
#[must_use]
pub fn measure(run: Option<&Run>, now_unix_s: u64) -> Option<Stored> {
    let times: Vec<f64> = (0..MEASUREMENTS)
        .filter_map(|_| measure_wake_up_cost())
        .map(|cost| cost.as_secs_f64())
        .collect();
    // A disturbed one among them does not count.
    let middle = Duration::from_secs_f64(stats::median(&times)?);
    let tuning = Tuning::of_wake_up(middle);
    Some(Stored {
        schema: SCHEMA.to_owned(),
        machine: tuning.machine,
        wake_up_ns: tuning.wake_up_ns,
        spin_ns: tuning.spin_ns?,
        measured_unix_s: now_unix_s,
        crossovers: run.map(crossovers).unwrap_or_default(),
    })
}

/// Which candidate has the shortest median from which size on, for each place and shape: of all,
/// and of those that never spin. Only of plain messages, one after the other on an idle machine;
/// cells of grade D do not count.
#[must_use]
pub fn crossovers(run: &Run) -> Vec<Crossover> {
    [false, true].into_iter().flat_map(|sleeps| crossovers_of(run, sleeps)).collect()
}

fn crossovers_of(run: &Run, sleeps: bool) -> Vec<Crossover> {
    let mut fastest: Vec<(Place, Fastest)> = Vec::new();
    if !matches!(run.settings.touch.as_str(), "" | "full") {
        // What nobody reads costs the same at every size.
        return Vec::new();
    }
    for (key, cell) in run.keyed_cells() {
        let plain = key.list == List::Cells && key.kind == Kind::Latency && key.caller.is_empty();
        let usual = key.rhythm == Rhythm::Steady && key.load == "idle" && key.pair.is_none();
        let known = key.definition == Definition::Rtt && cell.grade != Some(Grade::D);
        let fits = plain && usual && known && (!sleeps || ["block", "poll"].contains(&&*key.wait));
        let Some(time) = cell.headline().filter(|_| fits) else { continue };
        let name = format!("{} {}", key.mechanism, key.wait);
        let at = place(key);
        match fastest.iter_mut().find(|one| one.0 == at) {
            Some((_, best)) if best.0 > time.value => *best = (time.value, name),
            Some(_) => {}
            None => fastest.push((at, (time.value, name))),
        }
    }
    fastest.sort_by(|a, b| a.0.cmp(&b.0));
    let mut found: Vec<Crossover> = Vec::new();
    for ((class, shape, from_bytes), (_, fastest)) in fastest {
        let next = Crossover { class, shape, from_bytes, sleeps, fastest };
        let goes_on = found.last().is_some_and(|last| {
            (&last.class, &last.shape, &last.fastest) == (&next.class, &next.shape, &next.fastest)
        });
        if !goes_on {
            found.push(next);
        }
    }
    found
}

/// Class of placement, shape, size.
type Place = (String, String, u64);

/// The shortest time, and whose it is.
type Fastest = (f64, String);

fn place(key: CellKey) -> Place {
    (key.class, key.shape, key.message_bytes)
}

impl Stored {
    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let tuning = Tuning {
            machine: self.machine.clone(),
            wake_up_ns: self.wake_up_ns,
            spin_ns: Some(self.spin_ns),
        };
        let mut text = tuning.to_string();
        let _ = writeln!(
            text,
            "# measured {} by nearcall {}\nmeasured_unix_s = {}",
            number::date(self.measured_unix_s),
            env!("CARGO_PKG_VERSION"),
            self.measured_unix_s
        );
        for one in &self.crossovers {
            let key = if one.sleeps { "fastest_asleep" } else { "fastest" };
            let _ = writeln!(
                text,
                "{key}.{}.{}.from_bytes.{} = {}",
                one.class, one.shape, one.from_bytes, one.fastest
            );
        }
        text
    }

    /// Writes it to `path`, whose folder is made if it is missing, and reads it as the runtime
    /// will.
    ///
    /// # Errors
    ///
    /// What the system says, or why the runtime would not use the file. What is no regular file is
    /// left as it is.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            // Its mode would be changed, be it that of a device.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        save_text(path, &self.to_text())?;
        // What a group may write is not believed, and some users' new files are such.
        fs::set_permissions(path, Permissions::from_mode(0o644))?;
        match tuning::read(path) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(io::Error::other(format!("the runtime would not use it: it {error}")))
            }
        }
    }
}

/// Each takes a few milliseconds.
const MEASUREMENTS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Cell, Machine, RttNs, Settings};

    fn cell(mechanism: &str, bytes: u64, p50: f64) -> Cell {
        let mut cell = Cell::new(Kind::Latency, mechanism, bytes);
        cell.placement.class = "same_llc".to_owned();
        cell.rtt_ns = Some(RttNs { p50: Some(p50), ..RttNs::default() });
        cell
    }

    #[test]
    fn crossovers_tell_from_which_size_on_another_one_is_faster() {
        let mut run = Run::new(Machine::default(), Settings::default(), 0);
        for (bytes, pipe, cma) in
            [(8, 1.0, 5.0), (64, 2.0, 5.0), (4_096, 9.0, 6.0), (65_536, 9.0, 7.0)]
        {
            run.cells.extend([cell("pipe", bytes, pipe), cell("cma", bytes, cma)]);
        }
        let noisy = Cell { grade: Some(Grade::D), ..cell("tcp", 8, 0.1) };
        run.cells.push(noisy);
        run.cells.push(Cell { wait: "spin".to_owned(), ..cell("shm", 8, 0.5) });
        let found: Vec<(u64, bool, String)> = crossovers(&run)
            .into_iter()
            .map(|one| (one.from_bytes, one.sleeps, one.fastest))
            .collect();
        let expected = [
            (8, false, "shm spin"),
            (64, false, "pipe block"),
            (4_096, false, "cma block"),
            (8, true, "pipe block"),
            (4_096, true, "cma block"),
        ];
        assert_eq!(found, expected.map(|(bytes, sleeps, name)| (bytes, sleeps, name.to_owned())));
    }

    #[test]
    fn a_run_whose_payload_nobody_read_has_no_crossovers() {
        let settings = Settings { touch: "none".to_owned(), ..Settings::default() };
        let mut run = Run::new(Machine::default(), settings, 0);
        run.cells.push(cell("pipe", 8, 1.0));
        assert_eq!(crossovers(&run), []);
        run.settings.touch = "full".to_owned();
        assert_eq!(crossovers(&run).len(), 2);
    }

    #[test]
    fn only_one_run_of_this_machine_counts() {
        let machine = Machine { id: "here".to_owned(), ..Machine::default() };
        let runs = [0, 1].map(|at| Run::new(machine.clone(), Settings::default(), at));
        assert!(run_of("here", &[]).unwrap().is_none());
        assert!(run_of("here", &runs[..1]).unwrap().is_some());
        assert_eq!(run_of("there", &runs[..1]).unwrap_err(), BadRuns::OtherMachine);
        assert_eq!(run_of("here", &runs).unwrap_err(), BadRuns::Many);
    }

    #[test]
    fn a_device_is_left_as_it_is() {
        let null = Path::new("/dev/null");
        let mode = || fs::metadata(null).unwrap().permissions().mode();
        let (before, stored) = (mode(), measure(None, 0).unwrap());
        assert_eq!(stored.save(null).unwrap_err().to_string(), "it is no regular file");
        assert_eq!(mode(), before);
    }

    #[test]
    fn the_runtime_reads_what_is_stored() {
        let stored = measure(None, 1_795_000_000).unwrap();
        let one = Crossover {
            class: "same_llc".into(),
            shape: "echo".into(),
            from_bytes: 8,
            sleeps: true,
            fastest: "pipe block".into(),
        };
        let stored = Stored { crossovers: vec![one], ..stored };
        let folder = std::env::temp_dir().join(format!("nearcall-store-{}", std::process::id()));
        let path = folder.join("deep/tuning.conf");
        // The second time it is replaced.
        for _ in 0..2 {
            stored.save(&path).unwrap();
            let read = tuning::read(&path).unwrap();
            assert_eq!((read.wake_up_ns, read.spin_ns), (stored.wake_up_ns, Some(stored.spin_ns)));
        }
        assert_eq!(fs::read_dir(folder.join("deep")).unwrap().count(), 1);
        let other = Stored { machine: "abacus".to_owned(), ..stored.clone() };
        assert!(other.save(&path).unwrap_err().to_string().contains("of another machine: abacus"));
        fs::remove_dir_all(&folder).unwrap();
        let text = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<Stored>(&text).unwrap(), stored);
    }

    #[test]
    fn the_stored_tour_has_crossovers() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs/epyc-2cpu-tour.json");
        let found = crossovers(&Run::load(&path).unwrap());
        assert!(!found.is_empty());
    }
}
