//! Servers by name, and what becomes of names whose servers are stale, deaf or another user's; and
//! what callers of another user may ask a server for.

use std::fs;
use std::path::Path;

use nearcall::control::{
    ConnectionsRequest, DescribeReply, DescribeRequest, ServerCaller, StopRequest,
};
use nearcall::observe::{NameEntry, NameProblem};
use nearcall::server::Health;
use nearcall_channel::Listener;
use nearcall_os::process;
use nearcall_os::socket::{UnixAddress, unix_listen};

use crate::echo::EchoDispatcher;
use crate::support::prelude::*;
use nearcall_testkit::directory::Directory;

use crate::runtime_directory::outcome_in;
use crate::served::LoopThread;
use crate::support::Service;

pub(crate) const ROLES: &[Role] = &[
    ("lister", list),
    ("finder", |interface| find(interface, PATIENCE)),
    ("hasty-finder", |interface| find(interface, SHORT)),
    ("asker", ask_for_what_is_not_its_own),
];

/// Time for a server that does not answer.
const SHORT: Duration = Duration::from_millis(300);

/// Reports all names, asked for a short time or without a limit.
fn list(how: &str) {
    let timeout = if how == "hasty" { SHORT } else { Duration::MAX };
    report(&match nearcall::observe::names_within(timeout) {
        Ok(entries) => {
            let rows: Vec<_> = entries.iter().map(row).collect();
            format!("outcome [{}]", rows.join("; "))
        }
        Err(status) => format!("outcome {status}"),
    });
}

fn row(entry: &NameEntry) -> String {
    let what = match &entry.server {
        Ok(server) => describe(server),
        Err(NameProblem::Stale) => "stale".to_owned(),
        Err(NameProblem::OtherUser(uid)) => format!("of user {uid}"),
        Err(problem) => format!("{problem}"),
    };
    format!("{}: {what}", entry.name)
}

fn describe(server: &DescribeReply) -> String {
    let objects = server.objects.iter().map(|it| format!("{} {:?}", it.name, it.health()));
    let used = server.mechanisms.iter().filter(|it| it.connections.is_some_and(|it| it > 0));
    let used: Vec<_> = used.map(|it| it.name.as_str()).collect();
    let objects: Vec<_> = objects.collect();
    format!("process {:?} has {} over {}", server.pid, objects.join(", "), used.join(" "))
}

/// Reports which objects have the interface: any, the one in the kitchen, all.
fn find(interface: &str, timeout: Duration) {
    let found = nearcall::client::find_within(interface, timeout).unwrap();
    let text = |outcome: Result<&nearcall::Address, Status>| match outcome {
        Ok(address) => address.to_string(),
        Err(status) => status.to_string(),
    };
    let all: Vec<_> = found.all().iter().map(|object| object.address.to_string()).collect();
    let (any, kitchen) = (text(found.any()), text(found.instance("kitchen")));
    report(&format!("outcome any {any}; kitchen {kitchen}; all {}", all.join(" ")));
}

/// Asks the built-in service for each thing that is not for every user, and reports the outcomes.
fn ask_for_what_is_not_its_own(address: &str) {
    let client = Client::new();
    let server = ServerCaller::new(&client, address).unwrap();
    let described = server.describe(&DescribeRequest::default()).unwrap();
    let counts = described.mechanisms.iter().filter(|it| it.connections.is_some()).count();
    let all = server.connections(&ConnectionsRequest::default());
    let own = server.connections(&ConnectionsRequest { own_only: true, live: false }).unwrap();
    let uids: Vec<_> = own.connections.iter().map(|it| it.uid.unwrap()).collect();
    let stopped = server.stop(&StopRequest {});
    report(&format!(
        "outcome {counts} counts; own {uids:?}; all: {}; stop: {}",
        all.unwrap_err(),
        stopped.unwrap_err()
    ));
}

/// A server with an `Echo` for each instance, at a name in this directory.
fn serve(directory: &Path, name: &str, parameters: &str, instances: &[&str]) -> LoopThread {
    let address = format!("unix:{}/{name}{parameters}", directory.display());
    let instances: Vec<_> = instances.iter().map(|it| (*it).to_owned()).collect();
    let (thread, ()) = LoopThread::serve(Limits::default(), move |_, server| {
        for instance in &instances {
            let echo = EchoDispatcher::new(Service::default());
            match instance.as_str() {
                "" => server.register(echo).unwrap(),
                instance => server.register_as(instance, echo).unwrap(),
            }
            if instance == "attic" {
                assert!(server.set_health("echo.v1.Echo@attic", Health::NotServing));
            }
        }
        server.listen(&address).unwrap();
    });
    thread
}

#[timed]
fn r24_servers_are_listed_and_found_by_name() {
    let place = Directory::with_mode(0o700);
    let directory = place.directory("runtime");
    // Nothing has listened yet.
    assert_eq!(outcome_in(&place.0.join("absent"), "lister", ""), "[]");
    assert_eq!(outcome_in(&directory, "lister", ""), "[]");
    let _rooms = serve(&directory, "rooms", "", &["kitchen", "attic"]);
    let _plain = serve(&directory, "plain", "?allow=shm,cma", &[""]);
    // One of the mechanisms that a server may offer alone, and not the one that is tried first.
    let _other = serve(&directory, "other", "?allow=pipe", &[]);
    fs::write(directory.join("notes"), "no socket").unwrap();
    let client = Client::new();
    let at = format!("unix:{}/plain", directory.display());
    ServerCaller::new(&client, &at).unwrap().describe(&DescribeRequest::default()).unwrap();
    let (pid, echo) = (Some(process::pid()), "echo.v1.Echo");
    let expected = [
        format!("other: process {pid:?} has  over "),
        format!("plain: process {pid:?} has {echo} Serving over shm"),
        format!("rooms: process {pid:?} has {echo}@attic NotServing, {echo}@kitchen Serving over "),
    ];
    assert_eq!(outcome_in(&directory, "lister", ""), format!("[{}]", expected.join("; ")));
    let found = outcome_in(&directory, "finder", echo);
    let any = ["plain", "rooms#kitchen"].map(|any| {
        format!("any {any}; kitchen rooms#kitchen; all plain rooms#attic rooms#kitchen")
    });
    assert!(any.contains(&found), "{found}");
    let found = outcome_in(&directory, "finder", "echo.v1.Other");
    assert!(found.starts_with("any UNAVAILABLE: no server of this user"), "{found}");
    assert!(found.ends_with("all"), "{found}");
}

#[timed]
fn r24_a_name_without_a_server_of_this_user_that_answers_is_listed_with_the_reason() {
    let place = Directory::with_mode(0o1777);
    let directory = place.directory("runtime");
    drop(unix_listen(UnixAddress::Path(&directory.join("killed")), 1).unwrap());
    let deaf = format!("unix:{}/deaf", directory.display());
    let _deaf = Listener::bind(&deaf.parse().unwrap()).unwrap();
    let own = outcome_in(&directory, "lister", "hasty");
    let (deaf, killed) = own.split_once("; ").unwrap();
    assert!(deaf.starts_with("[deaf: the server does not answer: "), "{own}");
    assert_eq!(killed, "killed: stale]");
    let found = outcome_in(&directory, "hasty-finder", "echo.v1.Echo");
    assert!(found.contains("no answer from deaf, killed"), "{found}");
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r24 with a name of another user", "only root can become another user");
    };
    let squat = place.0.join("squat");
    let mut squatter = command("squatter", &format!("unix:{}", squat.display()), "");
    squatter.uid(uid).gid(uid);
    let mut squatter = Process::start_as("squatter", squatter);
    squatter.hear("listens");
    fs::rename(squat, directory.join("taken")).unwrap();
    let listed = outcome_in(&directory, "lister", "hasty");
    assert!(listed.ends_with("killed: stale; taken: of user 65533]"), "{listed}");
    // A server of this user learns that it cannot have the name, a client whose it is.
    let outcome = outcome_in(&directory, "listener", "taken");
    assert!(outcome.contains("in use by another server"), "{outcome}");
    let outcome = outcome_in(&directory, "visitor", "taken?user=0");
    assert!(outcome.contains("one of user 65533"), "{outcome}");
    squatter.kill();
}

#[timed]
fn r23_what_concerns_other_users_is_refused_to_a_user_that_is_not_the_servers() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r23 of the built-in service", "only root can become another user");
    };
    let server = Server::builder().listen(&unique_address()).start().unwrap();
    let address = server.address().to_string();
    let own = ServerCaller::new(&Client::new(), &address).unwrap();
    own.describe(&DescribeRequest::default()).unwrap();
    let mut asker = command("asker", &address, "");
    asker.uid(uid).gid(uid);
    let mut asker = Process::start_as("asker", asker);
    let outcome = asker.hear("outcome");
    asker.finish();
    let refused = |what: &str| {
        format!(
            "PERMISSION_DENIED: user 65533 may not {what}: that is for user 0, the server's, \
                 and root"
        )
    };
    let list = "list the connections of all users (ask for your own by `own_only`)";
    let (all, stop) = (refused(list), refused("stop this server"));
    let expected = format!("0 counts; own [65533]; all: {all}; stop: {stop}");
    assert_eq!(outcome, expected);
    let listed = own.connections(&ConnectionsRequest::default()).unwrap();
    let refusals: Vec<_> = listed.refusals.iter().map(|it| (&*it.kind, &*it.user)).collect();
    assert_eq!(refusals, [("user-not-allowed", "user 65533")]);
    assert_eq!(listed.refusals[0].count, 2);
    server.stop().unwrap();
}
