//! The command line of `cargo xtask`.
//!
//! Not here: which commands a chore consists of (`plan.rs`).

use std::time::Duration;

use clap::{Parser, value_parser};

use crate::{interop, languages, package, platforms};

/// Kills of a storm by default: what the project promises for every mechanism and end.
pub(crate) const KILLS: u32 = 1000;
/// Minutes of stress by default: what the project promises.
pub(crate) const STRESS_MINUTES: u32 = 10;
/// Minutes of a storm of switches by default.
pub(crate) const STORM_MINUTES: u32 = 2;
/// Seconds in an hour.
const HOUR_S: u32 = 3600;

/// Runs a chore of the project: its first failure is the exit code
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub enum Chore {
    /// Everything that the build server runs, in the order in which it fails fastest
    Ci {
        /// Run format, tidy, clippy and the unit tests: five minutes once all was built
        #[arg(long)]
        quick: bool,
    },
    /// The contribution rules
    Tidy,
    /// Files that use each other in a circle
    Circles,
    /// Words that are retired, and what to write instead
    Words,
    /// What has to stay true, with the place that states it and the test that checks it
    Invariants,
    /// The book, as pages in target/book; needs mdbook
    Book,
    /// What is too long for CI: licences, Miri, fuzz targets, storms, stress, a simulation of a
    /// million steps, the public interface, packages, the program as users build it; installs what
    /// is missing
    ReleaseCheck {
        /// The commit that has the public interface to compare with; by default the last tag v*,
        /// and where there is none, nothing is compared
        #[arg(long, value_name = "COMMIT")]
        baseline: Option<String>,
    },
    /// The ring and the waiting protocol, every interleaving
    Loom,
    /// Undefined behaviour; needs nightly with Miri
    Miri,
    /// One or every fuzz target; needs nightly and cargo-fuzz
    Fuzz {
        /// The one to run; all if none is named
        target: Option<String>,
        /// How long each runs: enough to replay its corpus and look around
        #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Every system call and every large allocation of a server and its client fails once; hours
    Sweep,
    /// Kills either end in the middle of traffic, over every mechanism, and of switches
    KillStorm {
        /// How often each case kills
        #[arg(long, default_value_t = KILLS, value_parser = value_parser!(u32).range(1..))]
        kills: u32,
    },
    /// Calls, streams, cancellations, switches, ends of threads and kills of clients by chance
    Stress {
        /// How long it takes
        #[arg(long, default_value_t = STRESS_MINUTES, value_parser = value_parser!(u32).range(1..))]
        minutes: u32,
        /// What the mix is drawn from
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        seed: u32,
    },
    /// Connections that move to another mechanism every ten milliseconds while calls go on
    SwitchStorm {
        /// How long it takes
        #[arg(long, default_value_t = STORM_MINUTES, value_parser = value_parser!(u32).range(1..))]
        minutes: u32,
        /// What the mix is drawn from
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        seed: u32,
    },
    /// The whole of nearcall with faults from seeds: a million steps, hours, or one seed
    Simulate {
        /// How long, such as 0.5 for half an hour
        #[arg(long = "hours", value_name = "HOURS", value_parser = seconds_of)]
        seconds: Option<u32>,
        /// The one seed to run
        #[arg(long, conflicts_with = "seconds")]
        seed: Option<u64>,
    },
    /// The stress for hours, and what the server holds when no client is connected
    Soak {
        /// How long it takes, such as 0.1 for six minutes
        #[arg(long = "hours", value_name = "HOURS", default_value = "1", value_parser = seconds_of)]
        seconds: u32,
        /// The file for the result, as JSON
        #[arg(long)]
        json: Option<String>,
    },
    /// Hostile clients beside a good one: whether the server lives and what the good one notices
    Hostile {
        /// How long each attack takes
        #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// What peers reach, under AddressSanitizer and ThreadSanitizer; needs nightly with rust-src
    Sanitize {
        /// How long each case of live mutation takes, and the stress
        #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
        seconds: u32,
    },
    /// Interfaces that others have published: generated and checked; needs cargo, go, npm and pip
    Corpus {
        /// The one package to compile
        #[arg(long)]
        package: Option<String>,
        /// Compile every Nth file of each package
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        every: u32,
    },
    /// The interoperability cases of gRPC between nearcall, tonic and gRPC's own programs in Go
    Interop(interop::Options),
    /// The library for C and C++ as a package lays it out, and programs that are built with it
    Languages(languages::Options),
    /// Every processor, C library and kernel of the README: builds, and tests where they can run
    Platforms(platforms::Options),
    /// What is installed: crates, packages of Debian, a static archive, a wheel, an image; each is
    /// tried, which needs root
    Package(package::Options),
    /// The host and the measured service as devices have them: small, and with a shared runtime
    Device,
    /// Measures whether the advice is right, half a minute for each set of requirements
    AdviseCheck {
        /// How many random sets of requirements
        #[arg(long, default_value_t = 40, value_parser = value_parser!(u32).range(1..))]
        sets: u32,
        /// What they are drawn from
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        seed: u32,
    },
}

impl Chore {
    /// Whether a missing tool is a failure. `ci` goes on without it and reports that.
    #[must_use]
    pub fn needs_all(&self) -> bool {
        !matches!(self, Self::Ci { .. })
    }
}

/// Parses hours, with a fraction or without.
fn seconds_of(word: &str) -> Result<u32, String> {
    let hours = word.parse().ok().filter(|hours: &f64| (0.001..=1000.0).contains(hours));
    let hours = hours.ok_or("not a number of hours, 0.001 to 1000")?;
    let seconds = Duration::from_secs(HOUR_S.into()).mul_f64(hours).as_secs();
    Ok(u32::try_from(seconds).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Chore, clap::Error> {
        Chore::try_parse_from(["cargo xtask"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn arguments_become_chores() {
        for (line, expected) in [
            ("ci --quick", Chore::Ci { quick: true }),
            ("book", Chore::Book),
            ("fuzz", Chore::Fuzz { target: None, seconds: 60 }),
            ("fuzz frame --seconds 5", Chore::Fuzz { target: Some("frame".into()), seconds: 5 }),
            ("kill-storm --kills 7", Chore::KillStorm { kills: 7 }),
            ("stress --minutes 1", Chore::Stress { minutes: 1, seed: 1 }),
            ("switch-storm --seed 7", Chore::SwitchStorm { minutes: 2, seed: 7 }),
            ("simulate", Chore::Simulate { seconds: None, seed: None }),
            ("simulate --hours 0.5", Chore::Simulate { seconds: Some(1800), seed: None }),
            ("simulate --seed 0", Chore::Simulate { seconds: None, seed: Some(0) }),
            ("soak", Chore::Soak { seconds: HOUR_S, json: None }),
            ("soak --json a --hours 0.5", Chore::Soak { seconds: 1800, json: Some("a".into()) }),
            ("device", Chore::Device),
            ("corpus --every 9", Chore::Corpus { package: None, every: 9 }),
            ("advise-check --seed 9 --sets 3", Chore::AdviseCheck { sets: 3, seed: 9 }),
        ] {
            assert_eq!(parse(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "cj",
            "ci --fast",
            "fuzz --kills 3",
            "advise-check --sets",
            "kill-storm --kills 0",
            "simulate --hours 0",
            "simulate --hours 1 --seed 1",
            "simulate --seed -1",
            "soak --hours inf",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
