//! JSON in one form: keys in order, nothing that is `null` in objects, numbers by their value.
//!
//! Always true: two texts of one meaning get one form, whatever program wrote them. Memory is a
//! small multiple of the text, whatever it claims. What a run is known by is in
//! `dataset/run_id.rs`.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The text in its one form.
///
/// # Errors
///
/// That of the JSON.
pub(super) fn json(text: &str) -> Result<String, serde_json::Error> {
    let mut out = String::with_capacity(text.len());
    let mut reader = serde_json::Deserializer::from_str(text);
    Form(&mut out).deserialize(&mut reader)?;
    reader.end()?;
    Ok(out)
}

/// Adds a value to a text.
struct Form<'a>(&'a mut String);

impl Form<'_> {
    fn put<E: Error>(self, value: impl fmt::Display) -> Result<(), E> {
        write!(self.0, "{value}").map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Form<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Form<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(NULL)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        // Other programs write 2.0 as 2. What is large stays short.
        let is_whole = value.fract() == 0.0 && value.abs() < WHOLE_MAX;
        if is_whole { self.put(value) } else { self.put(format_args!("{value:e}")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let quoted = serde_json::to_string(value).map_err(E::custom)?;
        self.put(quoted)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.push('[');
        while items.next_element_seed(Form(self.0))?.is_some() {
            self.0.push(',');
        }
        self.0.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        while let Some(name) = map.next_key()? {
            let mut value = String::new();
            map.next_value_seed(Form(&mut value))?;
            fields.insert(name, value);
        }
        self.0.push('{');
        for (name, value) in fields.iter().filter(|(_, value)| *value != NULL) {
            Form(self.0).visit_str::<A::Error>(name)?;
            self.0.push(':');
            self.0.push_str(value);
            self.0.push(',');
        }
        self.0.push('}');
        Ok(())
    }
}

const NULL: &str = "null";

/// Below it every whole number is exact.
const WHOLE_MAX: f64 = 9e15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_meaning_have_one_form() {
        let form = json(r#" {"b": [1.0, 2.50, {}], "a": {"x": null}, "c": "\u0041\n"} "#).unwrap();
        assert_eq!(form, r#"{"a":{},"b":[1,2.5e0,{},],"c":"A\n",}"#);
        assert_eq!(json(r#"{"c":"A\n","a":{},"b":[1,25e-1,{}]}"#).unwrap(), form);
        let numbers = json("[1e300,-0.5,18446744073709551615]").unwrap();
        assert_eq!(numbers, "[1e300,-5e-1,18446744073709551615,]");
        assert!(json("{} x").is_err() && json("[1").is_err());
    }
}
