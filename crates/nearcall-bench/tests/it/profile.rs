//! Real profiles: declared costs against counted ones, for every mechanism that works here.
//!
//! Where ptrace is refused there is nothing to compare, and the tests say so.

use std::cell::Cell as Flag;
use std::io::Write;
use std::time::Duration;

use nearcall_bench::bench_plan::Placement;
use nearcall_bench::profile::result::{CountedCall, Profile};
use nearcall_bench::profile::table::table;
use nearcall_bench::profile::{ProfileError, ProfilePlan, count_calls, profile};
use nearcall_bench::runner::RunContext;
use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::clock;
use nearcall_results::shape::Shape;

use crate::runner::{alone, context, has_two_cpus, no_children_are_left};

fn plan(mechanism: Mechanism, wait: WaitPolicy) -> ProfilePlan {
    ProfilePlan {
        mechanism,
        message_bytes: 1_024,
        shape: Shape::Echo,
        wait,
        placement: Placement::Auto,
        time: Duration::from_millis(400),
        seed: 1,
        out: None,
        arguments: Vec::new(),
    }
}

/// Rule R4: no end does hidden work, and no end is spared any.
#[test]
fn declared_system_calls_and_copies_are_those_that_are_counted() {
    let _alone = alone();
    for mechanism in Mechanism::all() {
        for &wait in mechanism.waits() {
            let spins = wait == WaitPolicy::Spin;
            let is_declared = mechanism.costs(wait).is_some();
            if !is_declared || mechanism.supported().is_err() || (spins && !has_two_cpus()) {
                continue;
            }
            let (calls, copies) = match count_calls(&plan(mechanism, wait), WATCHED, &context()) {
                Ok(Ok(counted)) => counted,
                Ok(Err(missing)) => {
                    let reason = format!("skipped: {}; {}\n", missing.why, missing.how);
                    std::io::stderr().write_all(reason.as_bytes()).unwrap();
                    return;
                }
                Err(error) => panic!("{mechanism} {wait}: {error}"),
            };
            for end in [&calls.ends.client, &calls.ends.server] {
                let what = format!("{mechanism} {wait}: {end:?}");
                end.iter().for_each(|call| check(call, spins, &what));
            }
            let Some(counted) = copies.kernel_one_way else { continue };
            let declared = f64::from(copies.declared_kernel);
            // Headers, and the bytes that only wake.
            assert!((counted - declared).abs() < 0.1, "{mechanism} {wait}: {counted} copies");
            let both = copies.kernel_there_and_back.unwrap();
            assert!((both - 2.0 * declared).abs() < 0.2, "{mechanism} {wait}: {both} copies");
        }
    }
    no_children_are_left();
}

fn check(call: &CountedCall, spins: bool, what: &str) {
    // Of what is not declared there must be none.
    let [least, mut most] = call.declared.unwrap_or([0.0, 0.0]);
    // On a busy machine the other end may have no CPU for long, and an end that spins yields all
    // the while.
    if spins && call.name == "sched_yield" {
        most = f64::INFINITY;
    }
    let counted = call.per_exchange;
    let in_range = (least - TOLERANCE..=most + TOLERANCE).contains(&counted);
    assert!(in_range, "{} is made {counted} times: {what}", call.name);
}

#[test]
fn an_end_sleeps_no_more_often_than_declared() {
    let _alone = alone();
    for (mechanism, wait) in [
        (Mechanism::Pipe, WaitPolicy::Block),
        (Mechanism::ShmFutex, WaitPolicy::Block),
        (Mechanism::ShmSpin, WaitPolicy::Spin),
    ] {
        if wait == WaitPolicy::Spin && !has_two_cpus() {
            continue;
        }
        let found = profile(&plan(mechanism, wait), &context()).unwrap();
        let sleeps_max = mechanism.costs(wait).unwrap().sleeps_max + SLEEPS_TOLERANCE;
        for used in [found.used.client, found.used.server] {
            let sleeps = used.sleeps.unwrap();
            assert!(sleeps <= sleeps_max, "{mechanism}: {sleeps}");
        }
        check_profile(&found);
    }
    no_children_are_left();
}

/// Whatever is permitted here: it is there, or it is said why not.
fn check_profile(found: &Profile) {
    let missing = |what: &str| found.missing.iter().any(|one| one.what.contains(what));
    assert!(found.rtt_ns.as_ref().unwrap().p50.unwrap() > 0.0);
    assert_eq!(found.calls.is_some(), !missing("system calls"), "{:?}", found.missing);
    assert!(table(found, crate::PAGE).contains(&found.mechanism));
}

#[test]
fn stacks_of_both_ends_are_folded_or_it_is_said_why_not() {
    let _alone = alone();
    let out = std::env::temp_dir().join(format!("nearcall-profile-test-{}", std::process::id()));
    std::fs::create_dir(&out).unwrap();
    let plan = ProfilePlan {
        out: Some(out.clone()),
        time: Duration::from_secs(1),
        ..plan(Mechanism::Pipe, WaitPolicy::Block)
    };
    let found = profile(&plan, &context());
    let read = |file: &str| std::fs::read_to_string(out.join(file)).unwrap_or_default();
    let folded = read("profile-pipe.folded");
    std::fs::remove_dir_all(&out).unwrap();
    let found = found.unwrap();
    match &found.stacks {
        Some(stacks) => {
            assert!(folded.contains("client;") && folded.contains("server;"), "{folded}");
            assert!(stacks.samples.client > 0 && stacks.samples.server > 0);
        }
        None => assert!(found.missing.iter().any(|one| one.what.contains("stacks"))),
    }
    check_profile(&found);
    no_children_are_left();
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_measuring() {
    let out = Some("/proc/nowhere".into());
    let plan = ProfilePlan { out, ..plan(Mechanism::Pipe, WaitPolicy::Block) };
    let never = |_, _, what: &str| panic!("measured: {what}");
    let error = profile(&plan, &RunContext { progress: &never, ..context() }).unwrap_err();
    assert!(matches!(error, ProfileError::File(..)), "{error}");
}

#[test]
fn an_interrupted_profile_leaves_nobody_behind() {
    let _alone = alone();
    for phase in ["measuring undisturbed", "counting system calls"] {
        let reached = Flag::new(None);
        let progress = |_, _, text: &str| {
            if text == phase && reached.get().is_none() {
                reached.set(Some(clock::now()));
            }
        };
        // Amid the phase: both ends run by then.
        let interrupted =
            || reached.get().is_some_and(|at| at.elapsed() > Duration::from_millis(150));
        let context = RunContext { progress: &progress, interrupted: &interrupted, ..context() };
        let outcome = profile(&plan(Mechanism::ShmFutex, WaitPolicy::Block), &context);
        assert!(matches!(outcome, Err(ProfileError::Interrupted)), "{phase}: {outcome:?}");
        no_children_are_left();
    }
}

/// Some hundred exchanges.
const WATCHED: Duration = Duration::from_millis(100);

/// The thread that watches the other end's life makes a call now and then, and an adaptive end
/// measures once what a wake-up costs.
const TOLERANCE: f64 = 0.05;

/// The kernel's own locks may put an end to sleep, too.
const SLEEPS_TOLERANCE: f64 = 0.25;
