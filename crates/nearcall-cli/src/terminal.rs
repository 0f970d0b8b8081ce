//! The terminal that a result goes to: how wide it is, and whether it shows colour.
//!
//! **Invariants:** asked once for each result. `COLUMNS` counts before the terminal's own width;
//! into a pipe or a file without it, tables are as wide as they are. `--color` counts before
//! NO_COLOR, TERM and whether there is a terminal.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::ColorChoice;
use nearcall_results::report::lines::Style;
use terminal_size::{Width, terminal_size_of};

/// Stores the value of `--color`. The first call counts.
pub(crate) fn set_color(choice: ColorChoice) {
    let _ = COLOR.set(choice);
}

static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Returns the form in which results are written to standard output.
pub(crate) fn style() -> Style {
    Style::new(columns(), has_color())
}

fn columns() -> Option<usize> {
    let variable = env::var("COLUMNS").ok();
    let wanted = variable.and_then(|text| text.parse().ok()).filter(|&columns| columns > 0);
    wanted.or_else(|| {
        let (Width(columns), _) = terminal_size_of(io::stdout())?;
        Some(usize::from(columns)).filter(|&columns| columns > 0)
    })
}

/// Returns whether to write colours to standard output.
pub(crate) fn has_color() -> bool {
    match COLOR.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
            io::stdout().is_terminal() && !refused && !is_dumb
        }
    }
}
