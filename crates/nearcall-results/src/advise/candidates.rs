//! What there is to choose from, and what does not meet the requirements.
//!
//! **Invariants:** every mechanism with every way to wait is either a candidate or excluded, and an
//! exclusion names each requirement that it fails. What exists to be measured is excluded whatever
//! is required. More needs never give more candidates. What the candidates cost is not here
//! (`evidence.rs`).
//!
//! **Invariant:** no mechanism that exists to be compared with is ever advised
//! (`Mechanism::measured_only`), and no cell is left out of the advice for its grade. *Checked by*
//! `no_stored_run_leads_to_what_exists_to_be_measured`,
//! `a_disturbed_cell_is_judged_by_its_interval_and_never_left_out`.

use std::fmt;

use nearcall_channel::mechanism::DataPath;
use nearcall_channel::{Mechanism, WaitPolicy};
use serde::{Deserialize, Serialize};

use super::needs::Need;
use super::requirements::{Placement, Requirements};
use crate::report::number;
use crate::route::Route;
use crate::words;

/// Nearcall's own channel.
pub const OURS: Mechanism = Mechanism::Shm;

/// A mechanism with a way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// How messages travel.
    #[serde(with = "words")]
    pub mechanism: Mechanism,
    /// How the end that asks waits.
    #[serde(with = "words")]
    pub wait: WaitPolicy,
}

impl Candidate {
    /// Every mechanism with every way to wait that it has, in the order of the table.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |mechanism: Mechanism| {
            mechanism.waits().iter().map(move |&wait| Self { mechanism, wait })
        };
        Mechanism::all().flat_map(of).collect()
    }

    /// Who calls over it in a measurement: what polls is in an event loop, and so is what adapts
    /// where a program needs a descriptor.
    #[must_use]
    pub fn route(&self, needs: &[Need]) -> Route {
        let in_loop = match self.wait {
            WaitPolicy::Poll => true,
            WaitPolicy::Adaptive => needs.contains(&Need::Pollable),
            WaitPolicy::Block | WaitPolicy::Spin => false,
        };
        match in_loop {
            true => Route::Looped(self.mechanism),
            false => Route::Blocking(self.mechanism),
        }
    }

    /// Whether an end burns a CPU while it waits.
    #[must_use]
    pub fn spins(&self) -> bool {
        self.wait == WaitPolicy::Spin || self.mechanism.capabilities().needs_spinning
    }

    /// Why it does not have a need; `None` if it does. `all` are the needs that stand beside it: a
    /// connection that reaches other machines can do less.
    #[must_use]
    pub fn lacks(&self, need: Need, all: &[Need]) -> Option<&'static str> {
        let can = self.mechanism.capabilities();
        let far = all.contains(&Need::MultiMachine);
        let in_loop = matches!(self.wait, WaitPolicy::Poll | WaitPolicy::Adaptive);
        let shares_memory = self.mechanism.data_path() == DataPath::SharedMemory;
        let (has, why) = match need {
            Need::Pollable if !can.pollable => (false, "has no descriptor that a loop can wait on"),
            Need::Pollable => (in_loop, "waits in a call of its own, not on a descriptor"),
            Need::CrashDetection => {
                (can.tells_of_death, "does not tell of a death itself; a second descriptor has to")
            }
            Need::Isolation => (can.isolation, "lets a hostile peer interfere"),
            Need::DescriptorPassing if far => (false, "passes no descriptor to another machine"),
            Need::DescriptorPassing => (can.descriptor_passing, "passes no descriptors"),
            Need::MultiMachine => {
                (self.mechanism == Mechanism::Tcp, "ends at the border of its machine")
            }
            Need::NoSpin if self.spins() => (false, "spins"),
            Need::NoSpin => (
                self.wait != WaitPolicy::Adaptive,
                "spins for a bounded share of the time before it sleeps",
            ),
            Need::SameCpuSafe => (
                can.same_cpu_safe && !self.spins(),
                "spins, and so keeps the other end from running on a shared CPU",
            ),
            Need::Oversized => {
                (can.survives_oversized, "refuses a message larger than the room of its channel")
            }
            Need::DeliversAfterDeath => {
                (can.delivers_after_death, "may lose what was under way when the sender died")
            }
            Need::KillSafe => (can.kill_safe, "may break a lock when an end is killed"),
            Need::NothingLeft => {
                (can.vanishes_with_both, "leaves something in the system when both ends are killed")
            }
            Need::SharedMemory => (shares_memory, "has the kernel copy each message"),
        };
        (!has).then_some(why)
    }

    /// What a client puts into its program, for a service called NAME.
    #[must_use]
    pub fn address(&self, needs: &[Need]) -> String {
        match needs.contains(&Need::MultiMachine) {
            true => format!("tcp://HOST:PORT?wait={}", self.wait),
            false => format!("NAME?via={}&wait={}", self.mechanism, self.wait),
        }
    }

    /// What the server listens at, so that it waits as it did in the measurement, and opens the
    /// mechanism.
    #[must_use]
    pub fn server_address(&self, needs: &[Need]) -> String {
        let at = match needs.contains(&Need::MultiMachine) {
            true => "tcp://HOST:PORT",
            false => "NAME",
        };
        let wait = Route::Blocking(self.mechanism).server_wait(self.wait);
        // Elsewhere the server's loop sleeps in the one way that there is.
        let says_wait =
            wait == WaitPolicy::Spin || (self.mechanism == OURS && wait != WaitPolicy::Adaptive);
        // Over tcp:// there is nothing to allow.
        let says_allow = at == "NAME" && !self.mechanism.offered_by_default();
        let wait = says_wait.then(|| format!("wait={wait}"));
        let allow = says_allow.then(|| format!("allow={}", self.mechanism));
        let words: Vec<_> = wait.into_iter().chain(allow).collect();
        if words.is_empty() { at.to_owned() } else { format!("{at}?{}", words.join("&")) }
    }

    /// Says what a server has to do so that a client gets this mechanism. `None`: nothing, since
    /// servers offer it by default.
    #[must_use]
    pub fn server_must(&self, needs: &[Need]) -> Option<String> {
        let mechanism = self.mechanism;
        let reason = mechanism.reason_to_be_named()?;
        // Over tcp:// there is nothing to allow.
        (!needs.contains(&Need::MultiMachine)).then(|| {
            format!(
                "A server does not offer {mechanism} by default ({reason}), and refuses the client \
                 unless it listens at {}, or with \
                 ListenOptions::new().mechanisms(Mechanism::{mechanism:?}); list there what its \
                 other clients use as well.",
                self.server_address(needs)
            )
        })
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.mechanism, self.wait))
    }
}

/// What a candidate was excluded by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The need or the other requirement, as a user gave it: `pollable`, `--placement same`.
    pub requirement: String,
    /// Why the candidate does not meet it; reads after its name.
    pub why: String,
}

/// A candidate that is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The mechanism, and how it waits.
    pub candidate: Candidate,
    /// All that it fails.
    pub by: Vec<Violation>,
}

/// As [`candidates`], on a machine that supports everything.
#[must_use]
pub fn eligible(requirements: &Requirements) -> (Vec<Candidate>, Vec<Excluded>) {
    candidates(requirements, &|_| Ok(()))
}

/// Splits all that there is into what can be chosen and what cannot, on a machine that has what
/// `supported` says; its errors are the reasons.
#[must_use]
pub fn candidates(
    requirements: &Requirements,
    supported: &dyn Fn(Mechanism) -> Result<(), String>,
) -> (Vec<Candidate>, Vec<Excluded>) {
    let (mut kept, mut excluded) = (Vec::new(), Vec::new());
    for candidate in Candidate::all() {
        if candidate.mechanism.measured_only() {
            excluded.push(Excluded { candidate, by: vec![measured_only(candidate.mechanism)] });
            continue;
        }
        let mut by = violations(&candidate, requirements);
        if let (true, Err(why)) = (by.is_empty(), supported(candidate.mechanism)) {
            by.push(Violation { requirement: "this machine".to_owned(), why });
        }
        match by.is_empty() {
            true => kept.push(candidate),
            false => excluded.push(Excluded { candidate, by }),
        }
    }
    (kept, excluded)
}

/// Why a mechanism is never advised.
fn measured_only(mechanism: Mechanism) -> Violation {
    let reason = mechanism.reason_to_be_named().unwrap_or("its peer can interfere");
    Violation {
        requirement: MEASURED_ONLY.to_owned(),
        why: format!("is here to be compared with: {reason}"),
    }
}

/// What stands for a requirement where there is none.
const MEASURED_ONLY: &str = "measured only";

/// Needs of `requirements` that no candidate meets together, none of which can be left out. Of
/// several such sets that of the first in the order of [`Need::ALL`].
pub(crate) fn conflict(requirements: &Requirements) -> Vec<Need> {
    let with = |needs: &[Need]| Requirements { needs: needs.to_vec(), ..requirements.clone() };
    let wanted = Need::ALL.into_iter().filter(|need| requirements.needs.contains(need));
    let mut needs: Vec<Need> = wanted.collect();
    for at in (0..needs.len()).rev() {
        let need = needs.remove(at);
        if !eligible(&with(&needs)).0.is_empty() {
            needs.insert(at, need);
        }
    }
    needs
}

/// Why a candidate does not do, requirement by requirement.
fn violations(candidate: &Candidate, requirements: &Requirements) -> Vec<Violation> {
    let (mechanism, can) = (candidate.mechanism, candidate.mechanism.capabilities());
    let wanted = Need::ALL.into_iter().filter(|need| requirements.needs.contains(need));
    let lacks = wanted.filter_map(|need| {
        Some((need.name(), candidate.lacks(need, &requirements.needs)?.to_owned()))
    });
    let is_bad_on_one_cpu = candidate.spins() || !can.same_cpu_safe;
    let placement = (requirements.placement == Placement::SameCpu && is_bad_on_one_cpu)
        .then(|| ("--placement same", "spins, and so keeps the other end from running".to_owned()));
    let bytes = requirements.message_bytes.max(requirements.reply_bytes.unwrap_or(0));
    let max = can.atomic_message_bytes_max.map(u64::from);
    let size = max.filter(|max| !can.survives_oversized && bytes > *max);
    let size =
        size.map(|max| ("--size", format!("takes messages of {} at most", number::size(max))));
    let serves_one = requirements.clients != Some(1) && mechanism.one_client_in_a_loop();
    let clients = serves_one.then(|| {
        let why = "serves one client of a server with an event loop; --clients 1 says that there \
                   is one";
        ("several clients", why.to_owned())
    });
    let all = lacks.chain(placement).chain(size).chain(clients);
    all.map(|(requirement, why)| Violation { requirement: requirement.to_owned(), why }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(needs: &[Need]) -> Requirements {
        Requirements { needs: needs.to_vec(), ..Requirements::default() }
    }

    #[test]
    fn every_combination_is_kept_or_excluded_with_a_reason() {
        for need in Need::ALL {
            let (kept, excluded) = eligible(&with(&[need]));
            assert_eq!(kept.len() + excluded.len(), Candidate::all().len());
            assert!(!kept.is_empty(), "{need}");
            for one in &excluded {
                let reason = one.by[0].requirement.as_str();
                assert!([need.name(), MEASURED_ONLY, "several clients"].contains(&reason));
            }
        }
    }

    #[test]
    fn measured_only_is_no_candidate_and_one_client_in_a_loop_only_for_one_client() {
        for (clients, serves_one) in [(None, false), (Some(1), true), (Some(2), false)] {
            let (kept, excluded) = eligible(&Requirements { clients, ..with(&[]) });
            for mechanism in Mechanism::all() {
                let expected = match mechanism {
                    _ if mechanism.measured_only() => Some(MEASURED_ONLY),
                    _ if mechanism.one_client_in_a_loop() && !serves_one => Some("several clients"),
                    _ => None,
                };
                let is_kept = kept.iter().any(|one| one.mechanism == mechanism);
                assert_eq!(is_kept, expected.is_none(), "{mechanism} with {clients:?}");
                let why = excluded.iter().find(|one| one.candidate.mechanism == mechanism);
                let by = why.map(|one| (one.by[0].requirement.as_str(), &one.by[0].why));
                assert_eq!(by.map(|by| by.0), expected, "{mechanism} with {clients:?}");
                assert!(by.is_none_or(|by| by.1.contains("client") || by.1.contains("connection")));
            }
            // Named, so that the table of mechanisms cannot lose them unseen.
            let is_kept = |name: &str| kept.iter().any(|one| one.mechanism.name() == name);
            assert!(!["shm-condvar", "shm-mq", "shm-semaphore"].into_iter().any(is_kept));
            assert!(["shm-futex", "sysv-mq"].into_iter().all(|one| is_kept(one) == serves_one));
        }
    }

    #[test]
    fn what_adapts_spins_for_a_while_and_can_be_polled() {
        let lacks = |need, wait| Candidate { mechanism: OURS, wait }.lacks(need, &[need]).is_some();
        for (wait, no_spin, pollable, same_cpu_safe) in [
            (WaitPolicy::Adaptive, false, true, true),
            (WaitPolicy::Spin, false, false, false),
            (WaitPolicy::Block, true, false, true),
        ] {
            assert_eq!(!lacks(Need::NoSpin, wait), no_spin, "{wait}");
            assert_eq!(!lacks(Need::Pollable, wait), pollable, "{wait}");
            assert_eq!(!lacks(Need::SameCpuSafe, wait), same_cpu_safe, "{wait}");
        }
    }

    #[test]
    fn another_need_never_adds_a_candidate() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut needs: Vec<Need> = Need::ALL.into_iter().filter(|_| rng.bool()).collect();
            rng.shuffle(&mut needs);
            needs.truncate(rng.usize(0..5));
            let (before, _) = eligible(&with(&needs));
            needs.push(Need::ALL[rng.usize(..Need::ALL.len())]);
            let (after, _) = eligible(&with(&needs));
            assert!(after.iter().all(|one| before.contains(one)), "{needs:?}");
        }
    }

    #[test]
    fn several_machines_leave_only_tcp() {
        let (kept, _) = eligible(&with(&[Need::MultiMachine]));
        assert!(kept.iter().all(|one| one.mechanism == Mechanism::Tcp));
        assert_eq!(kept[0].address(&[Need::MultiMachine]), "tcp://HOST:PORT?wait=block");
    }

    #[test]
    fn a_server_waits_as_it_did_in_the_measurement() {
        let ours = |wait| Candidate { mechanism: OURS, wait }.server_address(&[]);
        assert_eq!(ours(WaitPolicy::Adaptive), "NAME");
        assert_eq!(ours(WaitPolicy::Spin), "NAME?wait=spin");
        assert_eq!(ours(WaitPolicy::Block), "NAME?wait=poll");
    }

    #[test]
    fn a_conflict_has_no_need_too_many() {
        use Need::{DeliversAfterDeath, DescriptorPassing, Isolation, KillSafe, MultiMachine};
        let cases: [(&[Need], &[Need]); 4] = [
            (&[KillSafe, MultiMachine, DescriptorPassing], &[DescriptorPassing, MultiMachine]),
            (&[Need::SharedMemory, MultiMachine], &[MultiMachine, Need::SharedMemory]),
            (&[Isolation, DeliversAfterDeath, MultiMachine], &[MultiMachine, DeliversAfterDeath]),
            (&Need::ALL, &[DescriptorPassing, MultiMachine]),
        ];
        for (needs, expected) in cases {
            assert_eq!(conflict(&with(needs)), expected, "{needs:?}");
        }
    }

    #[test]
    fn one_cpu_excludes_what_spins() {
        let requirements = Requirements { placement: Placement::SameCpu, ..with(&[]) };
        let (kept, excluded) = eligible(&requirements);
        assert!(kept.iter().all(|one| !one.spins()));
        let of = |one: &Excluded| one.by[0].requirement.clone();
        assert!(
            excluded
                .iter()
                .filter(|one| one.candidate.spins())
                .all(|one| of(one) == "--placement same")
        );
    }
}
