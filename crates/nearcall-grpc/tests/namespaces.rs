//! A caller and a gateway on two machines, as far as the kernel can make them: two network
//! namespaces with a cable (veth) between them, and certificates at both ends.
//!
//! Server, gateway and caller are processes: this program again, with a role, by `ip netns exec`.
//! **Invariants:** the names contain the process id, so that tests run in parallel; the processes,
//! then the namespaces with the cable, end with the test, whatever happens in it.
//! **Not here:** what needs no second machine (`secured.rs`, `it`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "processes report, and so does it")]

use std::io::{BufRead, BufReader, Write};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nearcall::dynamic::{
    DynamicDispatcher, DynamicRequest, DynamicService, Encoded, interface_from_descriptor_set,
};
use nearcall::service::Interface;
use nearcall::{Bytes, CallContext, CallOptions, Client, Code, Deadline, Server, Status};
use nearcall_grpc::{Gateway, Outbound, TlsOptions};
use nearcall_os::clock;
use nearcall_os::process::Child;
use nearcall_testkit::directory::Directory;
use nearcall_testkit::echo::{EchoCaller, Seen, Span, Words};
use nearcall_testkit::streams::{Item, Plan, StreamsCaller};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// What a process does, and where its certificates are.
const ROLE: &str = "NEARCALL_NAMESPACES_ROLE";
const FILES: &str = "NEARCALL_NAMESPACES_FILES";
/// What a line of a report begins with; the harness prints lines of its own.
const MARK: &str = "REPORT ";
/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much later than its deadline a call may end on a busy machine.
const LATE_MAX: Duration = Duration::from_secs(5);

/// The two ends of the cable; no other namespace sees these addresses.
const GATEWAY: &str = "10.77.0.1";
const CALLER: &str = "10.77.0.2";
const PORT: u16 = 50_051;
/// The service, at an abstract address: those belong to a network namespace as well.
const SERVICE: &str = "unix:@nearcall-namespaces";

/// Runs `ip` or `tc`.
fn run(program: &str, arguments: &str) -> Result<String, String> {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{program} {arguments}: {}", text(&output.stderr))),
    }
}

/// Two network namespaces, removed when this is dropped.
struct Namespaces {
    gateway: String,
    caller: String,
}

impl Namespaces {
    fn new() -> Result<Self, String> {
        let name = |end: &str| format!("nearcall-test-{}-{end}", process::id());
        let (own, cable) = (Self { gateway: name("a"), caller: name("b") }, Self::cable());
        let Self { gateway, caller } = &own;
        run("ip", &format!("netns add {gateway}"))?;
        run("ip", &format!("netns add {caller}"))?;
        let peer = format!("peer name {cable} netns {caller}");
        run("ip", &format!("-n {gateway} link add {cable} type veth {peer}"))?;
        for (namespace, address) in [(gateway, GATEWAY), (caller, CALLER)] {
            run("ip", &format!("-n {namespace} address add {address}/24 dev {cable}"))?;
            run("ip", &format!("-n {namespace} link set {cable} up"))?;
        }
        Ok(own)
    }

    fn cable() -> String {
        format!("nc{}", process::id())
    }

    /// Makes the cable slow and lossy, where the kernel can.
    fn impair(&self) {
        for namespace in [&self.gateway, &self.caller] {
            let netem = format!("qdisc add dev {} root netem delay 10ms loss 1%", Self::cable());
            if let Err(why) = run("ip", &format!("netns exec {namespace} tc {netem}")) {
                eprintln!("SKIPPED delay and loss: {why}");
                return;
            }
        }
        eprintln!("the cable takes 10 ms and loses 1 % each way");
    }

    fn set_cable(&self, state: &str) {
        run("ip", &format!("-n {} link set {} {state}", self.gateway, Self::cable())).unwrap();
    }

    /// Whether anything of them is left.
    fn are_left(names: &[String; 2]) -> bool {
        let list = run("ip", "netns list").unwrap() + &run("ip", "-o link").unwrap();
        names.iter().chain([&Self::cable()]).any(|name| list.contains(name))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in [&self.gateway, &self.caller] {
            // One that was not made cannot be removed.
            let _ = run("ip", &format!("netns delete {namespace}"));
        }
    }
}

/// A process with a role, killed when this is dropped.
struct Process {
    child: Child,
    reports: Receiver<String>,
}

impl Process {
    fn start(namespace: &str, role: &str, files: &Directory) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(std::env::current_exe().unwrap());
        command.args(["entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(FILES, &files.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Child::spawn(&mut command).unwrap();
        let output = BufReader::new(child.pipes().stdout.take().unwrap());
        let (send, reports) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, report)) = line.split_once(MARK) {
                    let _ = send.send(report.to_owned());
                }
            }
        });
        Self { child, reports }
    }

    /// Waits for its next report, which has to be this one, and prints what comes before.
    #[track_caller]
    fn expect(&self, wanted: &str) {
        loop {
            match self.reports.recv_timeout(PATIENCE) {
                Ok(report) if report == wanted => return,
                Ok(report) => eprintln!("{report}"),
                Err(why) => panic!("no report `{wanted}`: {why}"),
            }
        }
    }

    /// Lets it go on.
    fn proceed(&mut self) {
        self.child.pipes().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

/// Where a process begins; nothing when the harness runs it.
#[test]
fn entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match &*role {
        "server" => serve(),
        "gateway" => pass(),
        _ => call(),
    }
}

fn report(line: &str) {
    println!("\n{MARK}{line}");
}

/// Waits until the test lets this process go on, or has ended.
fn pause() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn file(name: &str) -> std::path::PathBuf {
    std::path::Path::new(&std::env::var_os(FILES).unwrap()).join(name)
}

/// Counts calls of `Work`, which it does not answer, and of `Look`, of which it answers the second.
#[derive(Default)]
struct Counts {
    works: AtomicU64,
    looks: AtomicU64,
}

struct Service(Arc<Counts>);

impl DynamicService for Service {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, Status> {
        let Counts { works, looks } = &*self.0;
        match (context.method(), request) {
            ("Work", _) if context.metadata().get("timed").is_some() => {
                std::future::pending().await
            }
            ("Work", _) => {
                works.fetch_add(1, Ordering::Relaxed);
                std::future::pending().await
            }
            ("Look", _) => match looks.fetch_add(1, Ordering::Relaxed) {
                0 => std::future::pending().await,
                _ => Encoded::new(&Seen::default()),
            },
            ("Later", _) => {
                let name = context.metadata().get("nearcall-peer-name").unwrap_or_default();
                let number = works.load(Ordering::Relaxed) << 32 | looks.load(Ordering::Relaxed);
                Encoded::new(&Words { number, data: name.to_owned().into() })
            }
            (_, DynamicRequest::Unary(request)) => Ok(request),
            (_, DynamicRequest::ReplyStream(plan, mut items)) => {
                let plan: Plan = plan.decode()?;
                for number in 0..plan.items {
                    items.send(&Encoded::new(&item(number, plan.bytes))?).await?;
                }
                Ok(Encoded::default())
            }
            (_, DynamicRequest::RequestStream(mut items)) => {
                let mut number = 0;
                while let Some(item) = items.next().await {
                    number += item?.decode::<Item>()?.number;
                }
                Encoded::new(&Item { number, ..Item::default() })
            }
            (_, DynamicRequest::BothStreams(mut items, mut replies)) => {
                while let Some(item) = items.next().await {
                    replies.send(&item?).await?;
                }
                Ok(Encoded::default())
            }
        }
    }
}

fn item(number: u64, bytes: u32) -> Item {
    Item { number, data: vec![number.to_le_bytes()[0]; bytes as usize].into() }
}

fn serve() {
    let counts = Arc::<Counts>::default();
    let dispatcher = |interface: &Interface| {
        let set = interface.descriptor_set;
        let interface = interface_from_descriptor_set(set, interface.name).unwrap();
        DynamicDispatcher::new(interface, Service(Arc::clone(&counts)))
    };
    let server = Server::builder().register(dispatcher(EchoCaller::INTERFACE));
    let server = server.register(dispatcher(StreamsCaller::INTERFACE));
    let _server = server.listen(SERVICE).start().unwrap();
    report("ready");
    pause();
}

fn pass() {
    let tls = TlsOptions::new(file("gateway.pem"), file("gateway.key")).client_ca(file("ca.pem"));
    let exposed = [EchoCaller::INTERFACE.name, StreamsCaller::INTERFACE.name];
    let gateway = Gateway::builder().expose(SERVICE, &exposed).tls(tls);
    let _gateway = gateway.listen(&format!("{GATEWAY}:{PORT}")).start().unwrap();
    report("ready");
    pause();
}

fn call() {
    let outbound = Outbound::new().ca(file("ca.pem")).server_name("gateway.test");
    outbound.identity(file("client.pem"), file("client.key")).install().unwrap();
    let (client, address) = (Client::new(), format!("grpcs://{GATEWAY}:{PORT}"));
    client.hunt(&address, PATIENCE).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let echo = EchoCaller::new(&client, &address).unwrap().with(options.clone());
    let streams = StreamsCaller::new(&client, &address).unwrap().with(options.clone());
    let state = || echo.later(&Words::default()).unwrap();
    assert_eq!(state().data, "client.test", "the name in the certificate");
    call_every_shape(&echo, &streams);

    let in_time = |what: &str, expected: Duration| {
        // Not counted: whether one comes that was sent without the cable, and when, is open.
        let timed = CallOptions::new().deadline(expected).metadata("timed", "yes").unwrap();
        let echo = echo.with(timed);
        let start = clock::now();
        let status = echo.work(&Span::default()).unwrap_err();
        let took = start.elapsed();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        report(&format!("{what}, a call of {expected:?} ended after {took:.1?}"));
        assert!((expected..expected + LATE_MAX).contains(&took), "{took:?}");
    };
    in_time("with the cable", Duration::from_millis(300));
    report("cut");
    pause();
    in_time("without the cable", Duration::from_millis(500));
    report("mend");
    pause();
    let works = state().number >> 32;

    let work = echo.start_work(&Span::default());
    let look = {
        let echo = echo.with(options.wait_for_ready(true));
        thread::spawn(move || echo.look(&()))
    };
    let end = Deadline::after(PATIENCE);
    while state().number != (works + 1) << 32 | 1 {
        assert!(!end.has_passed(), "the calls do not arrive");
    }
    report("kill");
    let lost = work.wait().unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable, "{lost}");
    look.join().unwrap().unwrap();
    assert_eq!(state().number, (works + 1) << 32 | 2, "the idempotent one was sent again, only it");
    report("of two calls whose gateway was killed, one failed and one was sent again");
    report("done");
}

fn call_every_shape(echo: &EchoCaller, streams: &StreamsCaller) {
    let words = |number| Words { number, data: Bytes::from(vec![3; 100_000]) };
    assert_eq!(echo.say(&words(7)).unwrap(), words(7));
    assert_eq!(echo.start_say(&words(8)).wait().unwrap(), words(8));
    echo.note(&words(9)).unwrap();
    let plan = Plan { items: 50, bytes: 10_000, code: 0 };
    let replies: Vec<_> = streams.count(&plan).unwrap().map(Result::unwrap).collect();
    assert_eq!(replies, Vec::from_iter((0..50).map(|number| item(number, 10_000))));
    let mut requests = streams.sum().unwrap();
    for number in 0..50 {
        requests.send(&item(number, 10_000)).unwrap();
    }
    assert_eq!(requests.finish().unwrap().number, (0..50).sum());
    let (mut requests, mut replies) = streams.exchange().unwrap();
    for number in 0..20 {
        requests.send(&item(number, 100_000)).unwrap();
        assert_eq!(replies.recv().unwrap(), Some(item(number, 100_000)));
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
}

/// Writes an authority and what it has signed for both ends.
fn certificates() -> Directory {
    let directory = Directory::new();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    directory.file("ca.pem", authority.pem().as_bytes());
    for name in ["gateway", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        directory.file(&format!("{name}.pem"), certificate.as_bytes());
        directory.file(&format!("{name}.key"), key.serialize_pem().as_bytes());
    }
    directory
}

#[test]
fn calls_go_from_one_machine_to_another_whatever_happens_to_the_gateway() {
    let files = certificates();
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(why) => {
            eprintln!("SKIPPED two network namespaces: {why}");
            return;
        }
    };
    namespaces.impair();
    let start = |role| Process::start(&namespaces.gateway, role, &files);
    let server = start("server");
    server.expect("ready");
    let gateway = start("gateway");
    gateway.expect("ready");
    let mut caller = Process::start(&namespaces.caller, "caller", &files);
    for (report, cable) in [("cut", "down"), ("mend", "up")] {
        caller.expect(report);
        namespaces.set_cable(cable);
        caller.proceed();
    }
    caller.expect("kill");
    drop(gateway);
    let gateway = start("gateway");
    gateway.expect("ready");
    caller.expect("done");
    let status = caller.child.wait(PATIENCE).unwrap().unwrap();
    assert!(status.success(), "{status}");

    drop((server, gateway, caller));
    let names = [namespaces.gateway.clone(), namespaces.caller.clone()];
    for name in &names {
        assert_eq!(run("ip", &format!("netns pids {name}")).unwrap(), "", "processes are left");
    }
    drop(namespaces);
    assert!(!Namespaces::are_left(&names), "namespaces or the cable are left");
}
