//! What the processes of services are given, what they leave behind, and who can reach them.

use std::fs;
use std::io::{self, PipeReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;

use nearcall::Code;
use nearcall::client::ReconnectPolicy;
use nearcall_os::descriptor;
use nearcall_os::process::{Child, kill_pidfd, pidfd_open, user_id};
use nearcall_os::socket::{self, UnixAddress};

use crate::home::SetTargetRequest;
use crate::tested::{
    Directory, PATIENCE, TestedHost, figure, has_ended, in_time, process, wait_until, write,
};

const BLOCK: f64 = -3.0;

#[test]
fn many_services_fit_whatever_the_soft_limit_of_descriptors_is_and_start_with_it() {
    let count = figure("NEARCALL_SERVICES", 30);
    let services = (0..count).map(|number| process(&format!("room{number}"), &["plain"], ""));
    // Two for each, which is far from enough.
    let soft = 2 * count + 40;
    let services = services.collect::<String>();
    let mut host = TestedHost::start_in(Directory::new(), &services, &format!("-Sn {soft}"));
    host.wait_until_up();
    let open = fs::read_dir(format!("/proc/{}/fd", host.child.pid())).unwrap().count();
    println!("{count} services: the host has {open} descriptors open");
    let pid = host.service("room0").pid;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some(soft.to_string().as_str()), "{line}");
    host.restart(&["room0", "room1"]).unwrap();
    assert_eq!(host.stop(), Some(0), "{}", host.log());
}

#[test]
fn services_that_do_not_fit_into_the_hard_limit_are_refused_before_any_of_them_starts() {
    let directory = Directory::new();
    let services = (0..10).map(|number| process(&format!("room{number}"), &["plain"], ""));
    write(&directory, &services.collect::<String>());
    let mut host = Child::spawn(&mut TestedHost::command_within("-n 100", &directory)).unwrap();
    let status = host.wait(Some(PATIENCE)).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(1));
    let log = fs::read_to_string(directory.path("log")).unwrap();
    let why = "10 services need 186 descriptors, and this process may have 100";
    assert!(log.contains(why), "{log}");
    assert!(log.contains("LimitNOFILE=186"), "{log}");
    assert!(directory.sockets().is_empty(), "{:?}", directory.sockets());
}

#[test]
fn what_a_service_has_started_ends_with_it() {
    let directory = Directory::new();
    // It has the sockets of the service, as it is started before anything could keep them from it.
    directory.script("sleep 600 & echo $! > DIRECTORY/.helper && exec PROGRAM plain\n");
    let services = process("room", &[], "").replace("PROGRAM", "DIRECTORY/script");
    let mut host = TestedHost::start_in(directory, &services, "");
    host.wait_until_up();
    let helper = |host: &TestedHost| {
        let text = fs::read_to_string(host.directory.path(".helper")).unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    let (first, pid) = (helper(&host), host.service("room").pid);
    kill_pidfd(pidfd_open(i32::try_from(pid).unwrap()).unwrap()).unwrap();
    host.wait_for("room", |service| service.state == "up" && service.pid != pid);
    wait_until("the end of the first helper", || has_ended(first));
    let second = helper(&host);
    assert!(second != first && !has_ended(second));
    assert_eq!(host.stop(), Some(0), "{}", host.log());
    wait_until("the end of the second helper", || has_ended(second));
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}

#[test]
fn a_script_without_exec_is_told_why_its_program_cannot_listen() {
    let directory = Directory::new();
    directory.script("PROGRAM plain\nexit $?\n");
    let services = process("room", &[], "restart = \"never\"");
    let services = services.replace("PROGRAM", "DIRECTORY/script");
    let host = TestedHost::start_in(directory, &services, "");
    let failed = host.wait_for("room", |service| service.state == "failed");
    let lines = failed.last_lines.join("\n");
    assert!(lines.contains("is in use by another server (process "), "{failed:?}");
    assert!(lines.contains("); sockets were handed over to process"), "{failed:?}");
    assert!(lines.contains("have it use `exec`"), "{failed:?}");
}

#[test]
fn no_other_process_can_connect_to_the_socket_at_which_a_service_is_asked() {
    let host = TestedHost::start(&process("room", &["silent"], ""));
    host.wait_for("room", |service| service.state == "starting" && service.pid != 0);
    let pid = host.service("room").pid;
    let listed = fs::read_to_string("/proc/net/unix").unwrap();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
    // Not above it: a socket of another test may have its name still.
    let own = host.directory.path(".");
    let own: Vec<_> = names
        .iter()
        .filter(|name| Path::new(name).starts_with(&own) || name.starts_with("@nearcall-host-"))
        .collect();
    let mut health = 0;
    for name in own {
        if let Some(name) = name.strip_prefix('@') {
            // Of a host before this one was mended, and of no other test.
            let host = format!("nearcall-host-{}-", host.child.pid());
            assert!(!name.starts_with(&host), "any user can connect to `{name}` of {pid}");
        } else if name.ends_with(".health") {
            health += 1;
            let refused = socket::unix_connect(UnixAddress::Path(Path::new(name)), Some(PATIENCE));
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound, "{name}");
        }
    }
    assert!(health > 0, "{listed}");
}

#[test]
fn a_service_that_does_not_end_after_sigterm_is_killed_after_its_time() {
    let mut host = TestedHost::start(&process("room", &["plain"], "stop-within = \"300ms\""));
    host.wait_until_up();
    let block = |times| {
        let caller = host.thermostat("room");
        let once = in_time().reconnect(ReconnectPolicy::Never);
        let request = SetTargetRequest { celsius: BLOCK };
        let call = thread::spawn(move || caller.with(once.clone()).set_target(&request));
        host.wait_until_blocked(times);
        call
    };
    let (before, call) = (host.service("room").pid, block(1));
    host.restart(&["room"]).unwrap();
    wait_until("the end of the one before", || has_ended(before));
    assert_eq!(call.join().unwrap().unwrap_err().code(), Code::Unavailable);
    let killed = "room had not ended 300ms after SIGTERM (`stop-within`) and was killed";
    wait_until("the line", || host.log().matches(killed).count() == 1);
    let (next, call) = (host.service("room").pid, block(2));
    assert_eq!(host.stop(), Some(0));
    assert!(has_ended(next));
    assert_eq!(call.join().unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(host.log().matches(killed).count(), 2);
    assert!(host.directory.sockets().is_empty(), "{:?}", host.directory.sockets());
}

#[test]
fn the_file_says_who_may_connect() {
    let access = |host: &TestedHost| {
        let file = fs::metadata(host.directory.path("room")).unwrap();
        (file.permissions().mode() & 0o777, file.uid(), file.gid())
    };
    let host = TestedHost::start(&process("room", &["plain"], ""));
    host.wait_until_up();
    let (_, uid, gid) = access(&host);
    assert_eq!(access(&host).0, 0o600);
    let open = process("room", &["plain"], "socket-mode = \"0660\"");
    // A restart that fails changes nothing.
    host.write(&[open.clone(), process("hall", &["exit", "3"], "restart = \"never\"")].concat());
    host.restart(&[]).unwrap_err();
    assert_eq!(access(&host), (0o600, uid, gid));
    host.write(&open);
    host.restart(&[]).unwrap();
    assert_eq!(access(&host), (0o660, uid, gid));
    if user_id() != 0 {
        return println!("SKIPPED: giving a socket to another user takes root");
    }
    let given = "socket-mode = \"0622\"\nsocket-owner = \"12345:54321\"";
    host.write(&process("room", &["plain"], given));
    host.restart(&[]).unwrap();
    assert_eq!(access(&host), (0o622, 12345, 54321));
    host.thermostat("room").with(in_time()).set_target(&SetTargetRequest { celsius: 1.0 }).unwrap();
}

#[test]
fn clients_in_the_queue_of_a_service_that_is_taken_out_get_the_reason() {
    let pauses = "back-off-min = \"10m\"\nback-off-max = \"10m\"";
    let host = TestedHost::start(&process("room", &["exit", "3"], pauses));
    host.wait_for("room", |service| service.state == "backing-off");
    let path = host.directory.path("room");
    let client = socket::unix_connect(UnixAddress::Path(&path), Some(PATIENCE)).unwrap();
    socket::set_timeouts(&client, PATIENCE).unwrap();
    host.write(&process("hall", &["plain"], ""));
    host.restart(&[]).unwrap();
    let mut packet = [0; 1024];
    let length = socket::recv_message(&client, &mut packet).unwrap();
    let text = String::from_utf8_lossy(&packet[..length]);
    assert!(text.contains("room is stopped: ask `nearcall status`"), "{text}");
}

/// A host whose log is a pipe that is full and not read.
fn with_unread_log(services: &str) -> (TestedHost, PipeReader) {
    let (read, mut write) = io::pipe().unwrap();
    descriptor::set_nonblocking(&write, true).unwrap();
    while write.write(&[b'.'; 4096]).is_ok() {}
    descriptor::set_nonblocking(&write, false).unwrap();
    let host =
        TestedHost::start_by(services, |mut command| Child::spawn(command.stderr(write)).unwrap());
    (host, read)
}

#[test]
fn a_log_that_is_not_read_holds_up_neither_questions_nor_the_end() {
    let services = [process("loud", &["endless"], ""), process("room", &["plain"], "")].concat();
    let (mut host, log) = with_unread_log(&services);
    host.wait_for("room", |service| service.state == "up");
    host.restart(&["room"]).unwrap();
    host.wait_for("room", |service| service.state == "up");
    assert_eq!(host.stop(), Some(0));
    drop(log);
}

#[test]
fn a_service_that_writes_without_end_leaves_the_log_to_others() {
    let services =
        [process("loud", &["endless"], "log-rate = 10"), process("room", &["plain"], "")];
    let mut host = TestedHost::start(&services.concat());
    host.wait_for("room", |service| service.state == "up");
    wait_until("the count of lines that were dropped", || {
        let log = host.log();
        log.lines().any(|line| line.starts_with("[loud] ") && line.contains(" lines dropped: "))
    });
    assert!(host.log().contains("room is up"), "{}", host.log());
    assert_eq!(host.stop(), Some(0));
}

/// The file is checked when it is read, and again when the program starts.
#[test]
fn a_program_that_others_can_write_is_not_run() {
    let directory = Directory::new();
    directory.script("exec PROGRAM plain");
    let path = directory.path("script");
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let services = "[service.room]\nrun = \"process\"\nfile = \"script\"\n\
                    listen = \"unix:DIRECTORY/room\"\nrestart = \"never\"\n";
    let mut host = TestedHost::start_in(directory, services, "-c 0");
    host.wait_until_up();
    mode(0o777);
    let refused = host.restart(&["room"]).unwrap_err();
    assert!(refused.message().contains("is writable by others (mode 0777)"), "{refused}");
    assert!(refused.message().contains("`chmod go-w`"), "{refused}");
    host.wait_until_up();
    mode(0o755);
    host.restart(&["room"]).unwrap();
    if user_id() == 0 {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let refused = host.restart(&["room"]).unwrap_err();
        assert!(refused.message().contains("belongs to user 12345"), "{refused}");
    }
    assert_eq!(host.stop(), Some(0));
}
