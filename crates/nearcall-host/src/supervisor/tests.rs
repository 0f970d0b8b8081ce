//! What a supervisor decides, without processes.

use std::path::PathBuf;

use nearcall_channel::SocketAccess;

use super::*;
use crate::config::{Policy, Run, Service};

const SECOND: Time = Duration::from_secs(1);
const MS: Time = Duration::from_millis(1);

fn service(name: &str) -> Service {
    Service {
        name: name.to_owned(),
        run: Run::Process,
        file: "/bin/true".into(),
        arguments: Vec::new(),
        listen: Address::Name(name.to_owned()),
        sockets: Vec::new(),
        access: SocketAccess::default(),
        interfaces: Vec::new(),
        watchdog: Some(SECOND),
    }
}

fn policy(restart: Restart, limit: u32) -> Policy {
    let limit = (limit > 0).then_some(limit);
    Policy { restart, limit, back_off_min: 100 * MS, back_off_max: SECOND }
}

fn unit_with(name: UnitName, services: &[&str], after: &[&str], policy: Policy) -> Rc<Unit> {
    Rc::new(Unit {
        name,
        services: services.iter().map(|name| service(name)).collect(),
        after: after.iter().map(|name| UnitName::Service((*name).to_owned())).collect(),
        environment: BTreeMap::new(),
        policy,
        ready_within: 10 * SECOND,
        stop_within: 5 * SECOND,
        log_rate: 1000,
    })
}

fn unit(name: &str, after: &[&str]) -> Rc<Unit> {
    let on_failure = policy(Restart::OnFailure, 3);
    unit_with(UnitName::Service(name.to_owned()), &[name], after, on_failure)
}

fn group(name: &str, services: &[&str]) -> Rc<Unit> {
    let always = policy(Restart::Always, 3);
    unit_with(UnitName::Group(name.to_owned()), services, &[], always)
}

fn config(units: &[Rc<Unit>]) -> Config {
    let listen = Address::Name("nearcall-host".to_owned());
    Config { path: PathBuf::from("services.toml"), listen, units: units.to_vec() }
}

/// A supervisor with the time, and what it has asked for.
struct Bench {
    supervisor: Supervisor,
    now: Time,
    /// Those that were started and have not ended, the oldest first.
    running: Vec<(InstanceId, String)>,
    terminated: Vec<InstanceId>,
    killed: Vec<InstanceId>,
    closed: Vec<String>,
    reports: Vec<Report>,
    replies: Vec<Result<String, String>>,
    is_settled: bool,
    exit: Option<Ending>,
}

impl Bench {
    fn new(units: &[Rc<Unit>]) -> Self {
        let mut bench = Self {
            supervisor: Supervisor::new(config(units)),
            now: Duration::ZERO,
            running: Vec::new(),
            terminated: Vec::new(),
            killed: Vec::new(),
            closed: Vec::new(),
            reports: Vec::new(),
            replies: Vec::new(),
            is_settled: false,
            exit: None,
        };
        bench.wait(Duration::ZERO);
        bench
    }

    fn take(&mut self) {
        for action in self.supervisor.take_actions() {
            match action {
                Action::Start(id, unit) => self.running.push((id, unit.name.to_string())),
                Action::Terminate(id) => self.terminated.push(id),
                Action::Kill(id) => self.killed.push(id),
                Action::Close(address) => self.closed.push(address.to_string()),
                Action::SetAccess => {}
                Action::Report(report) => {
                    // Every text is made, so that none of them can fail.
                    assert!(!report.to_string().is_empty());
                    self.reports.push(report);
                }
                Action::Reply(_, outcome) => self.replies.push(outcome),
                Action::Settled => self.is_settled = true,
                Action::Exit(ending) => self.exit = Some(ending),
            }
        }
    }

    fn wait(&mut self, span: Time) {
        self.now += span;
        self.supervisor.handle_time(self.now);
        self.take();
    }

    fn names(&self) -> Vec<&str> {
        self.running.iter().map(|(_, name)| name.as_str()).collect()
    }

    /// The instance of this unit that was started last.
    #[track_caller]
    fn last(&self, name: &str) -> InstanceId {
        self.running.iter().rfind(|(_, other)| other == name).expect("it runs").0
    }

    /// All services of the instance answer.
    fn ready(&mut self, id: InstanceId) {
        let instance = &self.supervisor.instances[&id];
        let names: Vec<_> = instance.unit.services.iter().map(|it| it.name.clone()).collect();
        for name in names {
            self.supervisor.handle_ready(id, &name, self.now);
        }
        self.take();
    }

    fn start(&mut self, name: &str) -> InstanceId {
        let id = self.last(name);
        self.ready(id);
        id
    }

    fn end(&mut self, id: InstanceId, end: End) {
        self.running.retain(|(other, _)| *other != id);
        let lines = vec!["a last line".to_owned()];
        self.supervisor.handle_end(id, end, lines, self.now);
        self.take();
    }

    fn apply(&mut self, units: &[Rc<Unit>], restart: &[&str]) {
        let restart: Vec<_> = restart.iter().map(|name| (*name).to_owned()).collect();
        self.supervisor.handle_apply(config(units), &restart, Some(Token(1)), self.now);
        self.take();
    }

    fn state(&self, name: &str) -> State {
        let states = self.supervisor.status(self.now);
        states.into_iter().find(|state| state.name == name).expect("a service").state
    }
}

#[test]
fn units_start_after_those_that_they_need_and_stop_before_them() {
    let mut bench = Bench::new(&[unit("clock", &[]), unit("room", &["clock"]), unit("log", &[])]);
    assert_eq!(bench.names(), ["clock", "log"]);
    let clock = bench.start("clock");
    assert_eq!(bench.names(), ["clock", "log", "room"]);
    let (room, log) = (bench.start("room"), bench.last("log"));
    assert!(!bench.is_settled);
    bench.ready(log);
    assert!(bench.is_settled);
    bench.supervisor.handle_stop(bench.now);
    bench.take();
    assert_eq!(bench.terminated, [room, log]);
    assert_eq!(bench.closed, ["room", "log"]);
    bench.end(log, End::Exited(0));
    bench.end(room, End::Exited(0));
    assert_eq!((bench.terminated.last(), bench.exit), (Some(&clock), None));
    // It does not end in time.
    bench.wait(5 * SECOND);
    assert_eq!(bench.killed, [clock]);
    bench.end(clock, End::Killed(9));
    assert_eq!(bench.exit, Some(Ending::Done));
}

#[test]
fn the_second_signal_kills_at_once() {
    let mut bench = Bench::new(&[unit("clock", &[]), unit("room", &["clock"])]);
    let (clock, room) = (bench.start("clock"), bench.start("room"));
    for _ in 0..2 {
        bench.supervisor.handle_stop(bench.now);
        bench.take();
    }
    assert_eq!((bench.killed, bench.exit), (vec![clock, room], Some(Ending::AtOnce)));
}

#[test]
fn pauses_grow_and_a_crash_loop_is_said_once() {
    let mut bench = Bench::new(&[unit("room", &[])]);
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let id = bench.start("room");
        bench.end(id, End::Killed(6));
        pauses.extend(bench.supervisor.next_due().map(|due| due - bench.now));
        bench.wait(SECOND);
    }
    assert_eq!(pauses, [100 * MS, 200 * MS, 400 * MS]);
    assert_eq!((bench.state("room"), bench.names().len()), (State::Failed, 0));
    assert_eq!(bench.closed, ["room"]);
    bench.reports.retain(|report| !matches!(report, Report::Up(..)));
    let [
        Report::Ended(_, _, Some(_)),
        Report::CrashLoop(_, end, _, lines),
        Report::GaveUp(.., 4, none),
    ] = &bench.reports[..]
    else {
        panic!("{:?}", bench.reports)
    };
    assert_eq!((end, &lines[..]), (&End::Killed(6), &["a last line".to_owned()][..]));
    assert_eq!(none.len(), 0);
    assert!(bench.reports[1].to_string().contains("was killed by SIGABRT"), "{}", bench.reports[1]);
    // It stays so until it is asked for.
    bench.wait(60 * SECOND);
    assert_eq!(bench.names().len(), 0);
    bench.apply(&[unit("room", &[])], &["room"]);
    let id = bench.start("room");
    assert_eq!((bench.state("room"), bench.replies.len()), (State::Up, 1));
    bench.end(id, End::Killed(6));
    assert_eq!(bench.supervisor.next_due(), Some(bench.now + 100 * MS));
}

#[test]
fn a_unit_that_was_up_for_long_has_the_first_pause_again() {
    let mut bench = Bench::new(&[unit("room", &[])]);
    for up in [MS, MS, STEADY_AFTER, MS] {
        let id = bench.start("room");
        bench.wait(up);
        bench.end(id, End::Exited(1));
        let pause = bench.supervisor.next_due().map(|due| due - bench.now);
        let expected = if up == STEADY_AFTER { 100 * MS } else { pause.unwrap_or_default() };
        assert_eq!(pause, Some(expected));
        bench.wait(SECOND);
    }
}

#[test]
fn policies_decide_which_ends_lead_to_a_restart() {
    for (restart, code, expected) in [
        (Restart::Never, 0, State::Ended),
        (Restart::Never, 1, State::Failed),
        (Restart::OnFailure, 0, State::Ended),
        (Restart::OnFailure, 1, State::BackingOff),
        (Restart::Always, 0, State::BackingOff),
        (Restart::Always, 1, State::BackingOff),
    ] {
        let name = UnitName::Service("room".to_owned());
        let mut bench = Bench::new(&[unit_with(name, &["room"], &[], policy(restart, 3))]);
        let id = bench.start("room");
        bench.end(id, End::Exited(code));
        assert_eq!(bench.state("room"), expected, "{restart:?} after {code}");
    }
}

#[test]
fn a_service_that_never_serves_is_killed_and_started_again() {
    let mut bench = Bench::new(&[unit("room", &[])]);
    let id = bench.last("room");
    bench.wait(10 * SECOND);
    assert_eq!(bench.killed, [id]);
    bench.end(id, End::Killed(9));
    let text = bench.reports[0].to_string();
    assert!(text.contains("had not answered after 10s"), "{text}");
    assert_eq!(bench.state("room"), State::BackingOff);
}

#[test]
fn a_restart_ends_the_one_before_when_the_next_one_serves() {
    let units = [unit("clock", &[]), unit("room", &["clock"])];
    let mut bench = Bench::new(&units);
    let (clock, room) = (bench.start("clock"), bench.start("room"));
    bench.apply(&units, &["room"]);
    assert_eq!((bench.names(), bench.terminated.len()), (vec!["clock", "room", "room"], 0));
    // A second one has to wait.
    bench.apply(&units, &["clock"]);
    assert!(bench.replies.pop().unwrap().unwrap_err().contains("under way"));
    let next = bench.start("room");
    assert_eq!((bench.terminated.clone(), bench.replies.len()), (vec![room], 1));
    assert!(bench.closed.is_empty());
    bench.end(room, End::Exited(0));
    assert_eq!(bench.state("room"), State::Up);
    assert!(bench.running.iter().any(|(id, _)| *id == next) && clock != next);
    // Nothing has changed, so nothing is restarted.
    bench.apply(&units, &[]);
    assert_eq!(bench.replies[1], Ok("nothing has changed".to_owned()));
    assert_eq!(bench.names(), ["clock", "room"]);
}

#[test]
fn a_restart_that_fails_changes_nothing() {
    let units = [unit("room", &[])];
    let mut bench = Bench::new(&units);
    let room = bench.start("room");
    bench.apply(&[unit("room", &[]), unit("new", &[])], &["room"]);
    let new = bench.last("new");
    bench.start("room");
    bench.end(new, End::Exited(3));
    let why = bench.replies.pop().unwrap().unwrap_err();
    assert!(
        why.contains("new has exited with 3; what ran before goes on\n  | a last line"),
        "{why}"
    );
    assert_eq!(bench.closed, ["new"]);
    assert!(!bench.terminated.contains(&room) && bench.terminated.len() == 1);
    assert_eq!(bench.state("room"), State::Up);
    assert_eq!(bench.supervisor.config().units.len(), 1);
    // What does not serve in time is no other case.
    bench.apply(&units, &["room"]);
    let next = bench.last("room");
    bench.wait(10 * SECOND);
    bench.end(next, End::Killed(9));
    assert!(bench.replies.pop().unwrap().unwrap_err().contains("had not answered"));
    assert!(!bench.terminated.contains(&room));
}

#[test]
fn a_restart_that_fails_leaves_no_socket_of_what_had_failed_or_ended_before() {
    for end in [End::Exited(0), End::Exited(3)] {
        let name = UnitName::Service("room".to_owned());
        let never = unit_with(name, &["room"], &[], policy(Restart::Never, 3));
        let mut bench = Bench::new(&[never.clone(), unit("hall", &[])]);
        let (room, _) = (bench.start("room"), bench.start("hall"));
        bench.end(room, end);
        let state = bench.state("room");
        assert_eq!(bench.closed, ["room"]);
        bench.apply(&[never, unit("hall", &[])], &["room", "hall"]);
        let next = bench.last("room");
        bench.end(next, End::Exited(3));
        assert!(bench.replies.pop().unwrap().is_err());
        assert_eq!((bench.state("room"), bench.state("hall")), (state, State::Up));
        assert_eq!(bench.closed, ["room", "room"], "and not that of one that serves");
    }
}

#[test]
fn an_instance_that_ends_while_it_is_replaced_leaves_the_place_to_the_next_one() {
    for does_next_serve in [true, false] {
        let units = [unit("room", &[])];
        let mut bench = Bench::new(&units);
        let room = bench.start("room");
        bench.apply(&units, &["room"]);
        let next = bench.last("room");
        bench.end(room, End::Killed(9));
        bench.wait(60 * MS);
        assert_eq!(bench.names().len(), 1, "no third one");
        if does_next_serve {
            bench.ready(next);
        } else {
            bench.end(next, End::Exited(1));
            assert!(bench.replies.pop().unwrap().is_err());
            bench.start("room");
        }
        assert_eq!((bench.state("room"), bench.names().len()), (State::Up, 1));
    }
}

#[test]
fn a_service_moves_between_a_process_and_a_group() {
    let apart = [unit("a", &[]), group("small", &["b", "c"])];
    let together = [group("small", &["b", "c", "a"])];
    let mut bench = Bench::new(&apart);
    let (a, small) = (bench.start("a"), bench.start("group small"));
    bench.apply(&together, &[]);
    assert_eq!((bench.names().len(), bench.terminated.len()), (3, 0));
    let all = bench.start("group small");
    bench.terminated.sort();
    assert_eq!((bench.terminated.clone(), bench.closed.len()), (vec![a, small], 0));
    bench.end(a, End::Exited(0));
    bench.end(small, End::Exited(0));
    bench.apply(&apart, &[]);
    bench.start("a");
    // Only when all of them serve, the one before is asked to end.
    assert_eq!(bench.terminated.len(), 2);
    bench.start("group small");
    assert_eq!((bench.terminated.last(), bench.closed.len()), (Some(&all), 0));
    bench.end(all, End::Exited(0));
    // One that is gone from the file is stopped, and its socket is closed.
    bench.apply(&apart[1..], &[]);
    assert_eq!((bench.closed.clone(), bench.terminated.len()), (vec!["a".to_owned()], 4));
}

#[test]
fn silence_restarts_a_process_of_its_own_and_is_said_of_one_that_others_share() {
    let mut bench = Bench::new(&[unit("room", &[]), group("small", &["a", "b"])]);
    let (room, small) = (bench.start("room"), bench.start("group small"));
    for _ in 0..3 {
        bench.supervisor.handle_unresponsive(room, "room");
        bench.supervisor.handle_unresponsive(small, "a");
        bench.take();
    }
    assert_eq!(bench.killed, [room]);
    let said = bench.reports.iter().filter(|it| matches!(it, Report::Unresponsive(..))).count();
    let state = bench.supervisor.status(bench.now).into_iter().find(|it| it.name == "a").unwrap();
    assert_eq!((said, state.is_unresponsive, state.missed), (1, true, 1));
    bench.supervisor.handle_responsive(small, "a");
    bench.supervisor.handle_unresponsive(small, "a");
    let state = bench.supervisor.status(bench.now).into_iter().find(|it| it.name == "a").unwrap();
    assert_eq!((state.is_unresponsive, state.missed), (true, 2));
}

#[test]
fn a_group_of_which_no_watched_service_answers_is_restarted() {
    let mut small = group("small", &["a", "b", "c"]);
    Rc::get_mut(&mut small).unwrap().services[2].watchdog = None;
    let mut bench = Bench::new(&[small]);
    let id = bench.start("group small");
    bench.supervisor.handle_unresponsive(id, "a");
    bench.supervisor.handle_responsive(id, "a");
    bench.supervisor.handle_unresponsive(id, "b");
    bench.take();
    assert!(bench.killed.is_empty());
    bench.supervisor.handle_unresponsive(id, "a");
    bench.take();
    assert_eq!(bench.killed, [id]);
    bench.end(id, End::Killed(9));
    assert_eq!(bench.state("c"), State::BackingOff);
    let state = bench.supervisor.status(bench.now).swap_remove(0);
    assert_eq!(state.last_end.unwrap().0, End::Unresponsive(SECOND));
}

/// Whatever happens, in whatever order: one instance of each unit serves at most, besides those
/// that are being replaced, and the host ends when it is told to.
#[test]
fn random_histories_keep_the_invariants() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let apart = [unit("a", &[]), unit("d", &["a"]), group("small", &["b", "c"])];
        let together = [group("small", &["b", "c", "a"]), unit("d", &[])];
        let mut bench = Bench::new(&apart);
        for _ in 0..200 {
            let any = |bench: &Bench, random: &mut fastrand::Rng| {
                random.choice(&bench.running).map(|(id, _)| *id)
            };
            match (random.u8(..7), any(&bench, &mut random)) {
                (0 | 1, Some(id)) => bench.ready(id),
                (2, Some(id)) => {
                    let end = [End::Exited(0), End::Killed(11), End::Exited(2)];
                    bench.end(id, random.choice(end).unwrap());
                }
                (3, Some(id)) => {
                    bench.supervisor.handle_unresponsive(id, "a");
                    bench.take();
                }
                (4, _) => {
                    let units = if random.bool() { &apart[..] } else { &together[..] };
                    bench.apply(units, random.choice([&["a"][..], &["b", "d"], &[]]).unwrap());
                }
                _ => bench.wait(random.u32(..3000) * MS),
            }
            check(&bench, seed);
        }
        bench.supervisor.handle_stop(bench.now);
        bench.take();
        while let Some((id, _)) = bench.running.first().cloned() {
            assert_eq!(bench.exit, None, "seed {seed}");
            bench.wait(SECOND);
            bench.end(id, End::Exited(0));
        }
        assert_eq!(bench.exit, Some(Ending::Done), "seed {seed}");
    }
}

fn check(bench: &Bench, seed: u64) {
    let supervisor = &bench.supervisor;
    let active = |name: &UnitName| {
        let instances = supervisor.instances.iter();
        instances
            .filter(|(id, instance)| {
                let is_next = supervisor.is_replacing(**id);
                let is_leaving = matches!(instance.phase, Phase::Retiring { .. });
                instance.unit.name == *name && !is_next && !is_leaving
            })
            .count()
    };
    for slot in &supervisor.slots {
        assert!(active(&slot.unit.name) <= 1, "seed {seed}: {}", slot.unit.name);
    }
    assert_eq!(bench.running.len(), supervisor.instances.len(), "seed {seed}");
    assert_eq!(supervisor.slots.len(), supervisor.config().units.len(), "seed {seed}");
}
