//! The program `nearcall-host`: its arguments, its exit codes, and what it prints.
//!
//! A program of its own, so that a device needs neither the measurements nor the code generator of
//! `nearcall`. `nearcall host` has the same arguments and becomes this program.
//! **Invariants:** text that files and services have chosen is printed without control characters.
//! **Not here:** what a host does (`host.rs`, `worker.rs`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nearcall_prometheus::Endpoint;

use crate::{Config, Ending, HostOptions, run as run_host, run_worker};

/// The name of the program.
pub const PROGRAM: &str = "nearcall-host";

/// The program that is the process of a group of libraries, if it lies beside this one.
pub const GROUP_PROGRAM: &str = "nearcall-group";

/// The argument with which either program is the process of a group of libraries, whose host it is
/// started by.
pub const GROUP: &str = "--group";

/// The option that names the program of gateways.
pub const GATEWAY: &str = "--gateway";

/// The program whose command `gateway` is a gateway.
const GATEWAY_PROGRAM: &str = "nearcall";

const USAGE: &str = "\
Run a set of services that a file names, and keep them running

Usage: nearcall-host [OPTIONS] <FILE.toml>

Arguments:
  <FILE.toml>            The services: a table `[service.NAME]` or `[gateway.NAME]` for each

Options:
      --check            Check the file and the programs that it names, and start nothing
      --metrics <HOST:PORT>
                         Show the counters of the host and of the services that FILE names at
                         start to Prometheus: at http://HOST:PORT/metrics, without encryption,
                         so choose a loopback address
      --gateway <PROGRAM>
                         The program nearcall, which gateways are; by default the one beside this
                         program, or in PATH
  -h, --help             Print help
  -V, --version          Print version

SIGTERM stops the services in order, a second one at once; SIGHUP applies what has changed in
the file.

Exit code: 0 stopped; 1 the file or the host's address cannot be used; 2 usage error; 130
stopped at once by a second signal.
";

/// What the program is asked to do.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Host(Arguments),
    Group,
    Help,
    Version,
}

/// The arguments of a host.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    file: PathBuf,
    check: bool,
    metrics: Option<String>,
    gateway: Option<OsString>,
}

/// Runs the program with these arguments, without its name, and returns its exit code.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome = match parse(arguments) {
        Ok(Request::Help) => print(USAGE).map(|()| ExitCode::SUCCESS),
        Ok(Request::Version) => print(concat!("nearcall-host ", env!("CARGO_PKG_VERSION"), "\n"))
            .map(|()| ExitCode::SUCCESS),
        Ok(Request::Group) => run_worker(io::stdin().lock()),
        Ok(Request::Host(arguments)) => host(&arguments),
        Err(wrong) => {
            print_line(&format!("error: {wrong}"));
            print_line("For more information, try '--help'.");
            Ok(ExitCode::from(CODE_USAGE))
        }
    };
    outcome.unwrap_or_else(|error| {
        print_line(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments = arguments;
    let (mut found, mut file) = (Arguments::default(), None);
    let mut may_be_option = true;
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().filter(|text| may_be_option && text.starts_with('-'));
        let (name, attached) = match text.and_then(|text| text.split_once('=')) {
            Some((name, value)) => (Some(name), Some(OsString::from(value))),
            None => (text, None),
        };
        let mut value = |name: &str| {
            let value = attached.clone().or_else(|| arguments.next());
            value.ok_or_else(|| format!("a value is required for '{name}'"))
        };
        match name {
            Some("--") => may_be_option = false,
            Some("-h" | "--help") => return Ok(Request::Help),
            Some("-V" | "--version") => return Ok(Request::Version),
            Some("--check") if attached.is_none() => found.check = true,
            Some(GROUP) if attached.is_none() => return Ok(Request::Group),
            Some(name @ "--metrics") => {
                let place = value(name)?.into_string();
                found.metrics = Some(place.map_err(|_| format!("'{name}' takes HOST:PORT"))?);
            }
            Some(name @ GATEWAY) => found.gateway = Some(value(name)?),
            Some(_) => {
                return Err(format!("unexpected argument '{}'", argument.to_string_lossy()));
            }
            None if file.is_none() => file = Some(argument),
            None => {
                return Err(format!("unexpected argument '{}'", argument.to_string_lossy()));
            }
        }
    }
    found.file = file.ok_or("the file that names the services is missing: <FILE.toml>")?.into();
    Ok(Request::Host(found))
}

/// Why a host does not run.
type Failure = Box<dyn std::error::Error>;

fn host(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let config = Config::read(&arguments.file)?;
    if arguments.check {
        return check(&config, &arguments.file);
    }
    let listen = |place: &String| {
        let endpoint = Endpoint::listen(place, config.server_addresses());
        endpoint.map_err(|error| format!("cannot show metrics at {place}: {error}"))
    };
    let metrics = arguments.metrics.as_ref().map(listen).transpose()?;
    if let Some(metrics) = &metrics {
        print_line(&format!("metrics: http://{}/metrics", metrics.address()));
    }
    let gateway = gateway_program(arguments);
    if config.has_gateways() && !is_found(&gateway) {
        return Err(format!(
            "this file has gateways, and there is no program {}, which they are: install \
             `{GATEWAY_PROGRAM}` beside {PROGRAM} or in PATH, or name it by {GATEWAY}",
            gateway.to_string_lossy()
        )
        .into());
    }
    // Without the smaller one, or where others may write it, this program as it runs now. Either
    // file may be replaced meanwhile: what is said to a group only ever grows.
    let worker = find_beside_self(GROUP_PROGRAM)
        .filter(|found| crate::config::open_program(found).is_ok())
        .map(PathBuf::into_os_string);
    let worker = vec![worker.unwrap_or_else(|| "/proc/self/exe".into()), GROUP.into()];
    let gateway = vec![gateway, "gateway".into()];
    let options = HostOptions { worker, gateway, log: Box::new(print_line) };
    match run_host(config, options)? {
        Ending::Done => Ok(ExitCode::SUCCESS),
        Ending::AtOnce => Ok(ExitCode::from(CODE_INTERRUPTED)),
    }
}

fn check(config: &Config, file: &Path) -> Result<ExitCode, Failure> {
    let file = file.display();
    let checked = config.check_libraries();
    checked.map_err(|(service, why)| format!("{file}: service `{service}`: {why}"))?;
    let placed = config.check_places();
    placed.map_err(|(address, why)| format!("{file}: cannot listen at {address}: {why}"))?;
    let (services, processes) = (config.service_count(), config.process_count());
    print(&format!("{}: {services} services in {processes} processes\n", printable(&file)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the program of gateways: the one that is named, or the one beside this program, or a
/// name that is looked for in PATH.
fn gateway_program(arguments: &Arguments) -> OsString {
    let beside = || find_beside_self(GATEWAY_PROGRAM).map(PathBuf::into_os_string);
    let named = arguments.gateway.clone().or_else(beside);
    named.unwrap_or_else(|| GATEWAY_PROGRAM.into())
}

/// Returns the file with this name in the directory of the running program, if there is one.
#[must_use]
pub fn find_beside_self(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    Some(own.parent()?.join(name)).filter(|path| path.is_file())
}

/// Returns whether a program is there: at its path, or in PATH if it is a mere name.
fn is_found(program: &OsStr) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Writes a result to standard output. A reader that has closed the pipe is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Writes a line, or several, to standard error. If that fails, it is lost.
fn print_line(text: &str) {
    let lines: Vec<String> = text.split('\n').map(|line| printable(&line)).collect();
    let _ = io::stderr().lock().write_all((lines.join("\n") + "\n").as_bytes());
}

/// Returns the text with control characters, and those that are not seen, escaped.
fn printable(text: &impl fmt::Display) -> String {
    let mut out = String::new();
    for c in text.to_string().chars() {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

const CODE_USAGE: u8 = 2;

/// As shells report a program that SIGINT has ended.
const CODE_INTERRUPTED: u8 = 130;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(line.split_ascii_whitespace().map(OsString::from))
    }

    #[test]
    fn arguments_are_read_in_any_order_and_unknown_ones_are_named() {
        let all = Arguments {
            file: "a.toml".into(),
            check: true,
            metrics: Some("127.0.0.1:1".into()),
            gateway: Some("/n".into()),
        };
        let line = "--metrics 127.0.0.1:1 a.toml --gateway=/n --check";
        assert_eq!(parsed(line), Ok(Request::Host(all)));
        let dashed = Arguments { file: "--check".into(), ..Arguments::default() };
        assert_eq!(parsed("-- --check"), Ok(Request::Host(dashed)));
        assert_eq!(parsed("--group"), Ok(Request::Group));
        assert_eq!(parsed("a.toml --help"), Ok(Request::Help));
        for (line, part) in [
            ("", "<FILE.toml>"),
            ("a b", "unexpected argument 'b'"),
            ("--chek a", "'--chek'"),
            ("--check=1 a", "'--check=1'"),
            ("a --metrics", "'--metrics'"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn a_program_is_looked_for_by_its_path_or_in_path() {
        assert!(is_found("/bin/sh".as_ref()) && is_found("sh".as_ref()));
        assert!(!is_found("/bin/no such".as_ref()) && !is_found("no such".as_ref()));
        assert_eq!(printable(&"a\u{1b}[2J'b'"), "a\\u{1b}[2J'b'");
    }
}
