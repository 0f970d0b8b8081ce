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
  sweep                      has every system call and every large allocation of a server and its
                             client fail once; hours
  stress [--minutes N] [--seed N]  calls, streams, cancellations, ends of threads and kills of
                             clients by chance, against a server of two loops
  simulate [--hours N | --seed N]  the whole of nearcall with faults from seeds: a million steps,
                             hours (0.5: half of one), or one seed that failed
  soak [--hours N] [--json FILE]  the same for hours (0.1 is six minutes): what the server holds
                             when no client is connected, after thousands came, went or were killed
  sanitize [--seconds N]     server, runtime and hostile peers under AddressSanitizer and
                             ThreadSanitizer, N seconds for each case; needs nightly with rust-src
  hostile [--seconds N]      hostile clients beside a good one, N seconds for each attack: whether
                             the server lives, what the good client notices, what is left
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
/// Seconds of a soak by default: an hour.
const SOAK_SECONDS: u32 = 3600;
/// Seconds of each attack by default: what the project promises.
const HOSTILE_SECONDS: u32 = 60;
/// Seconds of each case under a sanitizer by default: millions of mutations.
const SANITIZE_SECONDS: u32 = 60;
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
    /// Every system call and every large allocation fails once.
    Sweep,
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
        seconds: Option<u32>,
        /// The one seed to run.
        seed: Option<u64>,
    },
    /// The stress for hours.
    Soak {
        /// How long it takes.
        seconds: u32,
        /// The file for the result, as JSON.
        json: Option<String>,
    },
    /// Hostile clients beside a good one.
    Hostile {
        /// How long each attack takes.
        seconds: u32,
    },
    /// The code that peers reach, instrumented.
    Sanitize {
        /// How long each case of live mutation takes, and the stress.
        seconds: u32,
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
    pub const NAMES: [&str; 16] = [
        "ci",
        "tidy",
        "circles",
        "words",
        "release-check",
        "loom",
        "miri",
        "fuzz",
        "kill-storm",
        "sweep",
        "stress",
        "simulate",
        "soak",
        "sanitize",
        "hostile",
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
            ["sweep"] => Self::Sweep,
            ["fuzz", rest @ ..] => fuzz(rest)?,
            ["stress", rest @ ..] => {
                let [minutes, seed] =
                    options("stress", ["--minutes", "--seed"], [STRESS_MINUTES, SEED], rest)?;
                Self::Stress { minutes, seed }
            }
            ["simulate"] => Self::Simulate { seconds: None, seed: None },
            ["simulate", "--hours", hours] => {
                Self::Simulate { seconds: Some(seconds_of(hours)?), seed: None }
            }
            ["simulate", "--seed", seed] => {
                let seed = seed.parse().map_err(|_| format!("`{seed}` is not a seed"))?;
                Self::Simulate { seconds: None, seed: Some(seed) }
            }
            ["soak", rest @ ..] => soak(rest)?,
            ["sanitize"] => Self::Sanitize { seconds: SANITIZE_SECONDS },
            ["sanitize", "--seconds", seconds] => Self::Sanitize { seconds: number(seconds)? },
            ["hostile"] => Self::Hostile { seconds: HOSTILE_SECONDS },
            ["hostile", "--seconds", seconds] => Self::Hostile { seconds: number(seconds)? },
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

fn soak(arguments: &[&str]) -> Result<Chore, String> {
    let (mut seconds, mut json, mut rest) = (SOAK_SECONDS, None, arguments);
    loop {
        rest = match rest {
            ["--hours", hours, rest @ ..] => {
                seconds = seconds_of(hours)?;
                rest
            }
            ["--json", file, rest @ ..] => {
                json = Some((*file).to_owned());
                rest
            }
            [] => return Ok(Chore::Soak { seconds, json }),
            _ => return Err(format!("`soak` does not take `{}`", rest.join(" "))),
        };
    }
}

/// Parses hours, with a fraction or without.
fn seconds_of(word: &str) -> Result<u32, String> {
    let hours = word.parse().ok().filter(|hours: &f64| (0.001..=1000.0).contains(hours));
    let hours = hours.ok_or_else(|| format!("`{word}` is not a number of hours, 0.001 to 1000"))?;
    let seconds = std::time::Duration::from_secs(3600).mul_f64(hours).as_secs();
    Ok(u32::try_from(seconds).unwrap_or(u32::MAX))
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
        check("soak", Ok(Chore::Soak { seconds: 3600, json: None }));
        let json = Some("soak.json".to_owned());
        check("soak --json soak.json --hours 0.5", Ok(Chore::Soak { seconds: 1800, json }));
        check("sanitize", Ok(Chore::Sanitize { seconds: 60 }));
        check("sanitize --seconds 2", Ok(Chore::Sanitize { seconds: 2 }));
        check("hostile", Ok(Chore::Hostile { seconds: 60 }));
        check("hostile --seconds 2", Ok(Chore::Hostile { seconds: 2 }));
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
        check("simulate --hours 0", Err("`0` is not a number of hours, 0.001 to 1000"));
        check("simulate --seed -1", Err("`-1` is not a seed"));
        check("soak --hours", Err("`soak` does not take `--hours`"));
        check("soak --hours 0", Err("`0` is not a number of hours, 0.001 to 1000"));
        check("soak --hours inf", Err("`inf` is not a number of hours, 0.001 to 1000"));
        check("hostile --kills 3", Err("`hostile` does not take `--kills 3`"));
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
