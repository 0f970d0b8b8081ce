//! The progress bar: on standard error, and only where a person looks at it.
//!
//! Always true: it draws without colour, and nothing at all if standard error is no terminal or a
//! dumb one.

use std::env;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One bar; it vanishes when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar that stands at nothing.
    pub(crate) fn new() -> Self {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let target = match io::stderr().is_terminal() && !is_dumb {
            true => ProgressDrawTarget::stderr_with_hz(DRAWN_PER_S),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(TEMPLATE);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// `done` of `total` steps are over; `text` says what comes now.
    pub(crate) fn show(&self, done: usize, total: usize, text: &str) {
        let count = |steps: usize| u64::try_from(steps).unwrap_or(u64::MAX);
        self.0.set_length(count(total));
        self.0.set_position(count(done));
        self.0.set_message(text.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const TEMPLATE: &str = "  {bar:30} {pos:>4}/{len}  {elapsed_precise}  {wide_msg}";

/// Seldom, since drawing takes CPU time from what is measured.
const DRAWN_PER_S: u8 = 4;
