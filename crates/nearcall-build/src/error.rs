//! The errors of the generator, for the author of the `.proto` file or of the build script.
//!
//! # Invariants
//!
//! - A message about a place in a file begins with `file:line:column: `, both counted from 1.
//! - A message names the cause and what to change.

use std::path::PathBuf;
use std::{fmt, io};

use prost_reflect::FileDescriptor;

/// The reason why nothing was generated. Files that were written before stay as they are.
///
/// `Debug` prints the same as `Display`, so that `fn main() -> Result<(), BuildError>` of a build
/// script ends with a readable line.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The builder has no file.
    #[error(
        "no .proto file to compile: name one with `Builder::file`, or descriptors with \
         `Builder::descriptor_set`"
    )]
    NoFile,
    /// A descriptor set cannot be read, or is not one.
    #[error(
        "{from}: cannot use the descriptor set: {text}; write it with `protoc --include_imports \
         --include_source_info --descriptor_set_out FILE`"
    )]
    DescriptorSet {
        /// The path of the file, or a name for bytes.
        from: String,
        /// The reason.
        text: String,
    },
    /// A file is missing or is not correct proto3. The text begins with the place if there is one.
    #[error("{text}")]
    Proto {
        /// The message of the parser.
        text: String,
    },
    /// A one-way method takes or returns a stream.
    #[error(
        "{place}: oneway method `{method}` takes or returns a stream, whose end is a reply; leave \
         out `oneway` or `stream`"
    )]
    OnewayStreams {
        /// The place of the method.
        place: Place,
        /// The name of the method.
        method: String,
    },
    /// A one-way method returns something.
    #[error("{place}: oneway method `{method}` must return google.protobuf.Empty, not {output}")]
    OnewayAnswers {
        /// The place of the method.
        place: Place,
        /// The name of the method.
        method: String,
        /// The type that it returns instead of `google.protobuf.Empty`.
        output: String,
    },
    /// A method has a deadline of zero.
    #[error("{place}: deadline_ms of `{method}` must be above zero; leave it out for no deadline")]
    ZeroDeadline {
        /// The place of the method.
        place: Place,
        /// The name of the method.
        method: String,
    },
    /// Two methods of one service have the same id.
    #[error(
        "{place}: methods `{first}` and `{second}` have the same id {id:#010x}; rename one of them"
    )]
    IdCollision {
        /// The place of the second method.
        place: Place,
        /// The name of the first method.
        first: String,
        /// The name of the second method.
        second: String,
        /// The id of both.
        id: u32,
    },
    /// Two items would have the same name in Rust.
    #[error(
        "{place}: {second} and {first} ({first_place}) need the same Rust name `{name}`; {}",
        hint_at_rename(first, second)
    )]
    NameClash {
        /// The place of the second item.
        place: Place,
        /// A description of the first item, such as ``method `New` ``.
        first: String,
        /// The place of the first item.
        first_place: Box<Place>,
        /// A description of the second item.
        second: String,
        /// The name.
        name: String,
    },
    /// A name has no letter and no digit.
    #[error("{place}: {what} has no letter or digit to make a Rust name from; rename it")]
    NoRustName {
        /// The place of the item.
        place: Place,
        /// A description of the item, such as ``field `_` ``.
        what: String,
    },
    /// A map of enum values has the name of a keyword.
    #[error(
        "{place}: the map `{field}` has enum values and the name of a keyword, which prost cannot \
         generate; rename the field"
    )]
    KeywordMap {
        /// The place of the field.
        place: Place,
        /// The name of the field.
        field: String,
    },
    /// A type of `google.protobuf` that is newer than those of the runtime.
    #[error(
        "{place}: the runtime has no type {name}; name a Rust type for it with `extern_path`, or \
         use another type"
    )]
    UnknownGoogleType {
        /// The place of the field or method that uses the type.
        place: Place,
        /// The full name of the type.
        name: String,
    },
    /// A file begins with `edition`.
    #[error("{place}: editions are not supported; use syntax = \"proto3\"")]
    Edition {
        /// The place of the edition.
        place: Place,
    },
    /// Brackets are nested too deep for the parser.
    #[error(
        "{place}: brackets are nested deeper than {limit} levels, the limit; flatten the value or \
         message"
    )]
    Nesting {
        /// The place of the first bracket that is too deep.
        place: Place,
        /// The limit.
        limit: usize,
    },
    /// The parser or prost has panicked.
    #[error(
        "{files}: cannot generate code, because a library panicked: {text}; report this with the \
         `.proto` files as a defect of nearcall-build"
    )]
    Internal {
        /// The files that were compiled.
        files: String,
        /// The message of the panic.
        text: String,
    },
    /// A method has no name in C++, or one that another method has.
    #[error("{place}: {what} {reason}; give it another name with `rename`")]
    CppName {
        /// The place of the method.
        place: Place,
        /// A description of the method.
        what: String,
        /// What is wrong with its name.
        reason: String,
    },
    /// `rename` names a service or method that does not exist.
    #[error("rename: there is no service or method `{path}`; {}", list_known(known))]
    UnknownRename {
        /// The path that `rename` names.
        path: String,
        /// The full names of all services and methods.
        known: Vec<String>,
    },
    /// `rename` gives a name that is no identifier.
    #[error(
        "rename: `{name}` is no name for `{path}`: use ASCII letters, digits and `_`, and begin \
         with a letter"
    )]
    BadRename {
        /// The full name of the service or method.
        path: String,
        /// The name that it should get.
        name: String,
    },
    /// `type_attribute` or `field_attribute` gives text that is no attribute.
    #[error(
        "attribute of `{path}`: `{attribute}` is no attribute of Rust, such as `#[derive(Eq)]`"
    )]
    BadAttribute {
        /// The path of the types or fields.
        path: String,
        /// The text.
        attribute: String,
    },
    /// `type_attribute` or `field_attribute` has a path that no generated item has.
    #[error(
        "{kind}_attribute: no generated {kind} matches `{path}`; `.` is every one, \
         `.home.v1.Room` begins at the package, `Room` is the end of a name"
    )]
    UnknownAttributePath {
        /// The path.
        path: String,
        /// What it should match: `type` or `field`.
        kind: &'static str,
    },
    /// `btree_map` or `bytes` has a path that no generated field of that type has.
    #[error(
        "{option}: no generated field of that type matches `{path}`; `.` is every one, \
         `.home.v1.Room` begins at the package, `Room.names` is the end of a name"
    )]
    UnknownFieldPath {
        /// The option: `btree_map` or `bytes`.
        option: &'static str,
        /// The path.
        path: String,
    },
    /// `extern_path` gives something other than a package or type and a path of Rust.
    #[error(
        "extern_path: `{path}` to `{rust_path}`: give a package or type of the `.proto` file with \
         a leading dot, and a path of Rust, such as `.common.v1` and `::common::v1`"
    )]
    BadExternPath {
        /// The package or type.
        path: String,
        /// The path of Rust.
        rust_path: String,
    },
    /// `include_file` gives a name that cannot be used.
    #[error("include_file: `{name}` {reason}; give a file name such as `interfaces.rs`")]
    BadIncludeFile {
        /// The name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// Options contradict each other.
    #[error("options that do not fit together: {text}")]
    Options {
        /// The message of prost.
        text: String,
    },
    /// Neither `out_dir` nor the variable `OUT_DIR` is set.
    #[error(
        "no directory to write to: call `Builder::out_dir`, or run in a build script, for which \
         Cargo sets OUT_DIR"
    )]
    NoOutDir,
    /// A file or directory cannot be written.
    #[error("{}: cannot write: {error}", path.display())]
    Write {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

impl BuildError {
    /// Creates the error for a panic in a library.
    pub(crate) fn internal(files: impl fmt::Display, text: String) -> Self {
        Self::Internal { files: files.to_string(), text }
    }

    /// Converts an error of the parser. Only its `Debug` form has the place.
    pub(crate) fn proto(error: &protox::Error) -> Self {
        let text = format!("{error:?}");
        let outside = text.strip_prefix("file '");
        let outside = outside.and_then(|rest| rest.strip_suffix("' is not in any include path"));
        Self::Proto {
            text: match outside {
                Some(path) => format!(
                    "{path}: does not exist, or lies in no include directory; add its directory \
                     with `Builder::include`"
                ),
                None if text.contains("name 'nearcall.") && text.ends_with("' is not defined") => {
                    format!("{text}; add `import \"nearcall/options.proto\";`")
                }
                None => text,
            },
        }
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place in a `.proto` file. `Display` prints `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name by which other files import the file.
    pub file: String,
    /// Line and column from 1; `None` if the descriptors have no source information.
    pub at: Option<(u32, u32)>,
}

impl Place {
    /// Finds the start of the element with the descriptor path `path`.
    fn from_path(file: &FileDescriptor, path: &[i32]) -> Self {
        let info = file.file_descriptor_proto().source_code_info.as_ref();
        let mut locations = info.into_iter().flat_map(|info| &info.location);
        let span = locations.find(|location| location.path == path).map(|found| &found.span);
        let from_one = |number: i32| u32::try_from(number).unwrap_or(0) + 1;
        let at = span.and_then(|span| Some((from_one(*span.first()?), from_one(*span.get(1)?))));
        Self { file: file.name().to_owned(), at }
    }

    /// Finds the package of a file.
    pub(crate) fn from_package(file: &FileDescriptor) -> Self {
        Self::from_path(file, &[PACKAGE_TAG])
    }

    /// Finds the name of a message, enum, service, method, field, oneof or value.
    pub(crate) fn from_item(file: &FileDescriptor, path: &[i32]) -> Self {
        Self::from_path(file, &[path, &[NAME_TAG]].concat())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        self.at.map_or(Ok(()), |(line, column)| write!(f, ":{line}:{column}"))
    }
}

/// Says what can be done about two items with one name. Messages belong to prost, which renames
/// nothing.
fn hint_at_rename(first: &str, second: &str) -> &'static str {
    let can_be_renamed = |what: &str| what.starts_with("service") || what.starts_with("method");
    match can_be_renamed(first) || can_be_renamed(second) {
        true => "give the service or method another Rust name with `rename`",
        false => "rename one of them",
    }
}

/// Renders the services and methods that `rename` may name.
fn list_known(known: &[String]) -> String {
    if known.is_empty() {
        "there are no services at all".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    }
}

/// The number of the field `package` in the descriptor of a file.
const PACKAGE_TAG: i32 = 2;

/// The number of the field `name` in the descriptors of messages, enums, services and methods.
const NAME_TAG: i32 = 1;
