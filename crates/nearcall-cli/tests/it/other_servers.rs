//! What the tools say of servers that are not as they would have them: of another user, of another
//! version, behind gRPC with little or no reflection.
//!
//! **Not here:** servers that are no servers of nearcall (`call.rs`), names whose servers are stale
//! or deaf (`servers.rs`).

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use nearcall::Server;
use nearcall::control::{DescribeReply, Object};
use nearcall::server::ListenOptions;
use nearcall_os::process::{self, Child};
use nearcall_testkit::echo::EchoDispatcher;
use nearcall_testkit::raw_frames::OtherVersion;
use nearcall_testkit::streams::StreamsCaller;
use nearcall_testkit::support::{Stateless, unique_address};
use tonic::service::Routes;

use crate::program::{Ended, Folder};
use crate::servers::Names;

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user without rights; not 65534, which the kernel also says of users that it cannot name.
const OTHER_USER: u32 = 65_533;

/// Runs the program as another user.
fn run_as_other(folder: &Folder, words: &[&str]) -> Ended {
    let paths = ["out", "err"].map(|name| folder.home().join(name));
    let [stdout, stderr] = paths.each_ref().map(|path| File::create(path).unwrap());
    let mut command = folder.command(words);
    command.uid(OTHER_USER).gid(OTHER_USER).stdout(stdout).stderr(stderr).stdin(Stdio::null());
    command.env_remove("NEARCALL_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR");
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(PATIENCE)).unwrap().expect("it ends");
    let [stdout, stderr] = paths.map(|path| std::fs::read_to_string(path).unwrap());
    Ended { code: status.code(), stdout, stderr }
}

#[track_caller]
fn expect(ended: &Ended, code: i32, texts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let all = format!("{}{}", ended.stdout, ended.stderr);
    for text in texts {
        assert!(all.contains(text), "no {text:?} in {all}");
    }
    assert!(all.chars().all(|it| it == '\n' || !it.is_control()), "{ended:?}");
}

/// The tools that ask a server, each with its arguments.
fn tools(address: &str) -> [Vec<&str>; 4] {
    [
        vec!["describe", address],
        vec!["call", address, "echo.v1.Echo/Say", "{}"],
        vec!["record", address, "-o", "no.rec", "--duration", "1ms"],
        vec!["top", address, "--count", "1", "--interval", "100ms"],
    ]
}

fn runs_as_root() -> bool {
    process::user_id() == 0
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_server_of_another_user_says_what_it_does_not_do() {
    if !runs_as_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = Folder::new();
    let address = unique_address();
    let server = Server::builder().register(EchoDispatcher::new(Stateless)).listen(&address);
    let _server = server.start().unwrap();
    let [describe, call, record, top] = tools(&address);
    expect(&run_as_other(&folder, &describe), 0, &["service Echo {"]);
    expect(&run_as_other(&folder, &call), 0, &["{}"]);
    expect(&run_as_other(&folder, &record), 1, &["user 65533 may not", "the server's, and root"]);
    expect(&run_as_other(&folder, &top), 0, &["its counters are for its own user and root"]);
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_server_that_lets_one_user_in_names_its_option_to_others() {
    if !runs_as_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = Folder::new();
    let address = unique_address();
    let server = Server::builder().register(EchoDispatcher::new(Stateless));
    let server = server.listen_with(&address, &ListenOptions::new().users([0]));
    let _server = server.start().unwrap();
    for (words, code) in tools(&address).into_iter().zip([1, 71, 1, 0]) {
        expect(&run_as_other(&folder, &words), code, &["user 65533", "option `users`"]);
    }
}

#[test]
fn a_server_of_an_older_version_is_named_with_it() {
    let names = Names::new();
    let address = names.address("old");
    let describes = DescribeReply {
        version: "0.0.7\u{1b}[31m".to_owned(),
        objects: vec![Object {
            name: "echo.v1.Echo".to_owned(),
            interface: "echo.v1.Echo".to_owned(),
            ..Object::default()
        }],
        ..DescribeReply::default()
    };
    let _old = OtherVersion::serve(&address, 1, Some(describes));
    for (words, (code, what)) in tools("old").into_iter().zip([
        (1, "too old to describe its interfaces, rebuild the server"),
        (76, "too old to describe its interfaces, rebuild the server"),
        (1, "does not record: rebuild it"),
        (0, "has no counters"),
    ]) {
        expect(&names.run(&words), code, &["its version, 0.0.7", what]);
    }
}

#[test]
fn a_server_that_does_not_describe_itself_is_said_to_be_old() {
    let names = Names::new();
    let _old = OtherVersion::serve(&names.address("older"), 1, None);
    for (words, code) in tools("older").into_iter().zip([1, 76, 1]) {
        expect(&names.run(&words), code, &["too old to describe its interfaces, rebuild"]);
    }
    expect(&names.run(&tools("older")[3]), 0, &["its version has no counters"]);
}

#[test]
fn a_server_of_another_protocol_version_is_refused_with_its_version() {
    let names = Names::new();
    let _newer = OtherVersion::serve(&names.address("newer"), 99, None);
    for (words, code) in tools("newer").into_iter().zip([1, 77, 1, 0]) {
        expect(&names.run(&words), code, &["speaks only versions 99 to 99 of the protocol"]);
    }
}

/// A gRPC server with these services alone. Returns its address.
fn serve_grpc(runtime: &tokio::runtime::Runtime, routes: Routes) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    let _inside = runtime.enter();
    let incoming = tokio::net::TcpListener::from_std(listener).unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(incoming);
    let server = tonic::transport::Server::builder().add_routes(routes);
    runtime.spawn(server.serve_with_incoming(incoming));
    address
}

#[test]
fn a_grpc_server_needs_any_version_of_reflection() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let old = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(StreamsCaller::INTERFACE.descriptor_set)
        .build_v1alpha()
        .unwrap();
    let address = serve_grpc(&runtime, Routes::new(old));
    expect(&folder.run(&["describe", &address]), 0, &["service Streams {", "rpc Sum(stream Item)"]);
    // It describes what it does not serve.
    let ended = folder.run(&["call", &address, "Streams/Say", "{}"]);
    expect(&ended, 76, &["Code: Unimplemented"]);
    let address = serve_grpc(&runtime, Routes::default());
    for (words, code) in tools(&address).into_iter().take(2).zip([1, 76]) {
        expect(&folder.run(&words), code, &["have it register grpc.reflection.v1 or"]);
    }
    for words in &tools(&address)[2..] {
        expect(&folder.run(words), 1, &["is a server of gRPC, which has no nearcall.v1.Server"]);
    }
}
