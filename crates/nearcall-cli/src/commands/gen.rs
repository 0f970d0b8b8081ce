//! `nearcall gen`: Rust from `.proto` files, without a build script.
//!
//! **Not here:** the checks of the files, which are those of `nearcall_build`.

use nearcall_build::{Builder, WrittenFile};
use serde::Serialize;

use super::End;
use crate::args::GenArgs;
use crate::output;

pub(super) fn run(args: &GenArgs) -> anyhow::Result<End> {
    let builder = args.files.iter().fold(Builder::new(), Builder::file);
    let builder = args.include.iter().fold(builder, Builder::include);
    let builder = args.answer_later.iter().fold(builder, Builder::answer_later);
    let written = builder.out_dir(&args.out_dir).write()?;
    if args.format.json {
        let files = written.files.iter().map(File::of).collect();
        output::json(&Document { schema: SCHEMA, files })?;
    } else {
        output::result(&written.files.iter().map(line).collect::<String>())?;
    }
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    files: Vec<File>,
}

/// One generated file.
#[derive(Serialize)]
struct File {
    path: String,
    /// Whether it was written; otherwise it had this content before.
    changed: bool,
}

impl File {
    fn of(file: &WrittenFile) -> Self {
        Self { path: file.path.display().to_string(), changed: file.changed }
    }
}

fn line(file: &WrittenFile) -> String {
    let what = if file.changed { "wrote    " } else { "unchanged" };
    format!("{what} {}\n", file.path.display())
}

const SCHEMA: &str = "nearcall.gen/1";
