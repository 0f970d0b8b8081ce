//! Why nothing was generated, in words for the author of the `.proto` file or of the build script.
//!
//! Always true: what concerns a place in a file begins with `file:line:column: `, both from 1.

use std::path::PathBuf;
use std::{fmt, io};

use prost_reflect::FileDescriptor;

/// Why nothing was generated. Files that were written before stay as they are.
///
/// `Debug` prints the same as `Display`, so that `fn main() -> Result<(), BuildError>` of a build
/// script ends with a readable line.
#[non_exhaustive]
pub enum BuildError {
    /// No file was named.
    NoFile,
    /// A file is missing or is not correct proto3. The text begins with the place, where there is
    /// one.
    Proto {
        /// What the parser says.
        text: String,
    },
    /// A method takes or returns a stream.
    Streaming {
        /// Where the method is.
        place: Place,
        /// Its name.
        method: String,
    },
    /// A one-way method returns something.
    OnewayAnswers {
        /// Where the method is.
        place: Place,
        /// Its name.
        method: String,
        /// What it returns instead of `google.protobuf.Empty`.
        output: String,
    },
    /// A method asks for a deadline of no time.
    ZeroDeadline {
        /// Where the method is.
        place: Place,
        /// Its name.
        method: String,
    },
    /// Two methods of one service have the same number.
    IdCollision {
        /// Where the second is.
        place: Place,
        /// The first.
        first: String,
        /// The second.
        second: String,
        /// The number of both.
        id: u32,
    },
    /// Two things would have the same name in Rust.
    NameClash {
        /// Where the second is.
        place: Place,
        /// What needs the name first, in words.
        first: String,
        /// What needs it too.
        second: String,
        /// The name.
        name: String,
    },
    /// `answer_later` names a method that does not exist.
    UnknownMethod {
        /// What was asked for.
        path: String,
        /// The methods that there are.
        known: Vec<String>,
    },
    /// `answer_later` names a one-way method, which has no answer.
    OnewayLater {
        /// Where the method is.
        place: Place,
        /// Its name.
        method: String,
    },
    /// There is no folder to write to: neither `out_dir` nor the variable `OUT_DIR` is set.
    NoOutDir,
    /// A file cannot be written.
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl BuildError {
    /// From the parser. Its `Debug` form is the one that has the place.
    pub(crate) fn proto(error: &protox::Error) -> Self {
        let text = format!("{error:?}");
        let outside = text.strip_prefix("file '");
        let outside = outside.and_then(|rest| rest.strip_suffix("' is not in any include path"));
        Self::Proto {
            text: match outside {
                Some(path) => format!("{path}: does not exist, or lies in no include folder"),
                None => text,
            },
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("no .proto file is named"),
            Self::Proto { text } => f.write_str(text),
            Self::Streaming { place, method } => write!(
                f,
                "{place}: streaming methods are not supported yet: `{method}` takes or returns a \
                 stream"
            ),
            Self::OnewayAnswers { place, method, output } => write!(
                f,
                "{place}: oneway method `{method}` must return google.protobuf.Empty, not {output}"
            ),
            Self::ZeroDeadline { place, method } => write!(
                f,
                "{place}: deadline_ms of `{method}` must be above zero; leave it out for no \
                 deadline"
            ),
            Self::IdCollision { place, first, second, id } => write!(
                f,
                "{place}: methods `{first}` and `{second}` have the same id {id:#010x}; rename one \
                 of them"
            ),
            Self::NameClash { place, first, second, name } => write!(
                f,
                "{place}: {second} and {first} need the same Rust name `{name}`; rename one of them"
            ),
            Self::UnknownMethod { path, known } if known.is_empty() => {
                write!(f, "answer_later: there is no method `{path}`; there are no methods at all")
            }
            Self::UnknownMethod { path, known } => write!(
                f,
                "answer_later: there is no method `{path}`; there are: {}",
                known.join(", ")
            ),
            Self::OnewayLater { place, method } => write!(
                f,
                "{place}: answer_later: `{method}` is oneway, so there is no answer to give later"
            ),
            Self::NoOutDir => f.write_str("no folder to write to: set out_dir or OUT_DIR"),
            Self::Write { path, error } => write!(f, "{}: cannot write: {error}", path.display()),
        }
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A place in a `.proto` file; displayed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name as others import it.
    pub file: String,
    /// Line and column from 1, if the descriptors say it.
    pub at: Option<(u32, u32)>,
}

impl Place {
    /// Where the item with the descriptor path `path` begins.
    pub(crate) fn of(file: &FileDescriptor, path: &[i32]) -> Self {
        let info = file.file_descriptor_proto().source_code_info.as_ref();
        let mut locations = info.into_iter().flat_map(|info| &info.location);
        let span = locations.find(|location| location.path == path).map(|found| &found.span);
        let from_one = |number: i32| u32::try_from(number).unwrap_or(0) + 1;
        let at = span.and_then(|span| Some((from_one(*span.first()?), from_one(*span.get(1)?))));
        Self { file: file.name().to_owned(), at }
    }

    /// The place of the name of a message, enum, service or method.
    pub(crate) fn of_name(file: &FileDescriptor, path: &[i32]) -> Self {
        Self::of(file, &[path, &[NAME_TAG]].concat())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        self.at.map_or(Ok(()), |(line, column)| write!(f, ":{line}:{column}"))
    }
}

/// The field `name` in the descriptors of messages, enums, services and methods.
const NAME_TAG: i32 = 1;
