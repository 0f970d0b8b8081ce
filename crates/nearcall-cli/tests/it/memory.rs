//! `nearcall bench memory`.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::process::Child;
use serde_json::Value;

use crate::program::Folder;

#[test]
fn memory_as_json_has_each_level() {
    let folder = Folder::new();
    let words = ["bench", "memory", "--quick", "--mechanism", "shm", "--out", "memory.json"];
    let ended = folder.run(&words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in ["Each idle connection takes", "Least memory for an idle connection: shm, "] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
    let text = fs::read_to_string(folder.path().join("memory.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "nearcall.memory/1");
    assert_eq!(document["connections"][0]["levels"].as_array().unwrap().len(), 4);
}

#[test]
fn services_are_measured_in_each_setup_and_shown_again() {
    let folder = Folder::new();
    let ended = folder.run(&["bench", "memory", "--setups", "--quick", "--out", "setups.json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    let text = fs::read_to_string(folder.path().join("setups.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["partial"], Value::Null, "{text}");
    let rows = document["setups"]["setups"].as_array().unwrap();
    let processes = rows.iter().map(|row| (row["services"].as_u64(), row["processes"].as_u64()));
    let expected = [(1, 1), (1, 1), (1, 1), (1, 1), (3, 3), (3, 3), (3, 1), (3, 1)];
    assert!(processes.eq(expected.map(|(services, all)| (Some(services), Some(all)))), "{text}");
    for row in rows {
        let value = |name: &str| row[name][0].as_f64();
        let (rss, private) = (value("rss_bytes").unwrap(), value("private_bytes").unwrap());
        assert_eq!(value("shared_bytes").unwrap(), rss - private, "{row}");
        assert!(private > 0.0 && value("pss_bytes").unwrap() <= rss, "{row}");
        assert!(value("start_up_ns").unwrap() > 0.0, "{row}");
        assert_eq!(value("call_ns").is_some_and(|ns| ns > 0.0), row["services"] == 3, "{row}");
    }
    // What is linked takes another way than what calls another process, on every machine.
    let call_ns = |row: usize| rows[row]["call_ns"][0].as_f64().unwrap();
    assert!(call_ns(7) < call_ns(4), "{text}");
    let shown = folder.run(&["show", "setups.json"]);
    assert_eq!((shown.code, shown.stdout), (Some(0), ended.stdout));
    let json = folder.run(&["show", "setups.json", "--json"]);
    assert_eq!((json.code, json.stdout), (Some(0), text.clone()));
    fs::write(
        folder.path().join("bad.json"),
        text.replace("\"pss_bytes\": [", "\"pss_bytes\": [-1,"),
    )
    .unwrap();
    let ended = folder.run(&["show", "bad.json"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("error: bad.json: not a valid result of"), "{ended:?}");
}

#[test]
fn a_map_has_each_set_up_by_cause_and_is_shown_again() {
    let folder = Folder::new();
    let ended = folder.run(&["bench", "memory", "--map", "--out", "map.json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in ["Memory by cause", "each further library", "relocations", "libc.so"] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
    let text = fs::read_to_string(folder.path().join("map.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let maps = document["maps"].as_array().unwrap();
    let sum = |map: &Value, cause: &str| {
        let parts = map["parts"].as_array().unwrap().iter();
        let parts = parts.filter(|part| part["cause"] == cause);
        parts.map(|part| part["bytes"]["pss"].as_i64().unwrap()).sum::<i64>()
    };
    let [process, _, host, one, five, further] = &maps[..] else { panic!("{text}") };
    for map in [process, host, one, five, further] {
        assert!(sum(map, "text") > 0 && sum(map, "relocations") > 0, "{map}");
    }
    assert!(sum(process, "stacks") > 0 && sum(process, "allocator") > 0, "{process}");
    assert!(sum(host, "text") < sum(one, "text") && sum(one, "text") < sum(five, "text"), "{text}");
    let shown = folder.run(&["show", "map.json"]);
    assert_eq!((shown.code, shown.stdout), (Some(0), ended.stdout));
    let ended = folder.run(&["bench", "memory", "--map", "--setups"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn services_that_are_not_built_or_do_not_start_are_named_with_the_remedy() {
    let folder = Folder::new();
    let empty = folder.home();
    let run = || {
        let words = ["bench", "memory", "--setups", "--quick", "--out", "setups.json"];
        folder.run_with(&words, &[("NEARCALL_BENCH_SERVICE", &empty)])
    };
    let ended = run();
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
    for part in ["there is no nearcall-bench-service in ", "`cargo build --release`"] {
        assert!(ended.stderr.contains(part), "{part} is missing in {}", ended.stderr);
    }
    let program = "#!/bin/sh\necho 'error: out of order' >&2\nexit 3\n";
    fs::write(empty.join("nearcall-bench-service"), program).unwrap();
    let ended = run();
    assert!(ended.stderr.contains("there is no libnearcall_bench_service.so in "), "{ended:?}");
    fs::write(empty.join("libnearcall_bench_service.so"), "no library").unwrap();
    let ended = run();
    assert!(ended.stderr.contains("there is no nearcall-host in "), "{ended:?}");
    fs::write(empty.join("nearcall-host"), "no program").unwrap();
    let ended = run();
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
    let expected = "a measured service has ended (exit status: 3): error: out of order";
    assert!(ended.stderr.contains(expected), "{ended:?}");
    assert!(!folder.path().join("setups.json").exists());
    let ended = folder.run(&["bench", "memory", "--setups", "--mechanism", "shm"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--setups") && ended.stderr.contains("--mechanism"), "{ended:?}");
}

#[test]
fn too_few_descriptors_end_the_levels_with_the_reason() {
    let folder = Folder::new();
    let out = folder.path().join("memory.json");
    let mut command = Command::new("/bin/sh");
    let script =
        "ulimit -n 120; exec \"$0\" bench memory --quick --mechanism unix-stream --out \"$1\"";
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_nearcall")).arg(&out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(Duration::from_secs(60))).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let document: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let connections = &document["connections"][0];
    let stopped = connections["stopped"].as_str().unwrap();
    assert!(stopped.starts_with("100 connections: after "), "{stopped}");
    assert_eq!(connections["levels"].as_array().unwrap().len(), 3);
}

#[test]
fn an_interruption_leaves_no_process_and_a_file_that_is_marked() {
    let folder = Folder::new();
    let words = ["bench", "memory", "--out", "memory.json"];
    folder.interrupt(&words, |_, helpers| !helpers.is_empty());
    let text = fs::read_to_string(folder.path().join("memory.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["partial"], "interrupted");
}
