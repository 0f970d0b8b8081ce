//! The studies' protocols: which cells repeat which figure.
//!
//! A [`Line`] is one cell in the words of the paper. Where a paper is silent the choice is ours and
//! said in the protocol's file. Functions of their arguments: nothing is measured here.

mod enea;
mod motorola;
mod short_comparison;
mod wisconsin_evaluation;
mod wisconsin_latency;

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use crate::Study;
use crate::bench_plan::Shape;
use crate::cell::{CellSpec, Subject};
use crate::conditions::{Load, PinChoice};
use crate::cpu_layout::StudyPlacement;
use crate::methods::Method;
use crate::run::Kind;

/// One cell of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) study: Study,
    /// As the paper calls it.
    pub(crate) mechanism: &'static str,
    pub(crate) spec: CellSpec,
}

/// All cells of a study, in the order of its figures.
pub(crate) fn lines(study: Study, layout: &StudyPlacement) -> Vec<Line> {
    let lines = match study {
        Study::Motorola => motorola::lines(layout),
        Study::Enea => enea::lines(layout),
        Study::WisconsinLatency => wisconsin_latency::lines(layout),
        Study::WisconsinEvaluation => wisconsin_evaluation::lines(layout),
        Study::ShortComparison => short_comparison::lines(layout),
    };
    lines.into_iter().filter(|line| fits(line, layout)).collect()
}

/// Whether the machine has the CPUs that a line needs.
fn fits(line: &Line, layout: &StudyPlacement) -> bool {
    let CellSpec { subject, conditions, wait, .. } = line.spec;
    let spins = matches!(subject, Subject::Custom(_)) && wait == WaitPolicy::Spin;
    match conditions.spot {
        // A spinning pair on one CPU is what a study wants to see where it says so itself.
        PinChoice::OneCpu | PinChoice::Pair { .. } => true,
        PinChoice::OfRun => layout.has_two_cpus(),
        PinChoice::Unpinned => layout.has_two_cpus() || !spins,
    }
}

impl Line {
    /// Round trips over a subject; sizes and counts come with [`lines`](Self::lines).
    fn of(study: Study, mechanism: &'static str, subject: Subject, shape: Shape) -> Self {
        Self { study, mechanism, spec: CellSpec::latency(subject, shape, 0, wait_of(subject)) }
    }

    /// Round trips of a method.
    fn latency(study: Study, mechanism: &'static str, method: Method, shape: Shape) -> Self {
        Self::of(study, mechanism, method.subject(), shape)
    }

    /// Messages one way.
    fn throughput(study: Study, mechanism: &'static str, method: Method) -> Self {
        let mut line = Self::latency(study, mechanism, method, Shape::Sink);
        line.spec.kind = Kind::Throughput;
        line
    }

    /// Calls of the runtime with an argument of the message's size and no result.
    fn call(study: Study, mechanism: &'static str, route: Route) -> Self {
        Self::of(study, mechanism, Subject::Call(route), Shape::Call)
    }

    fn at(mut self, spot: PinChoice) -> Self {
        self.spec.conditions.spot = spot;
        self
    }

    fn beside(mut self, load: Load) -> Self {
        self.spec.conditions.load = load;
        self
    }

    fn with_pauses(mut self, pause_us: u32) -> Self {
        self.spec.conditions.pause_us = pause_us;
        self
    }

    fn by_two_clocks(mut self) -> Self {
        self.spec.conditions.two_clocks = true;
        self
    }

    /// The same with messages of this size, so many times.
    fn line(mut self, message_bytes: u64, exchanges: u32) -> Self {
        self.spec.message_bytes = message_bytes;
        self.spec.conditions.exchanges = exchanges;
        self
    }

    /// A cell for each size.
    fn lines(self, sizes: &[u64], exchanges: u32) -> impl Iterator<Item = Self> {
        sizes.iter().map(move |&message_bytes| self.line(message_bytes, exchanges))
    }
}

/// How the ends of a subject wait: in the papers no end spins unless the mechanism is spinning.
fn wait_of(subject: Subject) -> WaitPolicy {
    match subject {
        Subject::Custom(name) => {
            Method::find(name.as_str()).map_or(WaitPolicy::Block, Method::wait)
        }
        Subject::Floor(floor) => floor.wait(),
        Subject::Call(route) | Subject::Bare(route) => {
            let waits = route.mechanism().map(Mechanism::waits).unwrap_or_default();
            let blocks = waits.contains(&WaitPolicy::Block);
            if blocks { WaitPolicy::Block } else { route.usual_wait() }
        }
        Subject::Mechanism(_) | Subject::Part(_) | Subject::AtRest(_) => WaitPolicy::Block,
    }
}

/// 1 KB in the papers.
const KB: u64 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cores() -> StudyPlacement {
        StudyPlacement { first: Some(0), second: Some(1), ..StudyPlacement::default() }
    }

    #[test]
    fn no_study_measures_one_thing_twice() {
        for study in Study::ALL {
            let lines = lines(study, &two_cores());
            assert!(!lines.is_empty(), "{study}");
            for (index, line) in lines.iter().enumerate() {
                assert!(!lines[..index].contains(line), "{study}: {line:?}");
            }
        }
    }

    #[test]
    fn one_cpu_leaves_what_needs_no_second() {
        let one = StudyPlacement { first: Some(3), ..StudyPlacement::default() };
        for study in Study::ALL {
            for line in lines(study, &one) {
                match line.spec.conditions.spot {
                    PinChoice::OfRun => panic!("{line:?}"),
                    PinChoice::Pair { client, server } => assert_eq!((client, server), (3, 3)),
                    PinChoice::Unpinned => {
                        let method = Method::find(line.spec.subject.name());
                        assert!(!method.is_some_and(Method::needs_two_cpus), "{line:?}");
                    }
                    PinChoice::OneCpu => {}
                }
            }
        }
        // Whatever pins both to one CPU is left.
        assert!(!lines(Study::Enea, &one).is_empty());
    }

    #[test]
    fn threads_of_one_core_are_measured_where_there_are_any() {
        let smt = StudyPlacement { first_sibling: Some(1), second: Some(2), ..two_cores() };
        let pairs = |layout: &StudyPlacement| {
            let lines = lines(Study::Enea, layout);
            let spots = lines.iter().map(|line| line.spec.conditions.spot);
            spots.filter(|spot| *spot == PinChoice::Pair { client: 0, server: 1 }).count()
        };
        assert!(pairs(&smt) > 0);
    }
}
