//! Where the two processes of a launch of calls find each other, and the words between them.

use nearcall::client::Trust;
use nearcall_channel::{Address, Mechanism, WaitPolicy};

use crate::calls::route::Route;
use crate::cell::Subject;
use crate::conditions::Traffic;
use crate::launch::LaunchRequest;

/// Where the server waits for the bare channel.
pub(super) fn bare_address(request: &LaunchRequest) -> Address {
    Address::Abstract(format!("{}-bare", request.meet_at))
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
