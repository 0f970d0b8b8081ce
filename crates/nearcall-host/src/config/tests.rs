//! What a file may say, and what is said of one that may not.

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    let source = Source { path: Path::new("/etc/services.toml"), text };
    Config::parse(&source).map(|(config, _)| config).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = parse(text).expect_err("it is refused");
    assert!(error.starts_with("/etc/services.toml:"), "{error}");
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

fn process(name: &str, rest: &str) -> String {
    let file = name.trim_matches('"');
    format!("[service.{name}]\nrun = \"process\"\nfile = \"bin/{file}\"\n{rest}\n")
}

fn library(name: &str, rest: &str) -> String {
    format!("[service.{name}]\nrun = \"library\"\nfile = \"/lib/{name}.so\"\n{rest}\n")
}

#[test]
fn services_become_units_in_the_order_in_which_they_start() {
    let text = [
        process("room", "after = [\"clock\", \"log\"]\nlisten = \"unix:@room\""),
        library("log", "group = \"small\"\nready-within = \"2s\""),
        process("clock", "restart = \"always\"\nrestart-limit = 0\nback-off-max = \"50ms\""),
        library("users", "group = \"small\"\nready-within = \"3s\"\nwatchdog = \"1m\""),
        library("alone", "environment = { A = \"1\" }\narguments = [\"x y\"]"),
    ];
    let config = parse(&text.concat()).unwrap();
    let names: Vec<_> = config.units.iter().map(|unit| unit.name.to_string()).collect();
    assert_eq!(names, ["clock", "group small", "room", "alone"]);
    assert_eq!(config.listen, Address::Name(LISTEN_DEFAULT.to_owned()));
    let [clock, small, room, alone] = &config.units[..] else { panic!("{names:?}") };
    assert_eq!(clock.policy.limit, None);
    let (min, max) = (clock.policy.back_off_min, clock.policy.back_off_max);
    assert_eq!((min, max), (Duration::from_millis(50), Duration::from_millis(50)));
    assert_eq!((small.services.len(), small.ready_within), (2, Duration::from_secs(3)));
    assert_eq!(room.services[0].file, Path::new("/etc/bin/room"));
    assert_eq!(room.services[0].listen, Address::Abstract("room".to_owned()));
    assert_eq!(room.after, [clock.name.clone(), small.name.clone()]);
    assert_eq!(alone.environment["A"], "1");
    assert_eq!(config.unit_of("users").unwrap().name, small.name);
}

#[test]
fn a_gateway_is_a_unit_that_starts_after_what_it_exposes() {
    let text = "[gateway.front]\nlisten = [\"127.0.0.1:1\", \"[::1]:0\"]\ncert = \"c.pem\"\n\
                key = \"/k.pem\"\nbalance = true\nstop-within = \"1m\"\n\
                expose = { room = [\"x.Y\", \"x.Z\"], \"unix:@other\" = [\"x.Y\"] }\n\
                forward = { far = \"grpcs://a:1/x.W\" }\n";
    let config = parse(&[text, &process("room", "listen = \"unix:@room\"")].concat()).unwrap();
    let [room, front] = &config.units[..] else { panic!("{config:?}") };
    let [own, far] = &front.services[..] else { panic!("{front:?}") };
    assert!(front.after.iter().eq([&room.name]));
    assert_eq!((own.run, far.run, front.stop_within.as_secs()), (Run::Gateway, Run::Gateway, 60));
    let listens: Vec<String> = front.addresses().map(Address::to_string).collect();
    assert_eq!(listens, ["front", "tcp://127.0.0.1:1", "tcp://[::1]:0", "far"]);
    let arguments = [
        "--name=front",
        "--cert=/etc/c.pem",
        "--key=/k.pem",
        "--balance",
        "--forward=far=grpcs://a:1/x.W",
        "--",
        "unix:@room=x.Y,x.Z",
        "unix:@other=x.Y",
    ];
    assert_eq!(own.arguments, arguments);
    assert_eq!((config.service_count(), config.process_count()), (3, 2));
    refused("[gateway.a]\n", ":1:10: gateway `a`: it does nothing");
    refused("[gateway.a]\nlisten = \"a\"\nexpose.b = [\"x.Y\"]\n", "gateway `a`: ");
    refused("[gateway.a]\nforward.b = \"grpc://a:1\"\ncert = \"c\"\n", "write both `cert` and");
    let twice = text.replace("far =", "room =");
    refused(
        &[&twice, &*process("room", "listen = \"unix:@room\"")].concat(),
        "have the name `room`",
    );
}

#[test]
fn a_file_that_says_something_else_is_refused_with_its_line() {
    refused("", "it names no service");
    refused("[service.a]\nrun = \"process\"\nfile = \"a\"\nfil = 1\n", ":4:1: unknown field `fil`");
    refused("[services.a]\n", ":1:2: unknown field `services`");
    refused("[service.a]\nrun = \"thread\"\nfile = \"a\"\n", ":2:7: unknown variant `thread`");
    refused("[service.a]\nrun = \"process\"\n", "missing field `file`");
    refused("[service.a\n", ":1:");
    refused(&process("a", "restart-limit = -1"), ":4:17: ");
    refused(&process("a", "ready-within = 10"), "a time with its unit");
    refused(&process("a", "ready-within = \"10\""), ":4:16: `10` is no time");
    refused(&process("a", "watchdog = \"0s\""), "ends at once");
    refused(&process("a", "environment = { LISTEN_FDS = \"1\" }"), "the host sets LISTEN_FDS");
    refused(&process("a", "environment = { \"A=B\" = \"1\" }"), "`A=B` is no variable");
    refused(&process("a", "arguments = [\"a\\u0000\"]"), "zero byte");
    refused(&process("a", "group = \"g\""), ":4:9: service `a`: `group` is for libraries");
    refused(&process("a", "back-off-min = \"2s\"\nback-off-max = \"1s\""), "above `back-off-max`");
}

#[test]
fn the_access_to_a_socket_is_read_and_refused_where_it_means_nothing() {
    let path = "listen = \"unix:/run/a\"\n";
    let access = |keys: &str| {
        let config = parse(&process("a", &[path, keys].concat())).unwrap();
        config.services().next().unwrap().access
    };
    assert_eq!(access(""), SocketAccess::default());
    let owner = Some((0, process::group_id()));
    assert_eq!(
        access("socket-mode = \"0660\"\nsocket-owner = \"root:\""),
        SocketAccess { mode: 0o660, owner }
    );
    assert_eq!(access("socket-owner = \"7:root\"").owner, Some((7, 0)));
    let refused = |keys: &str, why: &str| refused(&process("a", keys), why);
    let with = |keys: &str| [path, keys].concat();
    refused(&with("socket-mode = \"8\""), ":5:15: service `a`: `socket-mode`: `8` is no mode");
    refused(&with("socket-mode = \"1777\""), "is no mode");
    refused(&with("socket-mode = \"+660\""), "is no mode");
    refused(&with("socket-mode = \"0555\""), "lets in no client");
    refused(&with("socket-owner = \"root\""), "write \"USER:GROUP\"");
    refused(&with("socket-owner = \":\""), "is no owner");
    refused(&with("socket-owner = \":no-such-group\""), "there is no group `no-such-group`");
    refused("socket-mode = \"0660\"", "cannot enter the runtime directory");
    refused("listen = \"unix:@a\"\nsocket-mode = \"0600\"", "a socket without a file");
    refused("listen = \"tcp://[::1]:1\"\nsocket-owner = \"0:0\"", ":5:16: service `a`");
}

#[test]
fn names_and_addresses_are_refused_that_cannot_be_or_are_there_twice() {
    let twice = [process("a", ""), process("a", "")].concat();
    refused(&twice, ":5:10: duplicate key");
    refused(&process("\"a/b\"", ""), ":1:10: bad name of a service `a/b`");
    refused(&process(&"n".repeat(65), ""), "a name has at most 64 bytes");
    refused(&process("\"unix:@a\"", ""), "write an address as `listen`");
    refused(&process("a", "listen = \"a/b\""), ":4:10: service `a`: bad address `a/b`");
    let same = [process("a", "listen = \"unix:@x\""), process("b", "listen = \"unix:@x\"")];
    refused(&same.concat(), "service `b` listens at unix:@x, and so does service `a`");
    refused(&process("nearcall-host", ""), "and so does the host itself");
    refused(&["[host]\nlisten = \"\"\n", &process("a", "")].concat(), ":2:10: the address of");
}

#[test]
fn dependencies_must_exist_and_have_no_circle() {
    refused(&process("a", "after = [\"b\"]"), ":4:10: a starts after `b`, and there is no");
    refused(&process("a", "after = [\"a\"]"), "a starts after a: take one `after` out");
    let three = [
        process("a", "after = [\"b\"]"),
        process("b", "after = [\"c\"]"),
        process("c", "after = [\"a\"]"),
    ];
    refused(&three.concat(), "a starts after b starts after c starts after a");
    // Through a group, of which no member alone is in the circle.
    let grouped = [
        library("a", "group = \"g\"\nafter = [\"p\"]"),
        library("b", "group = \"g\""),
        process("p", "after = [\"b\"]"),
    ];
    refused(&grouped.concat(), "group g starts after p starts after group g");
    let inside = [library("a", "group = \"g\"\nafter = [\"b\"]"), library("b", "group = \"g\"")];
    assert_eq!(parse(&inside.concat()).unwrap().units.len(), 1);
}

#[test]
fn members_of_a_group_agree() {
    let policies =
        [library("a", "group = \"g\""), library("b", "group = \"g\"\nrestart = \"always\"")];
    refused(&policies.concat(), "service `b` has another restart policy than `a`");
    let environments = [
        library("a", "group = \"g\"\nenvironment = { A = \"1\" }"),
        library("b", "group = \"g\"\nenvironment = { A = \"2\" }"),
    ];
    refused(&environments.concat(), "service `b` sets A to another value than `a`");
}
