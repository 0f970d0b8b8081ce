//! The claims of study 001: rings, pipes and sockets, idle and under load.
//!
//! The figures are pictures whose sizes are mostly not named, so each claim about throughput is
//! judged at all measured sizes that fit it. The size of latencies is left open by the paper, so
//! those on pairs of CPUs are taken at the size they were measured with. A spun-on flag has no
//! figure where both ends share a CPU.

use crate::claims::facts::View;
use crate::claims::rule::{
    Group, Rule, above, all_of, at_least, at_most, below, between, differs, each, less, once, order,
};
use crate::claims::term::{
    Domain, FIRST, LAST, MAX, MEDIAN, MIN, RANK, Term, latency, loaded, many, measured, over, rate,
};
use crate::claims::verdict::{Answer, Missing, Truth, all};
use crate::evidence::{Load, Place, Quantity};

pub(crate) fn rules() -> Vec<Rule> {
    let mut rules = loads();
    rules.extend(sizes());
    rules.extend(placements());
    rules.extend(pairs());
    rules.push(overhead());
    rules.push(no_pair_slower_idle());
    rules
}

/// What load does to throughput.
fn loads() -> Vec<Rule> {
    let other_than = |one: &'static str| MECHANISMS.into_iter().filter(move |other| *other != one);
    let reversed = |one: &'static str, other: &'static str| {
        let idle = less(rate(one), rate(other));
        differs(format!("order of {one} and {other}"), idle, less(loaded(one), loaded(other)))
    };
    let loses_more = |than: &'static str, one: &'static str, domain: &Domain| {
        once([less(kept_over(one, domain.clone()), kept_over(than, domain.clone()))])
    };
    let large = Domain::measured(1, 65_536..);
    vec![
        // At every size that was measured both ways.
        Rule::all(
            "E01",
            MECHANISMS.map(|one| each(Domain::measured(1, ..), [less(loaded(one), rate(one))])),
        ),
        Rule::all("E02", [each([8192], [reversed(SPIN, SHMEM_PIPE), reversed(TCP, UNIX)])]),
        // The largest size of figure 5 is not named; taken is the largest up to 64 KiB at which
        // all were measured both ways, as the tool's own script ends there.
        Rule::all(
            "E03",
            [each(
                Domain::largest(1, 65_536),
                other_than(PIPE).map(|one| less(kept(one), kept(PIPE))),
            )],
        ),
        // Both halves under load, as figure 6 is; the two largest sizes up to 64 KiB.
        Rule::all(
            "E04",
            [each(
                Domain::largest(2, 65_536),
                [less(per_cpu(SPIN), per_cpu(FUTEX)), less(loaded(FUTEX), loaded(SPIN))],
            )],
        ),
        Rule::all(
            "E05",
            [each(
                [8192],
                other_than(SHMEM_PIPE).map(|one| less(per_cpu(one), per_cpu(SHMEM_PIPE))),
            )],
        ),
        Rule::all("E11", other_than(PIPE).map(|one| loses_more(PIPE, one, &large))),
        Rule::all("E12", [loses_more(TCP, UNIX, &Domain::measured(1, ..))]),
    ]
}

/// How throughput follows the size.
fn sizes() -> Vec<Rule> {
    let grows = |one: &'static str| {
        let name = format!("rank correlation of size and throughput of {one}");
        let ranks = many(RANK, name, [rate(one)], Domain::measured(3, ..=4096));
        let growth = |large, small| rate(one).at(large) / rate(one).at(small);
        once([
            above(0.9, ranks.said("up to 4 KiB")),
            less(growth(65_536, 16_384), growth(1024, 256)),
        ])
    };
    let step =
        |pipe, large: u64, small: u64| rate(pipe).at(large * KIB) / rate(pipe).at(small * KIB);
    let slower_than_tcp = [UNIX, FUTEX, SPIN, SHMEM_PIPE].map(|one| less(rate(TCP), rate(one)));
    vec![
        Rule::all("E06", MECHANISMS.map(grows)),
        Rule::all(
            "E07",
            [each(Domain::measured(1, ..=4096), [at_least(0.9, rate(PIPE) / rate(TCP))])],
        ),
        Rule::all(
            "E08",
            [each(
                Domain::measured(1, 65_537..=131_072),
                order([PIPE, TCP].map(rate)).into_iter().chain(slower_than_tcp),
            )],
        ),
        Rule::all(
            "E09",
            [once([at_most(0.9, step(PIPE, 68, 60)), above(0.95, step(WIDE_PIPE, 68, 60))])],
        ),
        // Around each middle from 90 to 110 KiB that was measured so.
        Rule::any("E10", (86..=106).map(|from| once([at_most(0.95, step(PIPE, from + 8, from))]))),
        Rule::all("E13", [comparable(PIPE, UNIX, Place::Cross)]),
    ]
}

/// On one core and on one CPU.
fn placements() -> Vec<Rule> {
    let share = |one| rate(one).on(Place::Smt) / rate(one);
    let name = "throughput on threads of one core / on two cores";
    let sizes = Domain::measured(1, ..=16_000);
    let shares = over("cells", MEDIAN, name, MECHANISMS.map(share), sizes);
    let on_one = |one| rate(one).on(Place::Same);
    vec![
        Rule::all("E14", [once([below(1.0, shares)])]),
        Rule::own("E15", like_tcp_on_one_core),
        Rule::all(
            "E16",
            [each(Domain::measured(1, ..), [less(on_one(FUTEX), on_one(SHMEM_PIPE))])],
        ),
        Rule::all(
            "E17",
            [each(Domain::measured(1, ..), [at_most(0.05, on_one(SPIN) / on_one(FUTEX))])],
        ),
    ]
}

/// Without SMT only the half about one CPU can be judged: it can refute the claim, not confirm it.
fn like_tcp_on_one_core(view: &View<'_>) -> Answer {
    let on = |place| all_of(&[comparable(PIPE, TCP, place)], view);
    let same = on(Place::Same)?.noted("(on one CPU)");
    match on(Place::Smt) {
        Ok(smt) => Ok(all([same, smt])),
        Err(_) if same.truth == Truth::False => Ok(same.noted("threads of one core: not judged")),
        Err(Missing(reason)) => {
            let held = if same.truth == Truth::True { "holds" } else { "is open" };
            let words = same.evidence();
            Err(Missing(format!("{reason}; the part about one CPU {held}: {words}")))
        }
    }
}

/// Latencies over all ordered pairs of CPUs.
fn pairs() -> Vec<Rule> {
    let of = |how, name: &str, term, pairs: Domain| many(how, name, [term], pairs).said("");
    let median = |name: &str, term, pairs| of(MEDIAN, name, term, pairs);
    let different = || Domain::Pairs(|class| class != Place::Same);
    let inside = Domain::Pairs(|class| matches!(class, Place::Cross | Place::Smt));
    let across = median("between nodes", latency(FLAG), Domain::PairsOn(Place::CrossNode));
    let kernel = "kernel mechanism on its best pair";
    let kernel = many(MIN, kernel, KERNEL.map(latency), different()).said("");
    let slower_than = |other: &'static str, place: Place| {
        let on = |one| median(one, latency(one), Domain::PairsOn(place)).said(place.to_string());
        once([less(on(other), on("tcp"))])
    };
    let placements = [Place::Same, Place::Smt, Place::Cross, Place::CrossNode];
    let factor = |one: &'static str| {
        let ratio = median("", latency(one).under(Load::Stress), different())
            / median("", latency(one), different());
        ratio.named(format!("factor of {one}")).said("under load")
    };
    let slowest = |one: &'static str| {
        let mean = measured(Quantity::Mean, one).under(Load::Stress);
        many(MAX, format!("{one} on its slowest pair"), [mean], Domain::Pairs(|_| true))
            .said("under load, by the mean")
    };
    let steady = |one: &'static str| {
        let factor = latency(one).under(Load::Stress) / latency(one);
        let factor = factor.named(format!("{one} under load / idle")).said("{point}");
        each(Domain::PairsOn(Place::Same), [between(0.6, 1.6, factor)])
    };
    vec![
        // By the flag: it shows the machine and not the kernel.
        Rule::all(
            "E18",
            [once([above(1.2, across / median("within a node", latency(FLAG), inside))])],
        ),
        Rule::all(
            "E19",
            [once([less(of(MAX, "flag on its worst pair", latency(FLAG), different()), kernel)])],
        )
        .points("pairs", each(different(), [at_most(0.0, latency(FLAG))])),
        // In each placement of which there are pairs.
        Rule::measured(
            "E20",
            placements
                .into_iter()
                .flat_map(|place| ["pipe", "unix"].map(|other| slower_than(other, place))),
        ),
        // The median over pairs of different CPUs under load, to the same median idle.
        Rule::all("E21", [once(KERNEL.map(|one| less(factor(FLAG), factor(one))))]),
        // By the mean: the claim is about pairs that are now and then held up, which a median is
        // made to hide.
        Rule::all(
            "E22",
            [once([
                above(60_000.0, slowest("pipe")),
                at_most(60_000.0, slowest("tcp")),
                above(60_000.0, slowest("unix")),
            ])],
        ),
        // CPU by CPU, as the claim says. The paper's own figures hold by their medians only.
        Rule::all("E23", KERNEL.map(steady)),
    ]
}

/// Overhead: how many times the throughput of the bare fifo is that of the messages over it. It
/// shrinks if its ranks fall with the size (a correlation of at most -0.5) and if it is smaller at
/// the largest size than at the smallest.
fn overhead() -> Rule {
    let overhead = || rate(FIFO) / rate(FIFO_MESSAGES);
    let sizes = |how, name: &str| many(how, name, [overhead()], Domain::measured(3, ..));
    let [largest, smallest] = [LAST, FIRST].map(|how| sizes(how, ""));
    let ranks = sizes(RANK, "rank correlation of size and overhead");
    Rule::all("E24", [once([at_most(-0.5, ranks), less(largest, smallest)])])
}

/// What fails here puts the idle run in doubt, so it says to look at the clock frequency.
fn no_pair_slower_idle() -> Rule {
    let factor = |one: &'static str| {
        let factor = latency(one) / latency(one).under(Load::Stress);
        let factor = factor.named(format!("{one} idle / under load")).said("{point}");
        each(Domain::Pairs(|_| true), [at_most(1.1, factor)])
    };
    Rule::all("E25", [FLAG, "pipe", "tcp", "unix"].map(factor))
        .if_refuted("the idle run was slowed down: see clock frequency and idle states")
}

/// One has 0.8 to 1.25 of the throughput of the other at all measured sizes up to 16000 B.
fn comparable(one: &'static str, other: &'static str, place: Place) -> Group {
    let ratio = (rate(one) / rate(other)).on(place);
    each(Domain::measured(1, ..=16_000), [between(0.8, 1.25, ratio)])
}

/// The share of its throughput that a mechanism keeps under load.
fn kept(mechanism: &'static str) -> Term {
    let share = loaded(mechanism) / rate(mechanism);
    share.named(format!("share kept by {mechanism}")).said("{point}")
}

/// The median of that share over all sizes that were measured both ways.
fn kept_over(mechanism: &'static str, domain: Domain) -> Term {
    let name = format!("median share kept by {mechanism}");
    many(MEDIAN, name, [kept(mechanism)], domain).said("under load")
}

fn per_cpu(mechanism: &'static str) -> Term {
    measured(Quantity::CpuThroughput, mechanism).under(Load::Stress)
}

const KIB: u64 = 1024;
const FUTEX: &str = "mempipe";
const SPIN: &str = "mempipe_spin";
const SHMEM_PIPE: &str = "shmem_pipe";
const PIPE: &str = "pipe";
const TCP: &str = "tcp";
const UNIX: &str = "unix";
/// A pipe with a capacity of 1 MiB.
const WIDE_PIPE: &str = "pipe:1M";
const FIFO: &str = "fifo";
const FIFO_MESSAGES: &str = "lfs_fifo_sig";
const MECHANISMS: [&str; 6] = [FUTEX, SPIN, SHMEM_PIPE, PIPE, TCP, UNIX];
/// Two words in shared memory that both ends spin on.
const FLAG: &str = "mempipe_lat(shm_flag_spin)";
const KERNEL: [&str; 3] = ["pipe", "tcp", "unix"];
