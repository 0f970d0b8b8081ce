//! The check with a made-up machine, on which every candidate costs what its name says.

use nearcall_channel::WaitPolicy;
use nearcall_results::advise::{Need, Pattern};
use nearcall_results::report::lines::Style;
use nearcall_results::run::{Cell, Kind, Machine, RttNs, Settings};

use super::*;

/// What a candidate costs on that machine.
fn true_ns(candidate: &Candidate) -> f64 {
    let text = candidate.to_string();
    1_000.0 + text.bytes().fold(7_u32, |sum, byte| sum * 31 % 9_973 + u32::from(byte)) as f64
}

/// A run as the runner would give it, a little disturbed, the same for all in one round.
fn run(wanted: &Requirements, candidates: &[Candidate], seed: u64) -> Run {
    let mut rng = Rng::with_seed(seed);
    let rounds: Vec<f64> = (0..9).map(|_| 1.0 + rng.f64()).collect();
    let mut run = Run::new(Machine::default(), Settings::default(), 0);
    for candidate in candidates {
        let times: Vec<f64> = rounds.iter().map(|round| round * true_ns(candidate)).collect();
        let middle = nearcall_results::stats::median(&times);
        for (kind, paced) in
            [(Kind::Latency, false), (Kind::Latency, true), (Kind::Throughput, false)]
        {
            let name = candidate.mechanism.name();
            let mut cell = Cell::new(kind, name, wanted.message_bytes);
            cell.wait = format!("{}/poll", candidate.wait);
            cell.pace = paced
                .then(|| nearcall_results::run::PaceFacts { kept: true, ..Default::default() });
            cell.rtt_ns = Some(RttNs { p50: middle, p99: middle, ..RttNs::default() });
            cell.launch_medians_ns.clone_from(&times);
            cell.launch_p99s_ns.clone_from(&times);
            cell.launch_cpu_ns.clone_from(&times);
            cell.messages_per_s = middle.map(|ns| 1e9 / ns);
            cell.launch_messages_per_s = times.iter().map(|ns| 1e9 / ns).collect();
            cell.cpu_ns_per_message.client = middle;
            cell.cpu_ns_per_message.server = middle;
            run.cells.push(cell);
        }
    }
    run
}

fn best(wanted: &Requirements) -> Candidate {
    let all = candidates(wanted).0;
    all.into_iter().min_by(|a, b| true_ns(a).total_cmp(&true_ns(b))).unwrap()
}

fn tested(
    advise: &mut dyn FnMut(&Requirements) -> Result<Candidate, String>,
    stop_after: usize,
) -> Checked {
    let sets = sets(&[5], 20, 2);
    let done = std::cell::Cell::new(0);
    let mut seed = 0;
    check(
        &[5],
        &sets,
        &mut Parts {
            advise,
            measure: &mut |wanted, candidates, _| {
                seed += 1;
                Ok(run(wanted, candidates, seed))
            },
            done: &mut |_| done.set(done.get() + 1),
            interrupted: &|| done.get() >= stop_after,
        },
    )
}

#[test]
fn an_advisor_that_knows_the_best_passes() {
    let checked = tested(&mut |wanted| Ok(best(wanted)), usize::MAX);
    assert!(checked.passed && !checked.partial, "{}", table(&checked, Style::PLAIN));
    assert_eq!((checked.scores[0].near, checked.violated), (20, 0));
    // Nothing makes the best choice exactly 1: it is judged beside the best of all others.
    for set in &checked.sets {
        let one = set.advised().unwrap();
        let all = candidates(&set.requirements).0;
        let others = all.iter().filter(|other| **other != one.candidate);
        let best_other = others.min_by(|a, b| true_ns(a).total_cmp(&true_ns(b)));
        assert_eq!(one.best_other.as_ref(), best_other);
        assert!(one.ratio.unwrap() < 1.0 && one.ratio_ci95.unwrap()[1] < 1.0, "{one:?}");
    }
    // The baselines look at nothing, and it shows.
    assert!(checked.scores[1..].iter().all(|one| one.judged == 20 && one.near < 20));
    assert!(
        table(&checked, Style::PLAIN).contains("20 of 20 choices"),
        "{}",
        table(&checked, Style::PLAIN)
    );
    let text = serde_json::to_string(&checked).unwrap();
    assert_eq!(serde_json::from_str::<Checked>(&text).unwrap(), checked);
}

#[test]
fn an_advisor_that_always_takes_the_last_fails() {
    let checked = tested(&mut |wanted| Ok(*candidates(wanted).0.last().unwrap()), usize::MAX);
    assert!(!checked.passed && checked.violated == 0, "{}", table(&checked, Style::PLAIN));
    assert!(table(&checked, Style::PLAIN).contains("FAILED"));
    let wrong = checked.sets.iter().find(|set| !set.ok).unwrap();
    let chosen = wrong.advised().unwrap();
    assert_eq!(chosen.best_other, Some(best(&wrong.requirements)));
    assert!(chosen.ratio.unwrap() > 1.1 && checked.scores[0].surely_worse > 0);
}

#[test]
fn one_violated_need_fails_however_fast_the_choice_is() {
    let spinner = Candidate { mechanism: "shm-spin".parse().unwrap(), wait: WaitPolicy::Spin };
    let mut asked = 0;
    let checked = tested(
        &mut |wanted| {
            asked += 1;
            Ok(if wanted.needs.contains(&Need::NoSpin) { spinner } else { best(wanted) })
        },
        usize::MAX,
    );
    assert_eq!(asked, 20);
    assert!(checked.violated > 0 && !checked.passed, "{}", table(&checked, Style::PLAIN));
    assert!(
        table(&checked, Style::PLAIN).contains("shm-spin spin is not no-spin"),
        "{}",
        table(&checked, Style::PLAIN)
    );
}

#[test]
fn no_advice_and_nothing_measured_count_against_it() {
    let none = tested(&mut |_| Err("too noisy".to_owned()), usize::MAX);
    assert!(!none.passed && none.sets[0].problem.as_deref() == Some("no advice: too noisy"));
    let sets = [Requirements { pattern: Pattern::OneWay, ..Requirements::default() }];
    let failed = check(
        &[1],
        &sets,
        &mut Parts {
            advise: &mut |wanted| Ok(best(wanted)),
            measure: &mut |_, _, _| Err("two CPUs are needed".to_owned()),
            done: &mut |_| {},
            interrupted: &|| false,
        },
    );
    assert_eq!(failed.sets[0].problem.as_deref(), Some("two CPUs are needed"));
    assert!(!failed.passed);
}

#[test]
fn a_choice_beside_which_nothing_was_measured_does_not_pass() {
    let sets = [Requirements::default()];
    let checked = check(
        &[1],
        &sets,
        &mut Parts {
            advise: &mut |wanted| Ok(best(wanted)),
            measure: &mut |wanted, _, _| Ok(run(wanted, &[best(wanted)], 3)),
            done: &mut |_| {},
            interrupted: &|| false,
        },
    );
    let problem = checked.sets[0].problem.as_deref().unwrap();
    assert!(problem.ends_with("or nothing beside it"), "{problem}");
    assert!(!checked.passed);
}

#[test]
fn one_way_messages_that_cannot_keep_the_rate_have_no_cost() {
    let rate = |rate_per_s| Requirements {
        pattern: Pattern::OneWay,
        rate_per_s: Some(rate_per_s),
        ..Requirements::default()
    };
    let all = candidates(&rate(1.0)).0;
    let run = run(&rate(1.0), &all, 3);
    assert_eq!(costs(&run, &rate(1.0), &all).len(), all.len());
    assert!(costs(&run, &rate(1e8), &all).is_empty());
}

#[test]
fn what_was_done_before_an_interruption_is_kept() {
    let checked = tested(&mut |wanted| Ok(best(wanted)), 3);
    assert!(checked.partial && checked.sets.len() <= 3 && checked.sets_asked == 20);
    assert!(
        table(&checked, Style::PLAIN).contains("interrupted: "),
        "{}",
        table(&checked, Style::PLAIN)
    );
}

#[test]
fn percentiles_and_cpu_time_are_compared_round_by_round() {
    for optimise in ["p99", "cpu", "latency=0.7,cpu=0.3"] {
        let wanted =
            Requirements { optimise: optimise.parse().unwrap(), ..Requirements::default() };
        let all = candidates(&wanted).0;
        let found = costs(&run(&wanted, &all, 3), &wanted, &all);
        let [one, other] = [&found[0], &found[found.len() - 1]];
        let expected = true_ns(&one.candidate) / true_ns(&other.candidate);
        let Ratio { ratio, ci95 } = one.ratio_to(other);
        // The rounds differ by up to 2; their ratios do not.
        let [low, high] = ci95.unwrap();
        assert!((ratio / expected - 1.0).abs() < 1e-9 && high / low < 1.0 + 1e-9, "{optimise}");
    }
}
