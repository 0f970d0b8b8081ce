//! Scrapes of servers that run, as Prometheus makes them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nearcall_prometheus::{CONNECTIONS_MAX, Endpoint};
use nearcall_testkit::echo::{EchoCaller, Failure};
use nearcall_testkit::support::{Served, unique_address};

/// Far above what a scrape takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request and returns the answer, head included.
fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{request}\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn expect_line(text: &str, line: &str) {
    assert!(text.lines().any(|it| it == line), "{line:?} is not in:\n{text}");
}

#[test]
fn a_scrape_shows_what_servers_have_counted_and_which_are_missing() {
    let served = Served::start();
    let (here, gone) = (served.address.clone(), unique_address());
    let metrics = Endpoint::listen("127.0.0.1:0", [here.as_str(), gone.as_str()]).unwrap();
    let echo = served.echo("");
    for _ in 0..7 {
        echo.nothing(&()).unwrap();
    }
    let failure = Failure { code: 5, ..Failure::default() };
    echo.fail(&failure).unwrap_err();

    let answer = ask(metrics.address(), "GET /metrics HTTP/1.1");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let object = EchoCaller::INTERFACE.name;
    let labels = |method| format!("server=\"{here}\",object=\"{object}\",method=\"{method}\"");
    expect_line(text, &format!("nearcall_up{{server=\"{here}\"}} 1"));
    expect_line(text, &format!("nearcall_up{{server=\"{gone}\"}} 0"));
    expect_line(text, &format!("nearcall_calls_total{{{}}} 7", labels("Nothing")));
    let failed = format!("{},code=\"NOT_FOUND\"", labels("Fail"));
    expect_line(text, &format!("nearcall_errors_total{{{failed}}} 1"));
    expect_line(text, &format!("nearcall_in_flight{{{}}} 0", labels("Nothing")));
    expect_line(text, &format!("nearcall_connections{{server=\"{here}\",mechanism=\"shm\"}} 1"));
    // The first call of a method is timed.
    let count = format!("nearcall_call_duration_seconds_count{{{}}} 1", labels("Nothing"));
    expect_line(text, &count);
}

#[test]
fn other_requests_are_refused_with_what_to_ask() {
    let metrics = Endpoint::listen("127.0.0.1:0", ["absent"]).unwrap();
    for (request, status, text) in [
        ("GET / HTTP/1.1", "404", "the counters are at /metrics"),
        ("POST /metrics HTTP/1.1", "405", "ask by GET"),
        ("nonsense", "400", ""),
    ] {
        let answer = ask(metrics.address(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(text), "{answer}");
    }
}

/// Clients that send nothing take no more than their own places.
#[test]
fn idle_clients_keep_others_waiting_for_a_time_only() {
    let metrics = Endpoint::listen("127.0.0.1:0", ["absent"]).unwrap();
    let idle: Vec<_> =
        (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(metrics.address()).unwrap()).collect();
    let answer = ask(metrics.address(), "GET /metrics HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop(idle);
}

#[test]
fn bad_servers_and_places_are_errors_of_listening() {
    let error = Endpoint::listen("127.0.0.1:0", ["tcp://"]).unwrap_err();
    assert!(error.to_string().starts_with("\"tcp://\": "), "{error}");
    let first = Endpoint::listen("127.0.0.1:0", ["absent"]).unwrap();
    let error = Endpoint::listen(first.address(), ["absent"]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let address = first.address();
    drop(first);
    Endpoint::listen(address, ["absent"]).unwrap();
}
