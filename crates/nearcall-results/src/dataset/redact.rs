//! The text of a run as it goes into a data set: unchanged but for what tells about people.
//!
//! Always true: fields that this program does not know, and the digits of every number, stay as
//! they are.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::run::UNKNOWN;

/// The text of the run, with a line break at its end.
///
/// # Errors
///
/// That of the JSON, which [`Run::parse`](crate::run::Run::parse) would have found.
pub(super) fn redacted(text: &str, keep_host_name: bool) -> Result<String, serde_json::Error> {
    let mut run: Fields = serde_json::from_str(text)?;
    let mut changed = false;
    if !keep_host_name {
        changed |= run.within("machine", |machine| {
            machine.within("state", |state| state.replace("host_name", |_| UNKNOWN.to_owned()))
        })?;
    }
    changed |= run.within("settings", |settings| {
        settings.replace("arguments", |arguments: Vec<String>| {
            arguments.iter().map(|argument| without_folders(argument)).collect()
        })
    })?;
    let text = if changed { serde_json::to_string(&run)? } else { text.trim_end().to_owned() };
    Ok(text + "\n")
}

/// The same without what an imported run was called: the same archive under another name is the
/// same run.
///
/// # Errors
///
/// As [`redacted`].
pub(super) fn without_archive_name(text: &str) -> Result<String, serde_json::Error> {
    let mut run: Fields = serde_json::from_str(text)?;
    // Absent and `null` in runs of our own.
    let imported = run.find("imported").is_some_and(|imported| imported.get() != "null");
    if !imported {
        return Ok(text.to_owned());
    }
    run.within("imported", |imported| imported.replace("file", |_: String| String::new()))?;
    run.within("settings", |settings| settings.replace("arguments", |_: Vec<String>| Vec::new()))?;
    serde_json::to_string(&run)
}

/// An object whose values are kept as text, in its own order.
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn find(&mut self, name: &str) -> Option<&mut Box<RawValue>> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Changes the object in a field. Returns whether anything is different now.
    fn within(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Self) -> Result<bool, serde_json::Error>,
    ) -> Result<bool, serde_json::Error> {
        let Some(value) = self.find(name) else { return Ok(false) };
        let mut inside: Self = serde_json::from_str(value.get())?;
        let changed = change(&mut inside)?;
        if changed {
            *value = to_raw_value(&inside)?;
        }
        Ok(changed)
    }

    /// Changes the value of a field. Returns whether it is different now.
    fn replace<T: for<'de> Deserialize<'de> + Serialize + PartialEq + Clone>(
        &mut self,
        name: &str,
        change: impl FnOnce(T) -> T,
    ) -> Result<bool, serde_json::Error> {
        let Some(value) = self.find(name) else { return Ok(false) };
        let before: T = serde_json::from_str(value.get())?;
        let after = change(before.clone());
        let changed = before != after;
        if changed {
            *value = to_raw_value(&after)?;
        }
        Ok(changed)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(Reader)
    }
}

/// The argument, with only the last part of an absolute path: `--out=/srv/me/a.json` becomes
/// `--out=a.json`, and `-o/srv/me/a.json` becomes `-oa.json`.
fn without_folders(argument: &str) -> String {
    let Some(start) = path_start(argument) else { return argument.to_owned() };
    let (option, path) = argument.split_at(start);
    let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    format!("{option}{last}")
}

/// Where an absolute path begins: at once, behind short options, or behind any `=`.
fn path_start(argument: &str) -> Option<usize> {
    let letters = argument.strip_prefix('-').and_then(|rest| rest.split_once('/'));
    match letters {
        _ if argument.starts_with('/') => Some(0),
        Some((short, _)) if short.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Some(1 + short.len())
        }
        _ => argument.find("=/").map(|at| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"new": 1.10, "machine": {"b": 2, "state": {"host_name": "alice",
        "uptime_s": 5}, "a": 1}, "settings": {"arguments": ["--out", "/srv/alice/x.json"]}}"#;

    #[test]
    fn only_the_host_name_and_folders_are_taken_out() {
        let found = redacted(RUN, false).unwrap();
        assert!(found.starts_with(r#"{"new":1.10,"machine":{"b":2,"state":{"#), "{found}");
        assert!(found.contains(r#""host_name":"unknown","uptime_s":5"#), "{found}");
        assert!(found.ends_with("[\"--out\",\"x.json\"]}}\n"), "{found}");
        assert!(redacted(RUN, true).unwrap().contains("alice"));
    }

    #[test]
    fn what_needs_no_change_stays_as_it_is() {
        let found = redacted(RUN, false).unwrap();
        assert_eq!(redacted(&found, false).unwrap(), found);
        assert_eq!(redacted("{ }", false).unwrap(), "{ }\n");
    }

    #[test]
    fn only_absolute_paths_lose_their_folders() {
        let cases = [
            ("/tmp/a.json", "a.json"),
            ("--out=/srv/me/a.json", "--out=a.json"),
            ("/tmp/dir/", "dir"),
            ("/", ""),
            ("-o/srv/me/x.json", "-ox.json"),
            ("-qo/srv/me/x.json", "-qox.json"),
            ("--set=K=/srv/me/y", "--set=K=y"),
            ("-rate=a/b", "-rate=a/b"),
            ("docs/a.json", "docs/a.json"),
            ("64KiB", "64KiB"),
            ("--time=30s", "--time=30s"),
        ];
        for (argument, expected) in cases {
            assert_eq!(without_folders(argument), expected);
        }
    }
}
