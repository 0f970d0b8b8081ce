//! The progress bar: on standard error, and only where a person looks at it.
//!
//! **Invariants:** it draws without colour and within the width of the terminal, and nothing at all
//! if standard error is no terminal or a dumb one.

use std::env;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use terminal_size::{Width, terminal_size_of};

/// One bar; it vanishes when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar that stands at nothing.
    pub(crate) fn new() -> Self {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let target = match io::stderr().is_terminal() && !is_dumb {
            true => ProgressDrawTarget::stderr_with_hz(DRAWN_PER_S),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let is_narrow = terminal_size_of(io::stderr()).is_some_and(|(Width(w), _)| w < BAR_FROM);
        let template = if is_narrow { TEMPLATE_NARROW } else { TEMPLATE };
        let style = ProgressStyle::with_template(template)
            .map(|style| style.with_key("left", write_left))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self(bar)
    }

    /// Shows that `done` of `total` steps are over; `text` names the next one.
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

fn write_left(state: &ProgressState, out: &mut dyn Write) {
    let left = left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
    // A bar that cannot be written is not seen.
    let _ = left.map_or(Ok(()), |left| write!(out, "{} left", clock(left)));
}

/// The time that the other steps take if they take as long as those before, which is how runs are
/// planned. `None` before the first is over.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let share = total.saturating_sub(done) as f64 / done as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * share).ok()
}

/// `1:05`, `2:00:00`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

const TEMPLATE: &str = "  {bar:20} {pos}/{len}  {left:12} {wide_msg}";

/// Without a bar, which would leave no room for what comes next.
const TEMPLATE_NARROW: &str = "  {pos}/{len}  {left} {wide_msg}";

/// Columns of a terminal that has room for the bar.
const BAR_FROM: u16 = 60;

/// Seldom, since drawing takes CPU time from what is measured.
const DRAWN_PER_S: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_steps_that_are_over() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 0, 40), None);
        assert_eq!(left(minute, 10, 40), Some(3 * minute));
        assert_eq!(left(minute, 40, 40), Some(Duration::ZERO));
        assert_eq!(left(Duration::ZERO, 0, 0), None);
    }

    #[test]
    fn times_are_read_as_on_a_clock() {
        let shown = [5, 65, 7_200].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0:05", "1:05", "2:00:00"]);
    }
}
