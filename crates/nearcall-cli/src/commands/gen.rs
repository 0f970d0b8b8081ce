//! `nearcall gen`: Rust, C++ or Python from `.proto` files, without a build script.
//!
//! **Not here:** the checks of the files, which are those of `nearcall_build`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nearcall_build::{Builder, Language, WrittenFile};
use serde::Serialize;

use super::End;
use crate::args::JsonArgs;
use crate::output;

/// Generate Rust, C++ or Python from .proto files
///
/// Writes one file per package with its messages, callers and dispatchers, and only if the file
/// would change; the packages that the files import are generated too. In a build script, use
/// the crate nearcall-build instead.
///
/// For C++ it writes NAME.nearcall.hpp for each file, with its callers and the bases of its
/// services; its messages are those of protoc --cpp_out. For Python it is NAME_nearcall.py, and
/// protoc --python_out.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct GenArgs {
    /// Interface files, as paths or as names within an include directory
    #[arg(value_name = "FILE.proto", required_unless_present = "descriptor_set")]
    pub(crate) files: Vec<PathBuf>,

    /// Language of the generated code; options of types, attributes and parts are for Rust
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageArg::Rust)]
    pub(crate) lang: LanguageArg,

    /// Encoded FileDescriptorSet with interfaces, as protoc writes; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) descriptor_set: Vec<PathBuf>,

    /// Directory of imports; repeatable [default: the directory of each file]
    #[arg(long, value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,

    /// Another name in the code for a service or method; repeatable
    #[arg(long, value_name = "PACKAGE.SERVICE[.METHOD]=NAME", value_parser = pair)]
    pub(crate) rename: Vec<(String, String)>,

    /// Types of another crate or module, such as .common.v1=::common::v1; repeatable
    #[arg(long, value_name = ".PACKAGE[.TYPE]=PATH", value_parser = pair)]
    pub(crate) extern_path: Vec<(String, String)>,

    /// An attribute of types, such as '.home.v1=#[derive(Eq)]'; repeatable
    #[arg(long, value_name = "PATH=ATTRIBUTE", value_parser = pair)]
    pub(crate) type_attribute: Vec<(String, String)>,

    /// An attribute of fields; repeatable
    #[arg(long, value_name = "PATH=ATTRIBUTE", value_parser = pair)]
    pub(crate) field_attribute: Vec<(String, String)>,

    /// Maps that become a BTreeMap, such as .home.v1.Plan.rooms, or . for all; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) btree_map: Vec<String>,

    /// Bytes fields that become nearcall::Bytes, all others Vec<u8>; repeatable [default: .]
    #[arg(long, value_name = "PATH")]
    pub(crate) bytes: Vec<String>,

    /// Leave out parts of services; repeatable or a list
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub(crate) without: Vec<ServicePart>,

    /// Also write this file, which includes the others in the modules of their packages
    #[arg(long, value_name = "NAME.rs")]
    pub(crate) include_file: Option<String>,

    /// Directory of the generated files; created if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out_dir: PathBuf,

    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

/// A language that `gen --lang` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageArg {
    /// Messages and services, a file for each package
    Rust,
    /// Services in NAME.nearcall.hpp, over the messages of protoc --cpp_out; C++17
    Cpp,
    /// Services in NAME_nearcall.py, over the messages of protoc --python_out
    Python,
}

/// A part of services that `gen --without` leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServicePart {
    /// Callers, the client stubs
    Callers,
    /// Traits to implement, and dispatchers
    Dispatchers,
    /// Callers that wait, and traits of services of one thread
    SyncApi,
    /// Callers that return futures, and traits with async methods
    AsyncApi,
}

/// Parses `KEY=VALUE`; the key has no `=`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

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
    let builder = builder.language(match args.lang {
        LanguageArg::Rust => Language::Rust,
        LanguageArg::Cpp => Language::Cpp,
        LanguageArg::Python => Language::Python,
    });
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

const EXAMPLES: &str = "\
Examples:
  nearcall gen thermostat.proto --out-dir src/generated
  nearcall gen home/v1/thermostat.proto --include proto --out-dir src/generated
  nearcall gen shop.proto --out-dir src/generated --include-file all.rs
  nearcall gen home.proto --out-dir src --rename home.v1.House.Scan=ScanRooms
  nearcall gen --descriptor-set home.binpb --out-dir src --without callers
  nearcall gen --lang cpp thermostat.proto --out-dir generated
  nearcall gen --lang python thermostat.proto --out-dir .";
