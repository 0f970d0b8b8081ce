//! What is wrong with the servers of this user and the places where they are found.
//!
//! **Invariants:** each check gives exactly one finding, a pure judgement of [`Facts`]; gathering
//! them asks each server for a second at most, and changes nothing.
//! **Not here:** the machine (`nearcall_bench::doctor`), how findings are shown (`doctor.rs`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nearcall::observe::{NameEntry, NameProblem};
use nearcall_bench::doctor::{Concern, Finding, Severity};
use nearcall_channel::runtime_dir;
use nearcall_os::process;

/// What the checks need.
pub(super) struct Facts {
    own_user: u32,
    own_version: &'static str,
    /// Each name with what became of asking its server; or why names cannot be looked at.
    names: Result<Vec<Name>, String>,
    /// Paths in the runtime directory at which a process listens, and whose files are gone.
    vanished: Vec<PathBuf>,
    /// Other directories that servers of some user may have, and whose they are.
    others: Vec<(PathBuf, u32)>,
}

/// A name, and what became of asking its server.
struct Name {
    name: String,
    outcome: Outcome,
}

enum Outcome {
    /// It answers, and has this version.
    Version(String),
    Stale,
    OfUser(u32),
    Silent(String),
}

/// Looks at the servers of this user.
pub(super) fn read() -> Vec<Finding> {
    findings(&read_facts())
}

fn read_facts() -> Facts {
    let directory = runtime_dir::path();
    let names = nearcall::observe::names();
    let listening = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    Facts {
        own_user: process::user_id(),
        own_version: env!("CARGO_PKG_VERSION"),
        names: names
            .map(|names| names.iter().map(Name::of).collect())
            .map_err(|status| status.message().to_owned()),
        vanished: listening_below(&listening, &directory)
            .into_iter()
            .filter(|path| !path.exists())
            .collect(),
        others: other_directories(&directory),
    }
}

impl Name {
    fn of(entry: &NameEntry) -> Self {
        let outcome = match &entry.server {
            Ok(server) => Outcome::Version(server.version.clone()),
            Err(NameProblem::Stale) => Outcome::Stale,
            Err(NameProblem::OtherUser(uid)) => Outcome::OfUser(*uid),
            Err(problem) => Outcome::Silent(problem.to_string()),
        };
        Self { name: entry.name.clone(), outcome }
    }
}

/// Returns the paths below a directory at which processes listen, by the text of `/proc/net/unix`.
fn listening_below(text: &str, directory: &Path) -> Vec<PathBuf> {
    let listens = text.lines().skip(1).filter_map(|line| {
        // Num RefCount Protocol Flags Type St Inode Path, the last of which may have blanks.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
        let start = line.find('/')?;
        (flags & LISTENS != 0).then(|| PathBuf::from(&line[start..]))
    });
    let mut paths: Vec<_> = listens.filter(|path| path.parent() == Some(directory)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Returns the directories that servers of any user have by default, without the one in use.
fn other_directories(own: &Path) -> Vec<(PathBuf, u32)> {
    let users_in = |directory: &str, prefix: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect::<Vec<u32>>()
    };
    let users = [vec![0], users_in("/run/user", ""), users_in("/tmp", "nearcall-")].concat();
    let mut found: Vec<_> = users
        .into_iter()
        .flat_map(runtime_dir::usual_of)
        .filter(|path| path != own)
        .filter_map(|path| {
            let owner = fs::symlink_metadata(&path).ok()?.uid();
            Some((path, owner))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn findings(facts: &Facts) -> Vec<Finding> {
    vec![names(facts), vanished(facts), versions(facts), directories(facts)]
}

/// Judges whether each name leads to a server.
fn names(facts: &Facts) -> Finding {
    let why = "a name leads to a server only while that server lives and answers";
    let entries = match &facts.names {
        Ok(entries) => entries,
        Err(error) => {
            let advice = "see the finding runtime_directory";
            return finding("server_names", Severity::Problem, error.clone(), why, advice);
        }
    };
    let bad: Vec<_> = entries
        .iter()
        .filter_map(|it| match &it.outcome {
            Outcome::Version(_) => None,
            Outcome::Stale => Some(format!("{} is stale: its server was killed", it.name)),
            Outcome::OfUser(uid) => Some(format!("{} is taken by user {uid}", it.name)),
            Outcome::Silent(problem) => Some(format!("{}: {problem}", it.name)),
        })
        .collect();
    let is_stale_only =
        entries.iter().all(|it| matches!(it.outcome, Outcome::Version(_) | Outcome::Stale));
    match (bad.is_empty(), is_stale_only) {
        (true, _) => ok("server_names", format!("{} names, all answer", entries.len()), why),
        (_, true) => {
            let advice = "start the server again, which takes the name over, or remove what it \
                          has left by `nearcall stop NAME`";
            finding("server_names", Severity::Note, bad.join("; "), why, advice)
        }
        _ => {
            let advice = "look whether the process is stopped or blocked (`ps`), and restart it; \
                          have a server whose name is taken listen at another one";
            finding("server_names", Severity::Warning, bad.join("; "), why, advice)
        }
    }
}

/// Judges whether the sockets of all that listen are still there.
fn vanished(facts: &Facts) -> Finding {
    let why = "a server whose socket file was removed runs on, and no new client finds it";
    if facts.vanished.is_empty() {
        return ok("sockets", "no socket of a running server was removed".to_owned(), why);
    }
    let paths: Vec<_> = facts.vanished.iter().map(|path| path.display().to_string()).collect();
    let advice = "restart the server; nothing but servers should remove files of the runtime \
                  directory, such as a cleaner of /tmp";
    finding("sockets", Severity::Warning, format!("removed: {}", paths.join(", ")), why, advice)
}

/// Judges whether servers have the version of this program.
fn versions(facts: &Facts) -> Finding {
    let why = "ends of different versions call each other, but some mechanisms and what tools \
               show need the same version";
    let mut others = Vec::new();
    for entry in facts.names.as_deref().unwrap_or_default() {
        if let Outcome::Version(version) = &entry.outcome
            && version != facts.own_version
        {
            others.push(format!("{} has {version}", entry.name));
        }
    }
    let own = facts.own_version;
    if others.is_empty() {
        return ok("versions", format!("all servers have {own}, as this program"), why);
    }
    let found = format!("this program has {own}; {}", others.join(", "));
    let advice = "build all programs with one version, or use the program of the server's";
    finding("versions", Severity::Note, found, why, advice)
}

/// Judges other directories in which there may be servers.
fn directories(facts: &Facts) -> Finding {
    let why = "a name leads to servers of the same user in one directory, so servers elsewhere \
               are not found by it";
    let mut found = Vec::new();
    let mut worst = Severity::Ok;
    for (path, owner) in &facts.others {
        let path = path.display();
        let belongs_to = path.to_string().rsplit('-').next().and_then(|uid| uid.parse().ok());
        let is_squatted = *owner != facts.own_user && belongs_to == Some(facts.own_user);
        let severity = match *owner == facts.own_user {
            true => Severity::Note,
            false if is_squatted => Severity::Warning,
            false => Severity::Ok,
        };
        worst = worst.max(severity);
        found.push(format!("{path} of user {owner}"));
    }
    if found.is_empty() {
        return ok("other_directories", "none".to_owned(), why);
    }
    let advice = match worst {
        Severity::Warning => {
            "have the other user remove the directory with your number in its name; until then \
             set NEARCALL_RUNTIME_DIR"
        }
        Severity::Note => {
            "start programs that are to find each other with the same XDG_RUNTIME_DIR and \
             NEARCALL_RUNTIME_DIR"
        }
        _ => "",
    };
    finding("other_directories", worst, found.join(", "), why, advice)
}

fn ok(what: &str, found: String, why: &str) -> Finding {
    finding(what, Severity::Ok, found, why, "")
}

fn finding(what: &str, severity: Severity, found: String, why: &str, advice: &str) -> Finding {
    let [what, why, advice] = [what, why, advice].map(str::to_owned);
    Finding { what, concerns: Concern::Ipc, severity, found, why, advice }
}

/// The flag of a socket that listens (`SO_ACCEPTCON`).
const LISTENS: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            own_user: 1000,
            own_version: "1.2.0",
            names: Ok(Vec::new()),
            vanished: Vec::new(),
            others: Vec::new(),
        }
    }

    fn name(name: &str, outcome: Outcome) -> Name {
        Name { name: name.to_owned(), outcome }
    }

    #[track_caller]
    fn check(facts: &Facts, what: &str, severity: Severity, found: &str) {
        let all = findings(facts);
        let finding = all.iter().find(|finding| finding.what == what).unwrap();
        assert_eq!((finding.severity, &*finding.found), (severity, found));
        assert_eq!(finding.advice.is_empty(), severity == Severity::Ok, "{finding:?}");
    }

    #[test]
    fn names_without_a_server_are_told_from_those_whose_server_is_silent() {
        let alive = || name("a", Outcome::Version("1.2.0".into()));
        check(&facts(), "server_names", Severity::Ok, "0 names, all answer");
        let stale = Facts { names: Ok(vec![alive(), name("b", Outcome::Stale)]), ..facts() };
        check(&stale, "server_names", Severity::Note, "b is stale: its server was killed");
        let silent = name("c", Outcome::Silent("no answer".into()));
        let both = Facts { names: Ok(vec![silent, name("d", Outcome::OfUser(7))]), ..facts() };
        check(&both, "server_names", Severity::Warning, "c: no answer; d is taken by user 7");
        let none = Facts { names: Err("cannot be trusted".into()), ..facts() };
        check(&none, "server_names", Severity::Problem, "cannot be trusted");
    }

    #[test]
    fn servers_of_another_version_are_named() {
        let old = name("old", Outcome::Version("1.1.9".into()));
        let mixed = Facts { names: Ok(vec![old]), ..facts() };
        let found = "this program has 1.2.0; old has 1.1.9";
        check(&mixed, "versions", Severity::Note, found);
    }

    #[test]
    fn a_listening_path_without_a_file_has_vanished() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/nearcall/gone\n\
                    0000000000000000: 00000002 00000000 00000000 0001 03 22 /run/nearcall/joined\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 23 /run/other\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 24 @abstract\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 25\n";
        let found = listening_below(text, Path::new("/run/nearcall"));
        assert_eq!(found, [PathBuf::from("/run/nearcall/gone")]);
        let gone = Facts { vanished: found, ..facts() };
        check(&gone, "sockets", Severity::Warning, "removed: /run/nearcall/gone");
    }

    #[test]
    fn a_directory_of_our_number_in_other_hands_is_a_warning() {
        let others = |others: &[(&str, u32)]| Facts {
            others: others.iter().map(|(path, uid)| (PathBuf::from(path), *uid)).collect(),
            ..facts()
        };
        check(&others(&[]), "other_directories", Severity::Ok, "none");
        let foreign = others(&[("/run/user/7/nearcall", 7)]);
        check(&foreign, "other_directories", Severity::Ok, "/run/user/7/nearcall of user 7");
        let own = others(&[("/run/user/1000/nearcall", 1000)]);
        let found = "/run/user/1000/nearcall of user 1000";
        check(&own, "other_directories", Severity::Note, found);
        let squatted = others(&[("/tmp/nearcall-1000", 7)]);
        check(&squatted, "other_directories", Severity::Warning, "/tmp/nearcall-1000 of user 7");
    }

    #[test]
    fn this_machine_can_be_judged() {
        assert_eq!(read().len(), 4);
    }
}
