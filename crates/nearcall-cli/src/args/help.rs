//! The form of the help: examples first, commands in groups, options below headings.
//!
//! **Invariants:** the text about a command stands once, at its definition; groups order names.
//! Help has the width of the terminal, at most 100 columns, and nothing is cut at 80.

use clap::{Command, CommandFactory};

use nearcall_bench::experiment::ALL;

use super::Cli;

/// Builds the command line with its help.
pub(super) fn command() -> Command {
    let command = Cli::command().mut_subcommand("bench", |bench| {
        grouped(bench, "nearcall bench [OPTIONS] [COMMAND]", &experiments())
    });
    let command = grouped(command, "nearcall [OPTIONS] <COMMAND>", &commands());
    with_template(command).max_term_width(COLUMNS_MAX)
}

/// Renders the help of `bench libraries`, for when the program that has its options is missing.
pub(crate) fn libraries_help() -> String {
    let mut command = command();
    command.build();
    let bench = command.find_subcommand_mut("bench");
    let libraries = bench.and_then(|bench| bench.find_subcommand_mut("libraries"));
    libraries.map(|libraries| libraries.render_long_help().to_string()).unwrap_or_default()
}

fn with_template(command: Command) -> Command {
    command.help_template(TEMPLATE).mut_subcommands(with_template)
}

/// Lists the commands in `groups` instead of in one list.
fn grouped(command: Command, usage: &'static str, groups: &[Group]) -> Command {
    let list = list(&command, groups);
    // Clap can neither group commands nor leave its own list away.
    let command = command.mut_subcommands(|inner| inner.hide(true));
    command.override_usage(usage).after_help(list)
}

fn list(command: &Command, groups: &[Group]) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let names = groups.iter().flat_map(|group| &group.names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Group { title, names } in groups {
        text.push_str(&format!("{header}{title}:{header:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{name:width$}{literal:#}  {about}\n"));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Commands below one heading.
struct Group {
    title: &'static str,
    names: Vec<&'static str>,
}

/// The commands of the program.
fn commands() -> [Group; 3] {
    let main = "bench advise compare report show mechanisms doctor gen data";
    let group = |title, names: &'static str| Group { title, names: names.split(' ').collect() };
    [
        group("Commands", main),
        group("Servers", "list stop host status restart"),
        group("Specialist commands", "profile reproduce timers"),
    ]
}

/// The experiments of `bench`.
fn experiments() -> [Group; 2] {
    let of = |is_special| ALL.iter().filter(move |one| one.is_special == is_special);
    let names = of(false).map(|one| one.name).chain(["memory", "libraries"]).collect();
    [
        Group { title: "Commands", names },
        Group { title: "Specialist commands", names: of(true).map(|one| one.name).collect() },
    ]
}

/// Examples come first, because most readers look for one.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}{after-help}

{all-args}";

/// Longer lines are hard to read.
const COLUMNS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that a user can type.
    fn all(command: &Command) -> Vec<Command> {
        let inner = command.get_subcommands().filter(|inner| is_typed(inner.get_name()));
        let inner = inner.filter(|inner| inner.get_name() != "help");
        std::iter::once(command.clone()).chain(inner.flat_map(all)).collect()
    }

    /// Whether a user types the command, and not the program itself.
    fn is_typed(name: &str) -> bool {
        !name.ends_with("process") && name != "host-group"
    }

    #[test]
    fn the_options_do_not_contradict_each_other() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = command();
        let bench = command.find_subcommand("bench").expect("there is one");
        for (command, groups) in [(&command, &commands()[..]), (bench, &experiments())] {
            let names = command.get_subcommands().map(Command::get_name);
            let mut names: Vec<&str> = names.filter(|name| is_typed(name)).collect();
            let mut listed: Vec<&str> =
                groups.iter().flat_map(|group| &group.names).copied().collect();
            names.sort_unstable();
            listed.sort_unstable();
            assert_eq!(listed, names);
        }
    }

    #[test]
    fn help_fits_80_columns_and_shows_examples_first() {
        let mut command = command().term_width(80);
        command.build();
        for mut command in all(&command) {
            let name = command.get_name().to_owned();
            let examples = command.get_before_help().expect("examples").to_string();
            let list = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (long, short) = (command.render_long_help(), command.render_help());
            for help in [long.to_string(), short.to_string()] {
                assert!(help.contains(&examples), "{name}: examples are wrapped:\n{help}");
                assert!(help.contains(&list), "{name}: the list is wrapped:\n{help}");
                assert!(help.find("Examples:") < help.find("Usage:"), "{help}");
                let wide: Vec<&str> =
                    help.lines().filter(|line| line.chars().count() > 80).collect();
                assert_eq!(wide, [""; 0], "{name}");
            }
        }
    }

    #[test]
    fn an_option_means_the_same_in_every_command() {
        let mut command = command();
        command.build();
        // One or several values, by what the command measures; and results of other kinds.
        let differ = [
            "clients",
            "size",
            "rate",
            "wait",
            "shape",
            "placement",
            "out",
            "out_dir",
            "csv",
            "markdown",
            "all",
        ];
        let mut seen = std::collections::BTreeMap::new();
        for command in all(&command) {
            for option in command.get_opts().filter(|option| !option.is_hide_set()) {
                let id = option.get_id().to_string();
                let help = option.get_help().map(ToString::to_string);
                let first = seen.entry(id.clone()).or_insert_with(|| help.clone());
                let name = command.get_name();
                assert!(differ.contains(&id.as_str()) || *first == help, "{name}: --{id}");
                let value = option.get_value_names().and_then(|names| names.first());
                match id.as_str() {
                    "out" => assert_eq!(value.map(|name| name.as_str()), Some("FILE"), "{name}"),
                    "out_dir" => assert_eq!(value.map(|name| name.as_str()), Some("DIR"), "{name}"),
                    _ => {}
                }
            }
        }
    }
}
