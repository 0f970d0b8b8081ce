//! Generated files compared with those in `tests/golden`. `UPDATE_EXPECT=1` rewrites them; the
//! difference is reviewed like code. Not here: compiling and running them (`tests/compiles`).

use std::fs;
use std::path::Path;

use nearcall_build::{Builder, Language};

use crate::directory::TestDir;

#[track_caller]
fn check(name: &str, generated: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let out = TestDir::new();
    let proto = golden.join(format!("{name}.proto"));
    let builder = Builder::new().file(proto).include(&golden).out_dir(out.path());
    let written = builder.write().unwrap();
    let [file] = &written.files[..] else { panic!("not one file: {written:?}") };
    assert_eq!(file.path, out.path().join(generated));
    compare(&file.path, &golden.join(format!("{name}.rs")));
}

/// Compares a generated file with the expected one, or replaces the latter.
#[track_caller]
fn compare(generated: &Path, expected: &Path) {
    let text = fs::read_to_string(generated).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(expected, &text).unwrap();
    }
    let differs = fs::read_to_string(expected).unwrap() != text;
    assert!(!differs, "{} is stale; review it after UPDATE_EXPECT=1", expected.display());
}

/// The tests of the Python package run such files.
#[test]
fn stubs_and_servicers_for_python() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in ["thermostat", "scanner"] {
        let out = TestDir::new();
        let builder = Builder::new().language(Language::Python).include(&golden);
        let builder = builder.file(golden.join(format!("{name}.proto"))).out_dir(out.path());
        let written = builder.write().unwrap();
        let [file] = &written.files[..] else { panic!("not one file: {written:?}") };
        assert_eq!(file.path, out.path().join(format!("{name}_nearcall.py")));
        compare(&file.path, &golden.join(format!("{name}_nearcall.py")));
    }
}

#[test]
fn every_kind_of_method() {
    check("thermostat", "home.v1.rs");
}

#[test]
fn names_and_comments_that_rust_would_trip_over() {
    check("names", "_.rs");
}

#[test]
fn every_shape_under_names_that_clash() {
    check("scanner", "scan.v1.rs");
}

#[track_caller]
fn check_cpp(name: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let out = TestDir::new();
    let builder = Builder::new().file(golden.join(format!("{name}.proto"))).include(&golden);
    let written = builder.language(Language::Cpp).out_dir(out.path()).write().unwrap();
    let [file] = &written.files[..] else { panic!("not one file: {written:?}") };
    assert_eq!(file.path, out.path().join(format!("{name}.nearcall.hpp")));
    compare(&file.path, &golden.join(format!("{name}.nearcall.hpp")));
}

#[test]
fn services_for_cpp() {
    check_cpp("thermostat");
    check_cpp("scanner");
    check_cpp("names");
}

/// A header of another version refuses what is generated.
#[test]
fn cpp_is_for_the_headers_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/golden/thermostat.nearcall.hpp")).unwrap();
    for (header, name) in [("nearcall.h", "NEARCALL_ABI"), ("nearcall.hpp", "NEARCALL_CPP_VERSION")]
    {
        let header = root.join("../nearcall-c/include").join(header);
        let header = fs::read_to_string(header).unwrap();
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        assert!(text.contains(&format!("{name} == {}", line.unwrap())), "{name}");
    }
}

#[test]
fn packages_that_import_each_other() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/packages");
    let (out, proto) = (TestDir::new(), golden.join("proto"));
    let builder = Builder::new().file(proto.join("shop/orders.proto")).include(&proto);
    let builder = builder.file(proto.join("shop/checkout.proto"));
    let written = builder.include_file("interfaces.rs").out_dir(out.path()).write().unwrap();
    let names = [
        "common.v1.rs",
        "interfaces.rs",
        "shop.rs",
        "shop.type.rs",
        "shop.v1.cart.line.rs",
        "shop.v1.cart.rs",
        "shop.v1.rs",
    ];
    let paths: Vec<_> = written.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(paths, names.map(|name| out.path().join(name)));
    names.iter().for_each(|name| compare(&out.path().join(name), &golden.join(name)));
}

/// The build script of `nearcall-testkit` generates these for the tests of the runtime, which
/// compile and call them.
#[test]
fn what_the_tests_of_the_runtime_call() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nearcall-testkit/proto");
    let all: [(&str, &[&str]); 4] = [
        ("echo", &["Echo", "Adder", "Store"]),
        ("sizes", &["Sizes"]),
        ("streams", &["Streams"]),
        ("stress", &["Stress"]),
    ];
    for (name, services) in all {
        let out = TestDir::new();
        let builder = Builder::new().file(proto.join(format!("{name}.proto"))).include(&proto);
        let written = builder.out_dir(out.path()).write().unwrap();
        let [file] = &written.files[..] else { panic!("not one file: {written:?}") };
        assert_eq!(file.path, out.path().join(format!("{name}.v1.rs")));
        let text = fs::read_to_string(&file.path).unwrap();
        for service in services {
            for (item, part) in [
                ("struct", "Caller {"),
                ("struct", "AsyncCaller {"),
                ("type", "Dispatcher<"),
                ("type", "AsyncDispatcher<"),
            ] {
                let head = format!("pub {item} {service}{part}");
                assert_eq!(text.matches(&head).count(), 1, "{head} in {name}");
            }
        }
    }
}

/// Crates of this repository have what is generated in their sources, so that neither they nor what
/// uses them needs a generator to be built.
#[test]
fn what_crates_of_this_repository_have() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (proto, golden) in [
        ("nearcall/proto/nearcall/v1/server.proto", "nearcall/src/control/golden/server.rs"),
        ("nearcall-host/proto/nearcall/v1/host.proto", "nearcall-host/src/golden/host.rs"),
        ("nearcall-grpc/proto/nearcall/v1/gateway.proto", "nearcall-grpc/src/golden/gateway.rs"),
        ("nearcall-bench/proto/bench.proto", "nearcall-bench/src/golden/bench.rs"),
        ("nearcall-bench-service/proto/setup.proto", "nearcall-bench-service/src/golden/setup.rs"),
    ] {
        let (directory, _) = proto.split_once("/proto/").unwrap();
        let include = crates.join(directory).join("proto");
        let out = TestDir::new();
        let builder = Builder::new().file(crates.join(proto)).include(include);
        let written = builder.out_dir(out.path()).write().unwrap();
        let [file] = &written.files[..] else { panic!("not one file: {written:?}") };
        compare(&file.path, &crates.join(golden));
    }
}
