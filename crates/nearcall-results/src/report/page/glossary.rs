//! What grades, definitions and intervals mean, for readers who meet them for the first time.

use maud::{Markup, html};

use super::grade_meaning;
use super::table::grade_mark;
use crate::noise::Grade;
use crate::run::Definition;

pub(super) fn section() -> Markup {
    html! {
        section aria-labelledby="words" {
            h2 #words { "Words and grades" }
            p {
                "A figure comes from several launches, each a pair of new processes. Its 95 % \
                 interval says where the figure of a typical launch lies; intervals that overlap \
                 tell nothing apart. All rules are in docs/book/src/guides/measuring.md."
            }
            dl.facts.wide {
                @for grade in Grade::ALL {
                    div { dt { (grade_mark(Some(grade))) } dd { (grade_meaning(grade)) "." } }
                }
            }
            details #counted {
                summary { "What is counted" }
                dl.facts.wide {
                    @for definition in DEFINITIONS {
                        @let (title, meaning) = definition.title_and_meaning();
                        div {
                            dt { (title) }
                            dd { (meaning) "; in files: " code { (definition.name()) } }
                        }
                    }
                }
            }
        }
    }
}

const DEFINITIONS: [Definition; 7] = [
    Definition::Rtt,
    Definition::FromIntended,
    Definition::RttHalf,
    Definition::TwoRtt,
    Definition::WholeBurst,
    Definition::SetUp,
    Definition::OneWayThroughput,
];
