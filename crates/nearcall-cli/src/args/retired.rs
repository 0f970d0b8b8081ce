//! Former names of commands and options: an error names the present one.

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error};

/// Replaces an error about a former name by one that names the present name.
pub(super) fn explain(error: Error, command: &mut Command) -> Error {
    let named = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter();
    let named = named.filter_map(|kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    });
    let present =
        named.filter_map(|text| RENAMED.iter().find(|(former, _)| *former == text)).next();
    match present {
        Some((former, present)) => {
            command.error(error.kind(), format!("'{former}' is now named '{present}'"))
        }
        None => error,
    }
}

/// Former names and present names.
const RENAMED: [(&str, &str); 11] = [
    ("pace", "open-loop"),
    ("gap", "idle-gap"),
    ("start", "connect"),
    ("waits", "wait-policies"),
    ("rivals", "libraries"),
    ("--sizes", "--size"),
    ("--via", "--mechanism"),
    ("--caller", "--client"),
    ("--touch", "--payload-access"),
    ("--any-buffer", "--allow-buffer-mismatch"),
    ("--awake", "--pm-qos"),
];
