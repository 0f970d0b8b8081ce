//! Which commands a chore consists of, on a machine with these facts. Pure: runs nothing.
//!
//! Not here: how a step is run and judged (`step.rs`), what the machine has (`facts.rs`).

use crate::chore::{Chore, KILLS, STORM_MINUTES, STRESS_MINUTES};
use crate::facts::{Facts, Presence};
use crate::platforms::TARGETS;
use crate::step::{Command, Expect, Step};

/// What a run of a study must have.
const STUDY_FIELDS: &[&str] = &["machine", "timers", "study_cells", "studies"];

/// Why CI does not fuzz.
const NO_FUZZ: &str = "run `cargo xtask release-check`: building the targets takes minutes, and \
                       the tests replay their corpora";
/// Why CI does not run Miri.
const NO_MIRI: &str = "run `cargo xtask miri` or `cargo xtask release-check`: it needs nightly, \
                       and takes minutes";
/// How long switches storm in CI; before a release, as long as by `cargo xtask switch-storm`.
const CI_STORM_SECONDS: u32 = 20;
/// How long seeds are simulated in CI, from one that is drawn and printed; before a release, a
/// million steps from seed 0, of which the test asserts that everything happens in them.
const CI_SIMULATION_SECONDS: u32 = 20;
/// How long each fuzz target runs before a release.
const RELEASE_FUZZ_SECONDS: u32 = 60;
/// What every stored run has at its top level; see `nearcall.run/1`.
const RUN_FIELDS: &[&str] = &["schema", "machine", "settings", "timers", "floors", "cells"];
/// The fields of the output of `gen`; see `nearcall.gen/1`.
const GEN_FIELDS: &[&str] = &["schema", "files"];
/// What every document of answers has.
const SCHEMA: &[&str] = &["schema"];
/// The fields of advice; see `nearcall.advice/1`.
const ADVICE_FIELDS: &[&str] = &["schema", "choice", "address", "reasons", "ranking"];
/// Stored runs of a real machine.
const STORED_TOUR: &str = "docs/runs/epyc-2cpu-tour.json";
/// Calls of the same machine.
const STORED_CALLS: &str = "docs/runs/epyc-2cpu-calls.json";
/// What is generated from: the interface of the first example.
const PROTO: &str = "crates/nearcall-examples/proto/thermostat.proto";

/// What other programs are built with. Of it all users need the oldest compiler.
const LIBRARIES: &str = "-p nearcall -p nearcall-build -p nearcall-grpc -p nearcall-host \
    -p nearcall-otel -p nearcall-prometheus -p nearcall-tracing";

/// Everything but `nearcall-peers`, which needs what the libraries need that it measures.
const ALL_BUT_PEERS: &str = "--workspace --exclude nearcall-peers";

/// What the sanitizers run on.
const SANITIZED: &str = "x86_64-unknown-linux-gnu";

/// The steps of `chore`, in order.
#[must_use]
pub fn steps(chore: &Chore, facts: &Facts) -> Vec<Step> {
    match chore {
        Chore::Ci { quick } => ci(*quick, facts),
        Chore::Tidy => vec![Step::Run(tidy())],
        // They print findings or a table and have no steps.
        Chore::Circles
        | Chore::Words
        | Chore::Invariants
        | Chore::Corpus { .. }
        | Chore::Interop(_)
        | Chore::Platforms(_)
        | Chore::Device
        | Chore::Package(_)
        | Chore::Languages(_) => Vec::new(),
        Chore::Book => {
            let command = Command::new("book", "mdbook").argument("build").argument("docs/book");
            vec![Step::Run(command)]
        }
        Chore::Loom => vec![Step::Run(loom(facts))],
        Chore::Miri => vec![when(&facts.miri, miri())],
        Chore::ReleaseCheck { baseline } => release_check(baseline.as_deref(), facts),
        Chore::Fuzz { target, seconds } => fuzz(target.as_deref(), *seconds, facts),
        Chore::KillStorm { kills } => kill_storm(*kills).map(Step::Run).into(),
        Chore::Sweep => vec![Step::Run(sweep())],
        Chore::Stress { minutes, seed } => vec![Step::Run(stress(*minutes, *seed))],
        Chore::SwitchStorm { minutes, seed } => {
            vec![Step::Run(switch_storm(Build::Release, *minutes * 60, *seed))]
        }
        Chore::Simulate { seconds, seed } => vec![Step::Run(simulate(*seconds, *seed, facts))],
        Chore::Soak { seconds, json } => vec![Step::Run(soak(*seconds, json.as_deref(), facts))],
        Chore::Sanitize { seconds } => sanitize(*seconds, facts),
        Chore::Hostile { seconds } => vec![Step::Run(hostile(*seconds))],
        Chore::AdviseCheck { sets, seed } => vec![Step::Run(advise_check(*sets, *seed))],
    }
}

fn ci(quick: bool, facts: &Facts) -> Vec<Step> {
    // The rivals are hundreds of packages and need C++: nearcall-peers is built by name only.
    let clippy = "clippy --workspace --exclude nearcall-peers --all-targets -- -D warnings";
    let mut steps = vec![cargo("format", "fmt --all --check")];
    // All tests are those of xtask as well.
    steps.extend(quick.then(tidy));
    steps.push(cargo("clippy", clippy));
    steps.push(match quick {
        true => cargo("unit tests", "test --lib --bins"),
        false => cargo("test", "test"),
    });
    let mut steps: Vec<_> = steps.into_iter().map(Step::Run).collect();
    let skip = |name: &str, reason: &str| Step::Skip { name: name.into(), reason: reason.into() };
    if quick {
        let left_out = [
            "test",
            "doc",
            "oldest Rust",
            "platforms",
            "deny",
            "loom",
            "simulate",
            "switch-storm",
            "interop",
            "languages",
            "package",
        ];
        steps.extend(left_out.map(|name| skip(name, "left out by --quick")));
        steps.push(skip("program", "left out by --quick"));
        return steps;
    }
    let or_release_check = |presence: &Presence| {
        let longer = |reason| format!("{reason}, or run `cargo xtask release-check`");
        presence.clone().map_err(longer)
    };
    steps.extend([
        Step::Run(cargo("doc", "doc --no-deps").environment("RUSTDOCFLAGS", "-D warnings")),
        when(&or_release_check(&facts.oldest), oldest(LIBRARIES, facts)),
        when(&facts.targets, platforms()),
        when(&or_release_check(&facts.deny), deny()),
        Step::Run(loom(facts)),
        Step::Run(simulate(Some(CI_SIMULATION_SECONDS), None, facts)),
        Step::Run(switch_storm(Build::Tests, CI_STORM_SECONDS, 1)),
        // What needs Go is left to whoever has it.
        Step::Run(cargo("interop", "xtask interop --cargo-only")),
        Step::Run(cargo("languages", "xtask languages --dev --python")),
        Step::Run(cargo("package", "xtask package --check")),
        skip("miri", NO_MIRI),
        skip("fuzz", NO_FUZZ),
    ]);
    steps.extend(program(Build::Tests, facts).map(Step::Run));
    steps.extend(answers(Build::Tests, facts).map(Step::Run));
    steps
}

/// Which build of a program a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    /// That of the step `test`, which must come before: nothing is built again.
    Tests,
    /// That of users; takes seven minutes on two cores, because of the packages in it.
    Release,
}

/// What is checked before a release, and too long or too fond of tools for every commit. Installs
/// the tools that are missing.
fn release_check(baseline: Option<&str>, facts: &Facts) -> Vec<Step> {
    let install = |presence: &Presence, name, program, arguments: &str| {
        let command =
            arguments.split_whitespace().fold(Command::new(name, program), Command::argument);
        presence.is_err().then_some(Step::Run(command))
    };
    let mut steps = Vec::new();
    steps.extend(install(&facts.deny, "install deny", "cargo", "install cargo-deny --locked"));
    steps.push(Step::Run(deny()));
    let nightly = "toolchain install nightly --profile minimal";
    steps.extend(install(&facts.nightly, "install nightly", "rustup", nightly));
    let miri_parts = "component add miri rust-src --toolchain nightly";
    steps.extend(install(&facts.miri, "install miri", "rustup", miri_parts));
    steps.push(Step::Run(miri()));
    steps.extend(install(
        &facts.cargo_fuzz,
        "install fuzz",
        "cargo",
        "install cargo-fuzz --locked",
    ));
    let compiler = format!("toolchain install {} --profile minimal", facts.oldest_rust);
    steps.extend(install(&facts.oldest, "install Rust", "rustup", &compiler));
    steps.push(Step::Run(oldest(ALL_BUT_PEERS, facts)));
    if let Some(baseline) = baseline.or(facts.last_tag.as_deref()) {
        let tool = "install cargo-semver-checks --locked";
        steps.extend(install(&facts.semver_checks, "install semver", "cargo", tool));
        steps.push(Step::Run(semver(baseline)));
    }
    let there = Facts { nightly: Ok(()), cargo_fuzz: Ok(()), ..facts.clone() };
    steps.extend(fuzz(None, RELEASE_FUZZ_SECONDS, &there));
    steps.extend(kill_storm(KILLS).map(Step::Run));
    steps.push(Step::Run(stress(STRESS_MINUTES, 1)));
    steps.push(Step::Run(simulate(None, None, facts)));
    steps.push(Step::Run(switch_storm(Build::Release, STORM_MINUTES * 60, 1)));
    steps.extend(program(Build::Release, facts).map(Step::Run));
    steps.extend(answers(Build::Release, facts).map(Step::Run));
    steps.push(Step::Run(cargo("package", "xtask package")));
    steps
}

/// Whether programs that compile against the interface of a commit compile against this one, as far
/// as the version says so. No published version is needed.
fn semver(baseline: &str) -> Command {
    cargo("semver", &format!("semver-checks {LIBRARIES} --baseline-rev")).argument(baseline)
}

fn tidy() -> Command {
    cargo("tidy", "test -p xtask").expect(Expect::TestsRan)
}

fn deny() -> Command {
    // Not `advisories`: they need a database from the network, and change without a commit of ours.
    cargo("deny", "deny check bans licenses sources")
}

/// What users build, by the oldest compiler that the manifests name.
fn oldest(packages: &str, facts: &Facts) -> Command {
    // A separate directory, because another compiler would rebuild everything in the usual one.
    cargo("oldest Rust", &format!("+{} check {packages}", facts.oldest_rust))
        .environment("CARGO_TARGET_DIR", &facts.target.join("oldest").to_string_lossy())
}

/// The libraries for all processors and C libraries, without what needs a C compiler for each.
/// What flags it has are those of targets: what runs here is not built again.
fn platforms() -> Command {
    let targets: Vec<String> =
        TARGETS.iter().map(|target| format!("--target {}", target.name)).collect();
    let arguments = "check -p nearcall -p nearcall-c";
    cargo("platforms", &format!("{arguments} {}", targets.join(" ")))
        .environment("RUSTFLAGS", "-D warnings")
}

/// What loom runs through most often.
const LOOM_CRATES: &[&str] =
    &["loom", "generator", "tracing", "tracing-core", "nearcall-os", "nearcall-channel"];

fn loom(facts: &Facts) -> Command {
    let command = with_cfg("loom", "loom", facts);
    let command = LOOM_CRATES.iter().fold(command, |command, name| optimise(command, name, 3));
    let arguments = ["test", "-p", "nearcall-channel", "--lib", "loom"];
    arguments.iter().fold(command, |command, argument| command.argument(argument))
}

/// What the simulation runs through most often.
const SIMULATED_CRATES: &[&str] = &["nearcall-os", "nearcall-channel", "nearcall-wire", "nearcall"];

/// With assertions and checks of overflow, and yet fast.
fn simulate(seconds: Option<u32>, seed: Option<u64>, facts: &Facts) -> Command {
    let command = with_cfg("simulate", "simulation", facts);
    let command = SIMULATED_CRATES.iter().fold(command, |command, name| optimise(command, name, 1));
    // Without `-p`: the features of packages are those of all crates, as in the step `test`.
    let arguments = ["test", "--test", "simulation", "--", "--nocapture"];
    let mut command =
        arguments.iter().fold(command, |command, argument| command.argument(argument));
    if let Some(seconds) = seconds {
        command = command.environment("NEARCALL_SIMULATION_S", &seconds.to_string());
    }
    if let Some(seed) = seed {
        command = command.environment("NEARCALL_SIMULATION_SEED", &seed.to_string());
    }
    command
}

/// What needs the kernel marks itself with `cfg_attr(miri, ignore = "...")`, a whole module of
/// tests with `not(miri)`.
fn miri() -> Command {
    // Miri panics in its model of weak memory when a word is written with and without atomics in
    // turn, as the places of a ring are. That model is loom's business here.
    cargo("miri", "+nightly miri test -p nearcall -p nearcall-channel -p nearcall-wire --lib")
        .environment("MIRIFLAGS", "-Zmiri-disable-weak-memory-emulation")
        .expect(Expect::TestsRan)
}

/// In the middle of messages, and in the middle of switches.
fn kill_storm(kills: u32) -> [Command; 2] {
    let tests = [
        ("kill-storm", "-p nearcall-channel --release --test it killed_peer"),
        ("kill-switches", "-p nearcall --release --test faults killed_switches"),
    ];
    tests.map(|(name, arguments)| {
        cargo(name, &format!("test {arguments} -- --nocapture"))
            .environment("NEARCALL_KILLS", &kills.to_string())
            .expect(Expect::TestsRan)
    })
}

fn sweep() -> Command {
    cargo("sweep", "test -p nearcall --test faults r18_ -- --nocapture")
        .environment("NEARCALL_SWEEP", "all")
        .expect(Expect::TestsRan)
}

fn stress(minutes: u32, seed: u32) -> Command {
    stress_for("stress", u64::from(minutes) * 60)
        .environment("NEARCALL_STRESS_SEED", &seed.to_string())
}

/// A relative path is one below the root of the repository.
fn soak(seconds: u32, json: Option<&str>, facts: &Facts) -> Command {
    let command = stress_for("soak", seconds.into());
    match json {
        Some(file) => {
            command.environment("NEARCALL_STRESS_JSON", &facts.root.join(file).to_string_lossy())
        }
        None => command,
    }
}

fn stress_for(name: &str, seconds: u64) -> Command {
    cargo(name, "test -p nearcall --release --test stress -- --nocapture")
        .environment("NEARCALL_STRESS_S", &seconds.to_string())
        .expect(Expect::TestsRan)
}

/// Cargo with a configuration of the crates of the workspace alone. Flags for all packages would
/// build all of them again.
fn with_cfg(name: &str, cfg: &str, facts: &Facts) -> Command {
    let wrapper = facts.root.join("xtask/cfg").join(cfg);
    Command::new(name, "cargo")
        .environment("RUSTC_WORKSPACE_WRAPPER", &wrapper.to_string_lossy())
        .expect(Expect::TestsRan)
}

fn optimise(command: Command, package: &str, level: u8) -> Command {
    let setting = format!("profile.dev.package.{package}.opt-level={level}");
    command.argument("--config").argument(&setting)
}

fn switch_storm(build: Build, seconds: u32, seed: u32) -> Command {
    // Without `-p`: the features of packages are those of all crates, as in the step `test`.
    let chosen = if build == Build::Release { "-p nearcall --release " } else { "" };
    let arguments = format!("test {chosen}--test it switching::storm -- --nocapture");
    cargo("switch-storm", &arguments)
        .environment("NEARCALL_STORM_S", &seconds.to_string())
        .environment("NEARCALL_STORM_SEED", &seed.to_string())
        .expect(Expect::TestsRan)
}

fn hostile(seconds: u32) -> Command {
    cargo("hostile", "test -p nearcall --release --test faults hostile:: -- --nocapture")
        .environment("NEARCALL_HOSTILE_MS", &(u64::from(seconds) * 1000).to_string())
        .expect(Expect::TestsRan)
}

/// What peers reach, built with each sanitizer, the standard library as well: otherwise the one
/// would not see what the other does. System calls go through the C library, where the sanitizers
/// intercept them: what they do not see unmapped is still written by its last owner to them.
/// Each has a directory of its own: other flags rebuild all.
fn sanitize(seconds: u32, facts: &Facts) -> Vec<Step> {
    let parts = [
        ("channel", "-p nearcall-channel --test it -- r03 r04"),
        ("runtime", "-p nearcall --test it -- fuzzing threads zero_copy bad_input"),
        ("stress", "-p nearcall --test stress"),
    ];
    let known = facts.root.join("xtask/thread-sanitizer.supp");
    let mut steps = Vec::new();
    for sanitizer in ["address", "thread"] {
        for (part, arguments) in parts {
            let target = format!("+nightly test -Zbuild-std --target {SANITIZED} {arguments}");
            let command = cargo(&format!("{sanitizer} {part}"), &target)
                .environment("RUSTFLAGS", &format!("-Zsanitizer={sanitizer} --cfg rustix_use_libc"))
                .environment("CARGO_TARGET_DIR", &facts.target.join(sanitizer).to_string_lossy())
                // Processes of a test are killed, and some leak what they hold by intent.
                .environment("ASAN_OPTIONS", "detect_leaks=0")
                .environment("TSAN_OPTIONS", &format!("suppressions={}", known.display()))
                .environment("NEARCALL_HOSTILE_S", &seconds.to_string())
                .environment("NEARCALL_STRESS_S", &seconds.to_string())
                .expect(Expect::TestsRan);
            steps.push(when(&facts.rust_src, command));
        }
    }
    steps
}

/// Its exit code shows whether the advice passed.
fn advise_check(sets: u32, seed: u32) -> Command {
    cargo("advise-check", "run --release -p nearcall-bench --example advise_check -- --sets")
        .argument(&sets.to_string())
        .argument("--seed")
        .argument(&seed.to_string())
}

fn fuzz(target: Option<&str>, seconds: u32, facts: &Facts) -> Vec<Step> {
    let skip = |reason: String| vec![Step::Skip { name: "fuzz".to_owned(), reason }];
    let targets: Vec<&String> = match target {
        None => facts.fuzz_targets.iter().collect(),
        Some(name) => facts.fuzz_targets.iter().filter(|known| *known == name).collect(),
    };
    if targets.is_empty() {
        let known = match facts.fuzz_targets.join(", ") {
            none if none.is_empty() => "fuzz/Cargo.toml names none yet".to_owned(),
            known => format!("there are {known}"),
        };
        return skip(format!("no such fuzz target: {known}"));
    }
    match facts.nightly.as_ref().and(facts.cargo_fuzz.as_ref()) {
        Ok(()) => {
            targets.iter().map(|target| Step::Run(fuzz_one(target, seconds, facts))).collect()
        }
        Err(reason) => skip(reason.clone()),
    }
}

fn fuzz_one(target: &str, seconds: u32, facts: &Facts) -> Command {
    // What the fuzzer finds goes to the first directory, so that the committed one stays as it is.
    let found = facts.target.join("fuzz-corpus").join(target);
    let committed = facts.root.join("fuzz/corpus").join(target);
    let mut command =
        cargo(&format!("fuzz {target}"), "+nightly fuzz run").argument(target).directory(&found);
    command = command.argument(&found.to_string_lossy());
    if committed.is_dir() {
        command = command.argument(&committed.to_string_lossy());
    }
    command.argument("--").argument(&format!("-max_total_time={seconds}"))
}

/// The program as a user runs it: it measures, what it stored can be shown again, it generates, and
/// what is generated makes a call.
fn program(build: Build, facts: &Facts) -> [Command; 11] {
    let directory = facts.target.join("ci");
    let stored = directory.join("run.json").to_string_lossy().into_owned();
    let stored_calls = directory.join("calls.json").to_string_lossy().into_owned();
    let nearcall = |name, arguments| nearcall(name, arguments, build, facts);
    let json = Expect::Json { fields: &[] };
    let is_run = Expect::Json { fields: RUN_FIELDS };
    let bench = nearcall("bench", "bench --quick --json");
    let show = nearcall("show", "show").argument(&stored);
    let calls = nearcall("calls", "bench calls --quick");
    let generated = directory.join("generated").to_string_lossy().into_owned();
    let generate = nearcall("gen", "gen").argument(PROTO).argument("--json");
    let study = "reproduce wisconsin-evaluation --quick --time 10s --json";
    let study = nearcall("reproduce", study).expect(Expect::Json { fields: STUDY_FIELDS });
    [
        nearcall("mechanisms", "mechanisms --json").expect(json.clone()),
        // It exits with 1 when this machine is badly set for measuring, which is for it to say.
        nearcall("doctor", "doctor --json").expect(json.clone()).may_find(),
        bench.argument("--out").argument(&stored).directory(&directory).expect(is_run.clone()),
        show.clone(),
        show.argument("--json").expect(is_run.clone()),
        calls.argument("--json").argument("--out").argument(&stored_calls).expect(is_run),
        study,
        nearcall("timers", "timers --quick --json").expect(json.clone()),
        nearcall("profile", "profile pipe --time 1s --json").expect(json),
        generate
            .argument("--out-dir")
            .argument(&generated)
            .expect(Expect::Json { fields: GEN_FIELDS }),
        match build {
            Build::Tests => built("thermostat", "examples/thermostat", facts),
            Build::Release => cargo("thermostat", "run --release --example thermostat"),
        },
    ]
}

/// What the program makes of runs that are stored: a page, a comparison, a data set, advice.
fn answers(build: Build, facts: &Facts) -> [Command; 4] {
    let directory = facts.target.join("ci");
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let nearcall = |name, arguments: &str| nearcall(name, arguments, build, facts);
    let json = |fields: &'static [&'static str]| Expect::Json { fields };
    let report = nearcall("report", &format!("report {STORED_TOUR} {STORED_CALLS} --json"));
    let compare = format!("compare {STORED_TOUR} {STORED_TOUR} --json");
    let add = nearcall("data", &format!("data add {STORED_TOUR} {STORED_CALLS} --json"));
    let advise = format!("advise --size 1KiB --run {STORED_CALLS} --json");
    [
        report
            .argument("-o")
            .argument(&path("report.html"))
            .directory(&directory)
            .expect(json(SCHEMA)),
        nearcall("compare", &compare).expect(json(SCHEMA)),
        add.argument("--dir").argument(&path("data")).expect(json(SCHEMA)),
        nearcall("advise", &advise).expect(json(ADVICE_FIELDS)),
    ]
}

/// The program of users.
fn nearcall(name: &str, arguments: &str, build: Build, facts: &Facts) -> Command {
    let command = match build {
        Build::Tests => built(name, "nearcall", facts),
        Build::Release => cargo(name, "run --release --"),
    };
    arguments.split_whitespace().fold(command, Command::argument)
}

/// A program that the step `test` has built.
fn built(name: &str, program: &str, facts: &Facts) -> Command {
    Command::new(name, &facts.target.join("debug").join(program).to_string_lossy())
}

fn cargo(name: &str, arguments: &str) -> Command {
    arguments.split_whitespace().fold(Command::new(name, "cargo"), Command::argument)
}

fn when(presence: &Presence, command: Command) -> Step {
    match presence {
        Ok(()) => Step::Run(command),
        Err(reason) => Step::Skip { name: command.name, reason: reason.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Facts {
        Facts {
            root: "repository".into(),
            target: "target".into(),
            miri: Ok(()),
            nightly: Ok(()),
            rust_src: Ok(()),
            oldest_rust: "1.88".to_owned(),
            oldest: Ok(()),
            cargo_fuzz: Ok(()),
            fuzz_targets: vec!["frame".to_owned(), "region".to_owned()],
            deny: Ok(()),
            semver_checks: Ok(()),
            last_tag: Some("v0.0.9".to_owned()),
            targets: Ok(()),
        }
    }

    fn nothing() -> Facts {
        let missing = || Err("missing".to_owned());
        Facts {
            miri: missing(),
            nightly: missing(),
            rust_src: missing(),
            oldest: missing(),
            cargo_fuzz: missing(),
            fuzz_targets: Vec::new(),
            deny: missing(),
            semver_checks: missing(),
            last_tag: None,
            targets: missing(),
            ..everything()
        }
    }

    /// The names of the steps, "no" before those that are skipped.
    fn names(steps: &[Step]) -> String {
        let name = |step: &Step| match step {
            Step::Run(command) => command.name.to_owned(),
            Step::Skip { name, .. } => format!("no {name}"),
        };
        steps.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The command of the only step of this name.
    #[track_caller]
    fn command(steps: &[Step], name: &str) -> String {
        let named = steps.iter().filter_map(|step| match step {
            Step::Run(command) if command.name == name => Some(command.to_string()),
            _ => None,
        });
        let [command] = named.collect::<Vec<_>>().try_into().unwrap();
        command
    }

    const FIRST: &str = "format, clippy";

    const PROGRAM: &str = "mechanisms, doctor, bench, show, show, calls, reproduce, timers, \
                           profile, gen, thermostat, report, compare, data, advise";

    #[test]
    fn ci_runs_everything_that_is_there() {
        let steps = steps(&Chore::Ci { quick: false }, &everything());
        let rest = "test, doc, oldest Rust, platforms, deny, loom, simulate, switch-storm, \
                    interop, languages, package, no miri, no fuzz";
        assert_eq!(names(&steps), [FIRST, rest, PROGRAM].join(", "));
    }

    #[test]
    fn each_sanitizer_sees_each_part_or_none_is_run() {
        let chore = Chore::Sanitize { seconds: 7 };
        let all = "address channel, address runtime, address stress, \
                   thread channel, thread runtime, thread stress";
        assert_eq!(names(&steps(&chore, &everything())), all);
        let none = names(&steps(&chore, &nothing()));
        assert!(none.split(", ").all(|name| name.starts_with("no ")), "{none}");
    }

    #[test]
    fn ci_says_what_it_skips() {
        let full = names(&steps(&Chore::Ci { quick: false }, &nothing()));
        let rest = "test, doc, no oldest Rust, no platforms, no deny, loom";
        assert!(full.starts_with(&[FIRST, rest].join(", ")), "{full}");
        let quick = names(&steps(&Chore::Ci { quick: true }, &everything()));
        let rest = "unit tests, no test, no doc, no oldest Rust, no platforms, no deny, no loom, \
                    no simulate, no switch-storm, no interop, no languages, no package, \
                    no program";
        assert_eq!(quick, ["format, tidy, clippy", rest].join(", "));
    }

    #[test]
    fn ci_builds_once_and_a_release_check_runs_what_users_build() {
        let commands = |chore: &Chore| -> Vec<String> {
            let steps = steps(chore, &everything());
            let command = |step| match step {
                Step::Run(command) => Some(Command::to_string(&command)),
                Step::Skip { .. } => None,
            };
            steps.into_iter().filter_map(command).collect()
        };
        let ci = commands(&Chore::Ci { quick: false });
        assert!(ci.iter().all(|command| !command.contains("--release")), "{ci:#?}");
        let apart = ci.iter().filter(|command| {
            let rebuilds = command.contains("RUSTFLAGS") && !command.contains("--target");
            rebuilds || command.contains("CARGO_TARGET_DIR=")
        });
        assert_eq!(apart.count(), 1, "only another compiler needs a directory of its own: {ci:#?}");
        assert!(ci.contains(&"target/debug/nearcall mechanisms --json".to_owned()), "{ci:#?}");
        let release = commands(&Chore::ReleaseCheck { baseline: None });
        let mechanisms = "cargo run --release -- mechanisms --json".to_owned();
        assert!(release.contains(&mechanisms), "{release:#?}");
    }

    #[test]
    fn a_release_check_installs_what_is_missing() {
        let checks = "deny, miri, oldest Rust, semver, fuzz frame, fuzz region, kill-storm, \
                      kill-switches, stress, simulate, switch-storm";
        let chore = Chore::ReleaseCheck { baseline: None };
        let all = names(&steps(&chore, &everything()));
        assert_eq!(all, [checks, PROGRAM, "package"].join(", "));
        let targets = everything().fuzz_targets;
        let bare = Facts { fuzz_targets: targets, ..nothing() };
        let named = Chore::ReleaseCheck { baseline: Some("abc".to_owned()) };
        let semver = command(&steps(&named, &bare), "semver");
        assert!(semver.ends_with(" --baseline-rev abc"), "{semver}");
        let all = names(&steps(&chore, &bare));
        let (installs, rest): (Vec<&str>, Vec<&str>) =
            all.split(", ").partition(|name| name.starts_with("install"));
        let expected = "install deny, install nightly, install miri, install fuzz, install Rust";
        assert_eq!(installs.join(", "), expected);
        let checks = checks.replace("semver, ", "");
        assert_eq!(rest.join(", "), [&checks, PROGRAM, "package"].join(", "));
    }

    #[test]
    fn an_unknown_fuzz_target_is_not_run() {
        let chore = Chore::Fuzz { target: Some("flame".to_owned()), seconds: 1 };
        let steps = steps(&chore, &everything());
        let [Step::Skip { reason, .. }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(reason, "no such fuzz target: there are frame, region");
    }

    #[test]
    fn the_advice_is_tested_by_a_program_of_its_own() {
        let steps = steps(&Chore::AdviseCheck { sets: 3, seed: 9 }, &nothing());
        let expected = "cargo run --release -p nearcall-bench --example advise_check -- --sets 3 \
                        --seed 9";
        assert_eq!(command(&steps, "advise-check"), expected);
    }

    #[test]
    fn the_oldest_compiler_builds_libraries_in_ci_and_all_before_a_release() {
        for (chore, packages) in [
            (Chore::Ci { quick: false }, LIBRARIES),
            (Chore::ReleaseCheck { baseline: None }, ALL_BUT_PEERS),
        ] {
            let expected = format!("CARGO_TARGET_DIR=target/oldest cargo +1.88 check {packages}");
            assert_eq!(command(&steps(&chore, &everything()), "oldest Rust"), expected);
        }
    }

    #[test]
    fn a_simulation_has_a_configuration_and_takes_as_long_as_asked() {
        let chore = Chore::Simulate { seconds: Some(90), seed: None };
        let command = command(&steps(&chore, &nothing()), "simulate");
        let wrapper = "RUSTC_WORKSPACE_WRAPPER=repository/xtask/cfg/simulation ";
        assert!(command.contains(wrapper), "{command}");
        assert!(command.contains("NEARCALL_SIMULATION_S=90"), "{command}");
        assert!(!command.contains("NEARCALL_SIMULATION_SEED"), "{command}");
    }

    #[test]
    fn a_storm_of_switches_takes_the_build_of_the_tests_in_ci() {
        let storm = |chore: &Chore| command(&steps(chore, &nothing()), "switch-storm");
        assert!(!storm(&Chore::Ci { quick: false }).contains("--release"));
        let alone = storm(&Chore::SwitchStorm { minutes: 3, seed: 9 });
        assert!(alone.contains("--release") && alone.contains("NEARCALL_STORM_S=180"), "{alone}");
    }

    #[test]
    fn the_storm_tells_the_test_how_long() {
        let steps = steps(&Chore::KillStorm { kills: 7 }, &nothing());
        assert_eq!(
            command(&steps, "kill-storm"),
            "NEARCALL_KILLS=7 cargo test -p nearcall-channel --release --test it killed_peer -- \
             --nocapture"
        );
        assert!(command(&steps, "kill-switches").contains("killed_switches"));
    }
}
