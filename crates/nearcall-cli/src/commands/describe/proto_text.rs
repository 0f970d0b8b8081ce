//! Descriptors as `.proto` text.
//!
//! **Invariants:** a pure function; what a file says of itself is in its text, with the options
//! whose extensions the set describes, so that `protoc` reads the whole text of a file back to the
//! same descriptor. Comments are there where the descriptor has its source information.
//! **Not here:** which parts are shown (`describe.rs`).

use std::collections::HashMap;
use std::fmt::Write as _;

use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{
    Cardinality, DynamicMessage, EnumDescriptor, ExtensionDescriptor, FieldDescriptor,
    FileDescriptor, Kind, MessageDescriptor, ServiceDescriptor, Syntax, Value,
};

/// Returns the text of those of a file's own services, messages and enums whose full names `keep`
/// takes; a service is asked for by method. `keep` of everything gives the whole file.
pub(super) fn text(file: &FileDescriptor, keep: &dyn Fn(&str) -> bool) -> String {
    let mut out = Printer::new(file);
    out.head(file);
    for service in file.services().filter(|it| it.methods().any(|it| keep(it.full_name()))) {
        out.service(&service, keep);
    }
    for message in file.messages().filter(|it| keep(it.full_name())) {
        out.blank();
        out.message(&message);
    }
    for item in file.enums().filter(|it| keep(it.full_name())) {
        out.blank();
        out.enumeration(&item);
    }
    out.extensions(file.extensions().filter(|it| keep(it.full_name())));
    out.text
}

struct Printer<'a> {
    text: String,
    depth: usize,
    syntax: Syntax,
    /// Comments before and behind an element, by its path in the file.
    comments: HashMap<&'a [i32], (&'a str, &'a str)>,
}

impl<'a> Printer<'a> {
    fn new(file: &'a FileDescriptor) -> Self {
        let source: &FileDescriptorProto = file.file_descriptor_proto();
        let places = source.source_code_info.iter().flat_map(|info| &info.location);
        let comments = places.filter_map(|place| {
            let (before, behind) = (place.leading_comments(), place.trailing_comments());
            (!(before.is_empty() && behind.is_empty())).then_some((&*place.path, (before, behind)))
        });
        let (text, comments) = (String::new(), comments.collect());
        Self { text, depth: 0, syntax: file.syntax(), comments }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:width$}{line}", "", width = 2 * self.depth);
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }

    fn comment(&mut self, path: &[i32]) {
        let (before, behind) = self.comments.get(path).copied().unwrap_or_default();
        for line in before.lines().chain(behind.lines()) {
            self.line(format!("//{line}").trim_end());
        }
    }

    /// Opens `what` below its comment.
    fn open(&mut self, path: &[i32], what: &str) {
        self.comment(path);
        self.line(&format!("{what} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn head(&mut self, file: &FileDescriptor) {
        let source = file.file_descriptor_proto();
        self.comment(&[SYNTAX]);
        self.line(&match file.syntax() {
            Syntax::Proto2 => "syntax = \"proto2\";".to_owned(),
            Syntax::Proto3 => "syntax = \"proto3\";".to_owned(),
        });
        if !source.package().is_empty() {
            self.blank();
            self.comment(&[PACKAGE]);
            self.line(&format!("package {};", source.package()));
        }
        if !source.dependency.is_empty() {
            self.blank();
        }
        for (at, import) in source.dependency.iter().enumerate() {
            let is_public =
                source.public_dependency.iter().any(|it| usize::try_from(*it) == Ok(at));
            let public = if is_public { "public " } else { "" };
            self.line(&format!("import {public}{};", quoted(import.as_bytes())));
        }
        let options = options(&file.options());
        if !options.is_empty() {
            self.blank();
        }
        self.options(&options);
    }

    /// Writes options as lines of their own.
    fn options(&mut self, options: &[String]) {
        for option in options {
            self.line(&format!("option {option};"));
        }
    }

    fn service(&mut self, service: &ServiceDescriptor, keep: &dyn Fn(&str) -> bool) {
        self.blank();
        self.open(service.path(), &format!("service {}", service.name()));
        self.options(&options(&service.options()));
        for (at, method) in service.methods().filter(|it| keep(it.full_name())).enumerate() {
            if at > 0 && self.comments.contains_key(method.path()) {
                self.blank();
            }
            let stream = |is_stream| if is_stream { "stream " } else { "" };
            let package = service.package_name();
            let line = format!(
                "rpc {}({}{}) returns ({}{})",
                method.name(),
                stream(method.is_client_streaming()),
                within(method.input().full_name(), package),
                stream(method.is_server_streaming()),
                within(method.output().full_name(), package),
            );
            let options = options(&method.options());
            match options.is_empty() {
                true => {
                    self.comment(method.path());
                    self.line(&format!("{line};"));
                }
                false => {
                    self.open(method.path(), &line);
                    self.options(&options);
                    self.close();
                }
            }
        }
        self.close();
    }

    fn message(&mut self, message: &MessageDescriptor) {
        let source = message.descriptor_proto();
        self.open(message.path(), &format!("message {}", message.name()));
        self.options(&options(&message.options()));
        for inner in message.child_messages().filter(|it| !it.is_map_entry() && !is_group(it)) {
            self.message(&inner);
        }
        for inner in message.child_enums() {
            self.enumeration(&inner);
        }
        let mut open = None;
        let mut fields: Vec<_> = message.fields().collect();
        // By number, the fields of a `oneof` might not be beside each other.
        let place = |it: &FieldDescriptor| it.path().last().copied();
        fields.sort_by_key(|it| match it.containing_oneof() {
            Some(group) if !group.is_synthetic() => {
                (group.fields().map(|it| place(&it)).min().flatten(), place(it))
            }
            _ => (place(it), None),
        });
        for field in fields {
            let group = field.containing_oneof().filter(|group| !group.is_synthetic());
            if open.is_some() && open != group {
                self.close();
            }
            if let Some(group) = group.as_ref().filter(|group| open.as_ref() != Some(*group)) {
                self.open(group.path(), &format!("oneof {}", group.name()));
                self.options(&options(&group.options()));
            }
            open = group;
            self.field(&field, message.package_name());
        }
        if open.is_some() {
            self.close();
        }
        for range in &source.extension_range {
            let last = range.end() - 1;
            self.line(&format!("extensions {} to {last};", range.start()));
        }
        let numbers = source.reserved_range.iter().map(|it| range(it.start(), it.end() - 1));
        self.reserved(numbers.collect(), &source.reserved_name);
        self.extensions(message.child_extensions());
        self.close();
    }

    fn reserved(&mut self, numbers: Vec<String>, names: &[String]) {
        let names: Vec<_> = names.iter().map(|name| quoted(name.as_bytes())).collect();
        for list in [numbers, names].iter().filter(|list| !list.is_empty()) {
            self.line(&format!("reserved {};", list.join(", ")));
        }
    }

    fn field(&mut self, field: &FieldDescriptor, package: &str) {
        let in_oneof = field.containing_oneof().is_some_and(|group| !group.is_synthetic());
        let label = match field.cardinality() {
            _ if field.is_map() || in_oneof => "",
            Cardinality::Repeated => "repeated ",
            Cardinality::Required => "required ",
            Cardinality::Optional if self.has_label(field.field_descriptor_proto()) => "optional ",
            Cardinality::Optional => "",
        };
        let mut extra = options(&field.options());
        let source = field.field_descriptor_proto();
        if source.default_value.is_some() {
            extra.insert(0, format!("default = {}", value(&field.default_value(), &field.kind())));
        }
        if field.json_name() != json_name(field.name()) {
            extra.push(format!("json_name = {}", quoted(field.json_name().as_bytes())));
        }
        let name = match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let (key, value) =
                    (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                format!("map<{}, {}>", kind(&key, package), kind(&value, package))
            }
            other => kind(&other, package),
        };
        let line = format!("{label}{name} {} = {}{}", field.name(), field.number(), list(&extra));
        match (field.is_group(), field.kind()) {
            // Its message has its name, and its fields stand in the place of its type.
            (true, Kind::Message(group)) => {
                let line = format!("{label}group {} = {}", group.name(), field.number());
                self.open(field.path(), &line);
                group.fields().for_each(|it| self.field(&it, package));
                self.close();
            }
            _ => {
                self.comment(field.path());
                self.line(&format!("{line};"));
            }
        }
    }

    /// Returns whether a field that is not repeated is written with `optional`.
    fn has_label(&self, source: &prost_reflect::prost_types::FieldDescriptorProto) -> bool {
        self.syntax == Syntax::Proto2 || source.proto3_optional()
    }

    fn enumeration(&mut self, item: &EnumDescriptor) {
        self.open(item.path(), &format!("enum {}", item.name()));
        self.options(&options(&item.options()));
        for value in item.values() {
            self.comment(value.path());
            let extra = list(&options(&value.options()));
            self.line(&format!("{} = {}{extra};", value.name(), value.number()));
        }
        let source = item.enum_descriptor_proto();
        let numbers = source.reserved_range.iter().map(|it| range(it.start(), it.end()));
        self.reserved(numbers.collect(), &source.reserved_name);
        self.close();
    }

    fn extensions(&mut self, extensions: impl Iterator<Item = ExtensionDescriptor>) {
        for extension in extensions {
            self.blank();
            let package = extension.package_name();
            let extended = extension.containing_message();
            self.open(&[], &format!("extend {}", within(extended.full_name(), package)));
            let label = match extension.cardinality() {
                Cardinality::Repeated => "repeated ",
                Cardinality::Required => "required ",
                Cardinality::Optional if self.has_label(extension.field_descriptor_proto()) => {
                    "optional "
                }
                Cardinality::Optional => "",
            };
            let (name, number) = (extension.name(), extension.number());
            let extra = list(&options(&extension.options()));
            self.comment(extension.path());
            let kind = kind(&extension.kind(), package);
            self.line(&format!("{label}{kind} {name} = {number}{extra};"));
            self.close();
        }
    }
}

/// Returns whether a message is that of a group, which its field shows.
fn is_group(message: &MessageDescriptor) -> bool {
    let fields = message.parent_message().into_iter().flat_map(|parent| {
        parent.fields().map(|it| (it.is_group(), it.kind())).collect::<Vec<_>>()
    });
    fields.into_iter().any(|(is_group, kind)| is_group && kind == Kind::Message(message.clone()))
}

/// Returns a name as it is written in `package`: without it, or from the root.
fn within(name: &str, package: &str) -> String {
    let inner = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.'));
    match inner {
        Some(inner) if !package.is_empty() => inner.to_owned(),
        _ if package.is_empty() => name.to_owned(),
        _ => format!(".{name}"),
    }
}

fn kind(kind: &Kind, package: &str) -> String {
    match kind {
        Kind::Message(message) => within(message.full_name(), package),
        Kind::Enum(item) => within(item.full_name(), package),
        // Its name in `.proto` files.
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

/// Returns the options that are set, as `name = value`.
fn options(options: &DynamicMessage) -> Vec<String> {
    let fields = options.fields().map(|(field, set)| each(field.name(), set, &field.kind()));
    let extensions = options.extensions().map(|(extension, set)| {
        each(&format!("({})", extension.full_name()), set, &extension.kind())
    });
    fields.chain(extensions).flatten().collect()
}

/// Returns an option as often as it is set.
fn each(name: &str, set: &Value, kind: &Kind) -> Vec<String> {
    let one = |set: &Value| format!("{name} = {}", value(set, kind));
    match set {
        Value::List(items) => items.iter().map(one).collect(),
        set => vec![one(set)],
    }
}

fn value(set: &Value, kind: &Kind) -> String {
    match (set, kind) {
        (Value::EnumNumber(number), Kind::Enum(item)) => match item.get_value(*number) {
            Some(known) => known.name().to_owned(),
            None => number.to_string(),
        },
        (Value::Message(message), _) => format!("{{ {} }}", message.to_text_format()),
        (Value::String(text), _) => quoted(text.as_bytes()),
        (Value::Bytes(bytes), _) => quoted(bytes),
        (other, _) => other.to_string(),
    }
}

fn list(options: &[String]) -> String {
    match options.is_empty() {
        true => String::new(),
        false => format!(" [{}]", options.join(", ")),
    }
}

fn range(first: i32, last: i32) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// Returns the name that a field has in JSON by itself.
fn json_name(name: &str) -> String {
    let mut out = String::new();
    let mut is_next_upper = false;
    for char in name.chars() {
        match (char, is_next_upper) {
            ('_', _) => is_next_upper = true,
            (char, true) => {
                out.push(char.to_ascii_uppercase());
                is_next_upper = false;
            }
            (char, false) => out.push(char),
        }
    }
    out
}

/// Paths of parts of a file, by the numbers of their fields in its descriptor.
const SYNTAX: i32 = 12;
const PACKAGE: i32 = 2;
