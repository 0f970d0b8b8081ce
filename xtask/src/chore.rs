//! Parses the command line of `cargo xtask`.
//!
//! Not here: which commands a chore consists of (`plan.rs`).

/// What `cargo xtask` prints when it is asked for something else.
pub const USAGE: &str = "\
usage: cargo xtask CHORE
  ci [--quick]               everything that the build server runs; quick: what takes a few minutes
  tidy                       the contribution rules
  circles                    files that use each other in a circle
  words                      words that are retired, and what to write instead
  loom                       the ring and the waiting protocol, every interleaving
  miri                       undefined behaviour, needs nightly with miri
  fuzz [TARGET] [--seconds N]  one or every target, needs nightly and cargo-fuzz
  release-check              licences, miri, every fuzz target, kill-storm; installs what is missing
  kill-storm [--kills N]     kills either end in the middle of traffic, over every mechanism
  stress [--minutes N] [--seed N]  calls, streams, cancellations, ends of threads and kills of
                             clients by chance, against a server of two loops
  simulate [--hours N | --seed N]  the whole of nearcall with faults from seeds: a million steps,
                             hours (0.5: half of one), or one seed that failed
  advise-check [--sets N] [--seed N]  measures whether the advice is right, half a minute
                             for each of N random sets of requirements";

/// How long each fuzz target runs by default: enough to replay its corpus and look around.
const FUZZ_SECONDS: u32 = 60;
/// Kills of a storm by default: what the project promises for every mechanism and end.
pub(crate) const KILLS: u32 = 1000;
/// Sets of requirements by default: what the project promises the advice for.
const SETS: u32 = 40;
/// The seed of those sets, and of the stress, by default.
const SEED: u32 = 1;
/// Minutes of stress by default: what the project promises.
pub(crate) const STRESS_MINUTES: u32 = 10;

/// One chore with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Everything, in the order in which it fails fastest.
    Ci {
        /// Leave out what needs a release build or other tools.
        quick: bool,
    },
    /// Only the contribution rules.
    Tidy,
    /// Only the files that use each other in a circle.
    Circles,
    /// Only the words that are retired.
    Words,
    /// What is too long, or needs too many tools, for every commit.
    ReleaseCheck,
    /// Only the models of concurrent code.
    Loom,
    /// Only the interpreter.
    Miri,
    /// Only the fuzz targets.
    Fuzz {
        /// The one to run; all if none is named.
        target: Option<String>,
        /// How long each runs.
        seconds: u32,
    },
    /// The long form of the test that kills peers.
    KillStorm {
        /// How often each case kills.
        kills: u32,
    },
    /// The long form of the test that mixes everything.
    Stress {
        /// How long it takes.
        minutes: u32,
        /// What the mix is drawn from.
        seed: u32,
    },
    /// Clients and servers in a simulation.
    Simulate {
        /// How long; a million steps if that is not asked for.
        seconds: Option<u64>,
        /// The one seed to run.
        seed: Option<u64>,
    },
    /// The blind test of the advice, by measurements.
    AdviseCheck {
        /// How many sets of requirements.
        sets: u32,
        /// What they are drawn from.
        seed: u32,
    },
}

impl Chore {
    /// The names of all chores.
    pub const NAMES: [&str; 12] = [
        "ci",
        "tidy",
        "circles",
        "words",
        "release-check",
        "loom",
        "miri",
        "fuzz",
        "kill-storm",
        "stress",
        "simulate",
        "advise-check",
    ];

    /// Parses the arguments of `cargo xtask`.
    ///
    /// # Errors
    ///
    /// A sentence for the user about the first argument that is not accepted.
    pub fn parse(arguments: &[&str]) -> Result<Self, String> {
        let chore = match arguments {
            ["ci"] => Self::Ci { quick: false },
            ["ci", "--quick"] => Self::Ci { quick: true },
            ["tidy"] => Self::Tidy,
            ["circles"] => Self::Circles,
            ["words"] => Self::Words,
            ["release-check"] => Self::ReleaseCheck,
            ["loom"] => Self::Loom,
            ["miri"] => Self::Miri,
            ["kill-storm"] => Self::KillStorm { kills: KILLS },
            ["kill-storm", "--kills", kills] => Self::KillStorm { kills: number(kills)? },
            ["fuzz", rest @ ..] => fuzz(rest)?,
            ["stress", rest @ ..] => {
                let [minutes, seed] =
                    options("stress", ["--minutes", "--seed"], [STRESS_MINUTES, SEED], rest)?;
                Self::Stress { minutes, seed }
            }
            ["simulate"] => Self::Simulate { seconds: None, seed: None },
            ["simulate", "--hours", hours] => {
                Self::Simulate { seconds: Some(seconds(hours)?), seed: None }
            }
            ["simulate", "--seed", seed] => {
                let seed = seed.parse().map_err(|_| format!("`{seed}` is not a seed"))?;
                Self::Simulate { seconds: None, seed: Some(seed) }
            }
            ["advise-check", rest @ ..] => {
                let [sets, seed] =
                    options("advise-check", ["--sets", "--seed"], [SETS, SEED], rest)?;
                Self::AdviseCheck { sets, seed }
            }
            [] => return Err("which chore?".to_owned()),
            [name, rest @ ..] if Self::NAMES.contains(name) => {
                return Err(format!("`{name}` does not take `{}`", rest.join(" ")));
            }
            [name, ..] => return Err(format!("no chore is called `{name}`")),
        };
        Ok(chore)
    }

    /// Whether a missing tool is a failure. `ci` goes on without it and reports that.
    #[must_use]
    pub fn needs_all(&self) -> bool {
        !matches!(self, Self::Ci { .. })
    }
}

fn fuzz(arguments: &[&str]) -> Result<Chore, String> {
    let (target, rest) = match arguments {
        [target, rest @ ..] if !target.starts_with('-') => (Some((*target).to_owned()), rest),
        rest => (None, rest),
    };
    let seconds = match rest {
        [] => FUZZ_SECONDS,
        ["--seconds", seconds] => number(seconds)?,
        _ => return Err(format!("`fuzz` does not take `{}`", rest.join(" "))),
    };
    Ok(Chore::Fuzz { target, seconds })
}

/// Parses two options with numbers, in any order.
fn options(
    chore: &str,
    names: [&str; 2],
    mut values: [u32; 2],
    arguments: &[&str],
) -> Result<[u32; 2], String> {
    let mut rest = arguments;
    while let [option, value, more @ ..] = rest
        && let Some(index) = names.iter().position(|name| name == option)
    {
        values[index] = number(value)?;
        rest = more;
    }
    match rest {
        [] => Ok(values),
        _ => Err(format!("`{chore}` does not take `{}`", rest.join(" "))),
    }
}

/// Parses hours, with a fraction if need be.
fn seconds(hours: &str) -> Result<u64, String> {
    let seconds = hours.parse().ok().map(|hours: f64| (hours * 3600.0).round());
    match seconds.filter(|seconds| (1.0..=SIMULATED_S_MAX).contains(seconds)) {
        Some(seconds) => Ok(seconds as u64),
        None => Err(format!("`{hours}` is not a number of hours from a second to a year")),
    }
}

/// The longest simulation that can be asked for: a year, in seconds.
const SIMULATED_S_MAX: f64 = 365.0 * 24.0 * 3600.0;

fn number(word: &str) -> Result<u32, String> {
    let number = word.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("`{word}` is not a number above zero"))
}

#[cfg(test)]
mod tests {
    use super::Chore;

    #[track_caller]
    fn check(line: &str, expected: Result<Chore, &str>) {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(Chore::parse(&arguments), expected.map_err(str::to_owned));
    }

    #[test]
    fn arguments_become_chores() {
        check("ci", Ok(Chore::Ci { quick: false }));
        check("ci --quick", Ok(Chore::Ci { quick: true }));
        check("fuzz", Ok(Chore::Fuzz { target: None, seconds: 60 }));
        check("fuzz --seconds 5", Ok(Chore::Fuzz { target: None, seconds: 5 }));
        let frame = Some("frame".to_owned());
        check("fuzz frame --seconds 5", Ok(Chore::Fuzz { target: frame, seconds: 5 }));
        check("kill-storm --kills 7", Ok(Chore::KillStorm { kills: 7 }));
        check("stress", Ok(Chore::Stress { minutes: 10, seed: 1 }));
        check("stress --minutes 1", Ok(Chore::Stress { minutes: 1, seed: 1 }));
        check("simulate", Ok(Chore::Simulate { seconds: None, seed: None }));
        check("simulate --hours 0.5", Ok(Chore::Simulate { seconds: Some(1800), seed: None }));
        check("simulate --seed 0", Ok(Chore::Simulate { seconds: None, seed: Some(0) }));
        check("advise-check", Ok(Chore::AdviseCheck { sets: 40, seed: 1 }));
        check("advise-check --seed 9 --sets 3", Ok(Chore::AdviseCheck { sets: 3, seed: 9 }));
    }

    #[test]
    fn nonsense_is_explained() {
        check("", Err("which chore?"));
        check("cj", Err("no chore is called `cj`"));
        check("ci --fast", Err("`ci` does not take `--fast`"));
        check("fuzz --kills 3", Err("`fuzz` does not take `--kills 3`"));
        check("advise-check --sets", Err("`advise-check` does not take `--sets`"));
        check("advise-check --kills 3", Err("`advise-check` does not take `--kills 3`"));
        check("stress --kills 3", Err("`stress` does not take `--kills 3`"));
        let hours = "`0` is not a number of hours from a second to a year";
        check("simulate --hours 0", Err(hours));
        check("simulate --seed -1", Err("`-1` is not a seed"));
        check("kill-storm --kills 0", Err("`0` is not a number above zero"));
        check("fuzz frame --seconds soon", Err("`soon` is not a number above zero"));
    }

    #[test]
    fn every_name_is_a_chore() {
        for name in Chore::NAMES {
            assert!(Chore::parse(&[name]).is_ok(), "{name}");
        }
    }
}
