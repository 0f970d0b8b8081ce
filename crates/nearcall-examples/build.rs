//! Generates `home.v1` from `proto/`, as the build script of any user does, and the programs of the
//! tutorial from the pages of the book.
//!
//! A block of a page that begins with `// src/bin/NAME.rs` is a program, and its blocks of protobuf
//! add up to one file. The example `tutorial` is all of these programs in one.
//!
//! **Not here:** what they print (`tests/it/tutorial.rs`).
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, error, fs};

/// Where the pages are, from the directory of this crate.
const TUTORIAL: &str = "../../docs/book/src/tutorial";
/// The pages, in the order of the book.
const PAGES: [&str; 5] = ["first-call", "errors", "streams", "async", "restart"];

fn main() -> Result<(), Box<dyn error::Error>> {
    nearcall_build::Builder::new()
        .file("proto/thermostat.proto")
        .file("proto/house.proto")
        .compile()?;

    let out = env::var("OUT_DIR")?;
    let (mut interface, mut modules, mut rows) = (String::new(), String::new(), String::new());
    for page in PAGES {
        let path = format!("{TUTORIAL}/{page}.md");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        blocks(&text, "proto").for_each(|block| interface += &format!("{block}\n"));
        for block in blocks(&text, "rust,no_run") {
            let Some(rest) = block.strip_prefix("// src/bin/") else { continue };
            let (name, code) = rest.split_once(".rs\n").ok_or("a program without a name")?;
            let module = format!("{}_{name}", page.replace('-', "_"));
            let run = "pub(super) fn run() -> Result<(), Box<dyn std::error::Error>> { main() }";
            writeln!(modules, "mod {module} {{\n{code}\n{run}\n}}")?;
            writeln!(rows, "(\"{page}\", \"{name}\", {module}::run),")?;
        }
    }
    let file = Path::new(&out).join("kettle.proto");
    fs::write(&file, interface)?;
    nearcall_build::Builder::new().include(&out).file(&file).compile()?;
    let table = format!("const PROGRAMS: &[(&str, &str, Program)] = &[\n{rows}];\n");
    Ok(fs::write(Path::new(&out).join("tutorial.rs"), modules + &table)?)
}

/// Returns what stands in the fenced blocks of this language.
fn blocks<'a>(text: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let parts = text.split("\n```").enumerate();
    let language = format!("{language}\n");
    // Each second part is a block; the others begin behind the end of one.
    parts.filter(|(at, _)| at % 2 == 1).filter_map(move |(_, part)| part.strip_prefix(&*language))
}
