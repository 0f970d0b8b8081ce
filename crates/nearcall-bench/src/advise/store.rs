//! What is stored of this machine for the runtime: `nearcall advise --profile`.
//!
//! A file of `nearcall_channel::spin::tuning`, with the time of its measurement.
//!
//! **Invariants:** a file is replaced whole or not at all, and what was written is what the runtime
//! will read.
//!
//! **Not here:** how the runtime uses it (`nearcall-channel`), the verb (`nearcall-cli`).

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use nearcall_channel::measure_wake_up_cost;
use nearcall_channel::spin::tuning::{self, MeasuredCost, Tuning};
use serde::{Deserialize, Serialize};

use crate::report::number;
use crate::run::save_text;
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
    /// What calls cost over mechanisms.
    #[serde(default)]
    pub costs: Vec<StoredCost>,
    /// When it was measured, in seconds since 1970 (UTC).
    pub measured_unix_s: u64,
}

/// What a call costs over a mechanism, in one situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredCost {
    /// The mechanism's name.
    pub mechanism: String,
    /// Where both ends ran: "two-cpus" or "one-cpu".
    pub placement: String,
    /// "busy": right after the call before; "rare": after a pause of milliseconds.
    pub pace: String,
    /// Bytes of the request; the reply is empty.
    pub message_bytes: u64,
    /// The time of a call, in nanoseconds.
    pub latency_ns: u64,
    /// CPU time of both ends for a call, in nanoseconds.
    pub cpu_ns: u64,
}

impl From<&MeasuredCost> for StoredCost {
    fn from(cost: &MeasuredCost) -> Self {
        Self {
            mechanism: cost.mechanism.clone(),
            placement: cost.placement.name().to_owned(),
            pace: cost.pace.name().to_owned(),
            message_bytes: cost.message_bytes,
            latency_ns: cost.latency_ns,
            cpu_ns: cost.cpu_ns,
        }
    }
}

/// Measures what the runtime needs of wake-ups; costs of mechanisms are measured by
/// [`costs::measure`](super::costs::measure).
///
/// Takes some tens of milliseconds and two threads. `None` if those could not be had.
#[must_use]
pub fn measure(now_unix_s: u64) -> Option<Stored> {
    let costs = (0..MEASUREMENTS).filter_map(|_| measure_wake_up_cost());
    let times: Vec<f64> = costs.map(|cost| cost.as_secs_f64()).collect();
    // A disturbed one among them does not count.
    let middle = Duration::from_secs_f64(stats::median(&times)?);
    let tuning = Tuning::of_wake_up(middle);
    Some(Stored {
        schema: SCHEMA.to_owned(),
        machine: tuning.machine,
        wake_up_ns: tuning.wake_up_ns,
        spin_ns: tuning.spin_ns?,
        costs: Vec::new(),
        measured_unix_s: now_unix_s,
    })
}

impl Stored {
    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let tuning = Tuning {
            machine: self.machine.clone(),
            wake_up_ns: self.wake_up_ns,
            spin_ns: Some(self.spin_ns),
            costs: Vec::new(),
        };
        let costs: String = self.costs.iter().map(StoredCost::line).collect();
        let (at, version) = (self.measured_unix_s, env!("CARGO_PKG_VERSION"));
        let date = number::date(at);
        format!("{tuning}{costs}# measured {date} by nearcall {version}\nmeasured_unix_s = {at}\n")
    }

    /// Writes it to `path`, whose directory is made if it is missing, and reads it as the runtime
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
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        save_text(path, &self.to_text())?;
        // What a group may write is not believed, and some users' new files are such.
        fs::set_permissions(path, Permissions::from_mode(0o644))?;
        tuning::read(path)
            .map(drop)
            .map_err(|error| io::Error::other(format!("the runtime would not use it: it {error}")))
    }
}

impl StoredCost {
    fn line(&self) -> String {
        let Self { mechanism, placement, pace, message_bytes, latency_ns, cpu_ns } = self;
        format!("cost = {mechanism} {placement} {pace} {message_bytes} {latency_ns} {cpu_ns}\n")
    }
}

/// Each takes a few milliseconds.
const MEASUREMENTS: usize = 7;

#[cfg(test)]
mod tests {
    use nearcall_channel::spin::tuning::{EndPlacement, Pace};

    use super::*;

    #[test]
    fn a_device_is_left_as_it_is() {
        let null = Path::new("/dev/null");
        let mode = || fs::metadata(null).unwrap().permissions().mode();
        let (before, stored) = (mode(), measure(0).unwrap());
        assert_eq!(stored.save(null).unwrap_err().to_string(), "it is no regular file");
        assert_eq!(mode(), before);
    }

    #[test]
    fn the_runtime_reads_what_is_stored() {
        let cost = MeasuredCost {
            mechanism: "shm".to_owned(),
            placement: EndPlacement::OneCpu,
            pace: Pace::Rare,
            message_bytes: 64,
            latency_ns: 5,
            cpu_ns: 9,
        };
        let costs = vec![StoredCost::from(&cost)];
        let stored = Stored { costs, ..measure(1_795_000_000).unwrap() };
        let scratch = std::env::temp_dir().join(format!("nearcall-store-{}", std::process::id()));
        let path = scratch.join("deep/tuning.conf");
        // The second time it is replaced.
        for _ in 0..2 {
            stored.save(&path).unwrap();
            let read = tuning::read(&path).unwrap();
            assert_eq!((read.wake_up_ns, read.spin_ns), (stored.wake_up_ns, Some(stored.spin_ns)));
            assert_eq!(read.costs, std::slice::from_ref(&cost));
        }
        assert_eq!(fs::read_dir(scratch.join("deep")).unwrap().count(), 1);
        let other = Stored { machine: "abacus".to_owned(), ..stored };
        let error = other.save(&path).unwrap_err().to_string();
        fs::remove_dir_all(&scratch).unwrap();
        assert!(error.contains("of another machine: abacus"), "{error}");
    }
}
