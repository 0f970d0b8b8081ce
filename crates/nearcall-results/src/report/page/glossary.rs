//! The words of the page, for readers who meet them for the first time.

use maud::{Markup, html};

use super::table::{Slot, Table, grade_mark};
use super::{GRADES, grade_meaning};
use crate::run::Definition;

pub(super) fn body() -> Markup {
    let mut words = Table::new("words-table", "Words", &["word", "meaning"]).in_order();
    for (word, meaning) in WORDS {
        words.row(vec![Slot::text(word), Slot::text(meaning)]);
    }
    html! {
        h3 #grades { "Noise grades" }
        p {
            "How far a figure can be trusted. The grade is the worst of what was observed on the \
             CPUs of its cell: gaps in a fixed loop, time that the hypervisor gave to others, \
             involuntary switches, waiting tasks, throttling."
        }
        dl.facts.wide {
            @for grade in GRADES {
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
        h3 #glossary { "Other words" }
        div.record { (words) }
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

const WORDS: [(&str, &str); 13] = [
    ("rtt", "Round-trip time: from sending until the reply is there, by the sender's clock."),
    ("median, p50", "Half of all times are shorter."),
    (
        "p99, p99.9",
        "99 % (99.9 %) of all times are shorter. Told only where at least ten times are longer.",
    ),
    (
        "95 % interval, CI",
        "Where the median of a typical launch lies with 95 % confidence, from how much the \
         launches differ. Intervals that overlap do not tell two figures apart.",
    ),
    ("launch", "One pair of new processes. Each figure comes from several."),
    (
        "floor",
        "The same exchange without nearcall, measured in the same run: what the machine itself \
         takes.",
    ),
    ("spin", "A waiting end asks again and again: fastest, and takes a whole CPU."),
    ("block", "A waiting end sleeps in a blocking call."),
    ("poll", "A waiting end sleeps until a descriptor is ready, as an event loop does."),
    ("adaptive", "Spins as long as that pays on this machine, then sleeps."),
    ("closed loop", "The next exchange begins when the one before has ended."),
    (
        "open loop",
        "Exchanges begin at set times; what holds one up counts for all that were due meanwhile.",
    ),
    (
        "where",
        "Where both ends run: one CPU (in files: same_cpu), threads of one core (smt), cores of \
         one cache (same_llc), one memory node (same_node), two memory nodes (cross_node).",
    ),
];
