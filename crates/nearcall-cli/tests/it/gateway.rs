//! What `gateway` says. What a gateway does is tested by `nearcall-grpc`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use nearcall_os::process::{self, Child};

use crate::program::Folder;

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(60);

const LISTEN: [&str; 3] = ["gateway", "--listen", "127.0.0.1:0"];

#[test]
fn what_is_wrong_is_said() {
    let folder = Folder::new();
    for (words, code, text) in [
        (&["room"][..], 2, "names no interface"),
        (&["room=home.v1.Room,"], 2, "names no interface"),
        (&["a=x.Y", "--cert", "c.pem"], 2, "--key"),
        (&["a=x.Y", "--cert", "c.pem", "--key", "k.pem"], 1, "k.pem: "),
        (&["a=x.Y", "b=x.Y"], 1, "x.Y of \"b\" is not exposed: "),
        (&["a=x.Y", "--listen", "0.0.0.0:0"], 1, "plain text"),
        (&["unix:@no-such-server=x.Y", "--check"], 1, "does not answer for x.Y: UNAVAILABLE"),
    ] {
        let ended = folder.run(&[&LISTEN, words].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn a_gateway_ends_by_a_signal() {
    let folder = Folder::new();
    let mut command = folder.command(&[&LISTEN[..], &["unix:@no-such-server=x.Y"]].concat());
    let mut gateway = Child::spawn(command.stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    let output = gateway.pipes().stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening at 127.0.0.1:"), "{line}");
    process::terminate_pidfd(gateway.pidfd()).unwrap();
    assert_eq!(gateway.wait(Some(PATIENCE)).unwrap().unwrap().code(), Some(0));
}
