//! What runs beside a measurement on purpose: a word of the command line and of stored runs.
//!
//! Plain data: what a load really did is in `run/facts.rs`, starting it in `nearcall-bench`.

use std::fmt;
use std::str::FromStr;

/// What else runs on purpose while a cell is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Load {
    /// A worker for each CPU that computes without a pause.
    pub cpu: bool,
    /// A worker that writes memory again and again.
    pub memory: bool,
    /// A worker that writes a file and waits until it is on the disk.
    pub io: bool,
    /// Each CPU computes for this part of the time; 0: none does.
    pub duty_percent: u8,
}

impl Load {
    /// All three kinds of worker.
    pub const STRESS: Self = Self { cpu: true, memory: true, io: true, duty_percent: 0 };

    /// Each CPU is busy for `percent` of the time.
    #[must_use]
    pub const fn duty(percent: u8) -> Self {
        Self { cpu: false, memory: false, io: false, duty_percent: percent }
    }

    /// Whether nothing runs.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            return f.write_str("idle");
        }
        if self.duty_percent > 0 {
            return write!(f, "{}%", self.duty_percent);
        }
        let workers = [("cpu", self.cpu), ("memory", self.memory), ("io", self.io)];
        let words: Vec<&str> = workers.iter().filter(|one| one.1).map(|one| one.0).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Load {
    type Err = LoadWordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || LoadWordError(text.to_owned());
        if text == "idle" {
            return Ok(Self::default());
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: u8 = percent.trim().parse().map_err(|_| refused())?;
            return (1..=99).contains(&percent).then(|| Self::duty(percent)).ok_or_else(refused);
        }
        let mut load = Self::default();
        for word in text.split(',') {
            match word.trim() {
                "cpu" => load.cpu = true,
                "memory" => load.memory = true,
                "io" => load.io = true,
                _ => return Err(refused()),
            }
        }
        Ok(load)
    }
}

/// Words that name no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown load {0:?}; use idle, workers of cpu,memory,io, or 1% to 99%")]
pub struct LoadWordError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_parsed_from_what_it_is_printed_as() {
        let loads = [Load::default(), Load::STRESS, Load::duty(35)];
        for load in loads.into_iter().chain([Load { io: true, ..Load::default() }]) {
            assert_eq!(load.to_string().parse(), Ok(load));
        }
        assert_eq!("cpu, memory".parse(), Ok(Load { cpu: true, memory: true, ..Load::default() }));
        for bad in ["", "cpu,", "0%", "100%", "-5%", "disk", "35"] {
            let error = bad.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
