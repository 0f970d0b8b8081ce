//! Asks servers what they have counted.
//!
//! **Invariants:** all servers are asked before one is waited for; one that does not answer holds a
//! tick up for [`ANSWER_MAX`] at most, and is asked again only after some ticks; connections to
//! servers stay open from tick to tick.
//! **Not here:** what is concluded from two answers (`rows.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use nearcall::control::{CountersReply, CountersRequest, DescribeRequest, ServerCaller};
use nearcall::{CallOptions, Client, Code, Status};
use nearcall_channel::{named_sockets, runtime_dir};
use nearcall_os::process;

use crate::commands::asked_server::{self, ServerChoice};

/// What became of asking one server.
pub(super) struct Sample {
    /// The name or the address at which it was asked.
    pub(super) server: String,
    /// Its process, as the kernel reports it here.
    pub(super) pid: Option<i32>,
    pub(super) answer: Answer,
}

/// The answer of a server, or what there is instead.
pub(super) enum Answer {
    Counters(CountersReply),
    /// Not now, and why.
    Nothing(String),
}

/// The servers that are watched.
pub(super) struct Watcher {
    /// None: those of all names.
    chosen: Option<Vec<String>>,
    servers: BTreeMap<String, Asked>,
}

/// One server.
#[derive(Default)]
struct Asked {
    /// None: it has never been reached.
    connected: Option<(Client, ServerCaller)>,
    /// Ticks to be left out.
    pause: u32,
    /// Why it has not answered.
    problem: String,
    /// The socket belongs to another user.
    is_foreign: bool,
}

impl Watcher {
    /// Watches these servers; none: those of all names of this user.
    pub(super) fn new(choices: &[ServerChoice]) -> anyhow::Result<Self> {
        let chosen: anyhow::Result<Vec<_>> = choices.iter().map(asked_server::address).collect();
        let chosen = Some(chosen?).filter(|chosen| !chosen.is_empty());
        Ok(Self { chosen, servers: BTreeMap::new() })
    }

    /// Returns a sentence on where servers were looked for.
    pub(super) fn place(&self) -> String {
        match &self.chosen {
            Some(chosen) => chosen.join(", "),
            None => format!(
                "the runtime directory {}, chosen by {}",
                runtime_dir::path().display(),
                runtime_dir::chosen_by()
            ),
        }
    }

    /// Asks all servers.
    ///
    /// # Errors
    ///
    /// The runtime directory cannot be read or trusted.
    pub(super) fn sample(&mut self) -> anyhow::Result<Vec<Sample>> {
        self.find()?;
        let mut pending = Vec::new();
        for (name, asked) in &mut self.servers {
            pending.push(asked.start(name));
        }
        let samples = self.servers.iter_mut().zip(pending).map(|((name, asked), pending)| {
            let answer = match pending {
                Some(pending) => asked.judge(pending.wait()),
                None => Answer::Nothing(asked.problem.clone()),
            };
            let pid = asked.connected.as_ref().and_then(|(client, _)| {
                asked_server::process_of(client).and_then(|process| process.pid)
            });
            Sample { server: name.clone(), pid, answer }
        });
        Ok(samples.collect())
    }

    /// Looks which names there are, and forgets those that have gone.
    fn find(&mut self) -> anyhow::Result<()> {
        if let Some(chosen) = &self.chosen {
            for name in chosen {
                self.servers.entry(name.clone()).or_default();
            }
            return Ok(());
        }
        let sockets = match named_sockets() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            found => found.context("cannot look for servers by name")?,
        };
        self.servers.retain(|name, _| sockets.iter().any(|socket| socket.name == *name));
        let own = process::user_id();
        for socket in sockets {
            let asked = self.servers.entry(socket.name).or_default();
            asked.is_foreign = socket.uid != own && own != 0;
            if asked.is_foreign {
                asked.problem = format!("a server of user {}", socket.uid);
            }
        }
        Ok(())
    }
}

impl Asked {
    /// Sends the question, unless it is not to be asked now.
    fn start(&mut self, name: &str) -> Option<nearcall::client::PendingCall<CountersReply>> {
        if self.is_foreign || self.pause > 0 {
            self.pause = self.pause.saturating_sub(1);
            return None;
        }
        if self.connected.is_none() {
            let client = asked_server::client();
            match ServerCaller::new(&client, name) {
                Ok(caller) => {
                    let options = CallOptions::new().deadline(ANSWER_MAX);
                    self.connected = Some((client, caller.with(options)));
                }
                Err(error) => self.problem = error.to_string(),
            }
        }
        let (_, caller) = self.connected.as_ref()?;
        Some(caller.start_counters(&CountersRequest::default()))
    }

    fn judge(&mut self, answer: Result<CountersReply, Status>) -> Answer {
        match answer {
            Ok(reply) => return Answer::Counters(reply),
            Err(status) => {
                self.problem = self.describe(&status);
                // A refusal is an answer: the connection is as good as before.
                if status.code() == Code::Unavailable {
                    self.connected = None;
                }
                self.pause = PAUSED_TICKS;
            }
        }
        Answer::Nothing(self.problem.clone())
    }

    fn is_reached(&self) -> bool {
        self.connected.as_ref().is_some_and(|(client, _)| !client.connections().is_empty())
    }

    /// Says why there are no counters.
    fn describe(&self, status: &Status) -> String {
        match status.code() {
            Code::Unimplemented => {
                let caller = self.connected.as_ref().map(|(_, caller)| caller);
                let described = caller.map(|it| it.describe(&DescribeRequest::default()));
                match described {
                    Some(Ok(server)) => format!("its version, {}, has no counters", server.version),
                    _ => "its version has no counters".to_owned(),
                }
            }
            Code::DeadlineExceeded => "no answer: it is stopped or a method blocks it".to_owned(),
            // A server that does not let this user in says so by itself.
            Code::PermissionDenied if self.is_reached() => {
                "its counters are for its own user and root".to_owned()
            }
            _ if asked_server::is_absent(status) => "stale: no process listens".to_owned(),
            _ => format!("no answer: {}", status.message()),
        }
    }
}

/// Returns the processor on which a process has run last. `None`: it has ended, or is hidden.
pub(super) fn last_cpu(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have blanks and parentheses in it.
    stat[stat.rfind(')')?..].split_whitespace().nth(CPU_FIELD)?.parse().ok()
}

/// Longest wait for the answer of a server.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Ticks in which a server that has not answered is not asked again.
const PAUSED_TICKS: u32 = 4;

/// The place of the processor behind the name of a process: field 39 of 52 in `proc(5)`.
const CPU_FIELD: usize = 37;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_run_on_a_processor_of_this_machine() {
        let cpu = last_cpu(process::pid()).unwrap();
        let allowed = nearcall_os::cpu::allowed();
        assert!(allowed.contains(&(cpu as usize)), "{cpu} of {allowed:?}");
        assert_eq!(last_cpu(-1), None);
    }
}
