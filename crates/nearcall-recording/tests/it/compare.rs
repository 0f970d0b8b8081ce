//! Differences by the paths of fields.

use std::collections::BTreeMap;

use nearcall::Bytes;
use nearcall::control::{RecordedInterface, RecordingHeader};
use nearcall::prost::Message;
use nearcall::service::Interface;
use nearcall_recording::{Descriptors, compare};
use nearcall_testkit::echo::{EchoCaller, Parcel, Seen, StoreCaller};
use nearcall_testkit::home::{SetTargetReply, ThermostatCaller};

fn differences(
    interface: &Interface,
    method: &str,
    recorded: impl Into<Bytes>,
    now: impl Into<Bytes>,
) -> Vec<String> {
    let interfaces = vec![RecordedInterface {
        name: interface.name.to_owned(),
        descriptor_set: interface.descriptor_set.into(),
    }];
    let header = RecordingHeader { interfaces, ..RecordingHeader::default() };
    let descriptors = Descriptors::new(&header);
    let output = descriptors.method(interface.name, method).unwrap().output();
    let found = compare(&recorded.into(), &now.into(), &output, "reply", 10);
    found.iter().map(ToString::to_string).collect()
}

fn parcels(one: &Parcel, other: &Parcel) -> Vec<String> {
    let interface = StoreCaller::INTERFACE;
    differences(interface, "Get", one.encode_to_vec(), other.encode_to_vec())
}

#[test]
fn fields_lists_and_nested_messages_have_paths() {
    let inner = |text: &str| Parcel { text: text.into(), ..Parcel::default() };
    let one = Parcel {
        more: vec![vec![1].into(), vec![2].into()],
        inner: Some(Box::new(inner("a"))),
        ..Parcel::default()
    };
    let other = Parcel {
        more: vec![vec![1].into(), vec![3].into(), vec![4].into()],
        inner: Some(Box::new(inner("b"))),
        keep: true,
        ..Parcel::default()
    };
    assert_eq!(parcels(&one, &one), [""; 0]);
    assert_eq!(
        parcels(&one, &other),
        [
            r#"reply.more[1]: "\002" -> "\003""#,
            r#"reply.more[2]: absent -> "\004""#,
            r#"reply.inner.text: "a" -> "b""#,
            "reply.keep: false -> true",
        ]
    );
    let none = Parcel { inner: None, ..one.clone() };
    assert_eq!(parcels(&none, &one), [r#"reply.inner: absent -> {text:"a"}"#]);
    // Long values are shortened, and hidden characters shown as such.
    let long = inner(&"\u{1b}[2J".repeat(50));
    let found = parcels(&inner("a"), &long);
    assert!(found[0].contains(r"\u{1b}[2J") && found[0].len() < 200, "{found:?}");
}

#[test]
fn numbers_are_compared_exactly() {
    let reply = |celsius_before| SetTargetReply { celsius_before }.encode_to_vec();
    let compared = |one, other| {
        differences(ThermostatCaller::INTERFACE, "SetTarget", reply(one), reply(other))
    };
    assert_eq!(compared(21.5, 21.5), [""; 0]);
    assert_eq!(compared(0.1 + 0.2, 0.3), ["reply.celsius_before: 0.30000000000000004 -> 0.3"]);
    // prost sends it as 0, other libraries as what it is.
    let minus = [&[0x09][..], &(-0.0_f64).to_le_bytes()].concat();
    let found = differences(ThermostatCaller::INTERFACE, "SetTarget", reply(0.0), minus);
    assert_eq!(found, ["reply.celsius_before: 0.0 -> -0.0"]);
    assert_eq!(compared(f64::NAN, f64::NAN), [""; 0]);
}

#[test]
fn maps_are_compared_by_key_whatever_their_order() {
    let seen = |entries: &[(&str, &str)]| {
        let entries = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Bytes::copy_from_slice(value.as_bytes())));
        Seen { metadata: entries.collect(), ..Seen::default() }
    };
    let look =
        |one: Vec<u8>, other: Vec<u8>| differences(EchoCaller::INTERFACE, "Look", one, other);
    let (one, other) = (seen(&[("a", "1"), ("b", "2")]), seen(&[("b", "3"), ("c", "4")]));
    assert_eq!(
        look(one.encode_to_vec(), other.encode_to_vec()),
        [
            r#"reply.metadata["a"]: "1" -> absent"#,
            r#"reply.metadata["b"]: "2" -> "3""#,
            r#"reply.metadata["c"]: absent -> "4""#,
        ]
    );
    let entries: BTreeMap<_, _> = [("a", "1"), ("b", "2")].into();
    let [forward, backward] = [false, true].map(|is_reverse| {
        let mut entries: Vec<_> = entries.iter().collect();
        if is_reverse {
            entries.reverse();
        }
        entries.iter().fold(Vec::new(), |mut bytes, (key, value)| {
            bytes.extend_from_slice(&[0x2a, 6, 0x0a, 1, key.as_bytes()[0], 0x12, 1]);
            bytes.push(value.as_bytes()[0]);
            bytes
        })
    });
    assert_ne!(forward, backward);
    assert_eq!(look(forward, backward), [""; 0]);
}

#[test]
fn unknown_fields_are_compared_by_their_numbers() {
    let plain = SetTargetReply { celsius_before: 1.0 }.encode_to_vec();
    // Field 7, a varint of 3.
    let more = [&plain[..], &[0x38, 3]].concat();
    let found = differences(ThermostatCaller::INTERFACE, "SetTarget", plain.clone(), more);
    assert_eq!(found, ["reply.#7: absent -> 7:3"]);
    let bad = differences(ThermostatCaller::INTERFACE, "SetTarget", plain, vec![0xff]);
    assert_eq!(
        bad,
        ["reply: a home.v1.SetTargetReply -> 1 bytes that are no home.v1.SetTargetReply"]
    );
}
