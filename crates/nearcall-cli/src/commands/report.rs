//! `nearcall report`: makes a page, figures and tables of stored runs.
//!
//! **Invariants:** nothing is written before every run has been read and found to fit; each file is
//! written whole or not at all. What is in them is decided in the library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use nearcall_results::dataset::rows::csv;
use nearcall_results::report::figure::figures;
use nearcall_results::report::hosts::{Host, hosts};
use nearcall_results::report::markdown::markdown;
use nearcall_results::report::page::{PageFacts, Summary, page, quoted, summary};
use nearcall_results::run::{LoadError, ParseError, Run, save_text};
use nearcall_studies::stored;
use serde::Serialize;

use super::{End, Usage};
use crate::args::JsonArgs;
use crate::output;

/// Write a page of figures and tables from stored runs
///
/// One HTML file that needs nothing else and no network. Runs of one machine complete each
/// other, those of several stand side by side and are never averaged. Runs whose definitions
/// differ are refused.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Stored runs, of one machine or of several
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Write the page here; `-` is standard output
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write all cells here, one line each; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a summary as Markdown here; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<End> {
    check_outputs(args)?;
    let runs = args.runs.iter().map(|path| load(path)).collect::<anyhow::Result<Vec<Run>>>()?;
    let hosts = hosts(&runs).with_context(|| names(&args.runs))?;
    let mut written = Vec::new();
    if let Some(path) = &args.out {
        write(path, &page(&hosts, &facts(args)), &mut written)?;
    }
    if let Some(path) = &args.markdown {
        write(path, &markdown(&hosts), &mut written)?;
    }
    if let Some(path) = &args.csv {
        write(path, &csv(&hosts), &mut written)?;
    }
    report_files(args, &hosts, &written)?;
    Ok(End::Done)
}

/// Something must be asked for, and two results cannot share standard output.
fn check_outputs(args: &ReportArgs) -> anyhow::Result<()> {
    let files = [&args.out, &args.markdown, &args.csv];
    if files.iter().all(|path| path.is_none()) && !args.format.json {
        let what = "nothing to write: give -o FILE, --csv FILE, --markdown FILE or --json";
        return Err(Usage(what.to_owned()).into());
    }
    let to_stdout = files.iter().filter(|path| path.as_deref().is_some_and(is_stdout)).count();
    if to_stdout + usize::from(args.format.json) > 1 {
        let what = "only one of -o, --markdown, --csv and --json can go to standard output";
        return Err(Usage(what.to_owned()).into());
    }
    check_paths(args)
}

/// No result may replace a run, nor another result.
fn check_paths(args: &ReportArgs) -> anyhow::Result<()> {
    let refuse = |first: &Path, second: &Path| -> anyhow::Result<()> {
        let [first, second] = [first, second].map(Path::display);
        Err(Usage(format!("{first} and {second} are the same file; give another name")).into())
    };
    let mut taken: Vec<(PathBuf, &Path)> =
        args.runs.iter().map(|path| (real(path), path.as_path())).collect();
    for path in [&args.out, &args.markdown, &args.csv].into_iter().flatten() {
        let real = real(path);
        // Of a pipe or /dev/null nothing is lost.
        if is_stdout(path) || fs::metadata(&real).is_ok_and(|found| is_special(&found)) {
            continue;
        }
        if let Some((_, other)) = taken.iter().find(|(other, _)| *other == real) {
            return refuse(other, path);
        }
        taken.push((real, path));
    }
    Ok(())
}

fn is_special(found: &fs::Metadata) -> bool {
    !found.is_file() && !found.is_dir()
}

/// The path without links, also of a file that is still to be made.
fn real(path: &Path) -> PathBuf {
    let directory = || {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
        Some(directory.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(directory).unwrap_or_else(|| path.to_owned())
}

fn load(path: &Path) -> anyhow::Result<Run> {
    let name = path.display().to_string();
    match Run::load(path) {
        Ok(mut run) => {
            stored::judge_again(&mut run);
            Ok(run)
        }
        Err(error @ LoadError::Parse(ParseError::NotARun)) => match other_result(path) {
            Some(what) => bail!("{name}: {what}; a report is made of stored runs"),
            None => Err(error).context(name),
        },
        Err(error) => Err(error).context(name),
    }
}

/// What a file of ours is that is no run.
fn other_result(path: &Path) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let schema = head.schema.strip_prefix("nearcall.")?;
    let (form, _) = schema.split_once('/')?;
    let (_, description) = OTHERS.iter().find(|(other, _)| *other == form)?;
    Some(format!("this is {description} (nearcall.{form})"))
}

fn names(paths: &[PathBuf]) -> String {
    let names = paths.iter().enumerate();
    let names: Vec<String> =
        names.map(|(index, path)| format!("{} is {}", index + 1, path.display())).collect();
    names.join(", ")
}

/// The command that makes the page again, without directories of this machine.
fn facts(args: &ReportArgs) -> PageFacts {
    let name = |path: &Path| quoted(&path.file_name().unwrap_or(OsStr::new("-")).to_string_lossy());
    let runs = args.runs.iter().map(|path| name(path)).collect::<Vec<String>>().join(" ");
    PageFacts {
        version: format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("NEARCALL_COMMIT")),
        command: format!("nearcall report {runs} -o report.html"),
    }
}

fn write(path: &Path, text: &str, written: &mut Vec<String>) -> anyhow::Result<()> {
    if is_stdout(path) {
        return output::file(text);
    }
    save_text(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    written.push(path.display().to_string());
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// What was written, unless standard output holds a result already.
fn report_files(args: &ReportArgs, hosts: &[Host<'_>], written: &[String]) -> anyhow::Result<()> {
    if args.format.json {
        return output::json(&document(hosts, written));
    }
    let files = [&args.out, &args.markdown, &args.csv];
    if files.iter().any(|path| path.as_deref().is_some_and(is_stdout)) {
        return Ok(());
    }
    output::result(&written.iter().map(|path| format!("{path}\n")).collect::<String>())
}

fn document<'a>(hosts: &[Host<'_>], written: &'a [String]) -> Document<'a> {
    let machines = hosts.iter().enumerate();
    let machines = machines.map(|(index, host)| summary(host, index, hosts.len())).collect();
    let drawn = hosts.iter().enumerate().flat_map(|(index, host)| figures(host, index));
    let figures = drawn.map(|figure| FigureFacts { id: figure.id, title: figure.title });
    Document { schema: "nearcall.report/1", machines, figures: figures.collect(), written }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// What each machine is, and what is fast on it.
    machines: Vec<Summary>,
    figures: Vec<FigureFacts>,
    /// The files that were written.
    written: &'a [String],
}

#[derive(Serialize)]
struct FigureFacts {
    id: String,
    title: String,
}

/// Results of other commands, by the word in their schema.
const OTHERS: [(&str, &str); 8] = [
    ("memory", "a result of `nearcall bench memory`"),
    ("timers", "a result of `nearcall timers`"),
    ("profile", "a result of `nearcall profile`"),
    ("doctor", "a result of `nearcall doctor`"),
    ("mechanisms", "a result of `nearcall mechanisms`"),
    ("compare", "a result of `nearcall compare`"),
    ("advice", "a result of `nearcall advise`"),
    ("report", "a result of `nearcall report --json`"),
];

const EXAMPLES: &str = "\
Examples:
  nearcall report run.json -o report.html
  nearcall report all.json calls.json -o report.html
  nearcall report here.json there.json -o both.html       two machines
  nearcall report run.json --markdown - >> $GITHUB_STEP_SUMMARY
  nearcall report run.json --csv - | head -3";
