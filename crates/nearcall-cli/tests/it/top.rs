//! `nearcall top`: as text, as JSON, and on a pseudo-terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall::{Client, Server};
use nearcall_os::poll::{self, Interest};
use nearcall_os::process::Child;
use nearcall_os::signal::{self, Signal};
use nearcall_os::{Deadline, clock};
use nearcall_testkit::echo::{EchoCaller, EchoDispatcher, Failure, Words};
use nearcall_testkit::support::Stateless;
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{self, Winsize};
use serde_json::Value;

use crate::servers::Names;

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `then` while a server of this name is called all the time.
fn while_called<T>(names: &Names, name: &str, then: impl FnOnce() -> T) -> T {
    let address = names.address(name);
    let server = Server::builder().register(EchoDispatcher::new(Stateless));
    let server = server.listen(&address).start().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let echo = EchoCaller::new(&Client::new(), &address).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..64 {
                    echo.say(&Words { number, ..Words::default() }).unwrap();
                }
                echo.fail(&Failure { code: 10, text: "asked".to_owned() }).unwrap_err();
                clock::pause(Duration::from_millis(5));
            }
        });
        let outcome = then();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome
    });
    server.stop().unwrap();
    outcome
}

#[test]
fn each_tick_is_a_document_in_a_line() {
    let names = Names::new();
    let words = ["top", "--json", "--count", "2", "--interval", "300ms"];
    let ended = while_called(&names, "called", || names.run(&words));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let ticks: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ticks.len(), 2);
    for tick in ticks {
        assert_eq!(tick["schema"], "nearcall.top/1");
        assert!(tick["interval_s"].as_f64().unwrap() >= 0.3);
        let [server] = &tick["servers"].as_array().unwrap()[..] else { panic!("{tick}") };
        assert_eq!((&server["server"], &server["state"]), (&"called".into(), &"serving".into()));
        assert_eq!(server["pid"], std::process::id());
        assert!(server["calls_per_s"].as_f64().unwrap() > 0.0, "{server}");
        assert!(server["errors_per_s"].as_f64().unwrap() > 0.0, "{server}");
        assert!(server["cpu"].as_f64().unwrap() > 0.0, "{server}");
        assert_eq!((&server["connections"], &server["mechanism"]), (&1.into(), &"shm".into()));
        let methods = tick["methods"].as_array().unwrap();
        let say = methods.iter().find(|it| it["method"] == "echo.v1.Echo/Say").unwrap();
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|name| say[name].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99 && say["timed"].as_u64() > Some(0), "{say}");
        let [client] = &tick["connections"].as_array().unwrap()[..] else { panic!("{tick}") };
        assert_eq!(client["client"], format!("pid {}", std::process::id()));
        assert_eq!(client["state"], "active");
        assert!(client["cpus"].as_array().unwrap().iter().all(Value::is_number), "{client}");
    }
}

#[test]
fn without_a_terminal_each_tick_is_a_block_of_text() {
    let names = Names::new();
    let words = ["top", "called", "--by", "methods", "--filter", "SAY", "--count", "1"];
    let ended = while_called(&names, "called", || names.run(&words));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert!(ended.stdout.starts_with("methods in 1.0"), "{}", ended.stdout);
    let rows: Vec<_> = ended.stdout.lines().filter(|line| line.contains("echo.v1.Echo/")).collect();
    let [row] = rows[..] else { panic!("{}", ended.stdout) };
    assert!(row.contains("echo.v1.Echo/Say") && row.contains("called"), "{row}");
}

#[test]
fn servers_without_counters_are_rows_with_the_reason() {
    let names = Names::new();
    let killed = names.serve("killed");
    let socket = names.directory().join("killed");
    std::fs::rename(&socket, names.directory().join("gone")).unwrap();
    killed.stop().unwrap();
    let ended = names.run(&["top", "--count", "1", "--interval", "100ms"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("gone") && ended.stdout.contains("stale"), "{ended:?}");
    let empty = Names::new();
    let ended = empty.run(&["top", "--count", "1", "--interval", "100ms"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.starts_with("no server yet in the runtime directory "), "{ended:?}");
    let ended = empty.run(&["top", "nothing-here", "--count", "1", "--interval", "100ms"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("stale: no process listens"), "{ended:?}");
    for wrong in [["--interval", "1ms"], ["--sort", "colour"], ["--count", "0"]] {
        let ended = empty.run(&[&["top"][..], &wrong].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
}

/// The program on a pseudo-terminal, and what it has written there.
pub(crate) struct OnTerminal {
    program: Child,
    ours: File,
    theirs: OwnedFd,
    before: termios::Termios,
    written: String,
}

impl OnTerminal {
    fn start(names: &Names, columns: u16, term: &str, words: &[&str]) -> Self {
        Self::spawn(names, columns, term, names.folder().command(words))
    }

    pub(crate) fn spawn(names: &Names, columns: u16, term: &str, mut command: Command) -> Self {
        let ours = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        pty::unlockpt(&ours).unwrap();
        let path = pty::ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs: OwnedFd = File::options().read(true).write(true).open(path).unwrap().into();
        let size = Winsize { ws_row: 20, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        termios::tcsetwinsize(&theirs, size).unwrap();
        let before = termios::tcgetattr(&theirs).unwrap();
        command.env("TERM", term).env("NEARCALL_RUNTIME_DIR", names.directory());
        command.stdin(Stdio::from(theirs.try_clone().unwrap()));
        command.stdout(Stdio::from(theirs.try_clone().unwrap()));
        let program = Child::spawn(&mut command).unwrap();
        Self { program, ours: ours.into(), theirs, before, written: String::new() }
    }

    /// Reads until the screen shows this text, or it was written.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let until = clock::now() + PATIENCE;
        while !self.written.contains(text) && !screen(&self.written).contains(text) {
            let ready =
                poll::poll_one(&self.ours, Interest::Readable, Deadline::at(until)).unwrap();
            assert!(ready.is_some(), "no {text:?} in {:?}", self.written);
            let mut bytes = [0; 4096];
            let count = self.ours.read(&mut bytes).unwrap();
            self.written.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end. Checks that the terminal is as it was.
    #[track_caller]
    fn end(mut self, code: i32) {
        let status = self.program.wait(Some(PATIENCE)).unwrap().expect("it ends");
        assert_eq!(status.code(), Some(code));
        self.expect("\u{1b}[?1049l");
        let after = termios::tcgetattr(&self.theirs).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
    }
}

/// Returns what a terminal shows that was sent this: a program writes only what has changed.
fn screen(written: &str) -> String {
    let mut lines = vec![Vec::<char>::new(); ROWS];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                let mut sequence = String::new();
                for c in rest.by_ref() {
                    sequence.push(c);
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
                let numbers = sequence.trim_matches(|c: char| !c.is_ascii_digit()).split(';');
                let numbers: Vec<usize> = numbers.filter_map(|it| it.parse().ok()).collect();
                match sequence.chars().last() {
                    Some('H') => {
                        row = numbers.first().map_or(0, |row| row - 1).min(ROWS - 1);
                        column = numbers.get(1).map_or(0, |column| column - 1);
                    }
                    Some('J') => lines.iter_mut().for_each(Vec::clear),
                    _ => {}
                }
            }
            c if !c.is_control() => {
                if column >= lines[row].len() {
                    lines[row].resize(column + 1, ' ');
                }
                lines[row][column] = c;
                column += 1;
            }
            _ => {}
        }
    }
    let lines = lines.into_iter().map(|line| line.into_iter().collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// Rows of the terminal.
const ROWS: usize = 20;

#[test]
fn keys_lead_from_servers_to_methods_and_back() {
    let names = Names::new();
    while_called(&names, "called", || {
        let words = ["top", "--interval", "200ms"];
        let mut top = OnTerminal::start(&names, 120, "xterm-256color", &words);
        top.expect("1 servers, most calls first");
        top.expect("serving");
        top.press("\r");
        top.expect("methods of called");
        top.expect("echo.v1.Echo/Say");
        top.press("s");
        top.expect("most p50 first");
        top.press("/fail\r");
        top.expect("1 methods of called, with `fail`");
        top.press("\u{1b}");
        top.expect("methods of called, most");
        top.press("\u{1b}");
        top.expect("1 servers, most p50 first");
        top.press("c");
        top.expect("1 connections, most p50 first");
        top.expect(&format!("pid {}", std::process::id()));
        top.press("q");
        top.end(0);
    });
}

#[test]
fn a_narrow_terminal_has_the_name_and_the_rate() {
    let names = Names::new();
    while_called(&names, "called", || {
        for columns in [40, 20, 5] {
            let words = ["top", "--interval", "200ms"];
            let mut top = OnTerminal::start(&names, columns, "xterm", &words);
            top.expect(if columns == 40 { "calls/s" } else { "ser" });
            top.press("q");
            top.end(0);
        }
    });
}

#[test]
fn ctrl_c_and_sigterm_leave_the_terminal_as_it_was() {
    let names = Names::new();
    let _server = names.serve("idle");
    let mut top = OnTerminal::start(&names, 80, "xterm", &["top"]);
    top.expect("idle");
    top.press("\u{3}");
    top.end(130);
    for signal in [Signal::TERM, Signal::INT] {
        let mut top = OnTerminal::start(&names, 80, "xterm", &["top"]);
        top.expect("idle");
        signal::send_by_pidfd(top.program.pidfd(), signal).unwrap();
        top.end(130);
    }
    // The last tick ends it, too.
    let top =
        OnTerminal::start(&names, 80, "xterm", &["top", "--count", "2", "--interval", "100ms"]);
    top.end(0);
}

#[test]
fn a_dumb_terminal_gets_text() {
    let names = Names::new();
    let _server = names.serve("idle");
    let words = ["top", "--count", "1", "--interval", "100ms"];
    let mut top = OnTerminal::start(&names, 40, "dumb", &words);
    top.expect("servers in");
    top.expect("idle");
    let status = top.program.wait(Some(PATIENCE)).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert!(!top.written.contains('\u{1b}'), "{:?}", top.written);
}

#[test]
fn a_reader_that_goes_ends_it() {
    let names = Names::new();
    let _server = names.serve("idle");
    for words in [["top", "--interval", "100ms", "--json"], ["top", "--interval", "100ms", "idle"]]
    {
        let mut command = names.folder().command(&words);
        command.env("NEARCALL_RUNTIME_DIR", names.directory()).stdout(Stdio::piped());
        let mut program = Child::spawn(&mut command).unwrap();
        let mut first = String::new();
        let stdout = program.pipes().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let status = program.wait(Some(PATIENCE)).unwrap().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }
}

/// Each command of the page that is about `top` or `doctor` does what the page says.
#[test]
fn the_commands_of_the_page_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/guides/tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    let commands = page.lines().filter_map(|line| line.strip_prefix("nearcall "));
    let commands = commands.map(|words| words.split_whitespace().collect::<Vec<_>>());
    let ours: Vec<_> = commands.filter(|words| ["top", "doctor"].contains(&words[0])).collect();
    assert!(ours.len() >= 4, "{ours:?}");
    let names = Names::new();
    while_called(&names, "thermostat", || {
        for words in ours {
            if words == ["top"] {
                let mut top = OnTerminal::start(&names, 100, "xterm", &words);
                top.expect("thermostat");
                top.press("q");
                top.end(0);
                continue;
            }
            let ended = names.run(&words);
            assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{words:?}");
            let expected = if words[0] == "doctor" { "server_names" } else { "echo.v1.Echo/Say" };
            assert!(ended.stdout.contains(expected), "{words:?}: {}", ended.stdout);
        }
    });
}
