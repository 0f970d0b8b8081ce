//! Rules for the manifests: which crate may use which, and that all share the same lints.
//!
//! Not here: versions and licences of other people's crates (`deny.toml`).
//!
//! **Invariant:** dependencies of every kind, including those of tests, point down; only
//! `nearcall-testkit` is a dev-dependency of crates below it, down to `nearcall`. The channel and
//! the call protocol do not depend on each other. *Checked by*
//! `crates_depend_one_way_and_share_lints`.

use toml::{Table, Value};

/// What each crate of ours may depend on, whatever the kind of dependency. Nothing points back.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nearcall-os", &[]),
    ("nearcall-wire", &[]),
    ("nearcall-build", &[]),
    ("nearcall-channel", &["nearcall-os"]),
    ("nearcall", &["nearcall-channel", "nearcall-os", "nearcall-wire"]),
    ("nearcall-otel", &["nearcall"]),
    ("nearcall-prometheus", &["nearcall", "nearcall-os"]),
    ("nearcall-tracing", &["nearcall"]),
    ("nearcall-testkit-macros", &[]),
    (
        TESTKIT,
        &[
            "nearcall",
            "nearcall-build",
            "nearcall-channel",
            "nearcall-os",
            "nearcall-testkit-macros",
            "nearcall-wire",
        ],
    ),
    ("nearcall-grpc", &["nearcall", "nearcall-os"]),
    ("nearcall-runtime", &["nearcall"]),
    ("nearcall-c", &["nearcall"]),
    ("nearcall-python", &["nearcall"]),
    (
        "nearcall-host",
        &["nearcall", "nearcall-channel", "nearcall-os", "nearcall-prometheus", "nearcall-runtime"],
    ),
    ("nearcall-recording", &["nearcall", "nearcall-os"]),
    // As any user of ours: what runs, and what generates. The tests wait for processes.
    ("nearcall-examples", &["nearcall", "nearcall-build", "nearcall-grpc", "nearcall-os"]),
    ("nearcall-bench-service", &["nearcall", "nearcall-os", "nearcall-runtime"]),
    // No clock, no process, no descriptor: the table of mechanisms only.
    ("nearcall-results", &["nearcall-channel"]),
    (
        "nearcall-bench",
        &[
            "nearcall",
            "nearcall-bench-service",
            "nearcall-channel",
            "nearcall-host",
            "nearcall-os",
            "nearcall-results",
            "nearcall-wire",
        ],
    ),
    (
        "nearcall-studies",
        &["nearcall", "nearcall-bench", "nearcall-channel", "nearcall-os", "nearcall-results"],
    ),
    (
        "nearcall-cli",
        &[
            "nearcall",
            "nearcall-bench",
            "nearcall-bench-service",
            "nearcall-build",
            "nearcall-channel",
            "nearcall-grpc",
            "nearcall-host",
            "nearcall-os",
            "nearcall-recording",
            "nearcall-results",
            "nearcall-studies",
        ],
    ),
    (
        "nearcall-peers",
        &[
            "nearcall",
            "nearcall-bench",
            "nearcall-build",
            "nearcall-channel",
            "nearcall-os",
            "nearcall-results",
        ],
    ),
    // As any user of ours.
    ("nearcall-grpc-interop", &["nearcall", "nearcall-build", "nearcall-grpc", "nearcall-os"]),
    ("xtask", &[]),
];

/// What tests share. Only a dev-dependency, and only of `nearcall` and the crates above it: the
/// unit tests of one below would see two instances of it.
const TESTKIT: &str = "nearcall-testkit";

/// Packages of others that only these crates of ours may depend on.
const RESERVED: &[(&str, &[&str])] =
    &[("tracing", &["nearcall", "nearcall-grpc", "nearcall-tracing", "nearcall-peers"])];

/// Everything that is wrong with the manifest of the crate `name`.
#[must_use]
pub fn problems(name: &str, text: &str) -> Vec<String> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{name}: its Cargo.toml cannot be parsed: {error}")],
    };
    let dependencies = dependencies(&manifest);
    let mut problems = directions(name, &dependencies);
    problems.extend(reserved(name, &dependencies));
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if lints != Some(&Value::Boolean(true)) {
        problems.push(format!("{name}: add `[lints]` with `workspace = true` to its Cargo.toml"));
    }
    problems
}

/// A package that a manifest names, and the kind of its section.
type Dependency<'a> = (&'a str, &'static str);

fn directions(name: &str, dependencies: &[Dependency<'_>]) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!(
            "{name}: unknown crate; say in ARCHITECTURE.md which invariant it protects and add it \
             to ALLOWED in xtask/src/tidy/manifest.rs"
        )];
    };
    let may_test = name == "nearcall" || allowed.contains(&"nearcall");
    let ours = dependencies.iter().filter(|(used, _)| used.split('-').next() == Some("nearcall"));
    let forbidden = ours.filter(|(used, section)| match *used {
        TESTKIT => !(may_test && *section == "dev-dependencies"),
        used => !allowed.contains(&used),
    });
    forbidden
        .map(|(used, _)| {
            format!(
                "{name}: must not use {used} (allowed: {allowed:?}); move the shared part down, or \
                 change ARCHITECTURE.md first"
            )
        })
        .collect()
}

fn reserved(name: &str, dependencies: &[Dependency<'_>]) -> Vec<String> {
    let taken = RESERVED.iter().filter(|(package, users)| {
        !users.contains(&name) && dependencies.iter().any(|(used, _)| used == package)
    });
    taken
        .map(|(package, users)| {
            format!("{name}: must not use {package}, which is for {users:?}; use an interceptor")
        })
        .collect()
}

/// The packages that a manifest names as dependencies, those of all targets too.
fn dependencies(manifest: &Table) -> Vec<Dependency<'_>> {
    let targets =
        manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let mut found = Vec::new();
    for manifest in targets.filter_map(Value::as_table).chain([manifest]) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let all = manifest.get(section).and_then(Value::as_table).into_iter().flatten();
            found.extend(all.map(|(name, value)| {
                (value.get("package").and_then(Value::as_str).unwrap_or(name), section)
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[track_caller]
    fn check(name: &str, dependencies: &str, expected: &[&str]) {
        let text =
            format!("[package]\nname = \"{name}\"\n{dependencies}\n[lints]\nworkspace = true\n");
        let problems = problems(name, &text);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn dependencies_point_down() {
        check("nearcall-channel", "[dependencies]\nnearcall-os.workspace = true", &[]);
        check("nearcall-os", "[dependencies]\nlibc.workspace = true\n# not nearcall-wire", &[]);
    }

    #[test]
    fn a_dependency_that_points_up_is_reported() {
        let expected = &["nearcall-channel: must not use nearcall-bench"];
        check("nearcall-channel", "[dependencies]\nnearcall-bench.workspace = true", expected);
        check("nearcall-channel", "[dev-dependencies]\nnearcall-bench = \"1\"", expected);
        check("nearcall-channel", "[dependencies.nearcall-bench]\npath = \"../bench\"", expected);
        check("nearcall-channel", "[dependencies]\nx = { package = \"nearcall-bench\" }", expected);
        check(
            "nearcall-channel",
            "[target.'cfg(loom)'.dependencies]\nnearcall-bench = \"1\"",
            expected,
        );
        check("nearcall-channel", "[build-dependencies]\nnearcall-bench = \"1\"", expected);
    }

    #[test]
    fn what_tests_share_is_for_tests_alone() {
        check("nearcall", "[dev-dependencies]\nnearcall-testkit.workspace = true", &[]);
        check("nearcall-tracing", "[dev-dependencies]\nnearcall-testkit.workspace = true", &[]);
        for section in ["dependencies", "build-dependencies", "dependencies.nearcall-testkit"] {
            let manifest = format!("[{section}]\nnearcall-testkit = {{}}");
            check("nearcall", &manifest, &["nearcall: must not use nearcall-testkit"]);
        }
        let below = "[dev-dependencies]\nnearcall-testkit.workspace = true";
        check("nearcall-channel", below, &["nearcall-channel: must not use nearcall-testkit"]);
    }

    #[test]
    fn wire_and_channel_do_not_know_each_other() {
        let channel = "[dependencies]\nnearcall-wire.workspace = true";
        check("nearcall-channel", channel, &["nearcall-channel: must not use nearcall-wire"]);
        let wire = "[dependencies]\nnearcall-channel.workspace = true";
        check("nearcall-wire", wire, &["nearcall-wire: must not use nearcall-channel"]);
    }

    #[test]
    fn tracing_is_for_calls_and_not_for_what_lies_below() {
        let uses = "[dependencies]\nnearcall.workspace = true\ntracing.workspace = true";
        check("nearcall-tracing", uses, &[]);
        let expected = &["nearcall-wire: must not use tracing"];
        check("nearcall-wire", "[dependencies]\ntracing.workspace = true", expected);
        check("nearcall-wire", "[dev-dependencies]\ntracing = \"0.1\"", expected);
        check("nearcall-wire", "[dependencies.tracing]\nversion = \"0.1\"", expected);
        check("nearcall-wire", "[dependencies]\ntracing-like = \"0.1\"", &[]);
    }

    #[test]
    fn a_new_crate_needs_an_entry() {
        check("nearcall-util", "", &["nearcall-util: unknown crate"]);
    }

    #[test]
    fn every_crate_inherits_the_lints() {
        let missing = problems("nearcall-os", "[package]\nname = \"nearcall-os\"\n");
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].contains("add `[lints]` with `workspace = true`"));
    }
}
