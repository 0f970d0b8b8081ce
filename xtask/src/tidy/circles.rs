//! Finds files of one crate that use each other in a circle, so that each can be read and changed
//! without the others.
//!
//! A file uses another if it names an item of it: by `use`, or by a path in its code. A re-export
//! is followed to the file that defines the item; to pass an item on is no use of it. What a module
//! uses of the modules above it does not count, because they belong together. Tests do not count.
//! Not here: how a file is read (`paths.rs`).
//!
//! **Invariant:** no two files of a crate that is listed here reach each other in a circle; a
//! module and its own children are aside. *Checked by* `no_two_files_use_each_other_in_a_circle`;
//! `cargo xtask circles` prints them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{Names, Path};

/// The most re-exports that are followed from one name; a longer chain is a loop.
const STEPS_MAX: usize = 16;

/// Where a file names an item of another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrow {
    line: usize,
    path: String,
}

/// Every circle in a crate of the workspace, among the files of the repository. A crate is each
/// directory with a directory `src` that has a root: `lib.rs` or `main.rs`.
#[must_use]
pub fn problems(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (path, text) in files {
        if let Some((source, file)) = split_at_source(path) {
            crates.entry(source).or_default().insert(file.to_owned(), text.clone());
        }
    }
    let is_crate = |files: &BTreeMap<String, String>| {
        ["lib.rs", "main.rs"].iter().any(|root| files.contains_key(*root))
    };
    let crates = crates.iter().filter(|(_, files)| is_crate(files));
    crates.flat_map(|(source, files)| circles(source, files)).collect()
}

/// Splits a path behind its first `src`: `a/src` and `b/c.rs`.
fn split_at_source(path: &str) -> Option<(&str, &str)> {
    let (directory, _) = path.split_once("/src/")?;
    let (source, file) = path.split_at(directory.len() + "/src".len());
    Some((source, file.strip_prefix('/')?))
}

/// Every circle among the files of one crate: paths below `src`, such as `a/b.rs`, and texts.
///
/// Each message names a chain of files, with the line and the path by which each uses the next. An
/// import of everything is reported too, because it hides which files it uses.
#[must_use]
pub fn circles(source: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let modules = Modules::read(files);
    let arrows = modules.arrows();
    let mut found = BTreeSet::new();
    for (from, targets) in &arrows {
        for to in targets.keys() {
            if let Some(mut circle) = way(&arrows, to, from) {
                let first = (0..circle.len()).min_by_key(|&at| circle[at]).unwrap_or(0);
                circle.rotate_left(first);
                found.insert((circle.len(), circle));
            }
        }
    }
    let circles = found.iter().map(|(_, circle)| message(source, circle, &arrows));
    circles.chain(modules.globs(source)).collect()
}

type Arrows = BTreeMap<String, BTreeMap<String, Arrow>>;

fn message(source: &str, circle: &[&str], arrows: &Arrows) -> String {
    let mut text = format!(
        "{source}: {} files use each other in a circle; move what both need into a file below \
         them, or return it to the caller:",
        circle.len()
    );
    for (at, from) in circle.iter().enumerate() {
        let to = circle[(at + 1) % circle.len()];
        let Arrow { line, path } = &arrows[*from][to];
        text.push_str(&format!("\n    {from}:{line} uses `{path}` of {to}"));
    }
    text
}

/// The shortest way from one file to another along arrows, both ends included.
fn way<'a>(arrows: &'a Arrows, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(file) = open.pop_front() {
        if file == to {
            let mut way = vec![file];
            while let Some(&previous) =
                way.last().filter(|last| **last != from).and_then(|last| before.get(last))
            {
                way.push(previous);
            }
            way.reverse();
            return Some(way);
        }
        for next in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
            if next != from && !before.contains_key(next.as_str()) {
                before.insert(next, file);
                open.push_back(next);
            }
        }
    }
    None
}

/// The modules of a crate, by path from its root.
struct Modules<'a> {
    modules: BTreeMap<Vec<String>, (&'a str, Names)>,
}

impl<'a> Modules<'a> {
    fn read(files: &'a BTreeMap<String, String>) -> Self {
        let mut modules: BTreeMap<_, _> = files
            .iter()
            .map(|(file, text)| (module_of(file), (file.as_str(), Names::read(text))))
            .collect();
        let tests: Vec<Vec<String>> = modules
            .iter()
            .flat_map(|(module, (_, names))| {
                names
                    .test_modules
                    .iter()
                    .map(|test| [&module[..], std::slice::from_ref(test)].concat())
            })
            .collect();
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { modules }
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (module, (file, names)) in &self.modules {
            let imports = names.imports.iter().filter(|import| !import.passed_on);
            for path in imports.map(|import| &import.path).chain(&names.paths) {
                let scope = [&module[..], &path.inline].concat();
                let Some(target) = self.resolve(&scope, &path.segments, STEPS_MAX) else {
                    continue;
                };
                // What a module uses of the modules above it, and of itself.
                if module.starts_with(&target) {
                    continue;
                }
                let to = self.modules[&target].0.to_owned();
                let arrow = Arrow { line: path.line, path: path.segments.join("::") };
                arrows.entry((*file).to_owned()).or_default().entry(to).or_insert(arrow);
            }
        }
        arrows
    }

    /// A message for every import of everything.
    fn globs(&self, source: &str) -> Vec<String> {
        let globs = self.modules.values().flat_map(|(file, names)| {
            let globs = names.imports.iter().filter(|import| import.name == "*");
            globs.map(move |import| (file, &import.path))
        });
        let message = |(file, path): (&&str, &Path)| {
            let (line, path) = (path.line, path.segments.join("::"));
            format!("{source}/{file}:{line}: `{path}::*` hides what is used; name the items")
        };
        globs.map(message).collect()
    }

    /// The module in whose file the item at the end of a path is defined; nothing if the item does
    /// not belong to the crate.
    fn resolve(&self, scope: &[String], path: &[String], steps: usize) -> Option<Vec<String>> {
        let steps = steps.checked_sub(1)?;
        let (mut at, mut rest) = (scope.to_vec(), path);
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            name if self.child(scope, name).is_some() => {}
            _ => return self.imported(scope, path, steps),
        }
        while let Some((name, behind)) = rest.split_first() {
            match self.child(&at, name) {
                _ if name == "super" => drop(at.pop()),
                Some(child) => at = child,
                None => return self.imported(&at, rest, steps).or(Some(self.file_of(&at)?.0)),
            }
            rest = behind;
        }
        Some(self.file_of(&at)?.0)
    }

    fn child(&self, module: &[String], name: &str) -> Option<Vec<String>> {
        let child = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }

    /// Follows the import that brings the first name of `path` into `module`.
    fn imported(&self, module: &[String], path: &[String], steps: usize) -> Option<Vec<String>> {
        let (name, behind) = path.split_first()?;
        let (file, inline) = self.file_of(module)?;
        let imports = self.modules[&file].1.imports.iter();
        let mut named =
            imports.filter(|import| import.name == *name && import.path.inline == inline);
        named.find_map(|import| {
            self.resolve(module, &[&import.path.segments[..], behind].concat(), steps)
        })
    }

    /// Splits a module into the one that has a file, and the inline modules below.
    fn file_of(&self, module: &[String]) -> Option<(Vec<String>, Vec<String>)> {
        let lengths = (0..=module.len()).rev();
        let mut splits = lengths.map(|length| module.split_at(length));
        let (file, inline) = splits.find(|(file, _)| self.modules.contains_key(*file))?;
        Some((file.to_vec(), inline.to_vec()))
    }
}

/// The module that a file below `src` holds.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    match stem {
        "lib" | "main" => Vec::new(),
        stem => stem.split('/').map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles among files (path and text), each as the files that it consists of.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        let chain = |message: &String| {
            let steps = message.lines().filter(|line| line.contains(" uses `"));
            steps.map(|line| line.trim()).collect::<Vec<_>>().join("; ")
        };
        let found: Vec<String> = circles("src", &files).iter().map(chain).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn files_that_use_each_other_are_reported() {
        check(
            &[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "use std::fs;\nuse super::c::{self, C};"),
                ("c.rs", "fn f() {\n    crate::a::f();\n}"),
            ],
            &["a.rs:1 uses `crate::b::B` of b.rs; b.rs:2 uses `super::c` of c.rs; \
               c.rs:2 uses `crate::a::f` of a.rs"],
        );
    }

    #[test]
    fn one_way_is_no_circle() {
        check(
            &[
                ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
                ("a.rs", "use crate::b::B;\n/// [`crate::a`]"),
                ("b.rs", "// crate::a\nfn f() { g(\"crate::a\") }\n#[cfg(test)]\nmod tests;"),
                ("b/tests.rs", "use crate::a::A;"),
            ],
            &[],
        );
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_item() {
        let a = ("a.rs", "mod x;\nmod y;\npub(crate) use self::x::X;\npub(crate) use y::Y;");
        let parts = [a, ("a/y.rs", ""), ("b.rs", "use crate::a::{X, Y};")];
        check(&[&parts[..], &[("a/x.rs", "")]].concat(), &[]);
        let expected = "a/x.rs:1 uses `crate::b` of b.rs; b.rs:1 uses `crate::a::X` of a/x.rs";
        check(&[&parts[..], &[("a/x.rs", "use crate::b;")]].concat(), &[expected]);
        // The same, by a name of the module that uses it.
        let b = ("b.rs", "use crate::a;\nfn f() { a::X::new() }");
        let expected = "a/x.rs:1 uses `crate::b` of b.rs; b.rs:2 uses `a::X::new` of a/x.rs";
        check(&[a, ("a/y.rs", ""), b, ("a/x.rs", "use crate::b;")], &[expected]);
    }

    #[test]
    fn a_parent_and_its_children_belong_together() {
        let child = ("a/x.rs", "use super::A;\nuse super::y::Y;");
        check(&[("a.rs", "mod x; mod y;\nfn f() { x::f() }"), child, ("a/y.rs", "")], &[]);
        // Not so by way of a third file.
        let parent = ("a.rs", "mod x;\nfn f() { x::f() }");
        let expected = "a.rs:2 uses `x::f` of a/x.rs; a/x.rs:1 uses `crate::b::B` of b.rs; \
                        b.rs:1 uses `crate::a::A` of a.rs";
        check(&[parent, ("a/x.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")], &[expected]);
    }

    #[test]
    fn every_crate_is_read_and_nothing_else() {
        let circle = |source: &str, root: &str| {
            [(root, "mod a;\nmod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")]
                .map(|(file, text)| (format!("{source}/{file}"), text.to_owned()))
        };
        let [one, other] = ["crates/one/src", "xtask/src"];
        let files = [
            circle(one, "lib.rs"),
            circle(other, "main.rs"),
            circle("crates/one/tests", "main.rs"),
            circle("crates/one/tests/it/src", "it.rs"),
        ];
        let problems = problems(&files.into_iter().flatten().collect());
        let sources: Vec<_> = problems.iter().filter_map(|text| text.split(": ").next()).collect();
        assert_eq!(sources, [one, other], "{problems:?}");
    }

    #[test]
    fn an_import_of_everything_is_reported() {
        let file =
            ("a.rs".to_owned(), "use super::*;\n#[cfg(test)]\nmod t { use super::*; }".to_owned());
        let problem = "src/a.rs:1: `super::*` hides what is used; name the items";
        assert_eq!(circles("src", &BTreeMap::from([file])), [problem]);
    }

    #[test]
    fn endless_re_exports_end() {
        check(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "pub use super::b::X;"),
                ("b.rs", "pub use super::a::X;"),
            ],
            &[],
        );
        check(&[("a.rs", "pub use x;\nfn f() { x::y() }")], &[]);
    }
}
