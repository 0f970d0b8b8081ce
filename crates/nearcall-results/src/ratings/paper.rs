//! What study 001 rated, as it is printed there.
//!
//! Read from `data/enea-ratings.csv`, which is part of the program.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// How good a study found one property of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rating {
    /// Bad.
    Red,
    /// Middling.
    Yellow,
    /// Good.
    Green,
}

/// One field of the table of ratings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct PaperRating {
    /// The mechanism by the paper's name.
    pub(super) mechanism: String,
    /// The property: "latency_same_core".
    pub(super) property: String,
    /// The rating.
    pub(super) rating: Rating,
}

/// All ratings, in the order of the table.
pub(super) fn ratings() -> &'static [PaperRating] {
    &RATINGS
}

static RATINGS: LazyLock<Vec<PaperRating>> = LazyLock::new(|| {
    let mut reader = csv::Reader::from_reader(RATINGS_CSV.as_bytes());
    let rows = reader.deserialize().collect::<Result<Vec<PaperRating>, _>>();
    rows.expect("a file of ours has all its columns; a test reads it")
});

const RATINGS_CSV: &str = include_str!("../../data/enea-ratings.csv");
