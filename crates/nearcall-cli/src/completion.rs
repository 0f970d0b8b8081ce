//! Completion of names, services, methods and fields in a shell, against live servers.
//!
//! The script of a shell runs this program with the words of the line behind `--`, and `COMPLETE`
//! set; `clap_complete` finds the argument that the cursor is at, and asks here for its values.
//!
//! **Invariants:** never an error: what cannot be known is not offered. Only what has no hidden
//! characters is offered, since a shell prints it as it is.
//! **Not here:** options and verbs, which `clap_complete` completes by itself.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use nearcall_results::run::printable;
use prost_reflect::{Kind, MessageDescriptor};

use crate::args::ReachArgs;
use crate::commands::offered::{self, Asked};

/// Returns the names of servers that listen.
pub(crate) fn servers(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = nearcall::observe::names().unwrap_or_default();
    candidates(current, names.into_iter().map(|entry| entry.name))
}

/// Returns the methods of the server on the line, as `call` takes them.
pub(crate) fn methods(current: &OsStr) -> Vec<CompletionCandidate> {
    let current_text = current.to_string_lossy();
    let all = methods_of(&line()).unwrap_or_default();
    let is_near = |name: &String| name.starts_with(&*current_text);
    match all.iter().any(is_near) {
        true => candidates(current, all),
        // Typed without the package.
        false => candidates(current, all.into_iter().map(|name| short(&name).to_owned())),
    }
}

/// Returns the items of the server on the line that `describe` takes.
pub(crate) fn items(current: &OsStr) -> Vec<CompletionCandidate> {
    let methods = methods_of(&line()).unwrap_or_default();
    let services = methods.iter().filter_map(|it| Some(it.split_once('/')?.0.to_owned()));
    let services: BTreeSet<String> = services.filter(|it| !it.contains('@')).collect();
    let methods = methods.iter().filter(|it| !it.contains('@')).map(|it| it.replace('/', "."));
    candidates(current, services.into_iter().chain(methods))
}

/// Returns the request as it stands, with each field that may be at its end.
pub(crate) fn fields(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    // The quote of the shell, which stays on the line.
    let text = text.trim_start_matches('\'');
    let line = line();
    let message = line.get(2).and_then(|method| request_of(&line, method));
    let Some((message, begun)) = message.and_then(|message| place(&message, text)) else {
        return Vec::new();
    };
    let before = &text[..text.len() - begun.len()];
    let names = message.fields().filter(|it| it.json_name().starts_with(begun));
    let names = names.map(|it| format!("{before}{}\": ", it.json_name()));
    names.filter(|it| printable(it) == *it).map(CompletionCandidate::new).collect()
}

fn candidates(
    current: &OsStr,
    names: impl IntoIterator<Item = String>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let is_right = |name: &String| name.starts_with(&*current) && printable(name) == *name;
    let names: BTreeSet<String> = names.into_iter().filter(is_right).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns a method without the package of its service.
fn short(method: &str) -> &str {
    let service = method.split(['@', '/']).next().unwrap_or_default();
    &method[service.rfind('.').map_or(0, |dot| dot + 1)..]
}

/// Returns the words of the line that are no options, from the verb on.
fn line() -> Vec<String> {
    let words = env::args_os().skip_while(|word| word != "--").skip(2);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.filter(|word| !word.starts_with('-')).collect()
}

/// Asks the server on a line, whose second word it is.
fn asked(line: &[String]) -> Option<Asked> {
    Asked::new(&line.get(1)?.parse().ok()?, &ReachArgs { ca: None }).ok()
}

fn methods_of(line: &[String]) -> Option<Vec<String>> {
    let mut methods = Vec::new();
    for offer in asked(line)?.offers(None).ok()? {
        let Ok(service) = offer.service() else { continue };
        let objects = match offer.objects.is_empty() {
            true => vec![offer.name.clone()],
            false => offer.objects.clone(),
        };
        for object in objects {
            methods.extend(service.methods().map(|it| format!("{object}/{}", it.name())));
        }
    }
    Some(methods)
}

fn request_of(line: &[String], method: &str) -> Option<MessageDescriptor> {
    let (service, method) = method.rsplit_once('/').or_else(|| method.rsplit_once('.'))?;
    let service = service.split('@').next()?;
    let service = asked(line)?.interface(service).ok()?.service().ok()?;
    Some(offered::method(&service, method).ok()?.input())
}

/// Returns the message that the end of a JSON text is in, and the begin of the field's name there.
/// `None`: no name of a field is expected there.
fn place<'a>(message: &MessageDescriptor, text: &'a str) -> Option<(MessageDescriptor, &'a str)> {
    // For each value that is open: its message, and whether it is an object.
    let mut open: Vec<(Option<MessageDescriptor>, bool)> = Vec::new();
    // The field whose value comes next.
    let (mut field, mut is_value): (Option<String>, bool) = (None, false);
    let mut at = 0;
    while at < text.len() {
        let byte = text.as_bytes()[at];
        at += 1;
        match byte {
            b'{' | b'[' => {
                let of = match (open.last(), &field) {
                    (None, _) => Some(message.clone()),
                    (Some((of, false)), _) => of.clone(),
                    (Some((Some(of), true)), Some(name)) => message_in(of, name),
                    _ => None,
                };
                open.push((of, byte == b'{'));
                is_value = false;
            }
            b'}' | b']' => {
                open.pop();
                is_value = true;
            }
            b':' => is_value = true,
            b',' => is_value = open.last().is_some_and(|(_, is_object)| !is_object),
            b'"' => {
                let rest = &text[at..];
                let Some(end) = rest.find('"') else {
                    let (of, is_object) = open.pop()?;
                    return Some((of.filter(|_| is_object && !is_value)?, rest));
                };
                if !is_value {
                    field = Some(rest[..end].to_owned());
                }
                at += end + 1;
            }
            _ => {}
        }
    }
    None
}

/// Returns the message of a field.
fn message_in(message: &MessageDescriptor, name: &str) -> Option<MessageDescriptor> {
    let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name))?;
    match field.kind() {
        Kind::Message(inner) if !field.is_map() => Some(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_field_is_found_at_any_depth() {
        let pool = prost_reflect::DescriptorPool::global();
        let file = pool.get_message_by_name("google.protobuf.FileDescriptorProto").unwrap();
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = place(&file, text);
            let found = found.as_ref().map(|(message, begun)| (message.name(), *begun));
            assert_eq!(found, expected, "{text}");
        };
        check("{\"na", Some(("FileDescriptorProto", "na")));
        check("{\"name\": \"x\", \"", Some(("FileDescriptorProto", "")));
        check("{\"options\": {\"java", Some(("FileOptions", "java")));
        check("{\"messageType\": [{}, {\"field\": [{\"n", Some(("FieldDescriptorProto", "n")));
        check("{\"options\": {}, \"p", Some(("FileDescriptorProto", "p")));
        for text in ["", "{", "{\"name\": \"x", "{\"dependency\": [\"x", "{\"x\": {\"y", "]\""] {
            check(text, None);
        }
    }

    #[test]
    fn a_short_method_has_its_service_and_instance() {
        assert_eq!(short("home.v1.Room@a.b/Set"), "Room@a.b/Set");
        assert_eq!(short("Room/Set"), "Room/Set");
    }
}
