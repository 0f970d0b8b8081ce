//! Describes what a process that hangs is doing, as far as /proc shows it.

use std::fs;

/// All threads of `pid` and of its children: where each sleeps.
pub(crate) fn describe(pid: u32) -> String {
    let mut text = String::new();
    let mut processes = vec![pid.to_string()];
    while let Some(process) = processes.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let path = thread.path();
            let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
            processes.extend(read("children").split_whitespace().map(str::to_owned));
            let state = read("stat");
            let state = state.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
            text += &format!(
                "  process {process} thread {} `{}` state {} wchan {} syscall {}\n{}",
                thread.file_name().to_string_lossy(),
                read("comm").trim_end(),
                state.unwrap_or("?"),
                read("wchan"),
                read("syscall").trim_end(),
                read("stack"),
            );
        }
    }
    text
}
