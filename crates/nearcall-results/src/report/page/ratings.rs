//! Study 001's table of qualities: the paper's colours, this machine's, and what decides them.
//!
//! Always true: a colour is a word and a sign too; a field without evidence says so and names the
//! command that gives it. How it is judged is in `studies/ratings.rs`.

use maud::{Markup, html};

use super::table::grade_mark;
use super::text::{capital, plain, plain_long};
use crate::ratings::Rating;
use crate::ratings::{GROUPS, RatedField, RatedProperty, Ratings, recompute};
use crate::report::hosts::Host;

/// The table, if anything of it was measured.
pub(super) fn body(host: &Host<'_>, id: &str) -> Option<Markup> {
    let ratings = recompute(host);
    let measured = ratings.properties.iter().filter(|property| property.measured);
    if !measured.flat_map(|property| &property.fields).any(|field| field.here.is_some()) {
        return (!host.entries.is_empty()).then(|| missing(&ratings));
    }
    Some(html! {
        p {
            (ratings.rated) " of " (ratings.fields) " fields have a colour here; "
            (ratings.agreeing) " of them have the paper's. Green: as good as the best; yellow: \
             worse; red: much worse; where the bounds lie stands below the table. Times are closed \
             loop round trips, not halved."
        }
        (table(&ratings, id))
        h3 id={ (id) "-bounds" } { "What is compared, and where the bounds lie" }
        dl.facts.wide {
            @for property in &ratings.properties {
                div {
                    dt { (capital(&plain(&property.title))) }
                    dd {
                        (capital(&plain_long(&property.figure))) ". "
                        (capital(&plain_long(&property.thresholds))) "."
                        @if !property.measured { " Not from times: from what the mechanisms are." }
                    }
                }
            }
        }
    })
}

fn missing(ratings: &Ratings) -> Markup {
    let fields = ratings.properties.iter().flat_map(|property| &property.fields);
    let command = fields.filter_map(|field| field.missing.as_ref()).map(|one| &one.command).next();
    html! {
        p.missing {
            "Nothing that these runs measured decides a colour."
            @if let Some(command) = command { " This would: " code { (plain_long(command)) } "." }
        }
    }
}

fn table(ratings: &Ratings, id: &str) -> Markup {
    html! {
        div.scroll role="region" tabindex="0" aria-labelledby={ (id) "-caption" } {
            table.ratings id={ (id) "-table" } {
                caption id={ (id) "-caption" } {
                    "Here, with the figure that decides, and what the paper says"
                }
                thead {
                    tr {
                        th scope="col" { "property" }
                        @for group in GROUPS { th scope="col" { (group.name().replace('_', " ")) } }
                    }
                }
                tbody { @for property in &ratings.properties { (row(property)) } }
            }
        }
    }
}

fn row(property: &RatedProperty) -> Markup {
    html! {
        tr {
            th scope="row" { (capital(&plain(&property.title))) }
            @for field in &property.fields { td { (one(field)) } }
        }
    }
}

fn one(field: &RatedField) -> Markup {
    html! {
        @match (field.here, &field.missing) {
            (Some(here), _) => {
                (mark(here))
                @if field.grade.is_some() { " " (grade_mark(field.grade)) }
                div.shown { (plain_long(&field.shown)) }
            },
            (None, Some(missing)) => {
                span.v.skipped { "– open" }
                div.shown {
                    (plain_long(&missing.reason)) ": " code { (plain_long(&missing.command)) }
                }
            },
            (None, None) => span.v.skipped { "– open" },
        }
        div.shown { "paper: " (mark(field.paper)) }
    }
}

fn mark(rating: Rating) -> Markup {
    let (class, sign, word) = match rating {
        Rating::Green => ("yes", "●", "green"),
        Rating::Yellow => ("open", "◐", "yellow"),
        Rating::Red => ("no", "○", "red"),
    };
    html! { span class={ "v " (class) } { span aria-hidden="true" { (sign) } " " (word) } }
}
