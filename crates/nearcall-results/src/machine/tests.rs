//! The machine record of forged machines.

use super::*;

/// A server with two sockets of two cores of two threads.
fn server() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Xeon 9\nmicrocode\t: 0x2b\n\
             flags\t\t: fpu constant_tsc nonstop_tsc\n",
        ),
        ("/sys/devices/system/cpu/online", "0-1"),
        ("/sys/devices/system/node/online", "0"),
        ("/sys/devices/system/node/node0/cpulist", "0-1"),
        ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0"),
        ("/sys/devices/system/cpu/cpu0/topology/core_id", "0"),
        ("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "0"),
        ("/sys/devices/system/cpu/cpu1/topology/core_id", "0"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/level", "3"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/type", "Unified"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/size", "32768K"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/level", "1"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/type", "Data"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/size", "48K"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list", "0"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("/sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1"),
        ("/sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
        ("/sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: Enhanced IBRS\n"),
        (CLOCKSOURCE, "tsc\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never] deny\n"),
        ("/proc/sys/kernel/osrelease", "6.12.9\n"),
        ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian\n"),
        ("/sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n"),
        ("/boot/config-6.12.9", "# a comment\nCONFIG_HZ_1000=y\nCONFIG_HZ=1000\n"),
        ("/proc/cmdline", "quiet isolcpus=1\n"),
        ("/proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:   8192 kB\n"),
        ("/proc/thread-self/status", "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"),
        ("/proc/self/limits", "Limit  Soft Limit\nMax open files   1024   4096   files\n"),
        ("/proc/sys/fs/mqueue/msg_max", "10\n"),
        ("/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n"),
        ("/proc/1/cgroup", "0::/\n"),
        ("/proc/loadavg", "0.10 0.20 0.30 1/99 4242\n"),
        ("/proc/uptime", "123.45 200.00\n"),
        ("/proc/sys/kernel/hostname", "build-7\n"),
    ]
}

fn machine(files: &[(&str, &str)]) -> Machine {
    from_files(&SystemFiles::forged(files), Stated { page_bytes: Some(4_096), ..Stated::default() })
}

#[test]
fn a_server_is_described_in_full() {
    let found = machine(&server());
    assert_eq!(found.cpu_model, "Xeon 9");
    assert_eq!(found.topology, "1 socket, 1 core, 2 threads each");
    assert_eq!(found.caches, ["L1d 48 KiB: 0", "L3 32 MiB: 0-1"]);
    assert_eq!((found.cpus, found.numa_nodes, found.boost), (Some(2), Some(1), Some(false)));
    assert_eq!(found.governor, "performance, powersave");
    assert_eq!(found.idle_states, ["driver intel_idle", "POLL 0 µs", "C6 133 µs (off)"]);
    assert_eq!(found.mitigations, ["retbleed: Mitigation: Enhanced IBRS"]);
    assert_eq!(found.huge_pages, "madvise, shared memory never");
    assert_eq!(found.kernel, "Linux 6.12.9 #1 SMP PREEMPT_DYNAMIC Debian");
    assert_eq!(found.kernel_config[..2], ["HZ=1000", "PREEMPT=dynamic (voluntary)"]);
    assert_eq!((found.hypervisor.as_str(), found.container.as_str()), ("none", "none"));
    assert!(found.limits.contains(&"RLIMIT_NOFILE=1024".to_owned()));
    assert!(found.limits.contains(&"fs.mqueue.msg_max=10".to_owned()));
    assert!(found.limits.contains(&"kernel.msgmax=unknown".to_owned()));
    assert!(found.limits.contains(&"dev_shm_bytes=67108864".to_owned()));
    assert_eq!(found.state.load_average, Some([0.1, 0.2, 0.3]));
    assert_eq!((found.state.uptime_s, found.state.host_name.as_str()), (Some(123), "build-7"));
    assert_eq!(found.state.memory_available_bytes, Some(8_192 << 10));
}

#[test]
fn the_id_stays_when_only_the_state_changes() {
    let mut later = server();
    later.retain(|(path, _)| *path != "/proc/uptime" && *path != "/proc/loadavg");
    assert_eq!(machine(&later).id, machine(&server()).id);
    later.retain(|(path, _)| *path != "/proc/cmdline");
    assert_ne!(machine(&later).id, machine(&server()).id);
}

#[test]
fn a_machine_without_files_is_unknown_and_no_error() {
    let found = machine(&[]);
    let texts = [&found.cpu_model, &found.topology, &found.kernel, &found.governor];
    assert!(texts.iter().all(|text| *text == UNKNOWN));
    let texts = [&found.hypervisor, &found.container, &found.cpu_quota, &found.clocksource];
    assert!(texts.iter().all(|text| *text == UNKNOWN));
    assert_eq!((found.cpus, found.tsc_invariant), (None, None));
    assert_eq!(found.kernel_config[..2], ["HZ=unknown", "PREEMPT=unknown"]);
    assert_eq!(found.mitigations, [UNKNOWN]);
}

#[test]
fn broken_texts_are_unknown_and_no_error() {
    let broken: Vec<(&str, &str)> = server()
        .into_iter()
        .map(|(path, _)| (path, "\u{0}- [(=:,9999999999999999999999 k"))
        .collect();
    let found = machine(&broken);
    assert_eq!((found.cpus, found.memory_bytes, found.numa_nodes), (None, None, None));
}

#[test]
fn hypervisors_and_containers_have_names() {
    let virtual_cpu = ("/proc/cpuinfo", "flags : fpu hypervisor\n");
    let clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[virtual_cpu], "unnamed"),
        (&[virtual_cpu, (clocks, "tsc kvm-clock acpi_pm")], "kvm"),
        (&[virtual_cpu, ("/sys/class/dmi/id/product_name", "VMware7,1")], "vmware"),
        (&[("/sys/hypervisor/type", "xen")], "xen"),
    ];
    for (files, expected) in cases {
        assert_eq!(machine(files).hypervisor, expected, "{files:?}");
    }
    let cases: [(&str, &str, &str); 5] = [
        ("/.dockerenv", "", "docker"),
        ("/run/.containerenv", "", "podman"),
        ("/run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ("/proc/1/cgroup", "3:cpu:/kubepods/x\n", "kubepods"),
        ("/proc/sys/kernel/osrelease", "5.15.1-microsoft-standard-WSL2", "wsl"),
    ];
    for (path, text, expected) in cases {
        assert_eq!(machine(&[(path, text)]).container, expected, "{path}");
    }
}

#[test]
fn the_tick_gives_the_frequency_of_the_timer() {
    for (tick_ns, hz) in [(4_000_000, "HZ=250"), (3_333_333, "HZ=300"), (999_999, "HZ=1000")] {
        let stated = Stated { tick_ns: Some(tick_ns), ..Stated::default() };
        assert_eq!(from_files(&SystemFiles::forged(&[]), stated).kernel_config[0], hz);
    }
    let stated = Stated { tick_ns: Some(0), ..Stated::default() };
    assert_eq!(from_files(&SystemFiles::forged(&[]), stated).kernel_config[0], "HZ=unknown");
}
