//! What `host`, `status` and `restart` say. What a host does is tested by `nearcall-host`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::Client;
use nearcall_os::process::Child;
use serde_json::Value;

use crate::program::Folder;

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file with one service, which this test program is.
fn services(folder: &Folder) -> String {
    let program = std::env::current_exe().unwrap();
    let directory = folder.path().join("runtime");
    format!(
        "[host]\nlisten = \"unix:{directory}/host\"\n[service.room]\nrun = \"process\"\n\
         file = {program:?}\narguments = [\"servers::entry\", \"--exact\", \"--nocapture\"]\n\
         listen = \"unix:{directory}/room\"\nready-within = \"60s\"\n\
         environment = {{ NEARCALL_TEST_ADDRESS = \"unix:{directory}/room\" }}\n",
        directory = directory.display()
    )
}

#[test]
fn a_file_is_checked_and_its_errors_name_the_line() {
    let folder = Folder::new();
    let check = |text: &str| {
        fs::write(folder.path().join("services.toml"), text).unwrap();
        folder.run(&["host", "services.toml", "--check"])
    };
    let good = services(&folder);
    let ended = check(&good);
    let expected = "services.toml: 1 services in 1 processes\n";
    assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(0), expected, ""));
    let wrong = [
        (good.replace("run =", "runs ="), "services.toml:4:1: unknown field `runs`"),
        (good.replace("file = \"", "file = \"/absent"), "there is no program /absent"),
        // A program is no library, which only loading it shows.
        (good.replace("\"process\"", "\"library\""), "services.toml: service `room`: "),
        (good.clone() + "after = [\"room\"]\n", "room starts after room: take one `after` out"),
    ];
    for (text, expected) in wrong {
        let ended = check(&text);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.starts_with("error: services.toml:"), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
    // The host itself listens at a name, in a directory that leaves no room for it.
    let by_name = &good[good.find("[service").unwrap()..];
    fs::write(folder.path().join("services.toml"), by_name).unwrap();
    let long = format!("/{}", "d".repeat(99));
    let mut command = folder.command(&["host", "services.toml", "--check"]);
    command.env("NEARCALL_RUNTIME_DIR", &long).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    for word in ["cannot listen at nearcall-host", &long, "100 bytes", "107", "RUNTIME_DIR"] {
        assert!(error.contains(word), "{error}");
    }
    let ended = folder.run(&["host", "absent.toml"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("error: absent.toml: "), "{ended:?}");
}

/// Asks for the metrics at the place that the log of a host names.
fn scrape(log: &str) -> String {
    let line = log.lines().find_map(|line| line.strip_prefix("metrics: http://"));
    let at = line.and_then(|line| line.strip_suffix("/metrics")).unwrap_or_else(|| panic!("{log}"));
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_host_is_asked_and_told_from_the_command_line() {
    let folder = Folder::new();
    let directory = folder.path().join("runtime");
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    fs::write(folder.path().join("services.toml"), services(&folder)).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let mut command = folder.command(&["host", "services.toml", "--metrics", "127.0.0.1:0"]);
    let mut host = Child::spawn(command.stderr(log)).unwrap();
    let address = format!("unix:{}", directory.join("host").display());
    Client::new().hunt(&address, PATIENCE).unwrap();
    // It is told when the first one serves.
    Client::new().hunt(&format!("unix:{}", directory.join("room").display()), PATIENCE).unwrap();
    let ended = folder.run(&["restart", "room", "--host", &address]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "restarted room\n"), "{ended:?}");
    let ended = folder.run(&["status", "--json", "--host", &address]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "nearcall.status/1");
    assert_eq!(document["pid"], host.pid());
    let room = &document["services"][0];
    assert_eq!((&room["name"], &room["state"]), (&"room".into(), &"up".into()), "{room}");
    assert_eq!((&room["run"], &room["group"]), (&"process".into(), &Value::Null));
    assert_eq!(room["restarts"], 1);
    let ended = folder.run(&["status", "--host", &address]);
    assert!(ended.stdout.contains("\n1 of 1 services are up. Host "), "{}", ended.stdout);
    let row = ended.stdout.lines().find(|line| line.trim_start().starts_with("room")).unwrap();
    let pid = room["pid"].to_string();
    assert_eq!(row.split_whitespace().nth(2), Some(&*pid), "{row}");
    let metrics = scrape(&fs::read_to_string(folder.path().join("log")).unwrap());
    let up = |name| format!("nearcall_up{{server=\"unix:{}\"}} 1", directory.join(name).display());
    for line in [up("host"), up("room")] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in:\n{metrics}");
    }
    let ended = folder.run(&["restart", "attic", "--host", &address]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("there is no service `attic`"), "{ended:?}");
    // A host ends by a signal.
    let ended = folder.run(&["stop", &address, "--timeout", "30s"]);
    let expected = format!("{address}: process {} has ended\n", host.pid());
    assert_eq!((ended.code, &ended.stdout), (Some(0), &expected), "{ended:?}");
    assert_eq!(host.wait(Some(PATIENCE)).unwrap().unwrap().code(), Some(0));
    let ended = folder.run(&["status", "--host", &address]);
    assert_eq!(ended.code, Some(1));
    let why = format!("no host runs at {address}: start one with `nearcall host FILE.toml`");
    assert!(ended.stderr.contains(&why), "{ended:?}");
    assert!(!ended.stderr.contains("hunt"), "{ended:?}");
}

#[test]
fn a_host_that_is_missing_is_named_with_the_remedy() {
    let folder = Folder::new();
    fs::write(folder.path().join("services.toml"), services(&folder)).unwrap();
    let mut command = folder.command(&["host", "services.toml"]);
    command.env("NEARCALL_HOST", "/no such").stderr(Stdio::piped());
    let ended = command.output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(1), &b""[..]), "{error}");
    for part in ["error: cannot start /no such: ", "nearcall-host", "PATH", "NEARCALL_HOST"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn the_host_is_a_program_with_help_of_its_own() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_nearcall"));
    let program = program.with_file_name("examples/nearcall-host");
    let run = |words: &[&str]| {
        let ended = Command::new(&program).args(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code(), text(ended.stdout), text(ended.stderr))
    };
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    for part in ["Usage: nearcall-host", "--check", "--metrics <HOST:PORT>", "Exit code: 0"] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    let (code, version, _) = run(&["--version"]);
    assert_eq!((code, version.starts_with("nearcall-host 0.")), (Some(0), true), "{version}");
    let (code, out, error) = run(&["--nonsense"]);
    assert_eq!((code, &*out), (Some(2), ""));
    assert!(error.starts_with("error: unexpected argument '--nonsense'"), "{error}");
    // As its host starts it, but without a host.
    let (code, _, error) = run(&["--group"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("started by `nearcall host`"), "{error}");
}
