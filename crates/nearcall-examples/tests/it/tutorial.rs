//! The tutorial of the book: its commands, in the order of its pages, print what the pages show.
//!
//! `cargo run --bin NAME` runs the program of that page (the example `tutorial`), `nearcall` the
//! program of `nearcall-cli`. `…` stands for anything.
//!
//! **Invariants:** each page has a directory of its own, for names too; nothing runs on after it.

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nearcall_os::process::Child;

use crate::program::{command, end_of, spawn};

/// Where the pages are.
const TUTORIAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/tutorial");
/// Longest wait for the end of a program.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page that is followed.
struct Page {
    name: &'static str,
    directory: PathBuf,
    jobs: Vec<(Child, BufReader<ChildStdout>)>,
}

impl Page {
    fn new(name: &'static str) -> Self {
        let directory = std::env::temp_dir();
        let directory = directory.join(format!("nearcall-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(directory.join("target/debug")).unwrap();
        builder.create(directory.join("runtime")).unwrap();
        Self { name, directory, jobs: Vec::new() }
    }

    /// The program with this name, which each page has where Cargo would have built it.
    fn program(&self, name: &str) -> PathBuf {
        let path = self.directory.join("target/debug").join(name);
        if !path.exists() {
            fs::copy(command("tutorial", &[]).get_program(), &path).unwrap();
        }
        path
    }

    fn command(&self, words: &[String]) -> Command {
        let (program, rest) = match words {
            [cargo, run, bin, name, rest @ ..]
                if [cargo, run, bin] == ["cargo", "run", "--bin"] =>
            {
                (self.program(name), rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest))
            }
            [program, rest @ ..] if program == "nearcall" => (nearcall().to_owned(), rest),
            _ => panic!("{}: what is {words:?}?", self.name),
        };
        let mut command = Command::new(program);
        command.args(rest).current_dir(&self.directory).stdout(Stdio::piped());
        command.env("NEARCALL_RUNTIME_DIR", self.directory.join("runtime"));
        command.env("NEARCALL_TUTORIAL", self.name);
        command
    }

    /// Runs a command, and compares what it prints.
    fn step(&mut self, line: &str, shown: &[&str]) {
        let shown = shown.join("\n");
        let words = words(line.trim_end_matches(" &"));
        if let [wait, job] = &words[..]
            && wait == "wait"
        {
            let job: usize = job.trim_start_matches('%').parse().unwrap();
            let (child, stdout) = &mut self.jobs[job - 1];
            let text = std::io::read_to_string(stdout).unwrap();
            assert!(child.wait(Some(PATIENCE)).unwrap().is_some_and(|it| it.success()), "{line}");
            return self.compare(line, &shown, &text);
        }
        let mut command = self.command(&words);
        if line.ends_with(" &") {
            let mut child = spawn(command.stdin(Stdio::null()));
            let mut stdout = BufReader::new(child.pipes().stdout.take().unwrap());
            if !shown.is_empty() {
                let mut first = String::new();
                stdout.read_line(&mut first).unwrap();
                self.compare(line, &shown, &first);
            }
            self.jobs.push((child, stdout));
            return;
        }
        let ended = end_of(&mut command, "");
        assert_eq!(ended.code, Some(0), "{}: {line}: {ended:?}", self.name);
        self.compare(line, &shown, &(ended.stdout + &ended.stderr));
    }

    fn compare(&self, line: &str, shown: &str, printed: &str) {
        let printed = printed.trim_end();
        assert!(
            is_like(shown, printed),
            "{}: {line}\nshows:\n{shown}\nprints:\n{printed}",
            self.name
        );
    }

    /// Follows the page.
    fn follow(mut self) {
        let text = fs::read_to_string(Path::new(TUTORIAL).join(format!("{}.md", self.name)));
        let text = text.unwrap();
        for file in text.split("\n```toml\n").skip(1).filter(|it| it.starts_with("[service.")) {
            let file = file.split("\n```").next().unwrap();
            fs::write(self.directory.join("kitchen.toml"), file).unwrap();
            self.program("kettle");
        }
        let mut commands = 0;
        for block in text.split("\n```console\n").skip(1) {
            let block: Vec<&str> = block.split("\n```").next().unwrap().lines().collect();
            let starts: Vec<usize> =
                (0..block.len()).filter(|at| block[*at].starts_with("$ ")).collect();
            for (number, start) in starts.iter().enumerate() {
                let end = starts.get(number + 1).copied().unwrap_or(block.len());
                self.step(&block[*start][2..], &block[start + 1..end]);
                commands += 1;
            }
        }
        assert!(commands >= 3, "{}: {commands}", self.name);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.jobs.clear();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether the text is what is shown, in which `…` stands for anything.
fn is_like(shown: &str, text: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut left) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return left.is_empty() };
    for part in parts {
        let Some((_, rest)) = left.split_once(part) else { return false };
        left = rest;
    }
    left.ends_with(last)
}

/// Splits a command as a shell does: words may be in quotes of one kind.
pub(crate) fn words(command: &str) -> Vec<String> {
    let quote = if command.contains('\'') { '\'' } else { '"' };
    let parts = command.split(quote).enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// The program `nearcall`, which is built with its host if no build of the workspace has left both.
pub(crate) fn nearcall() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let tutorial = command("tutorial", &[]).get_program().to_owned();
        let profile = Path::new(&tutorial).ancestors().nth(2).unwrap();
        let path = profile.join("nearcall");
        if !path.is_file() || !profile.join("nearcall-host").is_file() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--offline", "--package", "nearcall-cli"]);
            cargo.args(["--package", "nearcall-host"]);
            cargo.args((!cfg!(debug_assertions)).then_some("--release"));
            let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
            assert!(status.success() && path.is_file(), "{} was not built", path.display());
        }
        path
    })
}

#[test]
fn a_service_and_a_client_in_two_processes() {
    Page::new("first-call").follow();
}

#[test]
fn errors_and_deadlines() {
    Page::new("errors").follow();
}

#[test]
fn streams() {
    Page::new("streams").follow();
}

#[test]
fn async_calls() {
    Page::new("async").follow();
}

#[test]
fn a_restart_under_load_loses_no_call() {
    Page::new("restart").follow();
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    for (shown, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("… calls, 0 failed", "17 calls, 0 failed", true),
        ("… calls, 0 failed", "17 calls, 10 failed", false),
        ("…", "", true),
        ("", "a", false),
    ] {
        assert_eq!(is_like(shown, text), expected, "{shown} {text}");
    }
}
