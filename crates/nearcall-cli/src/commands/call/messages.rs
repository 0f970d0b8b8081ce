//! Messages as text: JSON or protobuf's text format, one after the other.
//!
//! **Invariants:** an error in JSON says where it is, by line and column; of a name that is not
//! known the nearest one is offered. Input is read as far as the next message needs it.
//! **Not here:** calls (`call.rs`).

use std::fs::File;
use std::io::{self, BufReader, Read};

use anyhow::{Context, anyhow};
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions,
};

use crate::commands::offered::did_you_mean;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// JSON, as protobuf maps to it
    Json,
    /// The text format of protobuf
    Text,
}

/// The messages of the input.
pub(super) struct Requests {
    of: MessageDescriptor,
    source: Source,
}

enum Source {
    Json(serde_json::Deserializer<serde_json::de::IoRead<Box<dyn Read + Send>>>),
    /// Texts that are left, the next one last.
    Text(Vec<String>),
}

impl Requests {
    /// Opens an input: the text itself, `@FILE`, or `-` for standard input; none without it.
    pub(super) fn open(
        data: Option<&str>,
        format: Format,
        of: MessageDescriptor,
    ) -> anyhow::Result<Self> {
        let mut source: Box<dyn Read + Send> = match data {
            None => Box::new(io::empty()),
            Some("-") => Box::new(io::stdin()),
            Some(text) => match text.strip_prefix('@') {
                Some(file) => {
                    Box::new(File::open(file).with_context(|| format!("{file}: cannot read"))?)
                }
                None => Box::new(io::Cursor::new(text.to_owned().into_bytes())),
            },
        };
        let source = match format {
            Format::Json => {
                let source: Box<dyn Read + Send> = Box::new(BufReader::new(source));
                Source::Json(serde_json::Deserializer::from_reader(source))
            }
            Format::Text => {
                let mut text = String::new();
                source.read_to_string(&mut text).context("cannot read the request")?;
                let mut texts: Vec<String> = text.split(SEPARATOR).map(str::to_owned).collect();
                // Nothing behind the last one, or nothing at all, is no message.
                texts.pop_if(|last| last.trim().is_empty());
                texts.reverse();
                Source::Text(texts)
            }
        };
        Ok(Self { of, source })
    }

    /// Reads the next message. `None`: the input has ended.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<DynamicMessage>> {
        match &mut self.source {
            Source::Json(source) => {
                if source.end().is_ok() {
                    return Ok(None);
                }
                let options = DeserializeOptions::new();
                let of = self.of.clone();
                let read = DynamicMessage::deserialize_with_options(of, source, &options);
                read.map(Some).map_err(|error| self.refused(&error.to_string()))
            }
            Source::Text(texts) => {
                let Some(text) = texts.pop() else { return Ok(None) };
                let read = DynamicMessage::parse_text_format(self.of.clone(), &text);
                let read = read.map_err(|error| self.refused(&error.to_string()));
                read.map(Some)
            }
        }
    }

    /// Returns why an input is no message.
    fn refused(&self, why: &str) -> anyhow::Error {
        let word = quoted_in(why, "unrecognized field name '")
            .or_else(|| quoted_in(why, "unrecognized enum value '"))
            .or_else(|| quoted_in(why, "field '"));
        let names = names_in(&self.of);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = word.map(|word| did_you_mean(word, &names)).unwrap_or_default();
        anyhow!("no {}: {why}{hint}", self.of.full_name())
    }
}

/// Returns a word that a reason quotes.
fn quoted_in<'a>(why: &'a str, before: &str) -> Option<&'a str> {
    why.split_once(before)?.1.split('\'').next()
}

/// Returns the names of fields and of values that may stand in a message, at any depth.
pub(super) fn names_in(message: &MessageDescriptor) -> Vec<String> {
    let (mut names, mut seen, mut left) = (Vec::new(), Vec::new(), vec![message.clone()]);
    while let Some(message) = left.pop() {
        if seen.contains(&message) || seen.len() >= MESSAGES_MAX {
            continue;
        }
        for field in message.fields() {
            names.extend([field.json_name().to_owned(), field.name().to_owned()]);
            match field.kind() {
                Kind::Message(inner) => left.push(inner),
                Kind::Enum(item) => names.extend(item.values().map(|it| it.name().to_owned())),
                _ => {}
            }
        }
        seen.push(message);
    }
    names
}

/// Writes a message. Of a stream each JSON document has a line of its own.
pub(super) fn written(
    message: &DynamicMessage,
    format: Format,
    is_item: bool,
    with_defaults: bool,
) -> anyhow::Result<String> {
    match format {
        Format::Json => {
            let options = SerializeOptions::new().skip_default_fields(!with_defaults);
            let mut out = Vec::new();
            match is_item {
                true => {
                    let mut to = serde_json::Serializer::new(&mut out);
                    message.serialize_with_options(&mut to, &options)?;
                }
                false => {
                    let mut to = serde_json::Serializer::pretty(&mut out);
                    message.serialize_with_options(&mut to, &options)?;
                }
            }
            Ok(String::from_utf8(out)?)
        }
        Format::Text => {
            let options = FormatOptions::new().pretty(!is_item).skip_default_fields(!with_defaults);
            Ok(message.to_text_format_with_options(&options))
        }
    }
}

/// Between messages of the text format, as grpcurl has it.
const SEPARATOR: char = '\u{1e}';

/// Names are looked for in so many messages.
const MESSAGES_MAX: usize = 256;
