//! One line of what `strace -f -ttt` printed.
//!
//! Knows the forms with `[pid 12]`, with `12 ` (files of `-o`) and without a number; calls that
//! were cut in two (`<unfinished ...>`, `<... read resumed>`); the times of `-T`, the paths of
//! `-y`. Always true: a call that failed or moved nothing gives no message; calls that are still
//! open are forgotten when there are too many.
//! Not here: the lines themselves (`line.rs`), what messages add up to (`stream.rs`).

use std::collections::BTreeMap;

use super::stream::{Direction, Id, Move};
use super::table::time_ns;

/// What a line was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Bytes were moved, usually by one message.
    Moved(Vec<Move>),
    /// This thread has new sockets: what their numbers meant before is over.
    Opened(u32, Vec<u32>),
    /// Something that strace prints and that moved nothing.
    Nothing,
    /// Not from `strace -ttt`.
    Garbage,
}

/// The calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Strace {
    /// By thread: one is in one call at a time.
    open: BTreeMap<u32, Begun>,
}

/// What is known of a call before it has ended.
#[derive(Clone, Copy, Debug)]
struct Begun {
    what: What,
    descriptor: u32,
    is_file: bool,
    at_ns: u64,
}

/// What a call does with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What {
    direction: Direction,
    is_socket: bool,
    /// Several messages, and the result is their number.
    is_many: bool,
}

impl Strace {
    pub(super) fn line(&mut self, line: &str) -> Said {
        if line.starts_with("strace: ") || line == UNFINISHED {
            return Said::Nothing;
        }
        let Some((pid, at_ns, rest)) = head(line) else { return Said::Garbage };
        if is_event(rest) {
            return Said::Nothing;
        }
        if let Some(rest) = rest.strip_prefix("<... ") {
            return match rest.split_once(" resumed>") {
                Some((name, end)) if is_name(name) => self.resume(pid, name, at_ns, end),
                _ => Said::Garbage,
            };
        }
        let Some((name, arguments)) = rest.split_once('(') else { return Said::Garbage };
        if !is_name(name) {
            return Said::Garbage;
        }
        let begun = what(name).and_then(|what| begin(what, arguments, at_ns));
        if arguments.ends_with(UNFINISHED) || is_talked_into(arguments) {
            let open = begun.filter(|_| self.open.len() < OPEN_MAX || self.open.contains_key(&pid));
            // Whatever was open there has ended without a word.
            match open {
                Some(begun) => drop(self.open.insert(pid, begun)),
                None => drop(self.open.remove(&pid)),
            }
            return Said::Nothing;
        }
        match (result(arguments), begun) {
            (None, _) => Said::Garbage,
            (Some(result), Some(begun)) => moved(pid, &begun, at_ns, result, arguments),
            (Some(result), None) => opened(pid, name, result, arguments),
        }
    }

    fn resume(&mut self, pid: u32, name: &str, at_ns: u64, end: &str) -> Said {
        let Some(result) = result(end) else { return Said::Garbage };
        let begun = self.open.remove(&pid).filter(|begun| what(name) == Some(begun.what));
        match begun {
            Some(begun) => moved(pid, &begun, at_ns, result, end),
            // It began before the recording, so nobody knows its descriptor.
            None => opened(pid, name, result, end),
        }
    }
}

/// The descriptors that a call has made, if it makes some.
fn opened(pid: u32, name: &str, result: Outcome, arguments: &str) -> Said {
    let Outcome::Bytes(number) = result else { return Said::Nothing };
    let made: Vec<u32> = match name {
        "socket" | "accept" | "accept4" => u32::try_from(number).into_iter().collect(),
        // "..., [3, 4]) = 0"
        "socketpair" => {
            let pair = arguments.split_once(", [").map_or("", |(_, pair)| pair);
            let numbers = pair.split(", ").take(2);
            numbers.filter_map(|word| u32::try_from(leading_number(word.trim())?).ok()).collect()
        }
        _ => Vec::new(),
    };
    if made.is_empty() { Said::Nothing } else { Said::Opened(pid, made) }
}

fn moved(pid: u32, begun: &Begun, ended_ns: u64, result: Outcome, arguments: &str) -> Said {
    let Outcome::Bytes(bytes) = result else { return Said::Nothing };
    let at_ns = match begun.what.direction {
        Direction::Out => begun.at_ns,
        Direction::In => ended_ns,
    };
    let one = |bytes| Move {
        id: Id { pid, descriptor: begun.descriptor, generation: 0 },
        direction: begun.what.direction,
        bytes,
        at_ns,
        is_socket: begun.what.is_socket,
        is_file: begun.is_file,
    };
    if !begun.what.is_many {
        return if bytes == 0 { Said::Nothing } else { Said::Moved(vec![one(bytes)]) };
    }
    let count = usize::try_from(bytes).unwrap_or(usize::MAX).min(MANY_MAX);
    let lengths = arguments.split("msg_len=").skip(1).map(leading_number);
    let moves: Vec<Move> =
        lengths.flatten().filter(|bytes| *bytes > 0).take(count).map(one).collect();
    if moves.is_empty() { Said::Nothing } else { Said::Moved(moves) }
}

fn begin(what: What, arguments: &str, at_ns: u64) -> Option<Begun> {
    let descriptor = u32::try_from(leading_number(arguments)?).ok()?;
    let rest = arguments.trim_start_matches(|char: char| char.is_ascii_digit());
    Some(Begun { what, descriptor, is_file: rest.starts_with("</"), at_ns })
}

/// The thread (0 without a number), the time, and the rest of the line.
fn head(line: &str) -> Option<(u32, u64, &str)> {
    let (pid, rest) = match line.strip_prefix("[pid") {
        Some(rest) => {
            let (pid, rest) = rest.split_once(']')?;
            (pid.trim().parse().ok()?, rest.trim_start())
        }
        None => {
            let (word, rest) = line.split_once(char::is_whitespace)?;
            match word.parse() {
                Ok(pid) => (pid, rest.trim_start()),
                Err(_) => (0, line),
            }
        }
    };
    let (time, rest) = rest.split_once(' ')?;
    // Otherwise a line that begins with a number would do.
    let at_ns = time.contains('.').then(|| time_ns(time)).flatten()?;
    Some((pid, at_ns, rest.trim_start()))
}

/// Signals, exits and the like.
fn is_event(rest: &str) -> bool {
    let within = |mark: &str| rest.starts_with(mark) && rest.ends_with(mark) && rest.len() > 6;
    within("---") || within("+++") || rest.starts_with("???")
}

/// Whether strace broke off to say that it follows a new thread, as it does on a terminal.
fn is_talked_into(arguments: &str) -> bool {
    arguments.ends_with(" attached") && arguments.contains("strace: Process ")
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_letter)
}

fn what(name: &str) -> Option<What> {
    let (direction, is_socket) = match name {
        "write" | "writev" => (Direction::Out, false),
        "read" | "readv" => (Direction::In, false),
        "send" | "sendto" | "sendmsg" | "sendmmsg" => (Direction::Out, true),
        "recv" | "recvfrom" | "recvmsg" | "recvmmsg" => (Direction::In, true),
        _ => return None,
    };
    Some(What { direction, is_socket, is_many: name.ends_with("mmsg") })
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Bytes(u64),
    /// By an error, or nobody knows.
    Failed,
}

/// Of the last ` = ` on: messages may have others in them.
fn result(text: &str) -> Option<Outcome> {
    let (before, result) = text.rsplit_once(" = ")?;
    if !before.trim_end().ends_with(')') {
        return None;
    }
    // With -y what a descriptor is stands behind it: `4<socket:[7]>`.
    let word = result.split_whitespace().next()?.split('<').next()?;
    match word.parse::<i64>() {
        Ok(number) => Some(u64::try_from(number).map_or(Outcome::Failed, Outcome::Bytes)),
        Err(_) if word == "?" || word.starts_with("0x") => Some(Outcome::Failed),
        Err(_) => None,
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

const UNFINISHED: &str = "<unfinished ...>";

/// Threads that are in a call at once. More are not traced at a bearable speed.
const OPEN_MAX: usize = 4_096;

/// Messages of one call, as the kernel has it.
const MANY_MAX: usize = 1_024;

/// No system call has a longer name.
const NAME_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lines moved: thread, descriptor, direction, bytes. `None`: the last was garbage.
    #[track_caller]
    fn check(lines: &[&str], expected: Option<&[(u32, u32, Direction, u64)]>) {
        let mut strace = Strace::default();
        let (mut moves, mut was_garbage) = (Vec::new(), false);
        for line in lines {
            let said = strace.line(line);
            was_garbage = said == Said::Garbage;
            if let Said::Moved(some) = said {
                let facts = |one: Move| (one.id.pid, one.id.descriptor, one.direction, one.bytes);
                moves.extend(some.into_iter().map(facts));
            }
        }
        assert_eq!((!was_garbage).then_some(&moves[..]), expected, "{lines:?}");
    }

    use Direction::{In, Out};

    #[test]
    fn each_form_of_a_call_is_understood() {
        let sent = "1.5 write(5, \"a\\\"b) = 7\"..., 120) = 120";
        check(&[sent], Some(&[(0, 5, Out, 120)]));
        check(&[&format!("12 {sent}")], Some(&[(12, 5, Out, 120)]));
        check(&[&format!("12    {sent} <0.000017>")], Some(&[(12, 5, Out, 120)]));
        check(&[&format!("[pid   123] {sent}")], Some(&[(123, 5, Out, 120)]));
        check(&["1.5 read(3<socket:[7]>, \"x\", 9)    = 1"], Some(&[(0, 3, In, 1)]));
        let name = "{msg_name=NULL, msg_iov=[{iov_base=\"one\", iov_len=3}], msg_flags=0}";
        check(&[&format!("1.5 sendmsg(8, {name}, 0) = 3")], Some(&[(0, 8, Out, 3)]));
        check(&[&format!("1.5 recvmsg(9, {name}, 0) = 3")], Some(&[(0, 9, In, 3)]));
        check(&["1.5 sendto(8, \"xx\"..., 40, 0, NULL, 0) = 40"], Some(&[(0, 8, Out, 40)]));
        let many = "[{msg_hdr={msg_iovlen=1}, msg_len=4}, {msg_hdr={}, msg_len=8}], 2, 0) = 2";
        check(&[&format!("1.5 sendmmsg(3, {many}")], Some(&[(0, 3, Out, 4), (0, 3, Out, 8)]));
    }

    #[test]
    fn what_moved_nothing_is_no_message() {
        for line in [
            "1.5 read(4, 0x7f42a94c3e00, 10) = -1 EAGAIN (Resource temporarily unavailable)",
            "1.5 recvfrom(4, \"\", 65536, 0, NULL, NULL) = 0",
            "1.5 read(4, 0x7f42a94c3e00, 10) = ? ERESTARTSYS (To be restarted)",
            "1.5 socketpair(AF_UNIX, SOCK_STREAM, 0, 0x7ffe) = -1 EMFILE (Too many open files)",
            "1.5 getsockname(9, {sa_family=AF_UNIX}, [110 => 2]) = 0",
            "12 1.5 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---",
            "12 1.5 +++ exited with 0 +++",
            "1.5 +++ killed by SIGKILL +++",
            "strace: Process 25846 attached",
            "1.5 <... read resumed>\"x\", 4096) = 1",
            "<unfinished ...>",
        ] {
            check(&[line], Some(&[]));
        }
    }

    #[test]
    fn new_sockets_are_told() {
        let check = |line: &str, expected: &[u32]| {
            assert_eq!(Strace::default().line(line), Said::Opened(12, expected.to_vec()), "{line}");
        };
        check("12 1.5 socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0", &[3, 4]);
        check("12 1.5 socket(AF_UNIX, SOCK_STREAM, 0) = 7", &[7]);
        check("12 1.5 accept4(3, NULL, NULL, SOCK_CLOEXEC) = 8", &[8]);
        check("12 1.5 <... accept4 resumed>NULL, NULL, SOCK_CLOEXEC) = 8", &[8]);
        check("12 1.5 socketpair(AF_UNIX, SOCK_STREAM, 0, [3<socket:[1]>, 4]) = 0", &[3, 4]);
        check("12 1.5 accept4(3<socket:[1]>, NULL, NULL, 0) = 4<socket:[7]>", &[4]);
        check("12 1.5 socket(AF_UNIX, SOCK_STREAM, 0) = 5<UNIX-STREAM:[9 10]> <0.00001>", &[5]);
    }

    #[test]
    fn calls_that_were_cut_in_two_are_put_together() {
        check(
            &[
                "12 1.5 recvfrom(4,  <unfinished ...>",
                "13 1.6 sendto(3, \"mm\", 2, 0, NULL, 0 <unfinished ...>",
                "12 1.7 <... recvfrom resumed>\"mm\", 65536, 0, NULL, NULL) = 2",
                "13 1.8 <... sendto resumed>) = 2",
            ],
            Some(&[(12, 4, In, 2), (13, 3, Out, 2)]),
        );
        check(
            &[
                "[pid 12] 1.5 recvfrom(4, strace: Process 25847 attached",
                "<unfinished ...>",
                "[pid 12] 1.7 <... recvfrom resumed>\"mm\", 9, 0, NULL, NULL) = 2",
            ],
            Some(&[(12, 4, In, 2)]),
        );
        let other = ["12 1.5 read(4,  <unfinished ...>", "12 1.7 <... write resumed>) = 2"];
        check(&other, Some(&[]));
    }

    #[test]
    fn other_lines_are_garbage() {
        for line in [
            "",
            "hello",
            "1.5",
            "1.5 ",
            "12 write(5, \"a\", 1) = 1",
            "16:01:02.5 write(5, \"a\", 1) = 1",
            "1.5 write(5, \"a\", 1)",
            "1.5 write(5, \"a\", 1) = one",
            "1.5 write(5, \"a\", 1) = ",
            "1.5 Write(5, \"a\", 1) = 1",
            "1.5 <... read",
            "[pid x] 1.5 write(5, \"a\", 1) = 1",
            "[pid 5",
            "1.5 ---",
        ] {
            check(&[line], None);
        }
    }

    #[test]
    fn open_calls_are_forgotten_when_there_are_too_many() {
        let mut strace = Strace::default();
        for pid in 0..2 * OPEN_MAX {
            strace.line(&format!("{pid} 1.5 read(4,  <unfinished ...>"));
        }
        assert_eq!(strace.open.len(), OPEN_MAX);
    }
}
