//! What was once measured of this machine and stored, so that not every process measures it again.
//!
//! A small text, written by `nearcall advise --profile`: `$NEARCALL_TUNING` if that is set (empty:
//! none), else `nearcall/tuning.conf` below `$XDG_CONFIG_HOME` or `~/.config`, else in `/etc`:
//!
//! ```text
//! nearcall.tuning/1
//! machine = AMD EPYC 7R13 Processor; CPUs 0-1
//! wake_up_ns = 5200
//! spin_ns = 26000
//! cost = shm two-cpus busy 64 459 1100
//! ```
//!
//! **Invariants:** a file counts only if it is one, belongs to this user or to root, no other
//! process may write it, and it names this machine; what it says is brought within limits. A file
//! that does not count is passed over in silence: a library never prints. It is read once in a
//! process.
//! **Not here:** what follows from it (`spin/wake_up.rs`), what a line `cost` says
//! (`tuning/costs.rs`), how it is made (`nearcall-bench`).

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, io};

use nearcall_os::descriptor::open_nonblocking;
use nearcall_os::process;
use thiserror::Error;

use crate::error::debug_as_display;
use crate::limits::WAKE_UPS_PER_SPIN;

mod costs;

use self::costs::COSTS_MAX;
pub use self::costs::{EndPlacement, MeasuredCost, Pace};

/// The tuning of a machine that is stored for the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// The machine that it was measured on, see [`machine`].
    pub machine: String,
    /// The cost of waking a thread on another CPU, in nanoseconds.
    pub wake_up_ns: u64,
    /// The time to spin before a sleep, in nanoseconds. `None`: a few wake-ups.
    pub spin_ns: Option<u64>,
    /// What calls cost over mechanisms, as far as it was measured.
    pub costs: Vec<MeasuredCost>,
}

/// Why a file does not count.
#[derive(Error)]
pub enum Unusable {
    /// It is not there or cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// Another user could have written it.
    #[error("cannot be trusted: {0}")]
    Untrusted(&'static str),
    /// This line, counted from 1, is not valid; 0 if something is missing.
    #[error("{}", malformed(*line))]
    Malformed {
        /// The line.
        line: usize,
    },
    /// It was measured on another machine.
    #[error("is of another machine: {machine}")]
    OtherMachine {
        /// That one.
        machine: String,
    },
}

debug_as_display!(Unusable);

fn malformed(line: usize) -> String {
    match line {
        0 => "lacks machine or wake_up_ns".to_owned(),
        line => format!("line {line} cannot be parsed"),
    }
}

/// Returns the stored tuning of this machine. Reads files at the first call in a process.
pub fn stored() -> Option<&'static Tuning> {
    static STORED: OnceLock<Option<Tuning>> = OnceLock::new();
    // An interpreter has no files, and a model of threads shall not depend on them.
    let load = || if cfg!(any(miri, loom)) { None } else { load(&paths()) };
    STORED.get_or_init(load).as_ref()
}

/// Returns the path of the user's own tuning, which need not exist. `None` without a home, and
/// where the environment disables it.
#[must_use]
pub fn own_path() -> Option<PathBuf> {
    own_path_by(&|name| env::var_os(name))
}

fn own_path_by(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable(VARIABLE) {
        return (!named.is_empty()).then(|| PathBuf::from(named));
    }
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || Some(set("HOME")?.join(".config"));
    // The standard says that relative ones do not count.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
    Some(config?.join("nearcall").join(FILE))
}

/// Reads one file and judges it.
///
/// # Errors
///
/// [`Unusable`], if it does not count.
pub fn read(path: &Path) -> Result<Tuning, Unusable> {
    // Before it is opened, since opening a device may do something.
    check_owner(&std::fs::metadata(path).map_err(Unusable::Unreadable)?)?;
    // It may be another one by now: opening a pipe must not wait for its writer.
    let file = open_nonblocking(path).map_err(Unusable::Unreadable)?;
    check_owner(&file.metadata().map_err(Unusable::Unreadable)?)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(Unusable::Unreadable)?;
    let tuning = Tuning::parse(&text)?;
    match tuning.machine == machine() {
        true => Ok(tuning),
        false => Err(Unusable::OtherMachine { machine: tuning.machine }),
    }
}

/// This machine in a line: its processor and which CPUs are online. Reads two files.
///
/// What a wake-up costs follows from these; a file in a home that several machines share is told
/// by it to which of them it belongs.
#[must_use]
pub fn machine() -> String {
    let text = |path: &str| {
        let mut bytes = Vec::new();
        let file = File::open(path).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let processor = processor(&text("/proc/cpuinfo").unwrap_or_default());
    let online = text("/sys/devices/system/cpu/online").unwrap_or_default();
    format!("{processor}; CPUs {}", online.trim())
}

impl Tuning {
    /// Makes the tuning of this machine from the measured cost of a wake-up.
    #[must_use]
    pub fn of_wake_up(cost: Duration) -> Self {
        let cost_ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let wake_up_ns = cost_ns.clamp(WAKE_UP_NS_MIN, WAKE_UP_NS_MAX);
        let spin_ns = Some(wake_up_ns * WAKE_UPS_PER_SPIN);
        Self { machine: machine(), wake_up_ns, spin_ns, costs: Vec::new() }
    }

    /// Reads the text of a file. Keys that it does not know are skipped.
    ///
    /// # Errors
    ///
    /// [`Unusable::Malformed`].
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        let (mut machine, mut wake_up_ns, mut spin_ns) = (None, None, None);
        let mut costs = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let refused = || Unusable::Malformed { line: number };
            let line = line.trim();
            if number == 1 {
                if line != VERSION {
                    return Err(refused());
                }
                continue;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(refused)?;
            let value = value.trim();
            let number = || value.parse::<u64>().map_err(|_| refused());
            match key.trim() {
                "machine" => machine = Some(value.to_owned()),
                "wake_up_ns" => {
                    wake_up_ns = Some(number()?.clamp(WAKE_UP_NS_MIN, WAKE_UP_NS_MAX));
                }
                "spin_ns" => spin_ns = Some(number()?.min(SPIN_NS_MAX)),
                "cost" if costs.len() < COSTS_MAX => {
                    costs.push(MeasuredCost::parse(value).ok_or_else(refused)?);
                }
                _ => {}
            }
        }
        match (machine, wake_up_ns) {
            (Some(machine), Some(wake_up_ns)) => Ok(Self { machine, wake_up_ns, spin_ns, costs }),
            _ => Err(Unusable::Malformed { line: 0 }),
        }
    }
}

impl fmt::Display for Tuning {
    /// The text of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{VERSION}\nmachine = {}\nwake_up_ns = {}", self.machine, self.wake_up_ns)?;
        if let Some(spin_ns) = self.spin_ns {
            writeln!(f, "spin_ns = {spin_ns}")?;
        }
        self.costs.iter().try_for_each(|cost| writeln!(f, "{cost}"))
    }
}

/// Returns the paths where files may be, the one that decides first.
fn paths() -> Vec<PathBuf> {
    if env::var_os(VARIABLE).is_some() {
        // Nothing, if it is empty.
        return own_path().into_iter().collect();
    }
    own_path().into_iter().chain([Path::new("/etc/nearcall").join(FILE)]).collect()
}

fn load(paths: &[PathBuf]) -> Option<Tuning> {
    paths.iter().find_map(|path| read(path).ok())
}

fn check_owner(file: &Metadata) -> Result<(), Unusable> {
    let untrusted = if !file.is_file() {
        "it is no file"
    } else if file.uid() != 0 && file.uid() != process::user_id() {
        "it belongs to another user"
    } else if file.mode() & 0o022 != 0 {
        "others may write it"
    } else {
        return Ok(());
    };
    Err(Unusable::Untrusted(untrusted))
}

/// The model by its name, or by its numbers where it has none.
fn processor(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| name.trim() == key)?;
        Some(found.1.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let named = value("model name").or_else(|| {
        let numbers = ["CPU implementer", "CPU architecture", "CPU variant", "CPU part"];
        let numbers: Vec<String> = numbers.iter().filter_map(|key| value(key)).collect();
        (!numbers.is_empty()).then(|| numbers.join(" "))
    });
    named.unwrap_or_else(|| "unknown processor".to_owned())
}

const VERSION: &str = "nearcall.tuning/1";

/// Names the file; empty: none is read.
const VARIABLE: &str = "NEARCALL_TUNING";

const FILE: &str = "tuning.conf";

/// Far more than a file has, and than the first CPU takes in `/proc/cpuinfo`.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// No kernel wakes a thread in less time.
pub(super) const WAKE_UP_NS_MIN: u64 = 1_000;

/// Virtual machines whose idle CPUs have to be fetched from their host come near this, in
/// nanoseconds; above, it was load.
pub(super) const WAKE_UP_NS_MAX: u64 = 50_000;

/// Ten of the dearest wake-ups: spinning longer for one wait burns a CPU.
const SPIN_NS_MAX: u64 = 10 * WAKE_UP_NS_MAX;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parsed(lines: &str) -> Result<(u64, Option<u64>), String> {
        let tuning = Tuning::parse(&format!("{VERSION}\n{lines}")).map_err(|e| e.to_string())?;
        assert_eq!(tuning.machine, "m; CPUs 0-1");
        Ok((tuning.wake_up_ns, tuning.spin_ns))
    }

    #[test]
    fn a_text_is_read_as_it_is_written() {
        for spin_ns in [None, Some(7)] {
            let machine = "m; CPUs 0-1".to_owned();
            let cost = MeasuredCost::parse("shm two-cpus rare 4096 9 10").unwrap();
            let costs = vec![cost; usize::from(spin_ns.is_some()) * 2];
            let tuning = Tuning { machine, wake_up_ns: 5_200, spin_ns, costs };
            assert_eq!(Tuning::parse(&tuning.to_string()).unwrap(), tuning);
        }
        let many = "cost = shm one-cpu busy 1 1 1\n".repeat(COSTS_MAX + 1);
        let many = format!("{VERSION}\nmachine = m\nwake_up_ns = 7000\n{many}");
        assert_eq!(Tuning::parse(&many).unwrap().costs.len(), COSTS_MAX);
        let more = "# why\n\nmachine = m; CPUs 0-1\r\nwake_up_ns=7000\nlater = 1\n";
        assert_eq!(parsed(more), Ok((7_000, None)));
    }

    #[test]
    fn numbers_are_brought_within_limits() {
        let of = |wake_up: &str, spin: &str| {
            parsed(&format!("machine = m; CPUs 0-1\nwake_up_ns = {wake_up}\nspin_ns = {spin}\n"))
        };
        assert_eq!(of("0", "0"), Ok((WAKE_UP_NS_MIN, Some(0))));
        let huge = u64::MAX.to_string();
        assert_eq!(of(&huge, &huge), Ok((WAKE_UP_NS_MAX, Some(SPIN_NS_MAX))));
        for bad in ["-1", "5us", "", "1e9", "99999999999999999999"] {
            assert_eq!(of(bad, "0"), Err("line 3 cannot be parsed".to_owned()), "{bad}");
        }
    }

    #[test]
    fn what_is_no_tuning_is_refused_with_its_line() {
        let refused = |text: &str| Tuning::parse(text).unwrap_err().to_string();
        assert_eq!(refused("nearcall.tuning/2\n"), "line 1 cannot be parsed");
        assert_eq!(refused("nearcall.tuning/1\nspin\n"), "line 2 cannot be parsed");
        assert_eq!(refused("nearcall.tuning/1\ncost = shm\n"), "line 2 cannot be parsed");
        assert_eq!(refused("nearcall.tuning/1\nmachine = m\n"), "lacks machine or wake_up_ns");
        assert_eq!(refused(""), "lacks machine or wake_up_ns");
    }

    #[test]
    fn an_empty_name_means_no_file_at_all() {
        let path = |named: Option<&str>, config: &str| {
            own_path_by(&|name| match name {
                VARIABLE => named.map(OsString::from),
                "XDG_CONFIG_HOME" => Some(config.into()),
                _ => Some("/user".into()),
            })
        };
        assert_eq!(path(Some(""), "/config"), None);
        assert_eq!(path(Some("own"), "/config"), Some("own".into()));
        assert_eq!(path(None, "/config"), Some("/config/nearcall/tuning.conf".into()));
        assert_eq!(path(None, "config"), Some("/user/.config/nearcall/tuning.conf".into()));
    }

    #[test]
    fn a_processor_is_identified_by_name_or_by_numbers() {
        let x86 = "processor\t: 0\nmodel name\t: AMD  EPYC\nmodel name : other\n";
        assert_eq!(processor(x86), "AMD EPYC");
        assert_eq!(processor("CPU implementer : 0x41\nCPU part : 0xd0c\n"), "0x41 0xd0c");
        assert_eq!(processor("\u{0}:"), "unknown processor");
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_file_counts_only_if_it_is_ours_and_of_this_machine() {
        let dir = env::temp_dir().join(format!("nearcall-tuning-{}", process::pid()));
        fs::create_dir(&dir).unwrap();
        let path = dir.join(FILE);
        let reason = || read(&path).map_err(|error| error.to_string());
        let costs = Vec::new();
        let good = Tuning { machine: machine(), wake_up_ns: 6_000, spin_ns: None, costs };
        assert!(reason().unwrap_err().starts_with("cannot be read"));
        fs::write(&path, good.to_string()).unwrap();
        assert_eq!(reason(), Ok(good.clone()));
        assert_eq!(load(&[dir.join("none"), path.clone()]), Some(good.clone()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(reason(), Err("cannot be trusted: others may write it".to_owned()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, Tuning { machine: "abacus".to_owned(), ..good }.to_string()).unwrap();
        assert_eq!(reason(), Err("is of another machine: abacus".to_owned()));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(reason().unwrap_err().starts_with("cannot be read"));
        let of_dir = read(&dir).unwrap_err().to_string();
        assert_eq!(of_dir, "cannot be trusted: it is no file");
        fs::remove_dir_all(&dir).unwrap();
    }
}
