//! The figures on the page: each with its caption, and folded away how to read it, with its values.
//!
//! **Invariants:** whatever a figure shows stands in its table too, for the keyboard, the screen
//! reader and paper. What is drawn, and of which cells, is in `report/figure.rs`.

use maud::{Markup, html};

use super::table::Table;
use super::text::plain_long;
use crate::report::figure::{Figure, Shown};

/// The first figure of each machine, for the first screen. Those after the first carry the number
/// of their machine in their ids.
fn is_picture(shown: &[Shown], index: usize) -> bool {
    let machine = |shown: &Shown| match shown {
        Shown::Figure(figure) => Some(machine_of(&figure.id).to_owned()),
        Shown::Missing { .. } => None,
    };
    let own = machine(&shown[index]);
    own.is_some() && shown[..index].iter().all(|before| machine(before) != own)
}

fn machine_of(id: &str) -> &str {
    id.rsplit_once("-machine-").map_or("", |(_, machine)| machine)
}

/// What the first screen shows.
pub(super) fn pictures(shown: &[Shown]) -> Markup {
    html! {
        @for index in (0..shown.len()).filter(|&index| is_picture(shown, index)) {
            @if let Shown::Figure(figure) = &shown[index] {
                div.picture { h2 id={ (figure.id) "-head" } { (figure.title) } (one(figure)) }
            }
        }
    }
}

/// All other figures, then those that are missing.
pub(super) fn body(shown: &[Shown]) -> Markup {
    let rest = (0..shown.len()).filter(|&index| !is_picture(shown, index));
    let (mut drawn, mut missing) = (Vec::new(), Vec::new());
    for index in rest {
        match &shown[index] {
            Shown::Figure(figure) => drawn.push(figure),
            Shown::Missing { title, reason, command, .. } => missing.push((title, reason, command)),
        }
    }
    html! {
        @if drawn.is_empty() {
            p.missing { "These runs give no other figure than the one above." }
        }
        @for figure in drawn { h3 id={ (figure.id) "-head" } { (figure.title) } (one(figure)) }
        @if !missing.is_empty() {
            h3 #figures-missing { "Figures that these runs cannot give" }
            ul.absent {
                @for (title, reason, command) in missing {
                    li {
                        b { (title) } ": " (plain_long(reason)) ". " code { (plain_long(command)) }
                    }
                }
            }
        }
    }
}

fn one(figure: &Figure) -> Markup {
    let rows = figure.table.texts().count();
    let id = format!("{}-values", figure.id);
    html! {
        figure id=(figure.id) aria-labelledby={ (figure.id) "-head" } {
            div.plot { (figure.svg) }
            figcaption {
                (plain_long(&figure.caption)) " " a href="#counted" { "What is counted" } "."
            }
            details.paper[rows <= PAPER_ROWS_MAX] {
                summary { "How to read it, and the values as a table (" (rows) " rows)" }
                p { (plain_long(&figure.about)) }
                @for note in &figure.notes { p.note { (plain_long(note)) } }
                @if rows > 0 { (Table::new(&id, &figure.title, &figure.table)) }
            }
        }
    }
}

/// Longer tables are left to the screen.
const PAPER_ROWS_MAX: usize = 30;
