//! `nearcall gen`: Rust from `.proto` files, without a build script.
//!
//! **Not here:** the checks of the files, which are those of `nearcall_build`.

use nearcall_build::{Builder, WrittenFile};
use serde::Serialize;

use super::End;
use crate::args::{GenArgs, ServicePart};
use crate::output;

pub(super) fn run(args: &GenArgs) -> anyhow::Result<End> {
    let builder = args.files.iter().fold(Builder::new(), Builder::file);
    let builder = args.include.iter().fold(builder, Builder::include);
    let mut builder = args.include_file.iter().fold(builder, Builder::include_file);
    for (path, name) in &args.rename {
        builder = builder.rename(path, name);
    }
    for (path, rust_path) in &args.extern_path {
        builder = builder.extern_path(path, rust_path);
    }
    for (path, attribute) in &args.type_attribute {
        builder = builder.type_attribute(path, attribute);
    }
    for (path, attribute) in &args.field_attribute {
        builder = builder.field_attribute(path, attribute);
    }
    let builder = args.descriptor_set.iter().fold(builder, Builder::descriptor_set);
    let mut builder = builder.btree_map(&args.btree_map);
    if !args.bytes.is_empty() {
        builder = builder.bytes(&args.bytes);
    }
    for part in &args.without {
        builder = match part {
            ServicePart::Callers => builder.callers(false),
            ServicePart::Dispatchers => builder.dispatchers(false),
            ServicePart::SyncApi => builder.sync_api(false),
            ServicePart::AsyncApi => builder.async_api(false),
        };
    }
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
