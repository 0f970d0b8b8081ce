//! Every error: a `.proto` file or a builder, and the message that follows.

use nearcall_build::{Builder, Language};

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
fn names_of_an_interface_that_are_one_in_rust_are_refused() {
    for (text, expected) in [
        (
            "service S { rpc SetTarget(X) returns (X);\nrpc set_target(X) returns (X); }",
            "a.proto:3:5: method `set_target` and method `SetTarget` (a.proto:2:17) need the \
             same Rust name `set_target`; give the service or method another Rust name with `rename`",
        ),
        (
            "service FooBar {}\nservice foo_bar {}",
            "a.proto:3:9: service `foo_bar` and service `FooBar` (a.proto:2:9) need the same \
             Rust name `FooBar`; give the service or method another Rust name with `rename`",
        ),
        (
            "message Home {}\nservice home {}",
            "a.proto:3:9: service `home` and message `Home` (a.proto:2:9) need the same Rust \
             name `Home`; give the service or method another Rust name with `rename`",
        ),
        (
            "message y {}\nenum Y { Y_UNSPECIFIED = 0; }",
            "a.proto:3:6: enum `Y` and message `y` (a.proto:2:9) need the same Rust name `Y`; \
             rename one of them",
        ),
    ] {
        check(text, expected);
    }
}

/// Text, the second item with its place, the first one, and the name that both need.
const CLASHES: &[(&str, &str, &str, &str)] = &[
    (
        "enum E { FOO_BAR = 0;\nfooBar = 1; }",
        "3:1: value `fooBar`",
        "value `FOO_BAR` (2:10)",
        "FooBar",
    ),
    ("enum Foo { FOO_BAR = 0;\nBAR = 1; }", "3:1: value `BAR`", "value `FOO_BAR` (2:12)", "Bar"),
    ("enum E { E_SELF = 0;\nSELF = 1; }", "3:1: value `SELF`", "value `E_SELF` (2:10)", "Self_"),
    (
        "message M { message a_b {}\nmessage A_b {} }",
        "3:9: message `M.A_b`",
        "message `M.a_b` (2:21)",
        "AB",
    ),
    (
        "message M { message N { enum a_b { A = 0; }\nmessage A_b {} } }",
        "2:30: enum `M.N.a_b`",
        "message `M.N.A_b` (3:9)",
        "AB",
    ),
    (
        "message M { string foo = 1;\noneof FOO { string x = 2; } }",
        "3:7: oneof `FOO`",
        "field `foo` (2:20)",
        "foo",
    ),
    (
        "message M { oneof foo { X x = 1; }\noneof FOO { X y = 2; } }",
        "3:7: oneof `FOO`",
        "oneof `foo` (2:19)",
        "Foo",
    ),
    (
        "message M { message Foo {} message FooOneOf {}\noneof foo { X x = 1; } }",
        "3:7: oneof `foo`",
        "message `M.FooOneOf` (2:36)",
        "FooOneOf",
    ),
    (
        "enum E { Z = 0; } message M { E kind = 1;\nE set_kind = 2; }",
        "3:3: the accessor `set_kind` of field `set_kind`",
        "the accessor `set_kind` of field `kind` (2:33)",
        "set_kind",
    ),
    (
        "enum E { Z = 0; } message M { repeated E k = 1;\noptional int32 push_k = 2; }",
        "3:16: the accessor `push_k` of field `push_k`",
        "the accessor `push_k` of field `k` (2:42)",
        "push_k",
    ),
    (
        "enum E { Z = 0; } message M { map<string, E> k = 1;\noptional int32 get_k = 2; }",
        "3:16: the accessor `get_k` of field `get_k`",
        "the accessor `get_k` of field `k` (2:46)",
        "get_k",
    ),
    ("message _1 {\nmessage N {} }", "2:9: the module of message `_1`", "message `_1` (2:9)", "_1"),
];

#[test]
fn names_of_types_that_are_one_in_rust_are_refused_with_both_places() {
    for (text, second, first, name) in CLASHES {
        let expected = format!(
            "a.proto:{second} and {} need the same Rust name `{name}`; rename one of them",
            first.replace('(', "(a.proto:")
        );
        check(text, &expected);
    }
}

/// In proto3 the parser refuses such fields, since their names are one in JSON.
#[test]
fn fields_of_proto2_that_are_one_in_rust_are_refused() {
    for (fields, second, first, name) in [
        ("FOO = 1;\noptional X foo", "field `foo`", "field `FOO`", "foo"),
        ("TYPE = 1;\noptional X type", "field `type`", "field `TYPE`", "r#type"),
    ] {
        let text = format!("message X {{}} message M {{ optional X {fields} = 2; }}");
        let expected = format!(
            "b.proto:2:12: {second} and {first} (b.proto:1:37) need the same Rust name `{name}`; \
             rename one of them"
        );
        check_files(&[("b.proto", &text)], &["b.proto"], &expected);
    }
    check_files(
        &[("b.proto", "message X {} message M { oneof o { X FOO = 1;\nX foo = 2; } }")],
        &["b.proto"],
        "b.proto:2:3: field `foo` and field `FOO` (b.proto:1:38) need the same Rust name `Foo`; \
         rename one of them",
    );
}

#[test]
fn packages_that_are_one_module_in_rust_are_refused() {
    check_files(
        &[
            ("b.proto", "syntax = \"proto3\";\npackage foo.bar; message M {}"),
            ("c.proto", "syntax = \"proto3\";\npackage foo.Bar; message N {}"),
        ],
        &["b.proto", "c.proto"],
        "c.proto:2:1: package `foo.Bar` and package `foo.bar` (b.proto:2:1) need the same Rust \
         name `foo::bar`; rename one of them",
    );
    let cart = "syntax = \"proto3\"; package shop; message Cart { message Item {} }";
    check_files(
        &[
            ("b.proto", cart),
            ("c.proto", "syntax = \"proto3\"; package shop.cart;\nmessage Item {}"),
        ],
        &["b.proto", "c.proto"],
        "c.proto:2:9: message `Item` and message `Cart.Item` (b.proto:1:57) need the same Rust \
         name `Item`; rename one of them",
    );
}

#[test]
fn a_name_without_letters_is_refused() {
    for (text, expected) in [
        ("message _ {}", "2:9: message `_`"),
        ("enum E { _ = 0; }", "2:10: value `_`"),
        ("message M { string __ = 1; }", "2:20: field `__`"),
        ("message M { oneof _ { string x = 1; } }", "2:19: oneof `_`"),
        ("service _ {}", "2:9: service `_`"),
        ("service S { rpc _(X) returns (X); }", "2:17: method `_`"),
    ] {
        let expected = format!(
            "a.proto:{expected} has no letter or digit to make a Rust name from; rename it"
        );
        check(text, &expected);
    }
    check_files(
        &[("b.proto", "syntax = \"proto3\"; package a._.b;\nmessage M {}")],
        &["b.proto"],
        "b.proto:1:20: package `a._.b` has no letter or digit to make a Rust name from; rename it",
    );
}

#[test]
fn what_prost_cannot_generate_is_refused() {
    check(
        "enum E { Z = 0; } message M { map<string, E> type = 1; }",
        "a.proto:2:46: the map `type` has enum values and the name of a keyword, which prost \
         cannot generate; rename the field",
    );
    let descriptor = "syntax = \"proto2\"; package google.protobuf; message FeatureSet {}";
    check_files(
        &[
            ("google/protobuf/descriptor.proto", descriptor),
            (
                "b.proto",
                "syntax = \"proto3\"; import \"google/protobuf/descriptor.proto\";\nmessage M {\n\
                 google.protobuf.FeatureSet f = 1; }",
            ),
        ],
        &["b.proto"],
        "b.proto:3:28: the runtime has no type google.protobuf.FeatureSet; name a Rust type for it \
         with `extern_path`, or use another type",
    );
}

#[test]
fn editions_are_refused_with_their_place() {
    for edition in ["2023", "2024"] {
        check_files(
            &[
                ("b.proto", &format!("// A comment.\nedition = \"{edition}\"; message M {{}}")),
                ("c.proto", "syntax = \"proto3\"; import \"b.proto\"; message N {}"),
            ],
            &["c.proto"],
            "b.proto:2:1: editions are not supported; use syntax = \"proto3\"",
        );
    }
}

#[test]
fn a_rename_needs_an_item_and_a_name_that_is_free() {
    let rename =
        |path: &'static str, name: &'static str| move |builder: Builder| builder.rename(path, name);
    let service = "service S { rpc A(X) returns (X); rpc B(X) returns (X); }";
    check_with(
        service,
        rename("a.S.C", "D"),
        "rename: there is no service or method `a.S.C`; there are: a.S, a.S.A, a.S.B",
    );
    check_with(
        "",
        rename("a.S", "T"),
        "rename: there is no service or method `a.S`; there are no services at all",
    );
    for name in ["", "1st", "new name", "r#type", "a.b", "für"] {
        let expected = format!(
            "rename: `{name}` is no name for `a.S.A`: use ASCII letters, digits and `_`, and \
             begin with a letter"
        );
        check_with(service, rename("a.S.A", name), &expected);
    }
    check_with(
        service,
        rename("a.S.A", "B"),
        "a.proto:2:39: method `B` and method `A` (a.proto:2:17) need the same Rust name `b`; \
         give the service or method another Rust name with `rename`",
    );
}

#[test]
fn attributes_and_paths_are_those_of_rust() {
    check_with(
        "",
        |builder| builder.type_attribute("a.X", "derive(Eq)"),
        "attribute of `a.X`: `derive(Eq)` is no attribute of Rust, such as `#[derive(Eq)]`",
    );
    check_with(
        "",
        |builder| builder.field_attribute(".", "#[]"),
        "attribute of `.`: `#[]` is no attribute of Rust, such as `#[derive(Eq)]`",
    );
    for (path, kind) in [(".a.Y", "type"), ("n", "type"), ("X", "field")] {
        let expected = format!(
            "{kind}_attribute: no generated {kind} matches `{path}`; `.` is every one, \
             `.home.v1.Room` begins at the package, `Room` is the end of a name"
        );
        let set = |builder: Builder| match kind {
            "type" => builder.type_attribute(path, "#[x]"),
            _ => builder.field_attribute(path, "#[x]"),
        };
        check_with("message Z { uint32 n = 1; }", set, &expected);
    }
    for (option, path) in [("btree_map", "n"), ("bytes", "Z.n"), ("bytes", "Z")] {
        let expected = format!(
            "{option}: no generated field of that type matches `{path}`; `.` is every one, \
             `.home.v1.Room` begins at the package, `Room.names` is the end of a name"
        );
        let set = |builder: Builder| match option {
            "bytes" => builder.bytes([path]),
            _ => builder.btree_map([path]),
        };
        check_with("message Z { uint32 n = 1; }", set, &expected);
    }
    for (path, rust_path) in [("a", "::b"), (".a", "b c"), (".a.", "::b"), (".", "::b"), (".a", "")]
    {
        let expected = format!(
            "extern_path: `{path}` to `{rust_path}`: give a package or type of the `.proto` file \
             with a leading dot, and a path of Rust, such as `.common.v1` and `::common::v1`"
        );
        check_with("", |builder| builder.extern_path(path, rust_path), &expected);
    }
    check_with(
        "",
        |builder| builder.extern_path(".google.protobuf", "::wkt"),
        "options that do not fit together: duplicate extern Protobuf path: .google.protobuf",
    );
}

#[test]
fn the_including_file_has_a_name_of_its_own() {
    for (name, reason) in [
        ("a.rs", "is the name of a package's file"),
        ("../b.rs", "is not the name of a Rust file in the output directory"),
        ("b", "is not the name of a Rust file in the output directory"),
        (".rs", "is not the name of a Rust file in the output directory"),
    ] {
        let expected =
            format!("include_file: `{name}` {reason}; give a file name such as `interfaces.rs`");
        check_with("", |builder| builder.include_file(name), &expected);
    }
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

#[test]
fn an_option_of_nearcall_needs_its_import() {
    let text = "syntax = \"proto3\"; package a; message X {}\n\
                service S { rpc A(X) returns (X) { option (nearcall.deadline_ms) = 5; } }";
    check_files(
        &[("a.proto", text)],
        &["a.proto"],
        "a.proto:2:36: name 'nearcall.deadline_ms' is not defined; \
         add `import \"nearcall/options.proto\";`",
    );
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
fn a_descriptor_set_that_cannot_be_used_is_named() {
    let directory = TestDir::new();
    let set = |bytes: &[u8]| Builder::new().descriptor_set_bytes(bytes).write().unwrap_err();
    let end = "; write it with `protoc --include_imports --include_source_info \
               --descriptor_set_out FILE`";
    let error = set(&[0xff]).to_string();
    let start = "descriptor_set_bytes: cannot use the descriptor set: ";
    assert!(error.starts_with(start) && error.ends_with(end), "{error}");
    // Without what it imports.
    let file = |dependency: &str, syntax: &str| prost_types::FileDescriptorProto {
        name: Some("a.proto".to_owned()),
        syntax: Some(syntax.to_owned()),
        dependency: vec![dependency.to_owned()],
        ..Default::default()
    };
    let encode = |file| {
        let set = prost_types::FileDescriptorSet { file: vec![file] };
        prost::Message::encode_to_vec(&set)
    };
    let error = set(&encode(file("b.proto", "proto3"))).to_string();
    assert!(error.contains("b.proto") && error.ends_with(end), "{error}");
    let path = directory.path().join("none.binpb");
    let error = Builder::new().descriptor_set(&path).write().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot use", path.display())), "{error}");
}

#[test]
fn files_that_are_not_there_are_named() {
    check_files(
        &[],
        &[],
        "no .proto file to compile: name one with `Builder::file`, or descriptors with \
         `Builder::descriptor_set`",
    );
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

/// As by protoc: the innermost package that the file may use decides.
#[test]
fn a_package_that_is_imported_hides_another() {
    let common = ("c.proto", "syntax = \"proto3\"; package common; message Id {}");
    let hiding = ("d.proto", "syntax = \"proto3\"; package shop.common; message Other {}");
    let text = "syntax = \"proto3\"; package shop; import \"c.proto\"; import \"d.proto\";\n\
                message M { common.Id id = 1; }";
    check_files(
        &[common, hiding, ("b.proto", text)],
        &["b.proto"],
        "b.proto:2:13: 'common.Id' resolves to 'shop.common.Id', which is not defined",
    );
    let between = ("e.proto", "syntax = \"proto3\"; import \"d.proto\"; message Between {}");
    // The place of an error stays in a file that has a hidden name.
    let text = "syntax = \"proto3\"; package shop; import \"c.proto\"; import \"e.proto\";\n\
                message M { common.Id id = 1;\nId other = 2; }";
    check_files(
        &[common, hiding, between, ("b.proto", text)],
        &["b.proto"],
        "b.proto:3:1: name 'Id' is not defined",
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

#[track_caller]
fn check_cpp(text: &str, set: impl FnOnce(Builder) -> Builder, expected: &str) {
    check_with(text, |builder| set(builder.language(Language::Cpp)), expected);
}

#[test]
fn two_methods_have_two_names_in_cpp() {
    check_cpp(
        "service S { rpc GetX(X) returns (X); rpc get_x(X) returns (X); }",
        |builder| builder,
        "a.proto:2:42: method `get_x` and method `GetX` need the same C++ name `get_x`; give it \
         another name with `rename`",
    );
    check_cpp(
        "service S { rpc _(X) returns (X); }",
        |builder| builder,
        "a.proto:2:17: method `_` has no letter or digit to make a C++ name from; give it another \
         name with `rename`",
    );
}

#[test]
fn options_of_rust_are_none_of_cpp() {
    for (name, set) in [
        ("include_file", (|builder| builder.include_file("a.rs")) as fn(Builder) -> Builder),
        ("type_attribute", |builder| builder.type_attribute(".", "#[derive(Eq)]")),
        ("extern_path", |builder| builder.extern_path(".a", "::a")),
        ("btree_map", |builder| builder.btree_map(["."])),
        ("async_api", |builder| builder.async_api(false)),
    ] {
        let expected = format!(
            "options that do not fit together: `{name}` is for Rust, and C++ is generated; leave \
             it out"
        );
        check_cpp("service S {}", set, &expected);
    }
}

/// A file of a set may have any name, and that of what is written follows from it.
#[test]
fn nothing_is_written_outside_the_directory() {
    let directory = TestDir::new();
    // A `FileDescriptorSet` of a file with this name.
    let name = b"../b.proto";
    let set = [&[0x0a, 12, 0x0a, 10], &name[..]].concat();
    let builder = Builder::new().descriptor_set_bytes(set).language(Language::Cpp);
    let error = builder.out_dir(directory.path().join("out")).write().unwrap_err();
    assert!(error.to_string().contains("../b.proto: cannot use the descriptor set"), "{error}");
}
