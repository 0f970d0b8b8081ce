//! What lies around this system: a hypervisor, a container.
//!
//! Pure functions of files. "none" is said only where the machine would have told otherwise.

use crate::system_files::SystemFiles;

/// The hypervisor's name, "unnamed" if there is one that does not say, "none" if the processor says
/// that there is none.
pub fn hypervisor(files: &SystemFiles, cpuinfo: &str) -> Option<String> {
    let vendor = files.line("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let product = files.line("/sys/class/dmi/id/product_name").unwrap_or_default();
    let board = format!("{vendor} {product}").to_lowercase();
    let named = HYPERVISOR_BOARDS.iter().find(|(words, _)| board.contains(words));
    let kind = files.line("/sys/hypervisor/type");
    let clocks = files
        .line("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    let by_clock = HYPERVISOR_CLOCKS.iter().find(|(clock, _)| clocks.contains(clock));
    let flags = super::processor::field(cpuinfo, "flags");
    let flag = flags.map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    match (named, kind, by_clock, flag) {
        // Bare metal of such a vendor has the vendor's name too.
        (_, _, _, Some(false)) => Some("none".to_owned()),
        (Some((_, name)), _, _, _) | (None, None, Some((_, name)), _) => Some((*name).to_owned()),
        (None, Some(kind), _, _) => Some(kind),
        (None, None, None, Some(true)) => Some("unnamed".to_owned()),
        (None, None, None, None) => None,
    }
}

/// The container's kind, or "none".
pub fn container(files: &SystemFiles) -> Option<String> {
    if let Some(name) = files.line("/run/systemd/container") {
        return Some(name);
    }
    if files.exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    if files.exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    let release = files.line("/proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    if release.contains("microsoft") {
        return Some("wsl".to_owned());
    }
    let groups = files.text("/proc/1/cgroup")?;
    let word = CONTAINER_WORDS.iter().find(|word| groups.contains(**word));
    Some(word.map_or("none", |word| word.trim_matches('/')).to_owned())
}

/// Words of the board's maker and model.
const HYPERVISOR_BOARDS: [(&str, &str); 9] = [
    ("qemu", "qemu"),
    ("kvm", "kvm"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("virtual machine", "hyper-v"),
    ("xen", "xen"),
    ("amazon ec2", "amazon ec2"),
    ("google compute", "google compute engine"),
    ("parallels", "parallels"),
];

/// Clocks that a hypervisor offers.
const HYPERVISOR_CLOCKS: [(&str, &str); 3] =
    [("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen")];

/// Words in the control groups of process 1.
const CONTAINER_WORDS: [&str; 4] = ["kubepods", "docker", "lxc", "containerd"];
