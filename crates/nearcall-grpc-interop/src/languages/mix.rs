//! A random mix of calls between all languages, in which processes are killed.
//!
//! Each language has a client and a server that live to the end, and one of each that is killed
//! again and again. A client calls a server that is drawn when the client starts.
//! **Invariants:** an answer that says OK is the right one; a note that was certainly kept is
//! counted by its server, and none is counted twice; a call fails only where its server was killed;
//! a server holds no descriptor for clients that are gone; what lives to the end holds little more
//! memory then than after a third of the time.
//! **Not here:** the lines (`cases.rs`).

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fastrand::Rng;
use nearcall_os::clock;

use super::cell::readable;
use super::program::Program;
use super::{Descriptors, Language, PATIENCE};
use crate::storm::{Held, held};

/// By how much the memory of a process may have grown between the first third and the end, in KiB:
/// what allocators keep.
const GROWTH_KIB: u64 = 8 << 10;
/// How long a server or a client that is killed lives.
const LIFE_MS: std::ops::Range<u64> = 200..3000;
/// How long a server may take to notice that a client is gone, before its descriptors are counted.
const CALM: Duration = Duration::from_millis(500);

/// A server, as clients see it.
struct Place {
    address: String,
    /// It is not killed.
    lives: bool,
    /// Notes that were certainly kept, and those of which that is not known.
    kept: AtomicU64,
    maybe: AtomicU64,
}

/// What lives to the end: what it has held after a third of the time, and at the end.
type Lasted = (String, (Held, Held));

#[derive(Default)]
struct Counts {
    ok: AtomicU64,
    failed: AtomicU64,
    server_kills: AtomicU64,
    client_kills: AtomicU64,
}

/// What all threads share.
struct Mix<'a> {
    places: Vec<Place>,
    descriptors: &'a Path,
    has_ended: AtomicBool,
    counts: Counts,
    /// The first thing that is wrong.
    wrong: Mutex<Option<String>>,
}

/// What a random line is, and what it must answer; `None`: a number that grows.
struct Turn {
    line: String,
    answer: Option<String>,
    keeps: bool,
}

fn turn(rng: &mut Rng) -> Turn {
    let sizes: Vec<u32> = (0..rng.usize(1..6)).map(|_| rng.u32(0..20_000)).collect();
    let [first, last] = [sizes[0], sizes[sizes.len() - 1]];
    let joined = sizes.iter().fold(String::new(), |mut text, size| {
        let _ = write!(text, " {size}");
        text
    });
    let turns = joined.replace(' ', " 7:");
    let (line, answer, keeps) = match rng.u32(0..10) {
        0 => ("empty".to_owned(), Some("OK".to_owned()), false),
        1 | 2 => (format!("unary {first} {last}"), Some(format!("OK {last}")), false),
        3 => (format!("input{joined}"), Some(format!("OK {}", sizes.iter().sum::<u32>())), false),
        4 => (format!("output 0{joined}"), Some(format!("OK{joined}")), false),
        5 => (format!("ping-pong{turns}"), Some(format!("OK{joined}")), false),
        6 => ("unary-status 10 61".to_owned(), Some("ABORTED 61".to_owned()), false),
        7 => ("cancel-after-first".to_owned(), Some("OK".to_owned()), false),
        8 => ("note mixed".to_owned(), Some("OK".to_owned()), true),
        _ => ("keep mixed".to_owned(), None, true),
    };
    Turn { line, answer, keeps }
}

/// Runs for some time; prints what was done, and fails where something is wrong.
///
/// # Errors
///
/// A program cannot be started, or something is wrong.
pub(super) fn run(languages: &[Language], seconds: u64, seed: u64) -> anyhow::Result<()> {
    let descriptors = Descriptors::write()?;
    let (mut living, mut dying) = (Vec::new(), Vec::new());
    let mut mix = Mix {
        places: Vec::new(),
        descriptors: &descriptors.0,
        has_ended: AtomicBool::new(false),
        counts: Counts::default(),
        wrong: Mutex::default(),
    };
    for language in languages {
        for lives in [true, false] {
            let number = mix.places.len();
            let address = format!("unix:@nearcall-mix-{}-{number}", std::process::id());
            let server = serve(language, &address, &descriptors.0)?;
            let servers = if lives { &mut living } else { &mut dying };
            servers.push((language, number, server));
            mix.places.push(Place { address, lives, kept: 0.into(), maybe: 0.into() });
        }
    }
    let mut lasting: Vec<_> = living
        .iter()
        .map(|(language, _, server)| (format!("server in {}", language.name), server.pid()))
        .collect();
    let calm = warm_up(languages, &living, &mix.places)?;
    let lasted = thread::scope(|scope| {
        let (mix, mut seeds) = (&mix, Rng::with_seed(seed));
        for (language, number, server) in dying {
            let rng = seeds.fork();
            scope.spawn(move || mix.note(mix.restart(language, number, server, rng)));
        }
        for language in languages {
            for lives in [true, false] {
                let (rng, (give, take)) = (seeds.fork(), mpsc::channel());
                scope.spawn(move || mix.note(mix.call(language, lives, rng, &give)));
                if let Some(pid) = lives.then(|| take.recv().ok()).flatten() {
                    lasting.push((format!("client in {}", language.name), pid));
                }
            }
        }
        let lasted = mix.watch(&lasting, Duration::from_secs(seconds));
        mix.has_ended.store(true, Ordering::Release);
        lasted
    });
    if let Some(wrong) = mix.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bail!("{wrong} (seed {seed})");
    }
    for ((language, number, mut server), calm) in living.into_iter().zip(calm) {
        let who = || format!("the server in {} that has lived", language.name);
        mix.places[number].check(&languages[0]).with_context(who)?;
        settle(server.pid(), calm).with_context(who)?;
        server.finish().with_context(who)?;
    }
    mix.report(seed, seconds, &lasted?)
}

/// Has a client of each language call each server that lives, and go. Returns how many descriptors
/// the servers hold then.
fn warm_up(
    languages: &[Language],
    living: &[(&Language, usize, Program)],
    places: &[Place],
) -> anyhow::Result<Vec<usize>> {
    for (_, number, _) in living {
        for language in languages {
            let address = &places[*number].address;
            let mut client = Program::start(&language.command, &["client", address])?;
            for line in ["empty", "ping-pong 1:2"] {
                client.send(line)?;
                client.line().with_context(|| format!("{} to {address}", language.name))?;
            }
            client.finish()?;
        }
    }
    clock::pause(CALM);
    living.iter().map(|(_, _, server)| Ok(held(server.pid())?.descriptors)).collect()
}

/// Waits until a server holds no more descriptors than `calm`.
fn settle(pid: u32, calm: usize) -> anyhow::Result<()> {
    let end = clock::now() + PATIENCE;
    loop {
        let descriptors = held(pid)?.descriptors;
        if descriptors <= calm {
            return Ok(());
        }
        let growth = format!("{calm} descriptors before, {descriptors} when all clients are gone");
        ensure!(clock::now() < end, "{growth}");
        clock::pause(Duration::from_millis(50));
    }
}

fn serve(language: &Language, address: &str, descriptors: &Path) -> anyhow::Result<Program> {
    let files = descriptors.display().to_string();
    let server = Program::start(&language.command, &["server", address, &files])?;
    let line = server.line().with_context(|| format!("the server in {}", language.name))?;
    ensure!(line.starts_with("ready "), "the server in {} prints {line:?}", language.name);
    Ok(server)
}

impl Place {
    /// Asks the server how many notes it has kept.
    fn check(&self, rust: &Language) -> anyhow::Result<()> {
        let mut client = Program::start(&rust.command, &["client", &self.address])?;
        let kept = self.kept.load(Ordering::Relaxed);
        let most = kept + self.maybe.load(Ordering::Relaxed);
        let end = clock::now() + PATIENCE;
        loop {
            client.send("notes")?;
            let answer = client.line()?;
            let notes = answer.strip_prefix("OK ").and_then(|it| it.parse::<u64>().ok());
            let notes = notes.with_context(|| format!("`notes` is answered by {answer}"))?;
            ensure!(notes <= most, "it has {notes} notes, and {most} were sent");
            if notes >= kept {
                return client.finish();
            }
            // One-way messages may be on their way.
            ensure!(clock::now() < end, "it has {notes} notes of {kept} that were certainly sent");
            clock::pause(Duration::from_millis(10));
        }
    }
}

impl Mix<'_> {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Keeps what is wrong.
    fn note(&self, ended: anyhow::Result<()>) {
        if let Err(error) = ended {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            wrong.get_or_insert_with(|| format!("{error:#}"));
        }
    }

    /// Kills a server again and again, and starts it again.
    fn restart(
        &self,
        language: &Language,
        number: usize,
        server: Program,
        mut rng: Rng,
    ) -> anyhow::Result<()> {
        let mut server = Some(server);
        while !self.has_ended() {
            clock::pause(Duration::from_millis(rng.u64(LIFE_MS)));
            if let Some(server) = server.take() {
                server.kill()?;
                self.counts.server_kills.fetch_add(1, Ordering::Relaxed);
            }
            server = Some(serve(language, &self.places[number].address, self.descriptors)?);
        }
        Ok(())
    }

    /// Has clients of a language call until the end.
    fn call(
        &self,
        language: &Language,
        lives: bool,
        mut rng: Rng,
        started: &Sender<u32>,
    ) -> anyhow::Result<()> {
        while !self.has_ended() {
            // What lives calls what lives: it then sees no error.
            let place = loop {
                let place = rng.choice(&self.places).context("there is no server")?;
                if place.lives || !lives {
                    break place;
                }
            };
            let mut client = Program::start(&language.command, &["client", &place.address])?;
            let _ = started.send(client.pid());
            let life = Duration::from_millis(rng.u64(LIFE_MS));
            let end = clock::now() + life;
            let who = format!("{} to {}", language.name, place.address);
            while !self.has_ended() && (lives || clock::now() < end) {
                let turn = turn(&mut rng);
                self.ask(&mut client, &turn, place).with_context(|| who.clone())?;
            }
            if lives {
                return client.finish().with_context(|| who);
            }
            self.abandon(client, &mut rng, place)?;
        }
        Ok(())
    }

    /// Makes one call, and checks the answer.
    fn ask(&self, client: &mut Program, turn: &Turn, place: &Place) -> anyhow::Result<()> {
        client.send(&turn.line)?;
        let answer = client.line().with_context(|| format!("`{}`", turn.line))?;
        let is_right = match &turn.answer {
            Some(expected) => answer == *expected,
            None => answer.strip_prefix("OK ").is_some_and(|it| it.parse::<u32>().is_ok()),
        };
        if is_right {
            self.counts.ok.fetch_add(1, Ordering::Relaxed);
            place.kept.fetch_add(u64::from(turn.keeps), Ordering::Relaxed);
        } else if !place.lives && answer.starts_with("UNAVAILABLE ") {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        } else {
            bail!("`{}` is answered by {}", turn.line, readable(&answer));
        }
        Ok(())
    }

    /// Kills a client in a call.
    fn abandon(&self, mut client: Program, rng: &mut Rng, place: &Place) -> anyhow::Result<()> {
        let turn = turn(rng);
        client.send(&turn.line)?;
        clock::pause(Duration::from_micros(rng.u64(0..500)));
        client.kill()?;
        place.maybe.fetch_add(u64::from(turn.keeps), Ordering::Relaxed);
        self.counts.client_kills.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Looks at what lives after a third of the time, and at the end.
    fn watch(&self, lasting: &[(String, u32)], time: Duration) -> anyhow::Result<Vec<Lasted>> {
        let look = || lasting.iter().map(|(_, pid)| held(*pid)).collect::<anyhow::Result<Vec<_>>>();
        self.pause(time / 3);
        let first = look();
        self.pause(time - time / 3);
        let (first, last) = (first?, look()?);
        let names = lasting.iter().map(|(name, _)| name.clone());
        Ok(names.zip(first.into_iter().zip(last)).collect())
    }

    fn pause(&self, time: Duration) {
        let end = clock::now() + time;
        let is_wrong = || self.wrong.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        while clock::now() < end && !is_wrong() {
            clock::pause(Duration::from_millis(50));
        }
    }

    fn report(&self, seed: u64, seconds: u64, lasted: &[Lasted]) -> anyhow::Result<()> {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (counts, mut out) = (&self.counts, io::stdout().lock());
        let (ok, failed) = (count(&counts.ok), count(&counts.failed));
        let (servers, clients) = (count(&counts.server_kills), count(&counts.client_kills));
        writeln!(out, "{seconds} s, seed {seed}: {ok} calls OK, {failed} to killed servers")?;
        writeln!(out, "killed: {servers} servers, {clients} clients; notes agree")?;
        let mut grown = Vec::new();
        for (name, (first, last)) in lasted {
            let descriptors = format!("{} -> {}", first.descriptors, last.descriptors);
            let memory = format!("{} -> {} KiB", first.memory_kib, last.memory_kib);
            writeln!(out, "{name}: descriptors {descriptors}, memory {memory}")?;
            let limit = first.memory_kib + GROWTH_KIB;
            if last.memory_kib > limit {
                grown.push(name.as_str());
            }
        }
        ensure!(grown.is_empty(), "these hold more memory than before: {}", grown.join(", "));
        Ok(())
    }
}
