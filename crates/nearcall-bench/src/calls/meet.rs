//! Where the two processes of a launch of calls find each other, and the words between them.

use nearcall::client::Trust;
use nearcall_channel::{Address, Endpoint, Mechanism, MechanismSet, Options, WaitPolicy, connect};

use crate::calls::route::Route;
use crate::cell::{CellSpec, Subject};
use crate::conditions::Traffic;
use crate::exchange::count::EndReport;
use crate::exchange::measured::Measured;
use crate::exchange::{Cause, Failure};
use crate::floor::meeting::Meeting;
use crate::launch::LaunchRequest;
use crate::session::READY;

/// Where the server waits for the bare channel.
pub(super) fn bare_address(request: &LaunchRequest) -> Address {
    Address::Abstract(format!("{}-bare", request.meet_at))
}

/// What both ends of the bare channel ask of it.
pub(super) fn bare_options(wait: WaitPolicy) -> Options {
    Options { wait: Some(wait), ..Options::offering(MechanismSet::ALL) }
}

/// Connects the bare channel, which the server expects first, and waits until it listens.
pub(super) fn connect_bare(
    mechanism: Mechanism,
    request: &LaunchRequest,
    meeting: &Meeting,
) -> Result<Endpoint, Failure> {
    let endpoint = connect(&bare_address(request), mechanism, &bare_options(request.wait))?;
    match meeting.hear()?.as_str() {
        READY => Ok(endpoint),
        _ => Err(Failure::other("the server does not listen")),
    }
}

/// Has the server begin a cell.
pub(super) fn begin_cell(meeting: &Meeting, cell: &CellSpec) -> Result<(), Failure> {
    meeting.say(&serde_json::to_string(cell)?)?;
    match meeting.hear()?.as_str() {
        READY => Ok(()),
        _ => Err(Failure::other("the server is not ready")),
    }
}

/// Asks what the server has counted: each call that was made.
pub(super) fn add_report(
    meeting: &Meeting,
    cell: &CellSpec,
    measured: &mut Measured,
) -> Result<(), Failure> {
    meeting.say(REPORT)?;
    let report: EndReport = serde_json::from_str(&meeting.hear()?)?;
    expect_all(cell, measured.messages, report.received)?;
    measured.server = Some(report);
    Ok(())
}

/// Each call must have reached the server: one that is lost would shorten the time.
pub(super) fn expect_all(cell: &CellSpec, sent: u64, received: u64) -> Result<(), Failure> {
    if sent == received {
        return Ok(());
    }
    let text = format!("{cell}: {sent} calls were made and {received} came");
    Err(Failure { cause: Cause::Corrupt, text })
}

/// Where the server listens.
pub(super) fn server_address(request: &LaunchRequest) -> String {
    let route = match request.subject {
        Subject::Call(route) | Subject::Bare(route) => route,
        Subject::AtRest(mechanism) | Subject::Mechanism(mechanism) => Route::Blocking(mechanism),
        // Of these no process listens.
        Subject::Part(_) | Subject::Floor(_) | Subject::Custom(_) => Route::Typed,
    };
    let at = format!("unix:@{}-calls", request.meet_at);
    if let Traffic::Switches = request.conditions.traffic {
        // Each mechanism as usual.
        return format!("{at}?allow=all");
    }
    let mut words = Vec::new();
    words.extend(said(route, route.server_wait(request.wait)).map(|wait| format!("wait={wait}")));
    if request.conditions.by_reference {
        words.push(format!("trust={}", Trust::SameUser));
    }
    words.extend(route.mechanism().map(|mechanism| format!("allow={mechanism}")));
    if words.is_empty() { at } else { format!("{at}?{}", words.join("&")) }
}

/// Where and how a client calls it.
pub(super) fn calls_address(request: &LaunchRequest, route: Route) -> String {
    let request_wait = match request.conditions.traffic {
        Traffic::Switches => None,
        _ => said(route, request.wait),
    };
    let via = route.mechanism().map(|mechanism| format!("?via={mechanism}")).unwrap_or_default();
    let wait = request_wait.map(|wait| format!("&wait={wait}")).unwrap_or_default();
    let trust = if request.conditions.by_reference { "&trust=yes" } else { "" };
    format!("unix:@{}-calls{via}{wait}{trust}", request.meet_at)
}

/// The way to wait as an address must say it; `None` where it goes without saying.
fn said(route: Route, wait: WaitPolicy) -> Option<WaitPolicy> {
    let adapts = |mechanism: Mechanism| mechanism.waits().contains(&WaitPolicy::Adaptive);
    // A client that blocks polls only if it is told to.
    let is_asked =
        wait == WaitPolicy::Spin || matches!((route, wait), (Route::Blocking(_), WaitPolicy::Poll));
    (is_asked || route.mechanism().is_some_and(adapts)).then_some(wait)
}

/// The client wants to know what the server has counted.
pub(super) const REPORT: &str = "report";

/// The server shall say how many connections it has.
pub(super) const COUNT: &str = "count";
