//! The form of the help: examples first, commands in a list, options below headings.
//!
//! **Invariants:** the text about a command or an option stands once, at its definition; what all
//! options have in common stands here, so that an option has one heading in every command. Help has
//! the width of the terminal, at most 100 columns.

use clap::{Arg, Command};

/// Gives the help of a command, and of those in it, its form.
pub(super) fn with_form(command: Command) -> Command {
    let command = command.help_template(TEMPLATE).max_term_width(COLUMNS_MAX);
    command.mut_args(option).mut_subcommands(with_form)
}

/// Gives an option its heading. A value may be a negative number, which its parser refuses by name;
/// values that are words stand in the text of the option.
fn option(arg: Arg) -> Arg {
    let id = arg.get_id().to_string();
    let is_below = |(_, ids): &&(&str, &str)| ids.split_whitespace().any(|other| other == id);
    let arg = match HEADINGS.iter().find(is_below) {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    };
    match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true).hide_possible_values(true),
        false => arg,
    }
}

/// Headings and the options below each; all others have the heading "Options".
const HEADINGS: [(&str, &str); 4] = [
    (
        "Workload",
        "mechanism every size client rate stall gap messages clients threads loops shape wait \
         breakdown streams payload_access buffer allow_buffer_mismatch setups map reply pattern \
         needs optimise trace",
    ),
    ("Placement", "placement pin load pm_qos"),
    ("Duration", "launches time quick seed anyway"),
    ("Output", "out json out_dir dir csv jsonl markdown all include_file run profile"),
];

/// Examples come first, because most readers look for one.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}";

/// Longer lines are hard to read.
const COLUMNS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command;

    /// Every command that a user can type.
    fn all(command: &Command) -> Vec<Command> {
        let inner = command.get_subcommands().filter(|inner| is_typed(inner.get_name()));
        let inner = inner.filter(|inner| inner.get_name() != "help");
        std::iter::once(command.clone()).chain(inner.flat_map(all)).collect()
    }

    /// Whether a user types the command, and not the program itself.
    fn is_typed(name: &str) -> bool {
        !name.ends_with("process")
    }

    #[test]
    fn the_options_do_not_contradict_each_other() {
        command().debug_assert();
    }

    #[test]
    fn every_option_below_a_heading_exists() {
        let all = all(&command());
        let ids: Vec<&str> =
            all.iter().flat_map(Command::get_opts).map(|option| option.get_id().as_str()).collect();
        for id in HEADINGS.iter().flat_map(|(_, ids)| ids.split_whitespace()) {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn help_fits_80_columns_and_shows_examples_first() {
        let mut command = command().term_width(80);
        command.build();
        for mut command in all(&command) {
            let name = command.get_name().to_owned();
            let examples = command.get_before_help().expect("examples").to_string();
            let (long, short) = (command.render_long_help(), command.render_help());
            for help in [long.to_string(), short.to_string()] {
                assert!(help.contains(&examples), "{name}: examples are wrapped:\n{help}");
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
            "threads",
            "mechanism",
            "format",
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
