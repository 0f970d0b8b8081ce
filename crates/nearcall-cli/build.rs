//! Passes on the commit and the compiler of the build, for `--version` and for the record of a
//! run. Whatever cannot be found out is "unknown".

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let git = |words: &[&str]| output("git", words);
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(unknown);
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = output(&rustc, &["--version"]).unwrap_or_else(unknown);
    let level = env::var("OPT_LEVEL").unwrap_or_else(|_| unknown());
    // Flags are separated by a control character, so that they may contain blanks.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\u{1f}', " ");
    let compiler = format!("{compiler}, opt-level={level} {flags}");
    // The build server reads these lines; this is not the program's output.
    let lines = [
        format!("cargo::rustc-env=NEARCALL_COMMIT={commit}"),
        format!("cargo::rustc-env=NEARCALL_COMPILER={}", compiler.trim()),
        "cargo::rerun-if-changed=build.rs".to_owned(),
    ];
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    let log = log.filter(|path| Path::new(path).exists());
    let watched = log.map(|path| format!("cargo::rerun-if-changed={path}"));
    for line in lines.into_iter().chain(watched) {
        say(&line);
    }
}

#[allow(clippy::print_stdout, reason = "Cargo reads what a build script prints")]
fn say(line: &str) {
    println!("{line}");
}

fn output(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn unknown() -> String {
    "unknown".to_owned()
}
