//! Libraries that are refused, each with the file, what is wrong and the remedy; and one in C.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nearcall::{CallOptions, Code};
use nearcall_host::library::{GroupError, check, run_group};

use nearcall_testkit::directory::Directory;

use crate::group::{Group, PATIENCE, service, test_library};
use crate::home::{NoteRequest, SetTargetRequest, WatchRequest};

#[track_caller]
fn expect_refusal(file: &Path, why: &str, remedy: &str) {
    let error = check(file).unwrap_err().to_string();
    assert!(error.starts_with(&*file.to_string_lossy()), "{error}");
    assert!(error.contains(why) && error.contains(remedy), "{error}");
}

#[test]
fn a_file_that_is_not_as_trusted_as_the_program_is_refused() {
    let directory = Directory::new();
    let bytes = fs::read(test_library()).unwrap();
    expect_refusal(&directory.0.join("none.so"), "cannot be opened", "build or install it");
    expect_refusal(&directory.0, "is no regular file", "name the file itself");
    let writable = directory.file("writable.so", &bytes);
    for mode in [0o775, 0o757, 0o777] {
        fs::set_permissions(&writable, fs::Permissions::from_mode(mode)).unwrap();
        expect_refusal(&writable, &format!("(mode 0{mode:o})"), "chmod go-w");
    }
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o755)).unwrap();
    check(&writable).unwrap();
    if nearcall_os::process::user_id() != 0 {
        println!("SKIPPED: only root can give a file to another user");
        return;
    }
    std::os::unix::fs::chown(&writable, Some(12345), None).unwrap();
    expect_refusal(&writable, "belongs to user 12345", "chown");
}

#[test]
fn a_file_that_is_no_library_for_this_machine_is_refused() {
    let directory = Directory::new();
    let bytes = fs::read(test_library()).unwrap();
    expect_refusal(&directory.file("empty.so", b""), "is no ELF file", "cdylib");
    expect_refusal(
        &directory.file("text.so", b"#!/bin/sh\nexit 0\n..."),
        "is no ELF file",
        "cdylib",
    );
    let changed = |name: &str, at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        directory.file(name, &bytes)
    };
    expect_refusal(&changed("class.so", 4, 1), "has 32 bits", "build it for this machine");
    expect_refusal(&changed("machine.so", 18, 8), "is for another machine", "for this machine");
    expect_refusal(&changed("object.so", 16, 1), "is no dynamic library", "cdylib");
    let cut = directory.file("cut.so", &bytes[..4096]);
    expect_refusal(&cut, "is cut off", "copy or build it again");
}

/// Returns the test library with other bytes at the head of its table, which ends with the strides.
fn with_table(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = fs::read(test_library()).unwrap();
    // The table: the magic, its size, major 1, minor 0; then flags.
    let mut head = b"nearcall".to_vec();
    head.extend(96_u32.to_ne_bytes());
    head.extend([1, 0, 0, 0]);
    // It is aligned.
    let places = (0..bytes.len()).step_by(8).filter(|place| bytes[*place..].starts_with(&head));
    let places: Vec<_> = places.collect();
    let [place] = places[..] else { panic!("the table is in {} places", places.len()) };
    change(&mut bytes[place..place + head.len() + 8]);
    bytes
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let directory = Directory::new();
    let major = directory.file("major.so", &with_table(|head| head[12] = 2));
    expect_refusal(&major, "`nearcall_service_v1` has version 2.0", "this host has version 1.0");
    let size = directory.file("size.so", &with_table(|head| head[8] = 24));
    expect_refusal(&size, "has 24 bytes, and version 1 96", "sizeof");
    let magic = directory.file("magic.so", &with_table(|head| head[0] = b'N'));
    expect_refusal(&magic, "it is no table of a service", "struct nearcall_library");
    let object = directory.file("object.so", &with_table(|head| head[20] = 64));
    expect_refusal(&object, "has 64 as `object_size`", "sizeof(struct nearcall_object)");
    let method = directory.file("method.so", &with_table(|head| head[22] = 31));
    expect_refusal(&method, "has 31 as `method_size`", "sizeof(struct nearcall_method)");
    // A newer minor version only adds to it.
    check(&directory.file("minor.so", &with_table(|head| head[14] = 7))).unwrap();
}

#[test]
fn a_library_without_the_symbol_is_refused() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let libc = libc.filter(|path| path.contains("/libc.so")).map(PathBuf::from).next();
    let Some(libc) = libc else {
        println!("SKIPPED: this program has no shared C library");
        return;
    };
    expect_refusal(&libc, "has no symbol `nearcall_service_v1`", "nearcall::service_main!");
}

#[track_caller]
fn expect_group_refusal(arguments: &[&str], interfaces: &[&str], expected: &[&str]) {
    let mut config = service(arguments);
    config.interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
    let error = run_group(&[config]).unwrap_err();
    assert!(matches!(error, GroupError::Load(..)), "{error}");
    let error = error.to_string();
    assert!(error.contains("libtest_library.so"), "{error}");
    for expected in expected {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_service_that_does_not_fit_is_refused_before_anything_listens() {
    let reason = ["service `fail`", "the heating is out of order", "check the arguments"];
    expect_group_refusal(&["fail"], &[], &reason);
    expect_group_refusal(&["panic"], &[], &["it panicked"]);
    expect_group_refusal(&["nothing"], &[], &["has no object", "service_main!"]);
    expect_group_refusal(&["streams"], &[], &["/Count has a stream", "run = \"process\""]);
    let expected = ["no interface home.v2.Thermostat", "it has home.v1.Thermostat", "`interfaces`"];
    expect_group_refusal(&["plain"], &["home.v2.Thermostat"], &expected);
}

/// Compiles a library in C; `None` without a compiler.
fn compile(
    directory: &Directory,
    name: &str,
    source: &Path,
    arguments: &[&str],
) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = directory.0.join(name);
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    command.arg(root.join("../nearcall-os/include"));
    command.arg("-o").arg(&library).arg(source).arg("-L").arg(&directory.0).args(arguments);
    let Ok(output) = command.output() else {
        println!("SKIPPED: there is no C compiler `cc` here");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
    Some(library)
}

#[test]
fn a_library_finds_its_own_libraries_beside_it() {
    let directory = Directory::new();
    let mode = |mode| fs::set_permissions(&directory.0, fs::Permissions::from_mode(mode)).unwrap();
    let source = directory.file("part.c", b"void part(void) {}");
    let Some(_) = compile(&directory, "libpart.so", &source, &[]) else { return };
    let source = directory.file("whole.c", b"void part(void); void call(void) { part(); }");
    let arguments = ["-lpart", "-Wl,-rpath,$ORIGIN"];
    let Some(library) = compile(&directory, "libwhole.so", &source, &arguments) else { return };
    // Where others could replace it, it is loaded by its descriptor.
    mode(0o777);
    expect_refusal(&library, "`$ORIGIN` does not work", "is writable by others");
    mode(0o755);
    // It is loaded, and has no service.
    expect_refusal(&library, "has no symbol `nearcall_service_v1`", "nearcall::service_main!");
    // Another file at the same path is not taken for it.
    fs::remove_file(&library).unwrap();
    fs::copy(test_library(), &library).unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
    check(&library).unwrap();
}

#[test]
fn a_library_that_needs_a_symbol_that_is_missing_is_refused() {
    let directory = Directory::new();
    let source = directory.file("needs.c", b"void nowhere(void); void call(void) { nowhere(); }");
    let Some(library) = compile(&directory, "needs.so", &source, &[]) else { return };
    expect_refusal(&library, "undefined symbol: nowhere", "link the library against");
}

#[test]
fn a_library_of_another_build_of_the_shared_runtime_is_refused_and_one_without_it() {
    let directory = Directory::new();
    let runtime = directory.file("runtime.c", b"void runtime(void) {}");
    let name = "libnearcall_runtime.so";
    let Some(runtime) = compile(&directory, name, &runtime, &[]) else { return };
    // Found where it is, it lacks a function of Rust that the library calls.
    let source = b"void _ZN8nearcall6Client3new17h0123456789abcdefE(void); void runtime(void);
        void call(void) { runtime(); _ZN8nearcall6Client3new17h0123456789abcdefE(); }";
    let source = directory.file("needs.c", source);
    let arguments = ["-lnearcall_runtime", "-Wl,-rpath,$ORIGIN"];
    let Some(library) = compile(&directory, "needs.so", &source, &arguments) else { return };
    expect_refusal(&library, "another toolchain, for another version", "at once");
    fs::remove_file(&runtime).unwrap();
    expect_refusal(&library, "libnearcall_runtime.so is missing", "install that file");
}

#[test]
fn a_service_in_c_is_served() {
    let directory = Directory::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries/counter.c");
    let Some(library) = compile(&directory, "counter.so", &source, &[]) else { return };
    let mut counter = service(&[]);
    counter.name = "counter".into();
    counter.file = library;
    let relay = service(&["relay", &counter.listen]);
    let mut group = Group::start(&[counter.clone(), relay.clone()]);
    for config in [&counter, &relay] {
        let thermostat = group.caller(config);
        // Both messages have one field of one type.
        let options = CallOptions::new().deadline(PATIENCE);
        let request = SetTargetRequest { celsius: 21.5 };
        let reply = thermostat.with(options).set_target(&request).unwrap();
        assert_eq!(reply.celsius_before, 21.5);
        thermostat.note(&NoteRequest::default()).unwrap();
        for _ in 0..2 {
            thermostat.watch(&WatchRequest {}).unwrap();
        }
        let status = thermostat.reset(&()).unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "refused by C"));
    }
    let options = CallOptions::new().metadata("small", "reply").unwrap().deadline(PATIENCE);
    let request = SetTargetRequest { celsius: 21.5 };
    let status = group.caller(&counter).with(options).set_target(&request).unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
    assert!(status.message().contains("nearcall_reply has 8 of 56 bytes"), "{status}");
    let line = "service `counter`: warning: made by C in two lines\n";
    group.wait_for_stderr(line);
    group.terminate();
    let status = group.wait();
    assert!(status.success(), "its static destructor was run: {status}");
    counter.arguments = vec!["fail".into()];
    let error = run_group(&[counter]).unwrap_err().to_string();
    assert!(error.contains("could not be created: told to fail"), "{error}");
}
