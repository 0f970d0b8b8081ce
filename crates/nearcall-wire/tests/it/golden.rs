//! The golden bytes of `docs/book/src/reference/protocol.md`, read out of the document.
//!
//! **Invariants:** a block that is not there, or that cannot be read, fails the test that wants it.
//! **Not here:** what the bytes mean (`document.rs`, and the tests of the crates above).
#![allow(dead_code, reason = "each program of tests uses a part of it")]

/// The document.
pub(crate) const PROTOCOL: &str = include_str!("../../../../docs/book/src/reference/protocol.md");

/// The bytes of one end up to the next ones of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The client sends them.
    pub(crate) is_client: bool,
    /// `None`: differs each time.
    pub(crate) bytes: Vec<Option<u8>>,
    /// Descriptors that come with them.
    pub(crate) descriptors: usize,
}

impl Turn {
    /// Returns the bytes, with zeros for those that differ each time.
    pub(crate) fn to_send(&self) -> Vec<u8> {
        self.bytes.iter().map(|byte| byte.unwrap_or(0)).collect()
    }

    /// Fails unless these are the bytes.
    #[track_caller]
    pub(crate) fn expect(&self, found: &[u8]) {
        let differs = |(at, byte): (usize, &Option<u8>)| {
            let is_equal = byte.is_none() || found.get(at).copied() == *byte;
            (!is_equal).then_some(at)
        };
        let at = self.bytes.iter().enumerate().find_map(differs);
        let at = at.or((self.bytes.len() != found.len()).then_some(found.len()));
        assert_eq!(
            at, None,
            "reference/protocol.md is wrong from that byte on: {self:?}, {found:02x?}"
        );
    }
}

/// Returns the turns of the block with this name.
#[track_caller]
pub(crate) fn block(name: &str) -> Vec<Turn> {
    let (_, rest) = PROTOCOL.split_once(&format!("```hex {name}\n")).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let mut turns: Vec<Turn> = Vec::new();
    for line in block.lines() {
        let bytes = line.split(';').next().unwrap_or_default();
        for word in bytes.split_whitespace() {
            let turn = Turn { is_client: word == "C", bytes: Vec::new(), descriptors: 0 };
            match (word, turns.last_mut()) {
                ("C" | "S", _) => turns.push(turn),
                ("+", Some(turn)) => turn.descriptors += 1,
                (word, Some(turn)) => {
                    let (byte, count) = word.split_once('*').unwrap_or((word, "1"));
                    let byte = (byte != "..").then(|| u8::from_str_radix(byte, 16).unwrap());
                    let len = turn.bytes.len() + count.parse::<usize>().unwrap();
                    turn.bytes.resize(len, byte);
                }
                (_, None) => panic!("`{name}` does not begin with C or S"),
            }
        }
    }
    assert!(!turns.is_empty(), "`{name}` is empty");
    turns
}
