//! The cells of a run, and what it will not have.

use crate::cell::CellSpec;
use crate::run::Skipped;

/// What to measure, and what not, with the reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellList {
    /// Floors first, then mechanisms in the order of their table.
    pub cells: Vec<CellSpec>,
    /// What cannot be measured here.
    pub skipped: Vec<Skipped>,
}

impl CellList {
    /// Notes once why something cannot be measured; `unsupported`: the machine lacks it.
    pub fn skip(&mut self, name: &str, reason: String, unsupported: bool) {
        let mechanism = name.to_owned();
        let skipped = Skipped {
            mechanism,
            reason,
            unsupported,
            kind: None,
            message_bytes: None,
            shape: None,
            wait: None,
        };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }
}
