//! Every error: a `.proto` file or a builder, and the message that follows.

use nearcall_build::Builder;

use crate::directory::TestDir;

/// Compiles `a.proto`: the usual head in line 1, and `text` from line 2 on.
#[track_caller]
fn check(text: &str, expected: &str) {
    check_with(text, |builder| builder, expected);
}

#[track_caller]
fn check_with(text: &str, set: impl FnOnce(Builder) -> Builder, expected: &str) {
    let directory = TestDir::new();
    let head = "syntax = \"proto3\"; package a; import \"nearcall/options.proto\"; \
                import \"google/protobuf/empty.proto\"; message X {}";
    let path = directory.write("a.proto", &format!("{head}\n{text}\n"));
    let builder = Builder::new().file(path).out_dir(directory.path().join("out"));
    let error = set(builder).write().unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(format!("{error:?}"), expected, "a build script prints this form");
    assert!(!directory.path().join("out").exists(), "nothing was written");
}

#[test]
fn a_oneway_method_has_no_stream() {
    let oneway = "{ option (nearcall.oneway) = true; }";
    for (types, column) in [
        ("(X) returns (stream google.protobuf.Empty)", 17),
        ("(stream X) returns (google.protobuf.Empty)", 17),
        ("(stream X) returns (stream X)", 17),
    ] {
        let expected = format!(
            "a.proto:2:{column}: oneway method `Watch` takes or returns a stream, whose end is a \
             reply; leave out `oneway` or `stream`"
        );
        check(&format!("service S {{ rpc Watch{types} {oneway} }}"), &expected);
    }
}

#[test]
fn a_oneway_method_returns_nothing() {
    check(
        "service S { rpc A(X) returns (X) { option (nearcall.oneway) = true; } }",
        "a.proto:2:17: oneway method `A` must return google.protobuf.Empty, not a.X",
    );
}

#[test]
fn a_deadline_is_above_zero() {
    check(
        "service S { rpc A(X) returns (X) { option (nearcall.deadline_ms) = 0; } }",
        "a.proto:2:17: deadline_ms of `A` must be above zero; leave it out for no deadline",
    );
}

#[test]
fn methods_with_one_id_are_refused() {
    // Found by trying names until two had the same hash.
    check(
        "service S { rpc M149599(X) returns (X);\nrpc M312382(X) returns (X); }",
        "a.proto:3:5: methods `M149599` and `M312382` have the same id 0xff339e42; rename one of \
         them",
    );
}

#[test]
fn names_that_clash_in_rust_are_refused() {
    for (text, expected) in [
        (
            "service S { rpc SetTarget(X) returns (X);\nrpc set_target(X) returns (X); }",
            "a.proto:3:5: method `set_target` and method `SetTarget` need the same Rust name \
             `set_target`; rename one of them",
        ),
        (
            "service S { rpc X(.a.X) returns (.a.X);\nrpc StartX(.a.X) returns (.a.X); }",
            "a.proto:2:17: the started call of `X` and method `StartX` need the same Rust name \
             `start_x`; rename one of them",
        ),
        (
            "service S { rpc x_with(.a.X) returns (.a.X);\nrpc x(.a.X) returns (.a.X); }",
            "a.proto:3:5: the call of `x` with options and method `x_with` need the same Rust \
             name `x_with`; rename one of them",
        ),
        (
            "service S { rpc New(X) returns (X); }",
            "a.proto:2:17: method `New` and the caller's own `new` need the same Rust name `new`; \
             rename one of them",
        ),
        (
            "message SCaller {}\nservice S { rpc A(X) returns (X); }",
            "a.proto:3:9: the caller of service `S` and message `SCaller` need the same Rust name \
             `SCaller`; rename one of them",
        ),
        (
            "service FooBar {}\nservice foo_bar {}",
            "a.proto:3:9: service `foo_bar` and service `FooBar` need the same Rust name \
             `FooBar`; rename one of them",
        ),
        (
            "message y {}\nenum Y { Y_UNSPECIFIED = 0; }",
            "a.proto:3:6: enum `Y` and message `y` need the same Rust name `Y`; rename one of \
             them",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn a_start_and_a_oneway_method_do_not_clash() {
    let directory = TestDir::new();
    let text = "syntax = \"proto3\"; import \"nearcall/options.proto\"; \
                import \"google/protobuf/empty.proto\"; message X {} service S { \
                rpc A(X) returns (google.protobuf.Empty) { option (nearcall.oneway) = true; } \
                rpc StartA(X) returns (X); }";
    let path = directory.write("a.proto", text);
    Builder::new().file(path).out_dir(directory.path()).write().unwrap();
}

#[test]
fn what_is_not_proto3_is_refused_with_its_place() {
    for (text, expected) in [
        ("service S { rpc A(X) returns (Y); }", "a.proto:2:31: name 'Y' is not defined"),
        ("service S {}\nservice S {}", "a.proto:3:9: name 'a.S' is defined twice"),
        ("service S { rpc A(X); }", "a.proto:2:21: expected 'returns', but found ';'"),
        (
            "service S { rpc A(X) returns (X) { option (nearcall.twoway) = true; } }",
            "a.proto:2:36: 'nearcall.twoway' resolves to 'nearcall.twoway', which is not defined",
        ),
        (
            "service S { rpc A(X) returns (X) { option (nearcall.deadline_ms) = -1; } }",
            "a.proto:2:36: expected a value of type 'uint32' for option \
             '(nearcall.deadline_ms)', but found '-1'",
        ),
    ] {
        check(text, expected);
    }
}

#[track_caller]
fn check_files(files: &[(&str, &str)], compiled: &[&str], expected: &str) {
    let directory = TestDir::new();
    let mut builder =
        Builder::new().include(directory.path()).out_dir(directory.path().join("out"));
    for (name, text) in files {
        directory.write(name, text);
    }
    for name in compiled {
        builder = builder.file(directory.path().join(name));
    }
    let error = builder.write().unwrap_err().to_string();
    assert_eq!(error.replace(directory.path().to_str().unwrap(), "DIR"), expected);
}

#[test]
fn files_that_are_not_there_are_named() {
    check_files(&[], &[], "no .proto file to compile: name one with `Builder::file`");
    check_files(
        &[],
        &["b.proto"],
        "DIR/b.proto: does not exist, or lies in no include directory; add its directory with \
         `Builder::include`",
    );
    check_files(
        &[("b.proto", "syntax = \"proto3\";\nimport \"c/d.proto\";")],
        &["b.proto"],
        "b.proto:2:1: import 'c/d.proto' not found",
    );
    check_files(
        &[("b.proto", "import \"c.proto\";"), ("c.proto", "import \"b.proto\";")],
        &["b.proto"],
        "import cycle detected: b.proto -> c.proto -> b.proto",
    );
}

#[test]
fn two_services_with_one_name_in_two_files_are_refused() {
    check_files(
        &[
            ("b.proto", "syntax = \"proto3\"; package a;\nservice S {}"),
            ("c.proto", "syntax = \"proto3\"; package a;\nservice S {}"),
        ],
        &["b.proto", "c.proto"],
        "c.proto:2:9: name 'a.S' is already defined in file 'b.proto'",
    );
}
