//! The CPU quota of the control group that this process is in.
//!
//! Pure functions of files, for both versions of control groups. The tightest quota on the way up
//! to the root counts. How often it stopped us is in `nearcall_os::cpu_load`.

use std::fmt;

use nearcall_os::cpu_load;

use crate::system_files::SystemFiles;

/// How much CPU time a control group may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuQuota {
    /// As much as there is.
    Unlimited,
    /// So much in each period.
    Limited {
        /// CPU time of all its tasks, in microseconds.
        quota_us: u64,
        /// The period, in microseconds.
        period_us: u64,
    },
}

impl CpuQuota {
    /// How many CPUs that is.
    pub(crate) fn cpus(self) -> Option<f64> {
        match self {
            Self::Unlimited => None,
            Self::Limited { quota_us, period_us } => Some(quota_us as f64 / period_us as f64),
        }
    }
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("max"),
            Self::Limited { quota_us, period_us } => write!(f, "{quota_us} {period_us}"),
        }
    }
}

/// The tightest quota; `None` if the group cannot be seen.
pub(crate) fn cpu_quota(files: &SystemFiles) -> Option<CpuQuota> {
    let groups = files.text("/proc/self/cgroup")?;
    let mut found: Option<CpuQuota> = None;
    for stat in cpu_load::cpu_stat_paths(&groups) {
        // The root group has no quota, and no file for it.
        if files.exists(&stat) {
            found = found.or(Some(CpuQuota::Unlimited));
        }
        let mut directory = stat.trim_end_matches("/cpu.stat");
        while directory.len() > ROOT.len() {
            if let Some(quota) = quota_of(files, directory) {
                found = Some(found.map_or(quota, |known| tighter(known, quota)));
            }
            directory = directory.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    found
}

fn quota_of(files: &SystemFiles, directory: &str) -> Option<CpuQuota> {
    if let Some(line) = files.line(&format!("{directory}/cpu.max")) {
        let (quota, period) = line.split_once(' ')?;
        return limited(quota, period);
    }
    let quota = files.line(&format!("{directory}/cpu.cfs_quota_us"))?;
    limited(&quota, &files.line(&format!("{directory}/cpu.cfs_period_us"))?)
}

fn limited(quota: &str, period: &str) -> Option<CpuQuota> {
    if quota == "max" || quota == "-1" {
        return Some(CpuQuota::Unlimited);
    }
    let (quota_us, period_us) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (period_us > 0).then_some(CpuQuota::Limited { quota_us, period_us })
}

fn tighter(a: CpuQuota, b: CpuQuota) -> CpuQuota {
    let cpus = |quota: CpuQuota| quota.cpus().unwrap_or(f64::INFINITY);
    if cpus(b) < cpus(a) { b } else { a }
}

const ROOT: &str = "/sys/fs/cgroup";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<&str>) {
        let quota = cpu_quota(&SystemFiles::forged(files)).map(|quota| quota.to_string());
        assert_eq!(quota.as_deref(), expected);
    }

    #[test]
    fn the_group_above_may_have_the_tighter_quota() {
        let files = [
            ("/proc/self/cgroup", "0::/app/one\n"),
            ("/sys/fs/cgroup/app/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/app/one/cpu.max", "max 100000\n"),
        ];
        check(&files, Some("150000 100000"));
        check(&[], None);
    }

    #[test]
    fn quotas_of_the_first_version_are_read() {
        let files = [
            ("/proc/self/cgroup", "2:cpu,cpuacct:/x\n1:memory:/y\n"),
            ("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"),
        ];
        check(&files, Some("50000 100000"));
        check(&[files[0], (files[1].0, "-1\n"), files[2]], Some("max"));
    }
}
