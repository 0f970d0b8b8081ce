//! What grades, definitions and intervals mean, for readers who meet them for the first time.

use maud::{Markup, html};

use super::grade_meaning;
use super::table::grade_mark;
use crate::noise::Grade;
use crate::run::Definition;

pub(super) fn body() -> Markup {
    html! {
        h3 #grades { "Noise grades" }
        p {
            "How far a figure can be trusted. The grade is the worst of what was observed on the \
             CPUs of its cell: gaps in a fixed loop, time that the hypervisor gave to others, \
             involuntary switches, waiting tasks, throttling."
        }
        dl.facts.wide {
            @for grade in Grade::ALL {
                div { dt { (grade_mark(Some(grade))) } dd { (grade_meaning(grade)) "." } }
            }
        }
        h3 #counted { "What is counted" }
        dl.facts.wide {
            @for definition in DEFINITIONS {
                @let (title, meaning) = definition.title_and_meaning();
                div { dt { (title) } dd { (meaning) "; in files: " code { (definition.name()) } } }
            }
        }
        h3 #glossary { "How far figures can be told apart" }
        p {
            "A figure comes from several launches, each a pair of new processes. Its 95 % interval \
             says where the figure of a typical launch lies; intervals that overlap tell nothing \
             apart. 99 % of all times are shorter than p99, which is told only where at least ten \
             times are longer. A floor is the same exchange without nearcall, in the same run. In a \
             closed loop the next exchange begins when the one before has ended; in an open loop \
             each has its set time, and what holds one up counts for all that were due meanwhile. \
             All rules are in docs/book/src/guides/measuring.md."
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
