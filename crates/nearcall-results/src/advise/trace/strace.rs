//! One line of what `strace -f -ttt` printed.
//!
//! Knows the forms with `[pid 12]`, with `12 ` (files of `-o`) and without a number; calls that
//! were cut in two (`<unfinished ...>`, `<... read resumed>`); the times of `-T`, the paths of
//! `-y`.
//!
//! **Invariants:** a call that failed or moved nothing gives no message; calls that are still open
//! are forgotten when there are too many.

use std::collections::BTreeMap;

use super::stream::{Direction, Id, Transfer};
use super::table::time_ns;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Bytes were moved, usually by one message; none if the call failed or is another one.
    Moved(Vec<Transfer>),
    /// This thread has new sockets: what their numbers meant before is over.
    Opened(u32, Vec<u32>),
}

impl Event {
    const NOTHING: Self = Self::Moved(Vec::new());
}

/// The calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Strace {
    /// By thread: one is in one call at a time.
    open: BTreeMap<u32, Begun>,
}

/// A call that moves bytes, as far as it is known before it has ended.
#[derive(Clone, Copy, Debug)]
struct Begun {
    kind: CallKind,
    descriptor: u32,
    is_file: bool,
    at_ns: u64,
}

/// The effect of a system call on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallKind {
    direction: Direction,
    is_socket: bool,
    /// Several messages, and the result is their number.
    is_many: bool,
}

impl Strace {
    /// Reads a line; `None` if it is not from `strace -ttt`.
    pub(super) fn line(&mut self, line: &str) -> Option<Event> {
        if line.starts_with("strace: ") || line == UNFINISHED {
            return Some(Event::NOTHING);
        }
        let (pid, at_ns, rest) = head(line)?;
        if is_notice(rest) {
            return Some(Event::NOTHING);
        }
        let (name, begun, end) = match rest.strip_prefix("<... ") {
            Some(rest) => {
                let (name, end) = rest.split_once(" resumed>").filter(|(name, _)| is_name(name))?;
                // One that began before the recording has an unknown descriptor.
                let begun = self.open.remove(&pid);
                (name, begun.filter(|begun| transfer(name) == Some(begun.kind)), end)
            }
            None => {
                let (name, arguments) = rest.split_once('(').filter(|(name, _)| is_name(name))?;
                let begun = transfer(name).and_then(|kind| begin(kind, arguments, at_ns));
                if arguments.ends_with(UNFINISHED) || is_interrupted(arguments) {
                    self.keep(pid, begun);
                    return Some(Event::NOTHING);
                }
                (name, begun, arguments)
            }
        };
        let Some(number) = result(end)? else { return Some(Event::NOTHING) };
        Some(match begun {
            Some(begun) => moved(pid, &begun, at_ns, number, end),
            None => opened(pid, name, number, end),
        })
    }

    /// Whatever was open in the thread has ended without a line.
    fn keep(&mut self, pid: u32, begun: Option<Begun>) {
        self.open.remove(&pid);
        if let Some(begun) = begun.filter(|_| self.open.len() < OPEN_MAX) {
            self.open.insert(pid, begun);
        }
    }
}

/// The descriptors that a call has made, if it makes some.
fn opened(pid: u32, name: &str, number: u64, arguments: &str) -> Event {
    let made: Vec<u32> = match name {
        "socket" | "accept" | "accept4" => u32::try_from(number).into_iter().collect(),
        // "..., [3, 4]) = 0"
        "socketpair" => {
            let pair = arguments.split_once(", [").map_or("", |(_, pair)| pair);
            let numbers = pair.split(", ").take(2);
            numbers.filter_map(|word| u32::try_from(leading_number(word.trim())?).ok()).collect()
        }
        _ => return Event::NOTHING,
    };
    Event::Opened(pid, made)
}

fn moved(pid: u32, begun: &Begun, ended_ns: u64, number: u64, arguments: &str) -> Event {
    let CallKind { direction, is_socket, is_many } = begun.kind;
    let at_ns = if direction == Direction::Out { begun.at_ns } else { ended_ns };
    let sizes: Vec<u64> = match is_many {
        true => {
            let count = usize::try_from(number).unwrap_or(usize::MAX).min(MANY_MAX);
            let lengths = arguments.split("msg_len=").skip(1).filter_map(leading_number);
            lengths.take(count).collect()
        }
        false => vec![number],
    };
    let id = Id { pid, descriptor: begun.descriptor };
    let is_file = begun.is_file;
    let one = |bytes| Transfer { id, direction, bytes, at_ns, is_socket, is_file };
    Event::Moved(sizes.into_iter().filter(|bytes| *bytes > 0).map(one).collect())
}

fn begin(kind: CallKind, arguments: &str, at_ns: u64) -> Option<Begun> {
    let descriptor = u32::try_from(leading_number(arguments)?).ok()?;
    let rest = arguments.trim_start_matches(|char: char| char.is_ascii_digit());
    Some(Begun { kind, descriptor, is_file: rest.starts_with("</"), at_ns })
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
            word.parse().map_or((0, line), |pid| (pid, rest.trim_start()))
        }
    };
    let (time, rest) = rest.split_once(' ')?;
    // Otherwise a line that begins with a number would do.
    let at_ns = time_ns(time).filter(|_| time.contains('.'))?;
    Some((pid, at_ns, rest.trim_start()))
}

/// Signals, exits and the like.
fn is_notice(rest: &str) -> bool {
    let within = |mark: &str| rest.starts_with(mark) && rest.ends_with(mark) && rest.len() > 6;
    within("---") || within("+++") || rest.starts_with("???")
}

/// Whether strace broke off to say that it follows a new thread, as it does on a terminal.
fn is_interrupted(arguments: &str) -> bool {
    arguments.ends_with(" attached") && arguments.contains("strace: Process ")
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_letter)
}

fn transfer(name: &str) -> Option<CallKind> {
    let (direction, is_socket) = match name {
        "write" | "writev" => (Direction::Out, false),
        "read" | "readv" => (Direction::In, false),
        "send" | "sendto" | "sendmsg" | "sendmmsg" => (Direction::Out, true),
        "recv" | "recvfrom" | "recvmsg" | "recvmmsg" => (Direction::In, true),
        _ => return None,
    };
    Some(CallKind { direction, is_socket, is_many: name.ends_with("mmsg") })
}

/// The number behind the last ` = `, as messages may have others in them. `Some(None)`: the call
/// failed, or its result is unknown.
fn result(text: &str) -> Option<Option<u64>> {
    let (before, result) = text.rsplit_once(" = ")?;
    if !before.trim_end().ends_with(')') {
        return None;
    }
    // With -y what a descriptor is stands behind it: `4<socket:[7]>`.
    let word = result.split_whitespace().next()?.split('<').next()?;
    match word.parse::<i64>() {
        Ok(number) => Some(u64::try_from(number).ok()),
        Err(_) => (word == "?" || word.starts_with("0x")).then_some(None),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares what the lines moved: thread, descriptor, direction, bytes. `None`: one of them is
    /// no line of strace.
    #[track_caller]
    fn check(lines: &[&str], expected: Option<&[(u32, u32, Direction, u64)]>) {
        let mut strace = Strace::default();
        let events: Option<Vec<Event>> = lines.iter().map(|line| strace.line(line)).collect();
        let facts = |one: Transfer| (one.id.pid, one.id.descriptor, one.direction, one.bytes);
        let moves = events.map(|events| {
            let moves = events.into_iter().filter_map(|event| match event {
                Event::Moved(moves) => Some(moves),
                Event::Opened(..) => None,
            });
            moves.flatten().map(facts).collect::<Vec<_>>()
        });
        assert_eq!(moves.as_deref(), expected, "{lines:?}");
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
            let found = Strace::default().line(line);
            assert_eq!(found, Some(Event::Opened(12, expected.to_vec())), "{line}");
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
