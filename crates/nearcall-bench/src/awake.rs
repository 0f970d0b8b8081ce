//! Keeps CPUs out of their sleep states while a run measures (rule R9).
//!
//! The kernel promises wake-ups within 0 µs for as long as a descriptor of `/dev/cpu_dma_latency`
//! that asks for it is open. That costs power, and most users may not; so it is done on request.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Keeps CPUs out of sleep states until it is dropped, or knows why that was refused.
pub(crate) struct CStateLock {
    held: Result<File, String>,
}

impl CStateLock {
    /// Asks the kernel.
    pub(crate) fn hold() -> Self {
        Self::hold_by(Path::new(DEVICE))
    }

    fn hold_by(device: &Path) -> Self {
        let wish = || {
            let mut file = OpenOptions::new().write(true).open(device)?;
            file.write_all(&NO_LATENCY_US.to_ne_bytes())?;
            Ok(file)
        };
        let held = wish().map_err(|error: std::io::Error| format!("{}: {error}", device.display()));
        Self { held }
    }

    /// Whether the kernel agreed.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_ok()
    }

    /// For the settings of the run.
    pub(crate) fn words(&self) -> String {
        match &self.held {
            Ok(_) => "kept off".to_owned(),
            Err(reason) => format!("not kept off: {reason}"),
        }
    }
}

const DEVICE: &str = "/dev/cpu_dma_latency";

/// No state that takes any time to leave.
const NO_LATENCY_US: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_is_a_word_of_zeros_and_a_refusal_has_its_reason() {
        let path = std::env::temp_dir().join(format!("nearcall-awake-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let awake = CStateLock::hold_by(&path);
        assert!(awake.is_held());
        assert_eq!((std::fs::read(&path).unwrap(), awake.words()), (vec![0; 4], "kept off".into()));
        std::fs::remove_file(&path).unwrap();
        let refused = CStateLock::hold_by(&path);
        assert!(!refused.is_held());
        assert!(refused.words().starts_with("not kept off: /"), "{}", refused.words());
    }
}
