//! `nearcall man`: the manual pages, from the same text as the help.
//!
//! **Not here:** where packages install the pages (`cargo xtask package`).

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use super::End;

/// Write the manual pages into a directory
///
/// Writes one page for each command, such as nearcall-bench.1, which `man nearcall-bench` shows
/// where the directory is a `man1` below a directory of MANPATH. Packages install them.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory of the pages; created if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out_dir: PathBuf,
}

pub(super) fn run(args: &ManArgs) -> anyhow::Result<End> {
    let directory = &args.out_dir;
    let context = || format!("cannot write manual pages into {}", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, directory).with_context(context)?;
    Ok(End::Done)
}

/// Writes the page of a command, and those of all in it.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone()).manual(MANUAL);
    let mut page = Vec::new();
    man.render(&mut page)?;
    if let Some(examples) = command.get_before_help() {
        page.extend_from_slice(section(&examples.to_string()).as_bytes());
    }
    fs::write(directory.join(man.get_filename()), page)?;
    let mut typed = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    typed.try_for_each(|inner| write_pages(inner, directory))
}

/// Returns the examples of the help, which begin with a heading, as a section of a page whose lines
/// are not filled.
fn section(examples: &str) -> String {
    let lines = examples.lines().skip(1).map(|line| {
        // A line that begins with a full stop or a quote would be a request.
        format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"))
    });
    format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.collect::<String>())
}

/// What the pages belong to, at the top of each.
const MANUAL: &str = "nearcall";

const EXAMPLES: &str = "\
Examples:
  nearcall man --out-dir ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_no_requests_of_the_formatter() {
        let text = section("Examples:\n  nearcall x --size 8\n.TH 'x' \\n");
        let expected = ".SH EXAMPLES\n.nf\n\\&  nearcall x \\-\\-size 8\n\\&.TH 'x' \\en\n.fi\n";
        assert_eq!(text, expected);
    }
}
