//! `describe` and `call` against live servers, as the walk-through in the book's
//! `guides/tools.md` has it.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use nearcall::dynamic::{
    DynamicDispatcher, DynamicRequest, DynamicService, Encoded, interface_from_descriptor_set,
};
use nearcall::server::RunningServer;
use nearcall::service::Interface;
use nearcall::{CallContext, Server, Status};
use nearcall_grpc::Gateway;
use nearcall_os::process::Child;
use nearcall_testkit::echo::EchoDispatcher;
use nearcall_testkit::streams::{Item, Plan, StreamsCaller};
use nearcall_testkit::support::Stateless;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto, ServiceDescriptorProto, SourceCodeInfo, source_code_info::Location,
};
use serde_json::Value;

use crate::program::Ended;
use crate::servers::Names;
use crate::top::OnTerminal;

const TOOLS: &str = include_str!("../../../../docs/book/src/guides/tools.md");

/// The interface of the first example of nearcall-examples, whose program has no `comments`.
fn thermostat(comments: &[&str]) -> &'static Interface {
    let field = FieldDescriptorProto {
        name: Some("celsius".into()),
        number: Some(1),
        label: Some(1),
        r#type: Some(1),
        json_name: Some("celsius".into()),
        ..Default::default()
    };
    let message = DescriptorProto {
        name: Some("Temperature".into()),
        field: vec![field],
        ..Default::default()
    };
    let method = MethodDescriptorProto {
        name: Some("SetTarget".into()),
        input_type: Some(".home.v1.Temperature".into()),
        output_type: Some(".home.v1.Temperature".into()),
        ..Default::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("Thermostat".into()),
        method: vec![method],
        ..Default::default()
    };
    let comments = comments.iter().map(|text| Location {
        path: vec![6, 0],
        span: vec![0, 0, 0],
        leading_comments: Some(format!(" {text}\n")),
        ..Default::default()
    });
    let file = FileDescriptorProto {
        name: Some("thermostat.proto".into()),
        package: Some("home.v1".into()),
        message_type: vec![message],
        service: vec![service],
        source_code_info: Some(SourceCodeInfo { location: comments.collect() }),
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    let set = FileDescriptorSet { file: vec![file] }.encode_to_vec();
    interface_from_descriptor_set(&set, "home.v1.Thermostat").unwrap()
}

/// A room, which returns the target before.
struct Room(Mutex<Encoded>);

impl Room {
    fn at(celsius: f64) -> Self {
        Self(Mutex::new(Encoded::from([&[9][..], &celsius.to_le_bytes()].concat())))
    }
}

impl DynamicService for Room {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, Status> {
        let DynamicRequest::Unary(request) = request else { panic!("it has one shape") };
        if let Some(mark) = context.metadata().get("mark") {
            context.add_header("mark", mark).unwrap();
            context.add_reply_metadata_bin("place-bin", &[7]).unwrap();
        }
        // Field 1, a double.
        let bytes: Vec<u8> = request.bytes().iter().skip(1).copied().collect();
        let celsius = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        if !(5.0..=30.0).contains(&celsius) {
            return Err(Status::out_of_range("a room has 5 to 30 degrees"));
        }
        Ok(std::mem::replace(&mut self.0.lock().unwrap(), request))
    }
}

/// Each shape with a stream.
struct Streams;

impl DynamicService for Streams {
    async fn serve(&self, _: CallContext, request: DynamicRequest) -> Result<Encoded, Status> {
        match request {
            DynamicRequest::Unary(request) => Ok(request),
            DynamicRequest::ReplyStream(plan, mut items) => {
                let plan: Plan = plan.decode()?;
                for number in 0..plan.items {
                    items.send(&Encoded::new(&Item { number, ..Item::default() })?).await?;
                }
                match plan.code {
                    0 => Ok(Encoded::default()),
                    _ => Err(Status::aborted("as planned")),
                }
            }
            DynamicRequest::RequestStream(mut items) => {
                let mut number = 0;
                while let Some(item) = items.next().await {
                    number += item?.decode::<Item>()?.number;
                }
                Encoded::new(&Item { number, ..Item::default() })
            }
            DynamicRequest::BothStreams(mut items, mut replies) => {
                while let Some(item) = items.next().await {
                    replies.send(&item?).await?;
                }
                Ok(Encoded::default())
            }
        }
    }
}

/// A runtime directory with a server of the thermostat, echo and streams.
struct Stage {
    names: Names,
    server: RunningServer,
}

impl Stage {
    fn new() -> Self {
        let names = Names::new();
        let streams = StreamsCaller::INTERFACE;
        let streams = interface_from_descriptor_set(streams.descriptor_set, streams.name).unwrap();
        let thermostat = thermostat(&["Keeps a room warm."]);
        let server = Server::builder()
            .register(DynamicDispatcher::new(thermostat, Room::at(18.0)))
            .register_as("attic", DynamicDispatcher::new(thermostat, Room::at(12.0)))
            .register(DynamicDispatcher::new(streams, Streams))
            .register(EchoDispatcher::new(Stateless))
            .listen(&names.address("thermostat"))
            .start()
            .unwrap();
        Self { names, server }
    }

    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let ended = self.names.run(words);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{words:?}: {ended:?}");
        ended.stdout
    }

    #[track_caller]
    fn call(&self, words: &[&str]) -> Ended {
        self.names.run(&[&["call", "thermostat"], words].concat())
    }

    #[track_caller]
    fn bad(&self, code: i32, words: &[&str], texts: &[&str]) {
        let ended = self.names.run(words);
        assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{words:?}: {ended:?}");
        for text in texts {
            assert!(ended.stderr.contains(text), "{words:?}: no {text:?} in {}", ended.stderr);
        }
        let is_harmless = ended.stderr.chars().all(|it| it == '\n' || !it.is_control());
        assert!(is_harmless, "{words:?}: {ended:?}");
    }
}

#[test]
fn the_walk_through_is_what_the_program_prints() {
    let names = Names::new();
    let room = DynamicDispatcher::new(thermostat(&[]), Room::at(18.0));
    let server = Server::builder().register(room).listen(&names.address("thermostat"));
    let _server = server.start().unwrap();
    let (mut commands, mut lines) = (0, TOOLS.lines());
    while lines.by_ref().any(|line| line == "```console") {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut at = 0;
        while at < block.len() {
            let command = block[at].strip_prefix("$ nearcall ").unwrap();
            let shown: Vec<&str> =
                block[at + 1..].iter().take_while(|it| !it.starts_with("$ ")).copied().collect();
            at += 1 + shown.len();
            let ended = names.run(&words(command));
            let printed = format!("{}{}", ended.stdout, ended.stderr);
            assert_eq!(varying(&printed), varying(&shown.join("\n")), "{command}");
            commands += 1;
        }
    }
    assert!(commands >= 6, "{commands}");
}

/// Splits a command as a shell does: words may be in single quotes.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut left = command.trim();
    while !left.is_empty() {
        let (word, rest) = match left.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => left.split_once(' ').unwrap_or((left, "")),
        };
        words.push(word);
        left = rest.trim_start();
    }
    words
}

/// Has figures of lines that differ from run to run as `N`, and columns without their widths.
fn varying(text: &str) -> Vec<String> {
    let one = |line: &str| {
        let trimmed = line.trim_start();
        // A head above one column stands deeper than any text.
        let is_head = line.len() - trimmed.len() > 16;
        if !is_head && !["  ", " us", " s, "].iter().any(|mark| trimmed.contains(mark)) {
            return line.to_owned();
        }
        let words = line.split_whitespace().map(|word| {
            let is_figure = word.starts_with(|it: char| it.is_ascii_digit());
            if is_figure { "N" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(one).collect()
}

#[test]
fn a_server_is_described_as_proto_text() {
    let stage = Stage::new();
    let text = stage.good(&["describe", "thermostat", "Thermostat"]);
    let expected = "// thermostat.proto\nsyntax = \"proto3\";\n\npackage home.v1;\n\n\
                    // Keeps a room warm.\nservice Thermostat {\n  \
                    rpc SetTarget(Temperature) returns (Temperature);\n}\n\n\
                    message Temperature {\n  double celsius = 1;\n}\n";
    assert_eq!(text, expected);
    for item in ["home.v1.Thermostat.SetTarget", "Thermostat@attic/SetTarget"] {
        assert_eq!(stage.good(&["describe", "thermostat", item]), expected, "{item}");
    }
    for item in ["Temperature", "home.v1.Temperature", "Thermostat.Temperature"] {
        let text = stage.good(&["describe", "thermostat", item]);
        assert!(text.contains("message Temperature {") && !text.contains("service"), "{text}");
    }
    let all = stage.good(&["describe", "thermostat"]);
    for part in [
        "import \"nearcall/options.proto\";",
        "rpc Note(Words) returns (.google.protobuf.Empty) {\n    option (nearcall.oneway) = true;",
        "option idempotency_level = NO_SIDE_EFFECTS;",
        "option (nearcall.deadline_ms) = 20;",
        "rpc Exchange(stream Item) returns (stream Item);",
        "map<string, bytes> metadata = 5;",
    ] {
        assert!(all.contains(part), "no {part} in {all}");
    }
    assert!(!all.contains("nearcall.v1") && !all.contains("message Parcel"), "{all}");
    let own = stage.good(&["describe", "thermostat", "nearcall.v1.Server"]);
    assert!(own.contains("service Server {") && own.contains("optional int32 pid = 1;"), "{own}");
    let json = stage.good(&["describe", "thermostat", "Thermostat", "--json"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    let service = &document["services"][0];
    assert_eq!(service["objects"][1], "home.v1.Thermostat@attic", "{service}");
    assert_eq!(document["files"][0]["messageType"][0]["field"][0]["type"], "TYPE_DOUBLE");
    let echo = stage.good(&["describe", "thermostat", "Echo", "--json"]);
    assert!(echo.contains("\"[nearcall.oneway]\": true"), "{echo}");
}

#[test]
fn what_is_described_is_compiled_to_the_same_again() {
    let stage = Stage::new();
    let folder = stage.names.directory();
    let text = stage.good(&["describe", "thermostat", "Echo"]);
    let (file, out) = (folder.join("again.proto"), folder.join("out"));
    fs::create_dir(&out).unwrap();
    fs::write(&file, text).unwrap();
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    stage.good(&["gen", file, "--out-dir", out]);
    let made = fs::read_to_string(format!("{out}/echo.v1.rs")).unwrap();
    assert!(made.contains("MethodKind::Oneway") && made.contains("trait Echo"), "{made}");
}

#[test]
fn a_call_has_json_in_and_out() {
    let stage = Stage::new();
    let set = "Thermostat/SetTarget";
    let ended = stage.call(&[set, "{\"celsius\": 21.5}"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), "{\n  \"celsius\": 18.0\n}\n"), "{ended:?}");
    let ended = stage.call(&["home.v1.Thermostat.SetTarget", "celsius: 7", "--format", "text"]);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "celsius: 21.5"), "{ended:?}");
    let ended = stage.call(&["Thermostat@attic/SetTarget", "{\"celsius\": 9}"]);
    assert!(ended.stdout.contains("12.0"), "{ended:?}");
    let file = stage.names.directory().join("target.json");
    fs::write(&file, "{\"celsius\": 8}").unwrap();
    let words = [set, &format!("@{}", file.display()), "-v", "-H", "Mark: 17"];
    let ended = stage.call(&[&words[..], &["--mechanism", "unix-stream"]].concat());
    assert!(ended.stdout.contains("7.0"), "{ended:?}");
    for text in ["received:\nmark: 17\n", "place-bin: Bw==", "Mechanism: unix-stream, ", "\nTime: "]
    {
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
    let ended = stage.call(&["nearcall.v1.Server/Health", "--emit-defaults"]);
    assert!(ended.stdout.contains("\"health\": \"HEALTH_SERVING\""), "{ended:?}");
    let ended = stage.call(&["Echo/Note", "{\"number\": 1}"]);
    assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(0), "", ""));
    let words = ["Echo/Say", "{\"data\": \"AQI=\", \"number\": \"18446744073709551615\"}"];
    let ended = stage.call(&words);
    assert!(ended.stdout.contains("\"18446744073709551615\""), "{ended:?}");
    let ended = stage.call(&["Echo/Say", "--emit-defaults"]);
    assert!(ended.stdout.contains("\"number\": \"0\""), "{ended:?}");
}

#[test]
fn streams_are_lines() {
    let stage = Stage::new();
    let ended = stage.call(&["Streams/Count", "{\"items\": 3}"]);
    assert_eq!(ended.stdout, "{}\n{\"number\":\"1\"}\n{\"number\":\"2\"}\n", "{ended:?}");
    let ended = stage.call(&["Streams/Count", "{\"items\": 1, \"code\": 10}"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(74), "{}\n"), "{ended:?}");
    assert_eq!(ended.stderr, "ERROR:\n  Code: Aborted\n  Message: as planned\n");
    let ended = stage.call(&["Streams/Sum", "{\"number\": 1} {\"number\": 2}\n{\"number\": 3}"]);
    assert_eq!(ended.stdout, "{\n  \"number\": \"6\"\n}\n", "{ended:?}");
    let ended = stage.call(&["Streams/Exchange", "{\"number\": 1} {\"number\": 2}"]);
    assert_eq!(ended.stdout, "{\"number\":\"1\"}\n{\"number\":\"2\"}\n", "{ended:?}");
    let ended = stage.call(&["Streams/Exchange", "{\"number\": 1} {\"number\": "]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("at line 1 column "), "{ended:?}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let words =
        ["call", &stage.names.address("thermostat"), "Streams/Count", "{\"items\": 9999999}"];
    let ended = stage.names.0.run_into(&words, writer.into(), "/dev/null".as_ref());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
}

#[test]
fn replies_come_while_standard_input_is_open() {
    let stage = Stage::new();
    let at = stage.names.address("thermostat");
    let mut command = stage.names.0.command(&["call", &at, "Streams/Exchange", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Child::spawn(&mut command).unwrap();
    let mut input = child.pipes().stdin.take().unwrap();
    let mut output = std::io::BufReader::new(child.pipes().stdout.take().unwrap());
    for number in 1..4 {
        writeln!(input, "{{\"number\": {number}}}").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line, format!("{{\"number\":\"{number}\"}}\n"));
    }
    drop(input);
    let ended = child.wait(Some(std::time::Duration::from_secs(30))).unwrap();
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[test]
fn what_is_wrong_is_named_with_the_nearest() {
    let stage = Stage::new();
    let set = "Thermostat/SetTarget";
    let call = |words: &[&'static str]| [&["call", "thermostat"], words].concat();
    stage.bad(78, &["call", "thermosta", set], &["Code: Unavailable", "mean `thermostat`?"]);
    stage.bad(
        1,
        &["describe", "thermosta"],
        &["no server listens", "start the server, did you mean `thermostat`?"],
    );
    stage.bad(1, &call(&["Thermosta/SetTarget"]), &["mean `home.v1.Thermostat`?", "echo.v1.Echo"]);
    stage.bad(1, &call(&["Thermostat/SetTarge"]), &["no method", "did you mean `SetTarget`?"]);
    stage.bad(
        1,
        &["describe", "thermostat", "Temperatur"],
        &["did you mean `home.v1.Temperature`?"],
    );
    stage.bad(1, &call(&["a\u{1b}[2J/b\u{1b}"]), &["no service `a\\u{1b}[2J`"]);
    stage.bad(2, &call(&["SetTarget"]), &["names no method"]);
    stage.bad(1, &call(&[set, "{\"celsiu\": 1}"]), &["column 10", "did you mean `celsius`?"]);
    stage.bad(1, &call(&[set, "{\"celsius\":\n 1"]), &["EOF", "at line 2 column 2"]);
    stage.bad(1, &call(&[set, "{\"celsius\": true}"]), &["invalid type", "at line 1 column"]);
    stage.bad(1, &call(&[set, "{} {}"]), &["takes one request"]);
    stage.bad(1, &call(&[set, "@absent"]), &["absent: cannot read"]);
    stage.bad(1, &call(&[set, "--format", "text", "celsiu: 1"]), &["mean `celsius`?"]);
    stage.bad(1, &call(&["Echo/Work", "{\"ms\": 4294967296}"]), &["out of range", "column"]);
    stage.bad(1, &call(&["Echo/Work", "{\"ms\": -1}"]), &["out of range", "column"]);
    stage.bad(1, &call(&["nearcall.v1.Server/Describe", "{\"interface\": 1}"]), &["invalid type"]);
    stage.bad(75, &call(&[set, "{\"celsius\": 99}"]), &["Code: OutOfRange", "5 to 30 degrees"]);
    stage.bad(68, &call(&[set, "--deadline", "1ns"]), &["Code: DeadlineExceeded"]);
    stage.bad(2, &call(&[set, "-H", "trace"]), &["write a key and a value"]);
    stage.bad(2, &call(&[set, "-H", "a-bin: ?"]), &["no base64"]);
    stage.bad(2, &call(&[set, "-H", "a b: 1"]), &["a key has 1 to 255"]);
    stage.bad(2, &call(&[set, "--mechanism", "shm-futx"]), &["did you mean `shm-futex`?"]);
    stage.bad(1, &call(&["Streams/Count", "--repeat", "2"]), &["one request"]);
    stage.bad(78, &["call", "grpc://127.0.0.1:1", set], &["Code: Unavailable"]);
}

#[test]
fn a_server_that_is_none_of_nearcall_is_refused() {
    let stage = Stage::new();
    let _raw = UnixListener::bind(stage.names.directory().join("raw")).unwrap();
    let why = "another program has the address";
    stage.bad(73, &["call", "raw", "Thermostat/SetTarget"], &["Code: FailedPrecondition", why]);
    stage.bad(1, &["describe", "raw"], &[why]);
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp://{}", tcp.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        let (mut client, _) = tcp.accept().unwrap();
        let _ = client.write_all(b"HTTP/1.1 400 \x1b[2J\r\n\r\n");
    });
    stage.bad(1, &["describe", &at], &["cannot connect to"]);
    answers.join().unwrap();
}

#[test]
fn many_calls_are_summed_up_and_leave_nothing() {
    let stage = Stage::new();
    let words = ["Thermostat/SetTarget", "{\"celsius\": 20}", "--repeat", "400", "--rate", "20000"];
    let ended = stage.call(&[&words[..], &["--threads", "2"]].concat());
    assert!(ended.stdout.starts_with("400 calls in "), "{ended:?}");
    assert!(ended.stdout.contains(": 400 OK\n") && ended.stdout.contains("p99"), "{ended:?}");
    let ended = stage.call(&["Thermostat/SetTarget", "--repeat", "30", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["ended"]["OUT_OF_RANGE"], 30, "{document}");
    assert_eq!(document["times_us"]["p50"], Value::Null, "{document}");
    let before = descriptors();
    for _ in 0..20 {
        stage.call(&["Thermostat/SetTarget", "{\"celsius\": 20}"]);
    }
    let deadline = nearcall::Deadline::after(std::time::Duration::from_secs(30));
    while !(stage.server.connections().is_empty() || deadline.has_passed()) {
        std::thread::yield_now();
    }
    assert!(stage.server.connections().is_empty());
    // Other tests of this process open some as well.
    assert!(descriptors() < before + 200, "{before}");
    let at = stage.names.address("thermostat");
    let words = ["call", &at, "Streams/Say", "--repeat", "1000000000", "--rate", "100"];
    let printed = stage.names.0.interrupt(&words, |_, _| stage.server.connections().len() > 1);
    assert!(printed.contains(" calls in "), "{printed}");
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_grpc_server_is_described_and_called() {
    let stage = Stage::new();
    let at = stage.names.address("thermostat");
    let gateway = Gateway::builder()
        .expose(&at, &["home.v1.Thermostat", "streams.v1.Streams"])
        .listen("127.0.0.1:0")
        .start()
        .unwrap();
    let at = format!("grpc://{}", gateway.addresses()[0]);
    let text = stage.good(&["describe", &at]);
    assert!(text.contains("service Thermostat {") && text.contains("service Streams {"), "{text}");
    let text = stage.good(&["call", &at, "Thermostat/SetTarget", "{\"celsius\": 20}"]);
    assert!(text.contains("18.0"), "{text}");
    let text = stage.good(&["call", &at, "streams.v1.Streams/Count", "{\"items\": 2}"]);
    assert_eq!(text, "{}\n{\"number\":\"1\"}\n");
    let text = stage.good(&["call", &at, "Streams/Exchange", "{\"number\": 2}"]);
    assert_eq!(text, "{\"number\":\"2\"}\n");
    let ended = stage.names.run(&["call", &at, "Thermostat/SetTarget", "{\"celsius\": 1}"]);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let ended = stage.names.run(&["call", &at, "Thermosta/SetTarget"]);
    assert!(ended.stderr.contains("mean `home.v1.Thermostat`?"), "{ended:?}");
}

/// Asks for completion as the script of a shell does, with the cursor behind the last word.
fn completed(stage: &Stage, shell: &str, words: &[&str]) -> Vec<String> {
    let index = (words.len()).to_string();
    let directory = stage.names.directory();
    let variables = [
        ("NEARCALL_RUNTIME_DIR", &*directory),
        ("COMPLETE", shell.as_ref()),
        ("_CLAP_COMPLETE_INDEX", index.as_ref()),
        ("_CLAP_IFS", "\n".as_ref()),
    ];
    let words = [&["--", "nearcall"], words].concat();
    let ended = stage.names.0.run_with(&words, &variables);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    // As zsh needs a colon.
    ended.stdout.lines().map(|line| line.trim_end().replace("\\:", ":")).collect()
}

#[test]
fn shells_complete_against_live_servers() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish"] {
        let check = |words: &[&str], expected: &[&str]| {
            assert_eq!(completed(&stage, shell, words), expected, "{shell}: {words:?}");
        };
        check(&["call", "ther"], &["thermostat"]);
        check(&["call", "thermostat", "Thermostat/S"], &["Thermostat/SetTarget"]);
        check(
            &["call", "thermostat", "home.v1.Thermostat@"],
            &["home.v1.Thermostat@attic/SetTarget"],
        );
        check(&["call", "thermostat", "Echo/Work", "{\"m"], &["{\"ms\": "].map(str::trim_end));
        check(
            &["describe", "thermostat", "streams.v1.Streams.C"],
            &["streams.v1.Streams.Count", "streams.v1.Streams.CountQuickly"],
        );
        check(&["call", "absent", "Thermostat/S"], &[]);
        for verb in ["record", "replay", "explain", "switch", "stop", "top"] {
            let file: &[&str] = if verb == "replay" { &["room.rec"] } else { &[] };
            check(&[&[verb][..], file, &["ther"]].concat(), &["thermostat"]);
        }
    }
}

/// Words are typed in part and completed by the tab, and the line that comes of it is run.
#[test]
#[allow(clippy::print_stdout, reason = "a test that is skipped says so")]
fn shells_complete_what_is_typed() {
    let stage = Stage::new();
    let program = env!("CARGO_BIN_EXE_nearcall");
    let directory = std::path::Path::new(program).parent().unwrap().display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
    // A prompt that is not in the line which sets it.
    let bash = "PS1='rea''dy> '; source <(COMPLETE=bash nearcall)";
    let zsh = "PS1='rea''dy> '; autoload -U compinit; compinit -u -D; \
               source <(COMPLETE=zsh nearcall)";
    let fish = "function fish_prompt; echo -n 'rea''dy> '; end; COMPLETE=fish nearcall | source";
    for (shell, options, script) in
        [("bash", "--norc", bash), ("zsh", "-f", zsh), ("fish", "--no-config", fish)]
    {
        if Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: {shell} is not installed");
            continue;
        }
        // A shell with a terminal of its own, as a user has.
        let start = ["--ctty", "--wait", "sh", "-c", "exec \"$@\" 2>&1", "sh"];
        let words = [&start[..], &[shell, options, "-i"]].concat();
        let mut command = stage.names.0.command_of("setsid", &words);
        command.env("PATH", &path);
        let mut shell = OnTerminal::spawn(&stage.names, 100, "xterm", command);
        shell.press(&format!("{script}\n"));
        shell.expect("ready> ");
        shell.press("nearcall call ther\tThermostat/S\t\n");
        // Of a word that was not completed there is neither a server nor a method.
        shell.expect("a room has 5 to 30 degrees");
        shell.press("exit\n");
    }
}
