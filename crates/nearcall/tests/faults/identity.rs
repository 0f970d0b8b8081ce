//! Who a client is, and what a server and a client make of it: two users, a passed socket, and user
//! namespaces.

use std::process::Stdio;

use nearcall::server::ListenOptions;
use nearcall_channel::{Address as Place, HandshakeError, Options, Refusal, connect_over};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::process::kill_pidfd;
use nearcall_os::socket::{self, UnixAddress};

use crate::support::prelude::*;
use crate::support::server::serve_with;

pub(crate) const ROLES: &[Role] = &[
    ("root-only", |address| serve_for(address, &ListenOptions::new().users([0]))),
    ("callers", call_once),
    ("holder", open_over_a_passed_socket),
    ("trusting", serve_and_report_trust),
    ("trusting-caller", call_and_report_trust),
    ("squatter", |address| serve_for(address, &ListenOptions::new())),
    ("attacher", attach_and_report),
];

fn serve_for(address: &str, options: &ListenOptions) {
    serve_with(address, options, Limits::default(), |_, _| {});
}

/// Calls once, and reports how that ended.
fn call_once(address: &str) {
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    let outcome = echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&());
    report(&match outcome {
        Ok(()) => "outcome ok".to_owned(),
        Err(status) => format!("outcome {}: {}", status.code(), status.message()),
    });
}

/// Opens a channel over the connected socket that is standard input, and reports the outcome.
fn open_over_a_passed_socket(_address: &str) {
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let outcome = connect_over(socket, Mechanism::UnixStream, &Options::default());
    report(&match outcome {
        Ok(_) => "outcome ok".to_owned(),
        Err(error) => format!("outcome {error}"),
    });
}

/// Serves, and reports for each line of input which clients it trusts.
fn serve_and_report_trust(address: &str) {
    let server = Server::builder().listen(address).start().unwrap();
    report("listens");
    for _line in std::io::stdin().lock().lines() {
        let trusted: Vec<_> = server.connections().iter().map(|it| it.is_trusted).collect();
        report(&format!("trusts {trusted:?} of user {:?}", nearcall_os::process::user_id()));
    }
}

/// Calls, and reports whether it trusts the server.
fn call_and_report_trust(address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    let connection = client.connections().remove(0);
    report(&format!("trusts {} user {:?}", connection.is_trusted, connection.peer.uid()));
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// Attaches to a server, and reports the notice.
fn attach_and_report(address: &str) {
    let attachment = Client::new().attach(address).unwrap();
    report("attached");
    report(&format!("notice {:?}", attachment.wait(PATIENCE).unwrap().cause));
}

/// A command that runs as the other user, by what `setpriv` or `unshare` do.
fn as_user(mut command: Command, user: User) -> Command {
    if let User::Uid(uid) = user {
        command.uid(uid).gid(uid);
    }
    command
}

/// The same command, started by a tool with these words.
fn by_tool(words: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(words[0]);
    wrapped.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapped.env(name, value);
        }
    }
    wrapped.stdin(Stdio::piped()).stdout(Stdio::piped());
    wrapped
}

/// Whether this tool with these words can start a program here.
fn tool_works(words: &[&str]) -> bool {
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn outcome_of(role: &str, command: Command) -> String {
    let mut process = Process::start_as(role, command);
    let outcome = process.hear("outcome");
    process.finish();
    outcome
}

#[timed]
fn r23_a_user_that_is_not_let_in_is_refused_with_the_reason_and_leaves_nothing() {
    let Some(other) = User::another() else {
        return skip("r23 with two users", "only root can become another user");
    };
    let mut server = ServerSetup::new("root-only").start();
    server.warm_up(&["", "?via=unix-stream"]);
    let oracle = server.leak_oracle();
    for via in ["", "?via=unix-stream"] {
        let address = server.via(via);
        assert_eq!(outcome_of("callers", command("callers", &address, "")), "ok");
        let refused = outcome_of("callers", as_user(command("callers", &address, ""), other));
        assert!(refused.starts_with("PERMISSION_DENIED"), "{refused}");
        assert!(refused.contains("user 65533 with group 65533"), "{refused}");
        assert!(refused.contains("option `users`"), "{refused}");
    }
    assert!(server.state().refusals >= 2);
    server.wait_for_connections(0);
    oracle.check(&[]);
    server.finish();
}

#[timed]
fn r23_who_holds_a_socket_has_the_identity_of_the_process_that_connected() {
    let Some(other) = User::another() else {
        return skip("r23 with a passed socket", "only root can become another user");
    };
    let server = ServerSetup::new("root-only").start();
    // Connected by root, and passed on before a word was said.
    let name = server.abstract_name();
    let connect =
        || socket::unix_connect(UnixAddress::Abstract(name.as_bytes()), Some(PATIENCE)).unwrap();
    let mut holder = as_user(command("holder", &server.address, ""), other);
    holder.stdin(Stdio::from(connect()));
    let mut child = nearcall_os::process::Child::spawn(&mut holder).unwrap();
    let ended = child.wait(Some(PATIENCE)).unwrap().expect("it ends");
    let mut said = String::new();
    let output = child.pipes().stdout.take().unwrap();
    std::io::Read::read_to_string(&mut { output }, &mut said).unwrap();
    assert!(ended.success() && said.contains("outcome ok"), "{said}");
    server.finish();
}

#[timed]
fn r23_the_root_of_a_user_namespace_is_the_user_that_made_it() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r23 in a user namespace", "only root can become another user");
    };
    let user = uid.to_string();
    let tool = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let tool = [&tool[..], &["unshare", "-r"]].concat();
    if !tool_works(&tool) {
        return skip("r23 in a user namespace", "`setpriv ... unshare -r` does not work here");
    }
    let server = ServerSetup::new("root-only").start();
    let inside = by_tool(&tool, &command("callers", &server.address, ""));
    let refused = outcome_of("callers", inside);
    assert!(refused.starts_with("PERMISSION_DENIED"), "{refused}");
    assert!(refused.contains("user 65533"), "{refused}");
    server.finish();
}

/// In a user namespace without a map this process and every other one have the overflow user id, so
/// `same-user` trusted whoever came.
#[timed]
fn r23_no_process_is_trusted_as_the_same_user_in_an_unmapped_user_namespace() {
    let Some(other) = User::another() else {
        return skip("r23 without a map", "only root can become another user");
    };
    if !tool_works(&["unshare", "-U"]) {
        return skip("r23 without a map", "`unshare -U` does not work here");
    }
    let address = unique_address();
    let listens = format!("{address}?trust=same-user");
    // A server inside, and a client of another user outside.
    let inside = by_tool(&["unshare", "-U"], &command("trusting", &listens, ""));
    let mut server = Process::start_as("trusting", inside);
    server.hear("listens");
    let outside = as_user(command("trusting-caller", &address, ""), other);
    let mut client = Process::start_as("trusting-caller", outside);
    client.hear("trusts");
    server.tell("trust?");
    let trusted = server.hear("trusts");
    assert!(trusted.starts_with("[false] of user 65534"), "{trusted}");
    client.kill();
    server.kill();
    // A client inside, and a server of another user outside.
    let address = unique_address();
    let outside = as_user(command("squatter", &address, ""), other);
    let mut server = Process::start_as("squatter", outside);
    server.hear("listens");
    let trusting = command("trusting-caller", &format!("{address}?trust=same-user"), "");
    let mut client = Process::start_as("trusting-caller", by_tool(&["unshare", "-U"], &trusting));
    let trusted = client.hear("trusts");
    assert_eq!(trusted, "false user Some(65534)");
    client.kill();
    server.kill();
}

#[timed]
fn r24_a_client_that_demands_the_servers_user_calls_no_squatter() {
    let own = nearcall_os::process::user_id();
    let (mut server, client) = (ServerProcess::start(), Client::new());
    let mine = server.address.clone();
    let call = |at: &str| {
        let options = CallOptions::new().deadline(PATIENCE);
        EchoCaller::new(&client, at).unwrap().with(options).nothing(&())
    };
    call(&format!("{mine}?user={own}")).unwrap();
    expect_code(call(&format!("{mine}?user=no-such-user-of-nearcall")), Code::InvalidArgument);
    expect_code(call(&format!("{mine}?user={}", own + 1)), Code::FailedPrecondition);
    // No connection was made, and waiting does not help.
    assert_eq!(server.state().connections, 1);
    let hunted = client.hunt(&format!("{mine}?user={}", own + 1), Duration::from_secs(3600));
    assert_eq!(hunted.unwrap_err().code(), Code::FailedPrecondition);
    server.finish();
    let Some(other) = User::another() else {
        return skip("r24 with a squatter", "only root can become another user");
    };
    // Another user was first at a name that any process may take.
    let address = unique_address();
    let squatter = as_user(command("squatter", &address, ""), other);
    let mut squatter = Process::start_as("squatter", squatter);
    squatter.hear("listens");
    for user in ["root", "0"] {
        let outcome = call(&format!("{address}?user={user}"));
        expect_error(outcome, Code::FailedPrecondition, &["one of user 65533"]);
    }
    // And the server is told that the name is taken.
    let refused = Server::builder().listen(&address).start().unwrap_err().to_string();
    assert!(refused.contains("in use by another server"), "{refused}");
    squatter.kill();
}

/// A refusal because of the user is told from one that time may change.
#[timed]
fn r23_the_refusal_of_a_user_has_a_code_of_its_own() {
    let Some(other) = User::another() else {
        return skip("r23 with the code", "only root can become another user");
    };
    let own = unique_address();
    let options = ListenOptions::new().users([65_533]);
    let server = Server::builder().listen_with(&own, &options).start().unwrap();
    let place: Place = own.parse().unwrap();
    let refused = nearcall_channel::connect(&place, Mechanism::Shm, &Options::default());
    let error = refused.err().unwrap();
    let is_refused = matches!(&error, HandshakeError::Refused { code: Refusal::NotAllowed, .. });
    assert!(is_refused, "{error}");
    let outcome = outcome_of("callers", as_user(command("callers", &own, ""), other));
    assert!(outcome.starts_with("UNIMPLEMENTED"), "let in, and without an object: {outcome}");
    server.stop().unwrap();
}

/// As with a unit of systemd, where root has bound the socket, and the first client connects before
/// there is a server.
#[timed]
fn r24_the_user_of_a_server_at_a_socket_of_another_user_is_its_own() {
    let Some(other) = User::another() else {
        return skip("r24 at a socket of root", "only root can become another user");
    };
    let address = unique_address();
    let name = UnixAddress::Abstract(address.strip_prefix("unix:@").unwrap().as_bytes());
    let bound = socket::unix_listen(name, 8).unwrap();
    let wait_for_client =
        || assert!(poll_one(&bound, Interest::Readable, PATIENCE).unwrap().is_some());
    let call = |user: &str| {
        let at = format!("{address}?user={user}&trust=same-user");
        let client = Client::new();
        let echo = EchoCaller::new(&client, &at).unwrap();
        echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&())?;
        let connection = client.connections().remove(0);
        Ok((connection.is_trusted, connection.peer.uid()))
    };
    std::thread::scope(|scope| {
        let own = scope.spawn(|| call("65533"));
        wait_for_client();
        let command = as_user(command("squatter", &address, ""), other);
        let mut server = Process::start_with(&bound, "squatter", command);
        server.hear("listens");
        let outcome: Result<_, Status> = own.join().unwrap();
        assert_eq!(outcome, Ok((false, Some(65_533))), "root listened when it connected");
        expect_code(call("root"), Code::FailedPrecondition);
        server.kill();
    });
}

/// Of a zombie with another group the kernel shows a status of 0 to whoever may not look into it,
/// which is that of a process that has exited well.
#[timed]
fn r24_the_end_of_a_zombie_that_the_kernel_does_not_show_is_not_made_up() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r24 with another group", "only root can become another user");
    };
    for (group, cause) in [(uid, "Killed { signal: 9 }"), (uid - 1, "Lost")] {
        let address = unique_address();
        let mut serving = command("squatter", &address, "");
        serving.uid(uid).gid(group);
        let mut server = Process::start_as("squatter", serving);
        server.hear("listens");
        let attaching = as_user(command("attacher", &address, ""), User::Uid(uid));
        let mut attacher = Process::start_as("attacher", attaching);
        attacher.hear("attached");
        server.expect_end();
        // Its parent, this process, does not wait for it before the notice.
        kill_pidfd(server.child().pidfd()).unwrap();
        let notice = attacher.hear("notice");
        if notice == "Lost" && cause != notice {
            return skip("r24 with a zombie", "this kernel reports no end of a process (6.13)");
        }
        assert_eq!(notice, cause, "group {group}");
        attacher.finish();
        server.kill();
    }
}
