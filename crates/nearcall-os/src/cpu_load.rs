//! Load of the machine: time per CPU, pressure, throttling, the run queue.
//!
//! **Invariants:** every parser is a function of its text; a missing file or line is `None`; counts
//! only grow.
//! **Not here:** the difference of two readings, which the caller takes.

/// Times of one CPU, in clock ticks (see [`ticks_per_s`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU's number.
    pub cpu: usize,
    /// Doing anything: user, nice, system and interrupts.
    pub busy: u64,
    /// Doing nothing, or waiting for a disk.
    pub idle: u64,
    /// Taken away by the hypervisor.
    pub steal: u64,
}

/// /proc/pressure/cpu, the line "some": at least one thread waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Share of the last 10 seconds, in percent.
    pub some_percent_10s: f64,
    /// Total since boot, in microseconds.
    pub some_total_us: u64,
}

/// The count and the time of stops by the CPU quota of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which it was stopped.
    pub periods: u64,
    /// Time it was stopped, in nanoseconds.
    pub stopped_ns: u64,
}

/// /proc/loadavg.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunQueue {
    /// Average over one minute.
    pub load_1min: f64,
    /// Threads that run or are ready now, the reader included.
    pub runnable: u64,
    /// Threads that exist.
    pub threads: u64,
}

/// Times of every CPU; empty when /proc/stat cannot be read.
#[must_use]
pub fn cpu_times() -> Vec<CpuTimes> {
    std::fs::read_to_string("/proc/stat").map(|text| parse_stat(&text)).unwrap_or_default()
}

/// The unit of [`CpuTimes`].
#[must_use]
pub fn ticks_per_s() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// CPU pressure; `None` when the kernel does not count it.
#[must_use]
pub fn cpu_pressure() -> Option<Pressure> {
    parse_pressure(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
}

/// Throttling of the cgroup this process is in; `None` when it has none or it cannot be seen.
#[must_use]
pub fn throttling() -> Option<Throttling> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    cpu_stat_paths(&groups)
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|text| parse_throttling(&text))
}

/// The run queue now.
#[must_use]
pub fn run_queue() -> Option<RunQueue> {
    parse_loadavg(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// Reads the lines `cpuN` of /proc/stat. Lines that cannot be read are left out.
#[must_use]
pub fn parse_stat(text: &str) -> Vec<CpuTimes> {
    let times = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The sum of all CPUs has no number; it is skipped.
        let cpu = line.as_bytes().get(3)?.is_ascii_digit().then(|| fields.next())??;
        let counts: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, io_wait, interrupt, soft_interrupt] = *counts.get(..7)?
        else {
            return None;
        };
        Some(CpuTimes {
            cpu: cpu.parse().ok()?,
            busy: [user, nice, system, interrupt, soft_interrupt]
                .into_iter()
                .fold(0, u64::saturating_add),
            idle: idle.saturating_add(io_wait),
            // Kernels before 2.6.11 have no such column.
            steal: counts.get(7).copied().unwrap_or(0),
        })
    };
    text.lines().filter_map(times).collect()
}

/// Reads the line "some" of /proc/pressure/cpu.
#[must_use]
pub fn parse_pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
    Some(Pressure {
        some_percent_10s: field("avg10=")?.parse().ok()?,
        some_total_us: field("total=")?.trim().parse().ok()?,
    })
}

/// Reads the text of a cpu.stat: cgroup v1 (`throttled_time`, ns) or v2 (`throttled_usec`).
#[must_use]
pub fn parse_throttling(text: &str) -> Option<Throttling> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let stopped_ns = field("throttled_time")
        .or_else(|| field("throttled_usec").map(|us| us.saturating_mul(1_000)))?;
    Some(Throttling { periods: field("nr_throttled")?, stopped_ns })
}

/// Lists the possible paths of cpu.stat for a text of /proc/self/cgroup, best first. Inside a
/// container the listed path is often not visible and the root of the mount is the group of this
/// process.
#[must_use]
pub fn cpu_stat_paths(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // `..` would lead out of the root of the namespace.
        if group.contains("..") {
            continue;
        }
        let group = group.trim_end_matches('/');
        let roots: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|name| name == "cpu") => {
                &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            }
            _ => continue,
        };
        for root in roots {
            paths.push(format!("{root}{group}/cpu.stat"));
            if !group.is_empty() {
                paths.push(format!("{root}/cpu.stat"));
            }
        }
    }
    paths
}

/// Reads the text of /proc/loadavg.
#[must_use]
pub fn parse_loadavg(text: &str) -> Option<RunQueue> {
    let mut fields = text.split_ascii_whitespace();
    let load_1min = fields.next()?.parse().ok()?;
    let (runnable, threads) = fields.nth(2)?.split_once('/')?;
    Some(RunQueue { load_1min, runnable: runnable.parse().ok()?, threads: threads.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lines_are_read_and_the_sum_is_not() {
        let text = "cpu  11779 0 4745 292385 1894 0 68 535 0 0\n\
                    cpu0 4588 1 1954 148812 155 2 13 226 0 0\n\
                    cpu12 1 2 3 4 5 6 7\n\
                    cpux 1 2 3\nintr 5\n";
        let first = CpuTimes { cpu: 0, busy: 6558, idle: 148_967, steal: 226 };
        let second = CpuTimes { cpu: 12, busy: 19, idle: 9, steal: 0 };
        assert_eq!(parse_stat(text), [first, second]);
    }

    #[test]
    fn pressure_is_the_line_some() {
        let text = "some avg10=0.55 avg60=1.08 avg300=0.87 total=13797407\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let pressure = parse_pressure(text).unwrap();
        assert_eq!((pressure.some_percent_10s, pressure.some_total_us), (0.55, 13_797_407));
        assert_eq!(parse_pressure(""), None);
    }

    #[test]
    fn throttling_is_read_from_both_versions() {
        let expected = Some(Throttling { periods: 3, stopped_ns: 5_000 });
        assert_eq!(
            parse_throttling("nr_periods 9\nnr_throttled 3\nthrottled_time 5000\n"),
            expected
        );
        assert_eq!(
            parse_throttling("usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5\n"),
            expected
        );
        assert_eq!(parse_throttling("usage_usec 1\n"), None);
    }

    #[test]
    fn cgroup_paths_prefer_the_own_group() {
        let paths = cpu_stat_paths("4:memory:/x\n1:cpu,cpuacct:/a/b\n0::/\n2:cpu:/../../c\n");
        assert_eq!(paths[0], "/sys/fs/cgroup/cpu/a/b/cpu.stat");
        assert!(paths.contains(&"/sys/fs/cgroup/cpu.stat".to_owned()));
        assert!(paths.iter().all(|path| !path.contains("..") && !path.contains("memory")));
    }

    #[test]
    fn loadavg_gives_the_run_queue() {
        let queue = parse_loadavg("0.19 0.12 0.06 2/87 7328\n").unwrap();
        assert_eq!((queue.load_1min, queue.runnable, queue.threads), (0.19, 2, 87));
        assert_eq!(parse_loadavg("0.19 0.12"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(!cpu_times().is_empty());
        assert!(run_queue().unwrap().threads > 0);
        assert!(ticks_per_s() > 0);
    }
}
