//! Clocks that differ: peers in time namespaces whose clocks are days apart.
//!
//! **Not here:** setting the clock of the machine, which concerns everybody on it; no code reads
//! that clock to wait.

use crate::namespaces;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[("r28-client", check_deadlines)];

const DEADLINE: Duration = Duration::from_millis(50);
const VIAS: [&str; 3] = ["", "?via=unix-stream", "?via=unix-seqpacket"];

/// Deadlines are spans for the other end, whatever its clock shows.
fn check_deadlines(address: &str) {
    for via in VIAS {
        let echo = EchoCaller::new(&Client::new(), &format!("{address}{via}")).unwrap();
        let patient = CallOptions::new().deadline(PATIENCE);
        let remaining = echo.with(patient).look(&()).unwrap().remaining_ns;
        assert!(
            remaining > 0 && u128::from(remaining) <= PATIENCE.as_nanos(),
            "{via}: {remaining}"
        );
        let begun = clock::now();
        let short = CallOptions::new().deadline(DEADLINE);
        let status = echo.with(short).later(&Words::default()).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{via}: {status}");
        assert!(begun.elapsed() >= DEADLINE, "{via}");
        assert!(begun.elapsed() < PATIENCE, "{via}");
        // Long enough for both ends to sleep, and be woken.
        clock::pause(Duration::from_millis(5));
        echo.nothing(&()).unwrap();
    }
    report("done");
}

/// Starts a process whose clocks are `seconds` ahead.
fn ahead(test: &str, seconds: i64, role: &str, address: &str) -> Option<Process> {
    let (monotonic, boot) = (format!("--monotonic={seconds}"), format!("--boottime={seconds}"));
    namespaces::start(test, &["-T", "-f", &monotonic, &boot], "true", role, address)
}

#[timed]
fn r28_deadlines_hold_between_clocks_that_are_days_apart() {
    let test = "r28_deadlines_hold_between_clocks_that_are_days_apart";
    // The clocks of a namespace may not be before zero.
    let back = i64::try_from(clock::monotonic_ns() / 2_000_000_000).unwrap();
    for seconds in [1_000_000_000, 86_400, -back] {
        let server = ServerProcess::start();
        let Some(mut client) = ahead(test, seconds, "r28-client", &server.address) else {
            return;
        };
        client.hear("done");
        client.finish();
        server.finish();

        let address = unique_address();
        let Some(mut server) = ahead(test, seconds, "server", &address) else { return };
        server.hear("listens");
        let mut client = Process::start("r28-client", &address);
        client.hear("done");
        client.finish();
        server.tell("stop");
        server.finish();
    }
}
