//! Stacks as `perf script` prints them, folded: one line for each different stack, with its count.
//!
//! Pure text. The form is that of Brendan Gregg's tools: frames from the root on, with semicolons
//! between them, a blank, the count. Kernel frames end with `_[k]`.

use std::collections::BTreeMap;

/// Stacks of one end with how often each was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    /// Frames from the root on, joined by semicolons.
    pub(crate) stacks: BTreeMap<String, u64>,
}

impl Folded {
    /// Reads what `perf script -F comm,tid,ip,sym,dso` prints. `root` becomes the first frame.
    pub(crate) fn parse(text: &str, root: &str) -> Self {
        let mut folded = Self::default();
        let mut frames: Vec<String> = Vec::new();
        let mut inside = false;
        // An empty line ends a sample, and so does the end.
        for line in text.lines().chain([""]) {
            if line.trim().is_empty() {
                if inside {
                    frames.push(root.to_owned());
                    frames.reverse();
                    *folded.stacks.entry(frames.join(";")).or_default() += 1;
                }
                frames.clear();
                inside = false;
            } else if !line.starts_with([' ', '\t']) {
                // The program and the thread: a sample begins.
                inside = true;
            } else if inside && frames.len() < FRAMES_MAX {
                frames.extend(frame(line));
            }
        }
        folded
    }

    /// How many samples there are.
    pub(crate) fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns whether most samples have frames of the file `program` without a function's name.
    pub(crate) fn lacks_names(&self, program: &str) -> bool {
        let nameless = format!("[{program}]");
        let lacks = |(stack, _): &(&String, &u64)| stack.split(';').any(|frame| frame == nameless);
        let lacking: u64 = self.stacks.iter().filter(lacks).map(|(_, count)| count).sum();
        2 * lacking > self.samples()
    }

    /// Returns whether any sample has a frame of the kernel.
    pub(crate) fn shows_kernel(&self) -> bool {
        self.stacks.keys().any(|stack| stack.split(';').any(|frame| frame.ends_with(KERNEL)))
    }

    /// The file's text.
    pub(crate) fn text(&self) -> String {
        let line = |(stack, count): (&String, &u64)| format!("{stack} {count}\n");
        self.stacks.iter().map(line).collect()
    }
}

/// `ffffffff813a2413 finish_task_switch ([kernel.kallsyms])`: the name of a function.
fn frame(line: &str) -> Option<String> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (name, object) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    let object = object.trim_end_matches(')');
    let file = object.rsplit('/').next().unwrap_or(object);
    let name = name.trim();
    let known = !name.is_empty() && name != "[unknown]";
    let mut frame = match known {
        true => name.to_owned(),
        false if file.is_empty() || object == "[unknown]" => "[unknown]".to_owned(),
        false => format!("[{}]", file.trim_matches(['[', ']'])),
    };
    // What separates frames cannot be part of one; nor what moves a terminal's cursor.
    frame = frame.replace(';', ":").replace(char::is_control, "?");
    if object.starts_with("[kernel") || object.ends_with(".ko") || object.starts_with("[guest") {
        frame.push_str(KERNEL);
    }
    Some(frame)
}

/// What the names of the kernel's frames end with.
const KERNEL: &str = "_[k]";

/// Deeper stacks are cut: a reader wants no more, and the input is not ours.
const FRAMES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
nearcall 77
\tffffffff81 schedule ([kernel.kallsyms])
\tffffffff82 do_syscall_64 ([kernel.kallsyms])
\t       1b7 <nearcall_os::pipe::Fd as a;b>::read (/usr/bin/nearcall)
\t         0 [unknown] ([unknown])

nearcall 77
\t       1b7 spin (/usr/bin/nearcall)
\t       1b8 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)

nearcall 77
\t       1b7 spin (/usr/bin/nearcall)
\t       1b8 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)
";

    #[test]
    fn samples_are_folded_from_the_root_on() {
        let folded = Folded::parse(TEXT, "client");
        assert_eq!(
            folded.text(),
            "client;[libc.so.6];spin 2\n\
             client;[unknown];<nearcall_os::pipe::Fd as a:b>::read;do_syscall_64_[k];schedule_[k] \
             1\n"
        );
        assert_eq!(folded.samples(), 3);
    }

    #[test]
    fn a_program_without_symbols_is_recognised() {
        let named = Folded::parse(TEXT, "client");
        assert!(!named.lacks_names("nearcall") && named.lacks_names("libc.so.6"));
        let stripped = TEXT.replace("spin", "[unknown]");
        assert!(Folded::parse(&stripped, "client").lacks_names("nearcall"));
        assert!(!Folded::default().lacks_names("nearcall"));
    }

    #[test]
    fn samples_of_user_space_alone_do_not_show_the_kernel() {
        assert!(Folded::parse(TEXT, "client").shows_kernel());
        let outside = |line: &&str| !line.contains("[kernel");
        let lines: Vec<&str> = TEXT.lines().filter(outside).collect();
        let user_only = Folded::parse(&lines.join("\n"), "client");
        assert!(user_only.samples() == 3 && !user_only.shows_kernel());
        assert!(!Folded::default().shows_kernel());
    }

    #[test]
    fn nonsense_gives_no_stacks() {
        assert_eq!(Folded::parse("", "x"), Folded::default());
        assert_eq!(Folded::parse("\t 1 a (b)\n\n  \n", "x"), Folded::default());
        assert_eq!(Folded::parse("head\n", "x").text(), "x 1\n");
    }
}
