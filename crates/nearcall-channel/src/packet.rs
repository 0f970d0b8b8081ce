//! The packets of the handshake as bytes: encoding, decoding, and nothing else.
//!
//! ```text
//! client                         server
//!   HELLO  version range, limits, mechanism  -->
//!                                <--  OFFER    version, limits, the mechanism's parts
//!   ACCEPT the mechanism's parts -->                         (or <-- REFUSAL  code, text)
//!                                <--  READY
//! ```
//!
//! **Invariants:** whatever bytes come in, decoding returns a value or `Violation::BadPacket`.
//! **Not here:** the order of packets (`handshake.rs`).

use crate::error::Violation;
use crate::limits::HANDSHAKE_PACKET_BYTES_MAX;

/// The first bytes of every connection.
pub(crate) const MAGIC: [u8; 8] = *b"NEARCALL";

/// A version of the rendezvous: another major version cannot be talked to, another minor can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Changes that older programs cannot understand.
    pub major: u16,
    /// Additions that older programs can ignore.
    pub minor: u16,
}

/// The version of the protocol that this build supports.
pub const VERSION: Version = Version { major: 1, minor: 0 };

/// A packet of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    Hello { version: Version, message_bytes_max: u32, buffer_bytes: u32, mechanism: String },
    Offer { version: Version, message_bytes_max: u32, buffer_bytes: u32, parts: Vec<u8> },
    Accept { parts: Vec<u8> },
    Ready,
    Refusal { code: Refusal, text: String },
}

/// Why one end refuses to go on. The text is for people, this for programs.
///
/// Stands in a [`HandshakeError`](crate::HandshakeError).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The versions do not fit.
    Version,
    /// The mechanism is not known there.
    UnknownMechanism,
    /// The mechanism is known, but the kernel or its limits do not allow it there.
    Unsupported,
    /// A limit that was asked for is out of range.
    Limits,
    /// A region or descriptor that was handed over is not what it should be.
    Parts,
    /// The mechanism is known, but the server does not offer it to this client.
    NotOffered,
    /// The server does not let this user in.
    NotAllowed,
    /// The client's user holds as much of the server as it may.
    Exhausted,
    /// The server takes no more clients; another one may listen in its place.
    Draining,
    /// A reason that this build does not know.
    Other,
}

const HELLO: u8 = 1;
const OFFER: u8 = 2;
const ACCEPT: u8 = 3;
const READY: u8 = 4;
const REFUSAL: u8 = 5;

const REFUSALS: [(u8, Refusal); 9] = [
    (1, Refusal::Version),
    (2, Refusal::UnknownMechanism),
    (3, Refusal::Unsupported),
    (4, Refusal::Limits),
    (5, Refusal::Parts),
    (6, Refusal::NotOffered),
    (7, Refusal::NotAllowed),
    (8, Refusal::Exhausted),
    (9, Refusal::Draining),
];

impl Packet {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Hello { version, message_bytes_max, buffer_bytes, mechanism } => {
                out.extend(MAGIC);
                out.push(HELLO);
                put_terms(&mut out, *version, *message_bytes_max, *buffer_bytes);
                out.extend(mechanism.as_bytes());
            }
            Self::Offer { version, message_bytes_max, buffer_bytes, parts } => {
                out.push(OFFER);
                put_terms(&mut out, *version, *message_bytes_max, *buffer_bytes);
                out.extend(parts);
            }
            Self::Accept { parts } => {
                out.push(ACCEPT);
                out.extend(parts);
            }
            Self::Ready => out.push(READY),
            Self::Refusal { code, text } => {
                out.push(REFUSAL);
                out.push(REFUSALS.iter().find(|(_, known)| known == code).map_or(0, |(b, _)| *b));
                out.extend(text.as_bytes());
                out.truncate(HANDSHAKE_PACKET_BYTES_MAX);
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        if let Some(rest) = bytes.strip_prefix(&MAGIC) {
            let rest = rest.strip_prefix(&[HELLO]).ok_or(Violation::BadPacket)?;
            let (version, message_bytes_max, buffer_bytes, rest) = take_terms(rest)?;
            let mechanism = String::from_utf8(rest.to_vec()).map_err(|_| Violation::BadPacket)?;
            return Ok(Self::Hello { version, message_bytes_max, buffer_bytes, mechanism });
        }
        let (kind, rest) = bytes.split_first().ok_or(Violation::BadPacket)?;
        match *kind {
            OFFER => {
                let (version, message_bytes_max, buffer_bytes, parts) = take_terms(rest)?;
                let parts = parts.to_vec();
                Ok(Self::Offer { version, message_bytes_max, buffer_bytes, parts })
            }
            ACCEPT => Ok(Self::Accept { parts: rest.to_vec() }),
            READY if rest.is_empty() => Ok(Self::Ready),
            REFUSAL => {
                let (code, text) = rest.split_first().ok_or(Violation::BadPacket)?;
                let known = REFUSALS.iter().find(|(byte, _)| byte == code);
                let code = known.map_or(Refusal::Other, |(_, refusal)| *refusal);
                Ok(Self::Refusal { code, text: String::from_utf8_lossy(text).into_owned() })
            }
            _ => Err(Violation::BadPacket),
        }
    }
}

fn put_terms(out: &mut Vec<u8>, version: Version, message_bytes_max: u32, buffer_bytes: u32) {
    out.extend(version.major.to_le_bytes());
    out.extend(version.minor.to_le_bytes());
    out.extend(message_bytes_max.to_le_bytes());
    out.extend(buffer_bytes.to_le_bytes());
}

fn take_terms(bytes: &[u8]) -> Result<(Version, u32, u32, &[u8]), Violation> {
    let (&[a, b, c, d], rest) = bytes.split_first_chunk::<4>().ok_or(Violation::BadPacket)?;
    let (message_bytes_max, rest) = rest.split_first_chunk::<4>().ok_or(Violation::BadPacket)?;
    let (buffer_bytes, rest) = rest.split_first_chunk::<4>().ok_or(Violation::BadPacket)?;
    let version = Version { major: u16::from_le_bytes([a, b]), minor: u16::from_le_bytes([c, d]) };
    let limits = (u32::from_le_bytes(*message_bytes_max), u32::from_le_bytes(*buffer_bytes));
    Ok((version, limits.0, limits.1, rest))
}

/// Returns text of the other end with control and invisible characters escaped: they would act on a
/// terminal, or hide what is written there.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' => out.push(letter),
            _ => out.extend(letter.escape_debug()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Packet> {
        vec![
            Packet::Hello {
                version: VERSION,
                message_bytes_max: 7,
                buffer_bytes: 9,
                mechanism: "pipe".into(),
            },
            Packet::Offer {
                version: Version { major: 1, minor: 3 },
                message_bytes_max: u32::MAX,
                buffer_bytes: 0,
                parts: vec![1, 2, 3],
            },
            Packet::Accept { parts: vec![] },
            Packet::Ready,
            Packet::Refusal { code: Refusal::Limits, text: "too large".into() },
        ]
    }

    #[test]
    fn packets_survive_the_way() {
        for packet in samples() {
            assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }

    #[test]
    fn cut_off_packets_never_become_another_packet_with_terms() {
        for packet in samples() {
            let bytes = packet.encode();
            for cut in 0..bytes.len() {
                // Texts and parts may be shorter; what has a fixed form must be whole.
                match Packet::decode(&bytes[..cut]) {
                    Ok(shorter) => {
                        assert_eq!(
                            std::mem::discriminant(&shorter),
                            std::mem::discriminant(&packet)
                        );
                    }
                    Err(violation) => assert_eq!(violation, Violation::BadPacket),
                }
            }
        }
    }

    #[test]
    fn another_protocol_is_refused() {
        for bytes in
            [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\0", b"NEARCALL", b"NEARCALLx", &[4, 0]]
        {
            assert_eq!(Packet::decode(bytes), Err(Violation::BadPacket), "{bytes:?}");
        }
    }

    #[test]
    fn a_refusal_from_the_future_is_still_a_refusal() {
        let decoded = Packet::decode(&[REFUSAL, 200, b'n', b'o']);
        assert_eq!(decoded, Ok(Packet::Refusal { code: Refusal::Other, text: "no".into() }));
    }
}
