//! The screen of `nearcall top`: a table that is drawn anew with each tick and each key.
//!
//! **Invariants:** however it ends, by a key, a signal, a failure or a panic, the terminal is as it
//! was before.
//! **Not here:** the figures (`rows.rs`), the columns (`text.rs`).

use std::io::{self, IsTerminal, Stdout};

use anyhow::Context;
use nearcall_os::Deadline;
use nearcall_os::poll::{self, PollFd};
use nearcall_os::signal::Interrupt;
use nearcall_results::report::table::grid::Align;
use nearcall_results::run::printable;
use ratatui::Terminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row as Line, Table, TableState};

use super::rows::{Level, Row, Rows, Sort, View};
use super::{Ticker, name_of, text};
use crate::commands::End;
use crate::terminal::has_color;

type Backend = ratatui::backend::CrosstermBackend<Stdout>;

/// Returns whether there is a person who looks at it and can press keys.
pub(super) fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// Shows tables until a key, a signal or the last tick ends it.
pub(super) fn run(ticker: &mut Ticker, view: View, interrupt: Interrupt) -> anyhow::Result<End> {
    let mut screen = Screen::open()?;
    let mut state = State { view, ..State::new() };
    let mut rows = ticker.next()?;
    loop {
        screen.draw(&rows, &mut state)?;
        let is_last = ticker.is_over();
        if is_last {
            return Ok(End::Done);
        }
        match wait(ticker.due(), interrupt)? {
            Woken::Interrupted => return Ok(End::Interrupted),
            Woken::Tick => rows = ticker.next()?,
            Woken::Keys => {
                while event::poll(std::time::Duration::ZERO).context(CANNOT_READ)? {
                    let event = event::read().context(CANNOT_READ)?;
                    if let Some(end) = state.handle(&event, &rows) {
                        return Ok(end);
                    }
                }
            }
        }
    }
}

enum Woken {
    Tick,
    Keys,
    Interrupted,
}

/// Waits for a key, a signal or the next tick. A new size of the terminal counts as a key.
fn wait(due: Deadline, interrupt: Interrupt) -> anyhow::Result<Woken> {
    let stdin = io::stdin();
    let signal = interrupt.fd();
    let mut fds = [
        PollFd::new(&stdin, poll::Interest::Readable.into()),
        PollFd::new(&signal, poll::Interest::Readable.into()),
    ];
    let ready = poll::poll(&mut fds, due).context(CANNOT_READ)?;
    Ok(match ready {
        _ if interrupt.interrupted() => Woken::Interrupted,
        0 => Woken::Tick,
        _ => Woken::Keys,
    })
}

/// The terminal, in raw mode and on its other screen until this is dropped.
struct Screen(Terminal<Backend>);

impl Screen {
    fn open() -> anyhow::Result<Self> {
        enable_raw_mode().context("cannot read keys one by one")?;
        let opened = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(Backend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                let _ = disable_raw_mode();
                Err(error).context("cannot draw on the terminal")
            }
        }
    }

    fn draw(&mut self, rows: &Rows, state: &mut State) -> anyhow::Result<()> {
        let chosen = state.view.select(rows);
        state.table.select(state.table.selected().map(|at| at.min(chosen.len().max(1) - 1)));
        let drawn = self.0.draw(|frame| {
            let [head, body, foot] = Layout::vertical([
                Constraint::Length(1),
                Constraint::Min(1),
                Constraint::Length(1),
            ])
            .areas(frame.area());
            frame.render_widget(Paragraph::new(title(state, chosen.len())), head);
            let width = usize::from(body.width);
            frame.render_stateful_widget(table(&chosen, state, width), body, &mut state.table);
            frame.render_widget(Paragraph::new(state.foot()), foot);
        });
        drawn.map(drop).context("cannot draw on the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen);
        let _ = self.0.show_cursor();
    }
}

/// What the keys have chosen.
struct State {
    view: View,
    table: TableState,
    /// A filter is being typed.
    is_typing: bool,
}

impl State {
    fn new() -> Self {
        let view = View::default();
        Self { view, table: TableState::default().with_selected(0), is_typing: false }
    }

    /// Takes an event. Returns how the program ends, if it does.
    fn handle(&mut self, event: &Event, rows: &Rows) -> Option<End> {
        let Event::Key(key) = event else { return None };
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(End::Interrupted);
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        let view = &mut self.view;
        match key.code {
            KeyCode::Char('q') => return Some(End::Done),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if !view.filter.is_empty() => {
                view.filter.clear();
            }
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => {
                (view.level, view.server) = (Level::Servers, None);
            }
            KeyCode::Enter | KeyCode::Right if view.level == Level::Servers => {
                let at = self.table.selected().unwrap_or(0);
                let server = view.select(rows).get(at).map(|row| row.server.clone());
                (view.level, view.server) = (Level::Methods, server);
                self.table.select(Some(0));
            }
            KeyCode::Char('v') => view.level = Level::Servers,
            KeyCode::Char('m') => view.level = Level::Methods,
            KeyCode::Char('c') => view.level = Level::Connections,
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|sort| *sort == view.sort).unwrap_or(0);
                view.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('r') => view.is_reversed = !view.is_reversed,
            KeyCode::Char('/') => {
                self.is_typing = true;
                view.filter.clear();
            }
            KeyCode::Down | KeyCode::Char('j') => self.table.scroll_down_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.table.scroll_up_by(1),
            KeyCode::PageDown => self.table.scroll_down_by(PAGE),
            KeyCode::PageUp => self.table.scroll_up_by(PAGE),
            KeyCode::Home => self.table.select(Some(0)),
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.view.filter.clear();
            }
            KeyCode::Backspace => drop(self.view.filter.pop()),
            KeyCode::Char(c) if self.view.filter.len() < FILTER_BYTES_MAX => {
                self.view.filter.push(c);
            }
            _ => {}
        }
    }

    fn foot(&self) -> String {
        match self.is_typing {
            true => format!("/{}_", printable(&self.view.filter)),
            false => KEYS.to_owned(),
        }
    }
}

fn title(state: &State, count: usize) -> String {
    let view = &state.view;
    let of = view.server.as_ref().map_or_else(String::new, |it| format!(" of {}", printable(it)));
    let filter = match &*view.filter {
        "" => String::new(),
        filter => format!(", with `{}`", printable(filter)),
    };
    let order = if view.is_reversed { "least" } else { "most" };
    let sort = view.sort.name();
    format!("{count} {}{of}{filter}, {order} {sort} first", name_of(view.level))
}

fn table<'a>(rows: &[&Row], state: &State, width: usize) -> Table<'a> {
    let columns = text::fitting(text::columns(state.view.level), width);
    let cell = |text: String, align: Align| {
        let alignment = match align {
            Align::Right => Alignment::Right,
            _ => Alignment::Left,
        };
        Cell::from(Text::from(text).alignment(alignment))
    };
    let head = columns.iter().map(|column| cell(column.head.to_owned(), column.align));
    let head = Line::new(head.collect::<Vec<_>>()).style(mark(Modifier::BOLD));
    let first = state.table.offset();
    // Only what can be seen is made, but the table counts all rows.
    let lines = rows.iter().enumerate().map(|(at, row)| {
        if at < first || at > first + SCREEN_ROWS_MAX {
            return Line::new(Vec::<Cell<'_>>::new());
        }
        let cells = columns.iter().map(|column| cell((column.cell)(row), column.align));
        Line::new(cells.collect::<Vec<_>>())
    });
    let widths = columns.iter().enumerate().map(|(at, column)| match at {
        0 => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let widths: Vec<_> = widths.collect();
    Table::new(lines.collect::<Vec<_>>(), widths)
        .header(head)
        .row_highlight_style(mark(Modifier::REVERSED))
}

fn mark(modifier: Modifier) -> Style {
    // Bold and reversed are no colours, but whoever wants none wants none of these.
    match has_color() {
        true => Style::default().add_modifier(modifier),
        false if modifier == Modifier::REVERSED => Style::default().add_modifier(modifier),
        false => Style::default(),
    }
}

const KEYS: &str = "q end  enter methods  v servers  m methods  c connections  s sort  r reverse  \
                    / filter";

const CANNOT_READ: &str = "cannot read the terminal";

/// Rows that a page key moves by.
const PAGE: u16 = 10;

/// Rows below the first one that are made: no terminal has more.
const SCREEN_ROWS_MAX: usize = 500;

/// A filter is a part of a name.
const FILTER_BYTES_MAX: usize = 100;
