//! A made-up archive of the form of the public ipc-bench data set, and what hostile ones get.

use std::fs;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use nearcall_results::dataset::import::{
    ARCHIVE_BYTES_MAX, ENTRY_BYTES_MAX, ImportError, UNPACKED_BYTES_MAX, import, import_tar,
};
use nearcall_results::dataset::{DataSet, Outcome, kind_of_run};
use nearcall_results::report::hosts::hosts;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{Cell, Definition, Run};
use tar::{Builder, EntryType, Header};

use crate::dataset::Folder;
use crate::table::{PAGE, check};

/// Names below the archive's own directory, and texts.
type Files = Vec<(String, String)>;

fn logs() -> Files {
    let mut files = vec![
        ("logs/uname", "Linux invented-host 2.6.38-8-generic #42 SMP x86_64 GNU/Linux\n"),
        ("logs/meminfo", "MemTotal:        4000000 kB\nMemFree: 7 kB\n"),
        ("logs/sys-node/node0/cpulist", "0-1\n"),
    ]
    .into_iter()
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .collect::<Files>();
    let cpuinfo = |cpu| {
        format!("processor\t: {cpu}\nmodel name\t: Invented Duo\nflags\t\t: fpu constant_tsc\n\n")
    };
    files.push(("logs/cpuinfo".to_owned(), cpuinfo(0) + &cpuinfo(1)));
    for cpu in 0..2 {
        let mut file = |name: &str, text: String| {
            files.push((format!("logs/sys-cpu/cpu{cpu}/{name}"), text + "\n"));
        };
        file("topology/physical_package_id", "0".to_owned());
        file("topology/core_id", cpu.to_string());
        file("topology/thread_siblings_list", cpu.to_string());
        file("cache/index0/level", "2".to_owned());
        file("cache/index0/type", "Unified".to_owned());
        file("cache/index0/size", "3072K".to_owned());
        file("cache/index0/shared_cpu_list", "0-1".to_owned());
    }
    files
}

fn results() -> Files {
    let mut files = Files::new();
    for (test, matrix) in [
        ("pipe_lat", ["0.000005 0.000013", "0.000012 0.000005"]),
        ("unix_lat", ["0.000007 0.000017", "0.000018 0.000007"]),
        ("tcp_nodelay_lat", ["0.000020 0.000030", "0.000031 0.000020"]),
        ("mempipe_lat", ["0.008001 0.000000", "0.000001 0.008001"]),
    ] {
        files.push((format!("results/lat/{test}.csv"), format!("{}\n{}\n", matrix[0], matrix[1])));
    }
    // The same times once more, which are not read.
    let pair = "results/lat/128/0-1-test/01-pipe_lat-headline.log".to_owned();
    files.push((pair, "pipe_lat 128 10000 0.000013s\n".to_owned()));
    let rate = |test: &str, size, read_in_place, rate| {
        format!("{test} 0 1 0 {size} 2 1 {read_in_place} 1 100000 {rate} Mbps\n")
    };
    files.push((
        "results/01-pipe_thr-headline.log".to_owned(),
        rate("pipe_thr", 64, 0, 512) + &rate("pipe_thr", 4096, 0, 8_192),
    ));
    files.push((
        "results/01-mempipe_spin_thr-headline.log".to_owned(),
        rate("mempipe_spin_thr", 4096, 0, 4_000) + &rate("mempipe_spin_thr", 4096, 1, 6_000),
    ));
    files
}

fn add(tar: &mut Builder<Vec<u8>>, name: &[u8], kind: EntryType, link: &[u8], bytes: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mtime(1_300_000_000);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, bytes).unwrap();
}

fn tar_of(files: &Files) -> Builder<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for (name, text) in files {
        let name = format!("tmp/tmpAbCdEf/{name}");
        add(&mut tar, name.as_bytes(), EntryType::Regular, b"", text.as_bytes());
    }
    tar
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn whole() -> Files {
    [logs(), results()].concat()
}

fn imported(files: &Files) -> Run {
    import(gzip(&tar_of(files).into_inner().unwrap()).as_slice(), "duo.tar.gz").unwrap()
}

#[track_caller]
fn refused(gz: &[u8], message: &str) {
    let error = import(gz, "bad.tar.gz").unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

fn find<'a>(run: &'a Run, mechanism: &str, sender: u32, receiver: u32) -> &'a Cell {
    let is = |cell: &&Cell| {
        let placed = (cell.placement.client_cpu, cell.placement.server_cpu);
        cell.mechanism == mechanism && placed == (Some(sender), Some(receiver))
    };
    run.cells.iter().find(is).unwrap()
}

#[test]
fn the_whole_layout_becomes_a_run_of_its_own_kind() {
    let run = imported(&whole());
    let machine = &run.machine;
    assert_eq!((machine.cpu_model.as_str(), machine.cpus), ("Invented Duo", Some(2)));
    assert_eq!(
        (machine.kernel.as_str(), machine.architecture.as_str()),
        ("Linux 2.6.38-8-generic", "x86_64")
    );
    assert_eq!((machine.memory_bytes, machine.numa_nodes), (Some(4_000_000 << 10), Some(1)));
    assert_eq!((machine.hypervisor.as_str(), machine.governor.as_str()), ("unknown", "unknown"));
    assert_eq!(machine.topology, "1 socket, 2 cores, 1 thread each");
    assert!(!run.to_json().contains("invented-host"), "the host's name is left out");
    assert_eq!((kind_of_run(&run), run.started_unix_s), ("import", 1_300_000_000));
    assert_eq!(run.cells.len(), 4 * 4 + 4);
    assert!(run.cells.iter().all(|cell| cell.mechanism.starts_with("ipc-bench-")));
    assert!(run.cells.iter().all(|cell| cell.grade.is_none() && cell.launches == 1));

    let pipe = find(&run, "ipc-bench-pipe", 1, 0);
    assert_eq!((pipe.placement.class.as_str(), pipe.count), ("same_llc", 0));
    let times = pipe.rtt_ns.as_ref().unwrap();
    assert_eq!((times.mean, times.p50, times.min), (Some(13_000.0), None, None));
    // A mean is no median: nothing that compares medians takes it.
    assert!(pipe.headline().is_none());

    let rate = run.cells.iter().find(|cell| cell.message_bytes == 64).unwrap();
    assert_eq!((rate.messages_per_s, rate.bytes_per_s), (Some(1e6), Some(64e6)));
    assert_eq!(rate.shape, "sink+stosq+write-in-place+read-copy+verify+node0");
    // What differs in one word only is two cells.
    let mut keys: Vec<_> = run.keyed_cells().map(|(key, _)| key).collect();
    keys.sort();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(Run::parse(&run.to_json()).unwrap(), run);
}

#[test]
fn two_round_trips_never_stand_beside_one() {
    let run = imported(&whole());
    let flags = find(&run, "ipc-bench-mempipe", 1, 0);
    assert_eq!((flags.definition, flags.message_bytes), (Definition::TwoRtt, 0));
    assert!(flags.tags.iter().any(|tag| tag == "two_round_trips"));
    let found = details(&run, PAGE);
    let (one, two) = found.split_once("\nTwo round trips").expect("a table of its own");
    let one = one.split_once("\nRound trip").unwrap().1;
    let two = two.split_once("\nThroughput").unwrap().0;
    assert!(two.contains("ipc-bench-mempipe,") && !one.contains("mempipe"), "{found}");
    assert!(
        one.contains("ipc-bench-pipe, 128 B, mean in µs") && !two.contains("-pipe,"),
        "{found}"
    );
    check(&table(&run, PAGE), "table_imported.txt");
    // Nor does a report put it beside runs of our own.
    let refused = hosts(&[crate::table::empty(), run]).unwrap_err().to_string();
    assert!(refused.contains("\"full\" in one and \"ipc-bench\" in the other"), "{refused}");
}

#[test]
fn the_known_defects_are_told() {
    let run = imported(&whole());
    let warnings = run.warnings.join("\n");
    for sentence in [
        "own implementations; no interval, no grade",
        "steps of one microsecond; 2 of 16 are 0 or 1 µs",
        "4 times of mempipe count two round trips and no payload",
        "arithmetic means: one interruption moves them",
        "rates include writing each message, and those with \"verify\" also checking it",
        "publishing messages in batches",
        "no warm-up",
        "each figure was measured once",
    ] {
        assert!(warnings.contains(sentence), "no {sentence:?} in\n{warnings}");
    }
    assert!(!warnings.contains("could not be read") && !warnings.contains("cpuinfo"), "{warnings}");
    // Only what the run has.
    let pipes: Files = whole().into_iter().filter(|(name, _)| !name.contains("mempipe")).collect();
    let warnings = imported(&pipes).warnings.join("\n");
    assert!(!warnings.contains("mempipe") && warnings.contains("0 of 12 are 0"), "{warnings}");
}

#[test]
fn garbage_lines_are_counted_and_the_first_is_shown() {
    let mut files = whole();
    let log = "results/01-pipe_thr-headline.log";
    let (_, text) = files.iter_mut().find(|(name, _)| name == log).unwrap();
    text.push_str("pipe_thr: bad \u{1b}[31mdata\n");
    text.push_str("pipe_thr 0 1 0 64 2 1 0 1 100000 -5 Mbps\n");
    files.push(("results/lat/tcp_lat.csv".to_owned(), "0.1 nan\n0.1 0.2\n".to_owned()));
    files.push(("results/lat/futex_lat.csv".to_owned(), "0.1\n".to_owned()));
    let run = imported(&files);
    assert_eq!(run.imported.as_ref().unwrap().lines_refused, 3);
    let warnings = run.warnings.join("\n");
    let first = "3 lines of results could not be read; the first: results/01-pipe_thr-headline.log \
                 line 3: \"pipe_thr: bad \\u{1b}[31mdata\"";
    assert!(warnings.contains(first), "{warnings}");
    assert_eq!(run.skipped[0].mechanism, "ipc-bench-futex-lat");
    assert!(!run.to_json().contains("\\u001b"), "{warnings}");
}

#[test]
fn without_cpuinfo_a_machine_is_unknown_and_not_another_unknown_one() {
    let without: Files = results();
    let mut other = without.clone();
    other[0].1 = other[0].1.replace("13", "14");
    let (first, second) = (imported(&without), imported(&other));
    assert!(first.machine.cpu_model.starts_with("unknown"));
    assert!(first.warnings.iter().any(|w| w.contains("no logs/cpuinfo")), "{:?}", first.warnings);
    assert_ne!(first.machine.id, second.machine.id);
    assert_eq!(first.machine.id, imported(&without).machine.id);
    assert_eq!(find(&first, "ipc-bench-pipe", 1, 0).placement.class, "unknown");
}

#[test]
fn an_import_is_one_run_of_a_data_set_whatever_its_file_is_called() {
    let folder = Folder::new();
    let data = DataSet::at(&folder.join("data"));
    let gz = gzip(&tar_of(&whole()).into_inner().unwrap());
    let outcome = |name: &str| {
        let run = import(gz.as_slice(), name).unwrap();
        let arrival = data.add_run(&run, std::path::Path::new(name)).unwrap();
        assert!(arrival.place.contains("/2011-03-13-import-"), "{}", arrival.place);
        arrival.outcome
    };
    assert_eq!([outcome("a.tar.gz"), outcome("b.tar.gz")], [Outcome::Added, Outcome::Duplicate]);
    assert_eq!(data.places().unwrap().len(), 1);
}

#[test]
fn what_would_lead_out_of_the_archive_is_refused_by_name() {
    for (name, kind, link, message) in [
        (
            &b"tmp/tmpAbCdEf/../../../x"[..],
            EntryType::Regular,
            &b""[..],
            "refused: the name tmp/tmpAbCdEf/../../../x",
        ),
        (b"/etc/nearcall-x", EntryType::Regular, b"", "the name /etc/nearcall-x"),
        (
            b"tmp/tmpAbCdEf/logs/x",
            EntryType::Symlink,
            b"/etc/passwd",
            "the link tmp/tmpAbCdEf/logs/x",
        ),
        (b"tmp/x", EntryType::Symlink, b"../../x", "the link tmp/x"),
        (b"tmp/y", EntryType::Link, b"../x", "the link tmp/y"),
        (b"tmp/\xff", EntryType::Regular, b"", "the name tmp/"),
    ] {
        let mut tar = tar_of(&whole());
        add(&mut tar, name, kind, link, b"");
        refused(&gzip(&tar.into_inner().unwrap()), message);
    }
    // Copies of /sys have links that stay inside: they are not followed.
    let mut tar = tar_of(&whole());
    add(
        &mut tar,
        b"tmp/tmpAbCdEf/logs/sys-node/node0/cpu0",
        EntryType::Symlink,
        b"../../cpu/cpu0",
        b"",
    );
    assert!(import(gzip(&tar.into_inner().unwrap()).as_slice(), "a").is_ok());
}

#[test]
fn a_huge_archive_costs_no_more_than_its_limits() {
    // One file that claims more than a file may have is refused before it is unpacked.
    let zeros = vec![0; usize::try_from(ENTRY_BYTES_MAX).unwrap() + 1];
    let mut tar = tar_of(&whole());
    add(&mut tar, b"tmp/tmpAbCdEf/logs/cpuinfo", EntryType::Regular, b"", &zeros);
    refused(&gzip(&tar.into_inner().unwrap()), "logs/cpuinfo has 4194305 bytes, more than 4 MiB");

    // A file that is not needed, and a header that lies about its size.
    let mut header = Header::new_gnu();
    header.set_path("tmp/tmpAbCdEf/other").unwrap();
    header.set_size(u64::MAX / 4);
    header.set_cksum();
    let bomb = header.as_bytes().as_slice().chain(std::io::repeat(0).take(1 << 40));
    let error = import_tar(bomb, "bomb").unwrap_err().to_string();
    assert_eq!(error, format!("unpacks to more than {} MiB", UNPACKED_BYTES_MAX >> 20));

    // Incompressible and endless: nothing but stored blocks of a file that is not needed.
    let head = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let mut first = header.as_bytes().to_vec();
    first.resize(0xffff, 7);
    let block = |bytes: &[u8]| [&[0, 0xff, 0xff, 0, 0][..], bytes].concat();
    let rest = block(&[7; 0xffff]);
    let endless = [head, block(&first)].concat();
    let more = Repeated { piece: &rest, at: 0 }.take(2 * ARCHIVE_BYTES_MAX);
    let endless = endless.as_slice().chain(more);
    let error = import(endless, "x").unwrap_err().to_string();
    assert_eq!(error, format!("larger than {} MiB", ARCHIVE_BYTES_MAX >> 20));
}

/// The same bytes again and again.
struct Repeated<'a> {
    piece: &'a [u8],
    at: usize,
}

impl Read for Repeated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.piece[self.at..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.at = (self.at + bytes) % self.piece.len();
        Ok(bytes)
    }
}

#[test]
fn a_bomb_of_a_few_kilobytes_is_stopped() {
    let mut inner = GzEncoder::new(Vec::new(), Compression::best());
    let mut header = Header::new_gnu();
    header.set_path("tmp/tmpAbCdEf/results/raw").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    inner.write_all(header.as_bytes()).unwrap();
    inner.write_all(&vec![0; 4 << 20]).unwrap();
    let first = inner.finish().unwrap();
    // Members of gzip add up: each of some kilobytes unpacks to 4 MiB.
    let member = gzip(&vec![0; 4 << 20]);
    let bomb = [first, member.repeat(70)].concat();
    assert!(bomb.len() < 4 << 20, "{}", bomb.len());
    refused(&bomb, "unpacks to more than 256 MiB");
}

#[test]
fn what_is_no_archive_is_said_to_be_none() {
    refused(b"", "an empty archive");
    refused(b"\x1f", "not a gzip file");
    refused(b"PK\x03\x04", "not a gzip file");
    refused(&gzip(b""), "an empty archive");
    refused(&gzip(&[0; 1_024]), "an empty archive");
    refused(&gzip(&[b'x'; 2_048]), "damaged");
    refused(&gzip(&tar_of(&logs()).into_inner().unwrap()), "not an ipc-bench archive");
    let garbage = vec![("results/01-pipe_thr-headline.log".to_owned(), "what\n".to_owned())];
    let gz = gzip(&tar_of(&garbage).into_inner().unwrap());
    refused(&gz, "none of 1 lines of results can be read; the first: results/01-pipe_thr");
    let mut two = tar_of(&whole());
    add(&mut two, b"tmp/tmpOther/logs/uname", EntryType::Regular, b"", b"x");
    refused(&gzip(&two.into_inner().unwrap()), "data of two machines: tmp/tmpOther/logs/uname");
}

#[test]
fn a_cut_archive_is_noticed_wherever_it_ends() {
    let gz = gzip(&tar_of(&whole()).into_inner().unwrap());
    for at in (2..gz.len()).step_by(97).chain([gz.len() - 1]) {
        let error = import(&gz[..at], "cut").unwrap_err();
        assert!(matches!(error, ImportError::CutOff), "{at}: {error}");
    }
    let mut damaged = gz.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    assert!(import(damaged.as_slice(), "damaged").is_err());
}

#[test]
fn no_change_of_an_archive_makes_it_panic() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/import");
    let archive = fs::read(corpus.join("archive")).unwrap();
    assert!(import_tar(archive.as_slice(), "corpus").is_ok());
    for file in fs::read_dir(&corpus).unwrap() {
        drop(import_tar(fs::read(file.unwrap().path()).unwrap().as_slice(), "corpus"));
    }
    for seed in 0..3_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = archive.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] = *random.choice(b"0123456789 .-\n\t/:e").unwrap(),
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let from = random.usize(..bytes.len());
                    let length = random.usize(..64).min(bytes.len() - at.max(from));
                    bytes.copy_within(from..from + length, at);
                }
            }
        }
        mend_checksums(&mut bytes);
        if let Ok(run) = import_tar(bytes.as_slice(), "changed") {
            let again = Run::parse(&run.to_json()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(again, run, "seed {seed}");
            assert!(!table(&run, PAGE).is_empty());
        }
    }
}

/// Without it most changes would be found by the sum of a header alone.
fn mend_checksums(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        let block: &mut [u8; 512] = block.try_into().unwrap();
        let mut header = Header::from_byte_slice(block).clone();
        if block.get(257..262) == Some(b"ustar") {
            header.set_cksum();
            *block = *header.as_bytes();
        }
    }
}
