//! Runs the steps of a chore: prints each command and its duration, stops at the first failure.
//!
//! Invariants: a step that was not run is named with its reason at the end. A step whose output is
//! checked fails when the output is wrong, even if the command succeeded.
//! Not here: which steps there are (`plan.rs`).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use serde_json::Value;

/// How much of a wrong output is shown: enough to see what kind of thing came instead.
const SHOWN_CHARS: usize = 300;
/// The exit code when the output of a command, not its exit code, was wrong.
const BAD_OUTPUT: u8 = 1;

/// A part of a chore.
#[derive(Clone, Debug)]
pub enum Step {
    /// Runs a command.
    Run(Command),
    /// Cannot run here.
    Skip {
        /// What does not run.
        name: String,
        /// Why, and what would change it.
        reason: String,
    },
}

/// What a command must print to pass.
#[derive(Clone, Debug)]
pub enum Expect {
    /// Its exit code decides.
    Success,
    /// At least one test ran: a filter that matches nothing succeeds too.
    TestsRan,
    /// Its output is one JSON document that is not empty and has these fields at the top.
    Json {
        /// Names at the top level.
        fields: &'static [&'static str],
    },
}

/// A command of a step; prints as what one would type.
#[derive(Clone, Debug)]
pub struct Command {
    /// The name of the step.
    pub name: String,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    directory: Option<PathBuf>,
    expect: Expect,
    may_find: bool,
}

impl Command {
    /// A command without arguments whose exit code must be zero.
    #[must_use]
    pub fn new(name: &str, program: &str) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            expect: Expect::Success,
            may_find: false,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Creates a directory before the command starts.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Judges the output.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Accepts exit code 1, by which the command reports that it worked and found something.
    #[must_use]
    pub fn may_find(mut self) -> Self {
        self.may_find = true;
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| match text.contains(' ') {
            true => format!("'{text}'"),
            false => text.to_owned(),
        };
        let set = |(name, value): &(&str, String)| format!("{name}={}", quoted(value));
        let environment = self.environment.iter().map(set);
        let arguments = self.arguments.iter().map(|argument| quoted(argument));
        let parts: Vec<String> =
            environment.chain([self.program.clone()]).chain(arguments).collect();
        formatter.write_str(&parts.join(" "))
    }
}

/// How one step ended.
enum Outcome {
    /// It did what it should.
    Passed,
    /// It could not run.
    Skipped(String),
    /// The exit code to pass on, and the reason.
    Failed(u8, String),
}

/// Runs the steps in the directory `root` and returns the exit code of the first that fails, or
/// zero. With `needs_all` a step that cannot run is a failure. Writes to `log` what happens, and at
/// the end a table of the steps with their seconds and outcomes.
#[must_use]
pub fn run_all(root: &Path, steps: &[Step], needs_all: bool, log: &mut dyn Write) -> u8 {
    let started = now();
    let mut table = Vec::new();
    let mut code = 0;
    for step in steps {
        let step_started = now();
        let (name, outcome) = match step {
            Step::Run(command) => (command.name.as_str(), run_step(root, command, log)),
            Step::Skip { name, reason } if needs_all => {
                (name.as_str(), Outcome::Failed(1, reason.clone()))
            }
            Step::Skip { name, reason } => (name.as_str(), Outcome::Skipped(reason.clone())),
        };
        let duration = seconds(step_started.elapsed());
        table.push(match &outcome {
            Outcome::Passed => format!("== {name:<16} {duration:>10}  ok"),
            Outcome::Skipped(reason) => format!("== {name:<16} {:>10}  SKIPPED: {reason}", "-"),
            Outcome::Failed(_, reason) => format!("== {name:<16} {duration:>10}  FAILED: {reason}"),
        });
        if let Outcome::Failed(failed, _) = outcome {
            code = failed;
            break;
        }
    }
    say(log, &format!("== {:<16} {:>10}  outcome", "step", "seconds"));
    table.iter().for_each(|line| say(log, line));
    let total = seconds(started.elapsed());
    say(log, &format!("== {:<16} {total:>10}  {} of {} steps", "all", table.len(), steps.len()));
    code
}

/// Runs the command of a step, with a line before it and one behind it.
fn run_step(root: &Path, command: &Command, log: &mut dyn Write) -> Outcome {
    say(log, &format!("== {}: {command}", command.name));
    let started = now();
    match run(root, command, log) {
        Ok(()) => {
            say(log, &format!("== {}: ok, {} s", command.name, seconds(started.elapsed())));
            Outcome::Passed
        }
        Err((code, reason)) => {
            say(log, &format!("== {}: FAILED: {reason}", command.name));
            say(log, &format!("== again: {command}"));
            Outcome::Failed(code, reason)
        }
    }
}

/// Runs one command; a failure is the exit code to pass on and the reason.
fn run(root: &Path, command: &Command, log: &mut dyn Write) -> Result<(), (u8, String)> {
    let cannot_start = |error: io::Error| (BAD_OUTPUT, format!("cannot start: {error}"));
    if let Some(directory) = &command.directory {
        fs::create_dir_all(directory).map_err(cannot_start)?;
    }
    let mut child = process::Command::new(&command.program);
    child.current_dir(root).args(&command.arguments).stdin(Stdio::null());
    child.envs(command.environment.iter().map(|(name, value)| (name, value)));
    if command.arguments.first().is_some_and(|argument| argument.starts_with('+')) {
        // Inside `cargo xtask` rustup has already chosen a toolchain for its children.
        child.env_remove("RUSTUP_TOOLCHAIN");
    }
    let captures = !matches!(command.expect, Expect::Success);
    child.stdout(if captures { Stdio::piped() } else { Stdio::inherit() });
    let mut child = child.spawn().map_err(cannot_start)?;
    let echoes = !matches!(command.expect, Expect::Json { .. });
    let output = child.stdout.take().map(|stdout| read(stdout, echoes, log)).unwrap_or_default();
    let status = child.wait().map_err(cannot_start)?;
    match (status.code(), status.signal()) {
        (Some(1), _) if command.may_find => {}
        (Some(0), _) => {}
        (Some(code), _) => return Err((exit_code(code), format!("exit code {code}"))),
        // As a shell counts it.
        (None, Some(signal)) => return Err((exit_code(128 + signal), format!("signal {signal}"))),
        (None, None) => return Err((BAD_OUTPUT, format!("{status}"))),
    }
    judge(&command.expect, &output).map_err(|reason| (BAD_OUTPUT, reason))
}

fn exit_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(1)
}

/// Reads to the end, and copies every line to the log at once if `echoes`.
fn read(stdout: process::ChildStdout, echoes: bool, log: &mut dyn Write) -> String {
    let mut text = String::new();
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if echoes {
            say(log, &line);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn judge(expect: &Expect, output: &str) -> Result<(), String> {
    match expect {
        Expect::Success => Ok(()),
        Expect::TestsRan => match tests_run(output) {
            0 => Err("it ran no test; is the filter still right?".to_owned()),
            _ => Ok(()),
        },
        Expect::Json { fields } => json(output, fields),
    }
}

/// Adds up the numbers in the lines `running 3 tests`.
fn tests_run(output: &str) -> u32 {
    let count = |line: &str| {
        let count = line
            .strip_prefix("running ")?
            .strip_suffix(" tests")
            .or_else(|| line.strip_prefix("running ")?.strip_suffix(" test"))?;
        count.parse::<u32>().ok()
    };
    output.lines().filter_map(count).sum()
}

fn json(output: &str, fields: &[&str]) -> Result<(), String> {
    let shown: String = output.chars().take(SHOWN_CHARS).collect();
    let value: Value = serde_json::from_str(output)
        .map_err(|error| format!("its output is not one JSON document: {error}: {shown}"))?;
    if is_empty(&value) {
        return Err(format!("its JSON is empty: {shown}"));
    }
    match fields.iter().find(|field| value.get(**field).is_none_or(is_empty)) {
        Some(field) => Err(format!("its JSON has no `{field}`, or it is empty: {shown}")),
        None => Ok(()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

fn say(log: &mut dyn Write, line: &str) {
    // Nothing else can be done if the log is closed; the exit code still reports it.
    let _ = writeln!(log, "{line}");
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

#[allow(clippy::disallowed_methods, reason = "xtask must run when nearcall-os does not compile")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        Command::new("script", "sh").argument("-c").argument(script)
    }

    fn code_of(steps: &[Step], needs_all: bool) -> u8 {
        run_all(Path::new("."), steps, needs_all, &mut Vec::new())
    }

    #[test]
    fn the_first_failure_ends_it_with_its_code() {
        let steps = [shell("exit 0"), shell("exit 7"), shell("exit 8")].map(Step::Run);
        assert_eq!(code_of(&steps, false), 7);
        assert_eq!(code_of(&[Step::Run(shell("kill -TERM $$"))], false), 128 + 15);
        assert_eq!(code_of(&[Step::Run(Command::new("gone", "no-such-program"))], false), 1);
    }

    #[test]
    fn a_finding_is_no_failure_where_it_is_allowed() {
        assert_eq!(code_of(&[Step::Run(shell("exit 1").may_find())], false), 0);
        assert_eq!(code_of(&[Step::Run(shell("exit 2").may_find())], false), 2);
    }

    #[test]
    fn a_skipped_step_fails_only_who_asked_for_it() {
        let steps = [Step::Skip { name: "miri".to_owned(), reason: "not installed".to_owned() }];
        assert_eq!(code_of(&steps, false), 0);
        assert_eq!(code_of(&steps, true), 1);
    }

    #[test]
    fn the_log_names_commands_and_ends_with_a_table() {
        let skip = Step::Skip { name: "miri".to_owned(), reason: "not installed".to_owned() };
        let good = shell("echo running 2 tests").expect(Expect::TestsRan);
        let mut log = Vec::new();
        let steps = [skip, Step::Run(good), Step::Run(shell("exit 3"))];
        assert_eq!(run_all(Path::new("."), &steps[..2], false, &mut log), 0);
        assert_eq!(run_all(Path::new("."), &steps[2..], false, &mut log), 3);
        let log = String::from_utf8(log).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines[0], "== script: sh -c 'echo running 2 tests'");
        assert_eq!(lines[1], "running 2 tests");
        assert!(lines[2].starts_with("== script: ok, "), "{log}");
        assert_eq!(lines[3], "== step                seconds  outcome");
        assert_eq!(lines[4], "== miri                      -  SKIPPED: not installed");
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            (&row(lines[5])[1], &row(lines[5])[3..]),
            (&"script".to_owned(), &["ok".to_owned()][..])
        );
        assert!(lines[6].starts_with("== all ") && lines[6].ends_with("2 of 2 steps"), "{log}");
        assert_eq!(lines[8], "== script: FAILED: exit code 3");
        assert_eq!(lines[9], "== again: sh -c 'exit 3'");
        assert!(lines[11].starts_with("== script ") && lines[11].contains("FAILED: exit code 3"));
    }

    #[test]
    fn a_run_without_tests_fails() {
        let run = |script| code_of(&[Step::Run(shell(script).expect(Expect::TestsRan))], false);
        assert_eq!(run("echo running 0 tests"), 1);
        assert_eq!(run("echo running 0 tests; echo running 1 test"), 0);
        assert_eq!(run("echo running 12 tests"), 0);
    }

    #[test]
    fn json_is_judged() {
        assert_eq!(json("{\"schema\": 1}", &["schema"]), Ok(()));
        assert_eq!(json("[1]\n", &[]), Ok(()));
        for bad in [
            "",
            "{}",
            "[]",
            "null",
            "3",
            "{\"schema\": []}",
            "{\"schema\": 1",
            "{} {}",
            "{\"cells\": 1}",
        ] {
            assert!(json(bad, &["schema"]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_prints_as_typed() {
        let command = shell("exit 0").environment("FLAGS", "-D warnings");
        assert_eq!(command.to_string(), "FLAGS='-D warnings' sh -c 'exit 0'");
    }
}
