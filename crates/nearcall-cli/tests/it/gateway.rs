//! What `gateway` says, alone and below a host. What a gateway does is tested by `nearcall-grpc`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nearcall::server::RunningServer;
use nearcall::{Bytes, Client, Code, Deadline, Server};
use nearcall_grpc::{Forwarder, Gateway};
use nearcall_os::process::{self, Child};
use nearcall_testkit::echo::{EchoCaller, EchoDispatcher, Failure, Words};
use nearcall_testkit::support::Stateless;
use serde_json::Value;

use crate::program::{Ended, Folder};

/// Longest wait of one step.
const PATIENCE: Duration = Duration::from_secs(60);

const LISTEN: [&str; 3] = ["gateway", "--listen", "127.0.0.1:0"];

/// A runtime directory of its own, with a server of `echo.v1.Echo` in it.
struct Stage {
    folder: Folder,
    _echo: RunningServer,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::new();
        let directory = folder.path().join("runtime");
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let echo = format!("unix:{}/echo", directory.display());
        let server = Server::builder().register(EchoDispatcher::new(Stateless));
        Self { folder, _echo: server.listen(&echo).start().unwrap() }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("runtime")
    }

    fn address(&self, name: &str) -> String {
        format!("unix:{}/{name}", self.directory().display())
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Ended {
        self.folder.run_with(words, &[("NEARCALL_RUNTIME_DIR", &self.directory())])
    }

    /// Starts a gateway. Also returns the first line that it prints.
    fn start(&self, words: &[&str]) -> (Child, String) {
        let mut command = self.folder.command(words);
        command.env("NEARCALL_RUNTIME_DIR", self.directory()).stdout(Stdio::piped());
        let mut gateway = Child::spawn(&mut command).unwrap();
        let mut line = String::new();
        let output = gateway.pipes().stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        (gateway, line.trim_end().to_owned())
    }

    /// Asks the host until what it says is so, and returns that.
    #[track_caller]
    fn host_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Deadline::after(PATIENCE);
        let mut last = String::new();
        while !deadline.has_passed() {
            last = self.run(&["status", "--json"]).stdout;
            if let Ok(document) = serde_json::from_str(&last)
                && is_so(&document)
            {
                return document;
            }
        }
        panic!("still not: {what}: {last}");
    }
}

/// Calls the server of the stage through something at an address.
#[track_caller]
fn call(address: &str) {
    let echo = EchoCaller::new(&Client::new(), address).unwrap();
    let words = Words { number: 7, data: Bytes::from(vec![3; 100]) };
    assert_eq!(echo.say(&words).unwrap(), words);
    let failure = Failure { code: 5, text: "no such room".into() };
    assert_eq!(echo.fail(&failure).unwrap_err().code(), Code::NotFound);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = Folder::new();
    let mut cases = vec![
        (&["room"][..], 2, "names no interface"),
        (&["room=home.v1.Room,"], 2, "names no interface"),
        (&["a=x.Y", "--cert", "c.pem"], 2, "--key"),
        (&["a=x.Y", "--cert", "c.pem", "--key", "k.pem"], 1, "k.pem: "),
        (&["a=x.Y", "b=x.Y"], 1, "x.Y of \"b\" is not exposed: "),
        (&["a=x.Y", "--listen", "0.0.0.0:0"], 1, "plain text"),
        (&["unix:@no-such-server=x.Y", "--check"], 1, "does not answer for x.Y: UNAVAILABLE"),
    ];
    for (words, code, text) in cases.drain(..) {
        let ended = folder.run(&[&LISTEN, words].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
    for (words, code, text) in [
        (&["a=x.Y"][..], 2, "--listen"),
        (&["--listen", "127.0.0.1:0"], 2, "SERVER=NAME"),
        (&["--forward", "far"], 2, "names no gRPC server"),
        (&["--forward", "far=grpc://a:1/"], 2, "names no gRPC server"),
        (&["--forward", "far=http://a:1"], 1, "`http` is no scheme of a gRPC server"),
        (&["--forward=a=grpc://a:1", "--forward=a=grpc://b:1"], 2, "would have the name a"),
        (&["--forward=a=grpc://a:1", "--name=a"], 2, "would have the name a"),
        (&["--forward=a=grpc://a:1", "--descriptors=absent"], 1, "absent: cannot be read"),
        (&["--forward=a=grpc://127.0.0.1:1", "--check"], 1, "does not forward to"),
    ] {
        let ended = folder.run(&[&["gateway"], words].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn a_gateway_is_asked_by_its_name_and_another_one_leads_to_it() {
    let stage = Stage::new();
    let exposed = format!("{}=echo.v1.Echo", stage.address("echo"));
    let (mut near, line) = stage.start(&[&LISTEN[..], &["--name", "front", &exposed]].concat());
    let place = line.strip_prefix("listening at ").unwrap();
    let forward = format!("far=grpc://{place}");
    let checked = stage.run(&["gateway", "--forward", &forward, "--check"]);
    assert_eq!(checked.stdout, format!("grpc://{place} can be called as far\n"), "{checked:?}");
    let (mut far, line) = stage.start(&["gateway", "--forward", &forward]);
    assert_eq!(line, format!("forwarding far to grpc://{place}: echo.v1.Echo"));
    call(&stage.address("far"));
    let listed = stage.run(&["list"]).stdout;
    let row = listed.lines().find(|line| line.contains("nearcall.v1.Gateway")).unwrap();
    assert!(row.contains("front") && row.ends_with("serving"), "{row}");
    // A gateway behind a gateway.
    let behind = format!("grpc://{place}=echo.v1.Echo");
    let checked = stage.run(&[&LISTEN[..], &[&behind, "--check"]].concat());
    let answer = "the servers answer for all interfaces: 1\n";
    assert_eq!(checked.stdout, answer, "{checked:?}");
    let taken = stage.run(&["gateway", "--forward", &forward]);
    assert_eq!(taken.code, Some(1));
    assert!(taken.stderr.contains("in use by another server"), "{taken:?}");

    let ended = stage.run(&["status", "front", "--json"]);
    let figures: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&figures["schema"], &figures["name"]),
        (&"nearcall.gateway/1".into(), &"front".into())
    );
    assert_eq!(figures["addresses"], Value::from(vec![place]));
    assert_eq!((&figures["calls_ended"]["NOT_FOUND"], &figures["calls"]), (&1.into(), &0.into()));
    assert!(figures["bytes_in"].as_u64().unwrap() > 100, "{figures}");
    let ended = stage.run(&["status", "front"]);
    assert!(ended.stdout.contains(&format!("{place}; calls ended: 1 NOT_FOUND, ")), "{ended:?}");
    let ended = stage.run(&["status", "far"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("nearcall.v1.Gateway"), "{ended:?}");
    for (name, gateway) in [("far", &mut far), ("front", &mut near)] {
        let ended = stage.run(&["stop", name]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(gateway.wait(Some(PATIENCE)).unwrap().unwrap().code(), Some(0));
    }
}

#[test]
fn a_host_runs_a_gateway_as_its_services() {
    let stage = Stage::new();
    let echo = stage.address("echo");
    let away = Gateway::builder().expose(&echo, &["echo.v1.Echo"]).listen("127.0.0.1:0");
    let away = away.start().unwrap();
    let file = format!(
        "[gateway.front]\nlisten = \"127.0.0.1:0\"\nready-within = \"60s\"\n\
         back-off-min = \"1ms\"\nexpose.\"{echo}\" = [\"echo.v1.Echo\"]\nforward.far = \"grpc://{}\"\n",
        away.addresses()[0]
    );
    let path = stage.folder.path().join("services.toml");
    for (from, to, text) in [
        ("expose", "exposes", "unknown field `exposes`"),
        ("listen = \"127.0.0.1:0\"", "", "`listen` says where peers call"),
        ("grpc://", "http://", "`forward` leads to gRPC servers"),
        ("listen", "cert = \"absent.pem\"\nkey = \"absent.key\"\nlisten", "absent.pem: No such"),
        ("forward.far", "forward.front", "service `front` listens at front, and so does"),
    ] {
        fs::write(&path, file.replacen(from, to, 1)).unwrap();
        let ended = stage.run(&["host", "services.toml", "--check"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
    fs::write(&path, &file).unwrap();
    let ended = stage.run(&["host", "services.toml", "--check"]);
    assert_eq!(ended.stdout, "services.toml: 2 services in 1 processes\n", "{ended:?}");

    let log = fs::File::create(stage.folder.path().join("log")).unwrap();
    let mut command = stage.folder.command(&["host", "services.toml"]);
    command.env("NEARCALL_RUNTIME_DIR", stage.directory()).stdout(Stdio::null()).stderr(log);
    let mut host = Child::spawn(&mut command).unwrap();
    let is_up = |document: &Value| {
        let services = document["services"].as_array().unwrap();
        services.len() == 2 && services.iter().all(|service| service["state"] == "up")
    };
    let document = stage.host_until("both are up", is_up);
    let [front, far] = &document["services"].as_array().unwrap()[..] else { panic!() };
    assert_eq!((&front["run"], &front["group"]), (&"gateway".into(), &Value::Null), "{front}");
    assert_eq!((&far["name"], &far["group"]), (&"far".into(), &"front".into()), "{far}");
    let place = front["gateway"]["addresses"][0].as_str().unwrap();
    call(&stage.address("far"));
    let back = Forwarder::new(&stage.address("back"), &format!("grpc://{place}")).start().unwrap();
    call(&back.address().to_string());

    // The next process has the same sockets.
    let ended = stage.run(&["restart", "front"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "restarted front\n"), "{ended:?}");
    call(&back.address().to_string());
    call(&stage.address("far"));
    // The connection to the last process takes calls until its goodbye has come.
    let document = stage.host_until("calls come to the next process", |it| {
        call(&back.address().to_string());
        is_up(it) && it["services"][0]["gateway"]["calls_ended"]["NOT_FOUND"].is_u64()
    });
    let front = &document["services"][0];
    assert_eq!((&front["restarts"], &front["gateway"]["addresses"][0]), (&1.into(), &place.into()));
    let ended = stage.run(&["status"]);
    let line = ended.stdout.lines().find(|line| line.contains(&format!("{place}; calls ended: ")));
    assert!(line.is_some_and(|line| line.contains(" NOT_FOUND, ")), "{ended:?}");

    let killed = front["pid"].as_i64().unwrap();
    let pidfd = process::pidfd_open(i32::try_from(killed).unwrap()).unwrap();
    process::kill_pidfd(pidfd).unwrap();
    stage.host_until("it is started again", |it| is_up(it) && it["services"][0]["pid"] != killed);
    call(&stage.address("far"));
    call(&back.address().to_string());
    let ended = stage.run(&["stop", "nearcall-host", "--timeout", "30s"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(host.wait(Some(PATIENCE)).unwrap().unwrap().code(), Some(0));
}
