//! The thermostat as in two terminals: by every mechanism, and with wrong input.

use std::process;

use nearcall::Mechanism;

use crate::program::{run, start};

fn address(test: &str) -> String {
    format!("unix:@nearcall-it-{test}-{}", process::id())
}

#[test]
fn it_works_by_every_mechanism() {
    let address = address("every");
    let server = start("thermostat", &["serve", &format!("{address}?allow=all")]);
    assert_eq!(server.first_line, format!("listening at {address}"));
    let mut before = "18";
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let wanted = if before == "20.5" { "19" } else { "20.5" };
        let ended = run("thermostat", &["set", wanted, &format!("{address}?via={mechanism}")], "");
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{mechanism}: {ended:?}");
        let line = format!("the room was to have {before} °C, now {wanted} °C");
        assert_eq!(ended.last_line(), line, "{mechanism}: {ended:?}");
        before = wanted;
    }
}

#[track_caller]
fn check_failure(arguments: &[&str], code: i32, error: &str) {
    let ended = run("thermostat", arguments, "");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:?}");
    assert!(ended.stderr.contains(error), "{ended:?}");
}

#[test]
fn mistakes_are_explained() {
    let nowhere = address("nowhere");
    check_failure(&["sing"], 2, "usage: thermostat");
    check_failure(&["set", "warm"], 2, "no number: `warm`");
    check_failure(&["set", "20", "unix:@x?via=telepathy"], 2, "unknown mechanism `telepathy`");
    check_failure(&["serve", "unix:"], 2, "must follow `unix:`");
    check_failure(&["set", "20", &nowhere], 1, &format!("no server listens at {nowhere}"));
}

#[test]
fn a_refused_temperature_is_an_error_of_the_client_alone() {
    let address = address("refused");
    let _server = start("thermostat", &["serve", &address]);
    check_failure(&["set", "90", &address], 1, "OUT_OF_RANGE: a room has 5 to 30 degrees");
    assert_eq!(run("thermostat", &["set", "19", &address], "").code, Some(0));
}
