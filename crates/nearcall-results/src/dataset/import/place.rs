//! The machine of an archive, from the copies of `/proc` and `/sys` in its logs.
//!
//! Always true: what the logs do not tell is "unknown"; nothing of the machine that imports gets
//! in. The host's name is left out.

use std::collections::BTreeSet;

use crate::topology::Topology;

use super::archive::Archive;
use crate::machine::{Stated, from_files, processor};
use crate::run::{Machine, UNKNOWN};
use crate::system_files::SystemFiles;

/// How the CPUs are related, and the machine record with its id.
pub(super) fn machine(archive: &Archive) -> (Topology, Machine) {
    let log = |name: &str| archive.files.get(&format!("logs/{name}")).map(String::as_str);
    let cpuinfo = log("cpuinfo");
    let files = system_files(archive);
    let topology = processor::topology(&files);
    let mut machine = from_files(&files, Stated::default());
    // The id comes last.
    let (kernel, architecture) = log("uname").map(uname).unwrap_or_default();
    machine.kernel = kernel.unwrap_or_else(|| UNKNOWN.to_owned());
    machine.architecture = architecture.unwrap_or_else(|| UNKNOWN.to_owned());
    machine.hypervisor = hypervisor(&machine.hypervisor, log("dmesg_virt")).to_owned();
    machine.limits.clear();
    machine.kernel_config.clear();
    if cpuinfo.and_then(processor::model).is_none() {
        // Two machines that nothing is known of are not one.
        machine.cpu_model = format!("{UNKNOWN} (archive {:016x})", archive.hash);
    }
    machine.set_id();
    (topology, machine)
}

/// The logs under the names that they had on the machine.
fn system_files(archive: &Archive) -> SystemFiles {
    let mut files: Vec<(String, &str)> = Vec::new();
    for (name, text) in &archive.files {
        let Some(log) = name.strip_prefix("logs/") else { continue };
        let path = match log.split_once('/') {
            _ if text.len() > SYSTEM_FILE_BYTES_MAX && log.starts_with("sys-") => continue,
            // What is online is told by the folders, which are bounded.
            Some((_, "online")) => continue,
            Some(("sys-cpu", rest)) => format!("{SYSTEM}/cpu/{rest}"),
            Some(("sys-node", rest)) => format!("{SYSTEM}/node/{rest}"),
            _ if log == "cpuinfo" || log == "meminfo" => format!("/proc/{log}"),
            _ => continue,
        };
        files.push((path, text.as_str()));
    }
    let nodes = numbers(archive, "logs/sys-node/node", NODES_MAX);
    let cpus = cpus(archive);
    for (folder, numbers) in [("cpu", &cpus), ("node", &nodes)] {
        if !numbers.is_empty() {
            files.push((format!("{SYSTEM}/{folder}/online"), numbers.as_str()));
        }
    }
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    SystemFiles::forged(&files)
}

/// The CPUs, from the folders of `sys-cpu`, else from `cpuinfo`: "0,1,2".
fn cpus(archive: &Archive) -> String {
    let folders = numbers(archive, "logs/sys-cpu/cpu", CPUS_LISTED_MAX);
    if !folders.is_empty() {
        return folders;
    }
    let cpuinfo = archive.files.get("logs/cpuinfo").map(String::as_str).unwrap_or_default();
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let numbers = pairs.filter(|(key, _)| key.trim() == "processor");
    let numbers = numbers.filter_map(|(_, value)| value.trim().parse().ok());
    list(numbers.filter(|&cpu| cpu < CPUS_LISTED_MAX).collect())
}

/// The numbers below `end` behind `prefix` in names of folders.
fn numbers(archive: &Archive, prefix: &str, end: u32) -> String {
    let rests = archive.files.keys().filter_map(|name| name.strip_prefix(prefix));
    let numbers = rests.filter_map(|rest| rest.split_once('/')?.0.parse().ok());
    list(numbers.filter(|&number| number < end).collect())
}

fn list(numbers: BTreeSet<u32>) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Kernel and architecture, of `uname -srm` or `uname -a`. The second has the host's name in it.
fn uname(text: &str) -> (Option<String>, Option<String>) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    // A host's name may begin with a digit as well: its place tells it.
    let place = if words.len() > 3 { 2 } else { 1 };
    let is_release = |word: &&&str| word.starts_with(|first: char| first.is_ascii_digit());
    let release = words.get(place).filter(is_release);
    let kernel = words.first().zip(release).map(|(system, release)| format!("{system} {release}"));
    let known = words.iter().find(|word| ARCHITECTURES.contains(word));
    (kernel, known.map(|word| (*word).to_owned()))
}

/// The hypervisor by the processor's flags, or by what the kernel said when it started.
fn hypervisor<'a>(by_flags: &'a str, dmesg: Option<&str>) -> &'a str {
    let text = dmesg.unwrap_or_default().to_lowercase();
    let named = HYPERVISORS.iter().find(|(words, _)| text.contains(words));
    match (named, by_flags) {
        (Some((_, name)), _) => name,
        // Some hypervisors let the kernel believe that there is none.
        (None, "unnamed") => by_flags,
        (None, _) if text.contains("bare hardware") => "none",
        // A kernel of before that flag says nothing by not having it.
        (None, "none") => UNKNOWN,
        (None, _) => by_flags,
    }
}

const SYSTEM: &str = "/sys/devices/system";

/// CPUs that are looked at. ipc-bench names 160; what else a machine has only counts.
const CPUS_LISTED_MAX: u32 = 1_024;

/// Memory nodes that are looked at: each is compared with each CPU.
const NODES_MAX: u32 = 64;

/// Bytes of a file of `/sys`, which the kernel makes in one page.
const SYSTEM_FILE_BYTES_MAX: usize = 4_096;

const ARCHITECTURES: [&str; 8] =
    ["x86_64", "i686", "i586", "i386", "aarch64", "armv7l", "ppc64", "ppc64le"];

/// Words of the kernel's first messages, and the hypervisor that they mean.
const HYPERVISORS: [(&str, &str); 7] = [
    ("xen", "xen"),
    ("kvm", "kvm"),
    ("vmware", "vmware"),
    ("hyper-v", "hyper-v"),
    ("virtualbox", "virtualbox"),
    ("virtual hardware", "unnamed"),
    ("virtualized system", "unnamed"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_without_the_host() {
        let expected = (Some("Linux 2.6.38-8".to_owned()), Some("x86_64".to_owned()));
        assert_eq!(uname("Linux 2.6.38-8 x86_64\n"), expected);
        let all = "Linux alice-laptop 2.6.38-8 #42-Ubuntu SMP Mon Apr 11 2011 x86_64 GNU/Linux";
        assert_eq!(uname(all), expected);
        let digits = "Linux 3com-box 2.6.38-8 #1 SMP x86_64";
        assert_eq!(uname(digits), expected);
        assert_eq!(uname("garbage"), (None, None));
    }

    #[test]
    fn a_hypervisor_is_named_as_well_as_the_logs_can() {
        for (flags, dmesg, expected) in [
            ("none", Some("Booting paravirtualized kernel on bare hardware"), "none"),
            ("unnamed", Some("Booting paravirtualized kernel on bare hardware"), "unnamed"),
            ("none", Some("Booting paravirtualized kernel on Xen"), "xen"),
            ("none", None, "unknown"),
            ("unknown", Some(""), "unknown"),
        ] {
            assert_eq!(hypervisor(flags, dmesg), expected, "{flags} {dmesg:?}");
        }
    }
}
