//! One line of what `strace -f -ttt -o FILE` printed.
//!
//! Knows the forms with `[pid 12]`, with `12 ` (files of `-o`) and without a number; calls that
//! were cut in two (`<unfinished ...>`, `<... read resumed>`); the times of `-T`, the paths of
//! `-y`.
//!
//! **Invariants:** a call that failed or moved nothing gives no message; calls that are still open
//! are forgotten when there are too many.

use std::collections::BTreeMap;

use super::stream::{Direction, Transfer};

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A call that failed or moved nothing, or what is no call.
    Nothing,
    /// Bytes were moved, usually by one message.
    Moved(Transfer),
    /// This thread has new sockets: what their numbers meant before is over.
    Opened(u32, Vec<u32>),
}

/// The calls that are under way.
#[derive(Debug, Default)]
pub(super) struct Strace {
    /// By thread: one is in one call at a time.
    open: BTreeMap<u32, (String, Transfer)>,
}

impl Strace {
    /// Reads a line; `None` if it is not from `strace -ttt`.
    pub(super) fn line(&mut self, line: &str) -> Option<Event> {
        if line.starts_with("strace: ") {
            return Some(Event::Nothing);
        }
        let (pid, at_ns, rest) = head(line)?;
        if is_notice(rest) {
            return Some(Event::Nothing);
        }
        let (name, begun, end) = match rest.strip_prefix("<... ") {
            Some(rest) => {
                let (name, end) = rest.split_once(" resumed>").filter(|(name, _)| is_name(name))?;
                // One that began before the recording has an unknown descriptor.
                let begun = self.open.remove(&pid).filter(|(begun, _)| begun == name);
                (name, begun.map(|(_, begun)| begun), end)
            }
            None => {
                let (name, arguments) = rest.split_once('(').filter(|(name, _)| is_name(name))?;
                let begun = begin(pid, name, arguments, at_ns);
                if arguments.ends_with("<unfinished ...>") {
                    // Whatever was open in the thread has ended without a line.
                    self.open.remove(&pid);
                    if let Some(begun) = begun.filter(|_| self.open.len() < OPEN_MAX) {
                        self.open.insert(pid, (name.to_owned(), begun));
                    }
                    return Some(Event::Nothing);
                }
                (name, begun, arguments)
            }
        };
        let Some(number) = result(end)? else { return Some(Event::Nothing) };
        Some(match begun {
            Some(_) if number == 0 => Event::Nothing,
            Some(begun) if begun.direction == Direction::Out => {
                Event::Moved(Transfer { bytes: number, ..begun })
            }
            Some(begun) => Event::Moved(Transfer { bytes: number, at_ns, ..begun }),
            None => opened(pid, name, number, end),
        })
    }
}

/// The descriptors that a call has made, if it makes some.
fn opened(pid: u32, name: &str, number: u64, arguments: &str) -> Event {
    let made = match name {
        "socket" | "accept" | "accept4" => u32::try_from(number).into_iter().collect(),
        // "..., [3, 4]) = 0"
        "socketpair" => {
            let pair = arguments.split_once(", [").map_or("", |(_, pair)| pair);
            pair.split(", ").take(2).filter_map(leading_number).collect()
        }
        _ => return Event::Nothing,
    };
    Event::Opened(pid, made)
}

/// What a call will move that begins like this, but for its bytes. None of a path, which is a file.
fn begin(pid: u32, name: &str, arguments: &str, at_ns: u64) -> Option<Transfer> {
    let (direction, is_socket) = match name {
        "write" | "writev" => (Direction::Out, false),
        "read" | "readv" => (Direction::In, false),
        "send" | "sendto" | "sendmsg" => (Direction::Out, true),
        "recv" | "recvfrom" | "recvmsg" => (Direction::In, true),
        _ => return None,
    };
    let rest = arguments.trim_start_matches(|char: char| char.is_ascii_digit());
    let id = (pid, leading_number(arguments).filter(|_| !rest.starts_with("</"))?);
    Some(Transfer { id, direction, bytes: 0, at_ns, is_socket })
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
    Some((pid, time_ns(time)?, rest.trim_start()))
}

/// "1795276511.266688" as nanoseconds, without losing the last digits.
fn time_ns(text: &str) -> Option<u64> {
    // Otherwise a line that begins with a number would do.
    let (whole, part) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
    let seconds: u64 = whole.parse().ok().filter(|_| digits(whole) && digits(part))?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nine.parse().ok()?)
}

/// Signals, exits and the like.
fn is_notice(rest: &str) -> bool {
    let within = |mark: &str| rest.starts_with(mark) && rest.ends_with(mark) && rest.len() > 6;
    within("---") || within("+++") || rest.starts_with("???")
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_letter)
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

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Threads that are in a call at once. More are not traced at a bearable speed.
const OPEN_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    use Direction::{In, Out};

    /// Compares what the lines moved: thread, descriptor, direction, bytes. `None`: one of them is
    /// no line of strace.
    #[track_caller]
    fn check(lines: &[&str], expected: Option<&[(u32, u32, Direction, u64)]>) {
        let mut strace = Strace::default();
        let events: Option<Vec<Event>> = lines.iter().map(|line| strace.line(line)).collect();
        let moves = events.map(|events| {
            let moves = events.into_iter().filter_map(|event| match event {
                Event::Moved(one) => Some((one.id.0, one.id.1, one.direction, one.bytes)),
                _ => None,
            });
            moves.collect::<Vec<_>>()
        });
        assert_eq!(moves.as_deref(), expected, "{lines:?}");
    }

    #[test]
    fn each_form_of_a_call_is_understood() {
        let sent = "1.5 write(5, \"a\\\"b) = 7\"..., 120) = 120";
        let name = "{msg_name=NULL, msg_iov=[{iov_base=\"one\", iov_len=3}], msg_flags=0}";
        for (line, expected) in [
            (sent.to_owned(), (0, 5, Out, 120)),
            (format!("12 {sent}"), (12, 5, Out, 120)),
            (format!("12    {sent} <0.000017>"), (12, 5, Out, 120)),
            (format!("[pid   123] {sent}"), (123, 5, Out, 120)),
            ("1.5 read(3<socket:[7]>, \"x\", 9)    = 1".to_owned(), (0, 3, In, 1)),
            (format!("1.5 sendmsg(8, {name}, 0) = 3"), (0, 8, Out, 3)),
            (format!("1.5 recvmsg(9, {name}, 0) = 3"), (0, 9, In, 3)),
            ("1.5 sendto(8, \"xx\"..., 40, 0, NULL, 0) = 40".to_owned(), (0, 8, Out, 40)),
        ] {
            check(&[&line], Some(&[expected]));
        }
        let time = |text: &str| time_ns(text);
        assert_eq!(time("1795276511.266688"), Some(1_795_276_511_266_688_000));
        for text in ["7", "-1.5", "nan", "99999999999999.5", ".", "12:30:01.5"] {
            assert_eq!(time(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_moved_nothing_is_no_message_and_other_lines_are_garbage() {
        for line in [
            "1.5 read(4, 0x7f42a94c3e00, 10) = -1 EAGAIN (Resource temporarily unavailable)",
            "1.5 recvfrom(4, \"\", 65536, 0, NULL, NULL) = 0",
            "1.5 read(4, 0x7f42a94c3e00, 10) = ? ERESTARTSYS (To be restarted)",
            "1.5 read(4</var/log/x>, \"a\", 1) = 1",
            "1.5 socketpair(AF_UNIX, SOCK_STREAM, 0, 0x7ffe) = -1 EMFILE (Too many open files)",
            "1.5 getsockname(9, {sa_family=AF_UNIX}, [110 => 2]) = 0",
            "12 1.5 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---",
            "12 1.5 +++ exited with 0 +++",
            "strace: Process 25846 attached",
            "1.5 <... read resumed>\"x\", 4096) = 1",
        ] {
            check(&[line], Some(&[]));
        }
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
    fn new_sockets_are_told() {
        for (line, expected) in [
            ("socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0", &[3, 4][..]),
            ("socketpair(AF_UNIX, SOCK_STREAM, 0, [3<socket:[1]>, 4]) = 0", &[3, 4]),
            ("socket(AF_UNIX, SOCK_STREAM, 0) = 5<UNIX-STREAM:[9 10]> <0.00001>", &[5]),
            ("accept4(3<socket:[1]>, NULL, NULL, 0) = 4<socket:[7]>", &[4]),
            ("<... accept4 resumed>NULL, NULL, SOCK_CLOEXEC) = 8", &[8]),
        ] {
            let found = Strace::default().line(&format!("12 1.5 {line}"));
            assert_eq!(found, Some(Event::Opened(12, expected.to_vec())), "{line}");
        }
    }

    #[test]
    fn calls_that_were_cut_in_two_are_put_together_and_too_many_forgotten() {
        check(
            &[
                "12 1.5 recvfrom(4,  <unfinished ...>",
                "13 1.6 sendto(3, \"mm\", 2, 0, NULL, 0 <unfinished ...>",
                "12 1.7 <... recvfrom resumed>\"mm\", 65536, 0, NULL, NULL) = 2",
                "13 1.8 <... sendto resumed>) = 2",
            ],
            Some(&[(12, 4, In, 2), (13, 3, Out, 2)]),
        );
        let other = ["12 1.5 read(4,  <unfinished ...>", "12 1.7 <... write resumed>) = 2"];
        check(&other, Some(&[]));
        let mut strace = Strace::default();
        for pid in 0..2 * OPEN_MAX {
            strace.line(&format!("{pid} 1.5 read(4,  <unfinished ...>"));
        }
        assert_eq!(strace.open.len(), OPEN_MAX);
    }
}
