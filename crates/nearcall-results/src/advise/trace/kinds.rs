//! Kinds of messages, and the requirements that follow from them.
//!
//! **Invariants:** a function of the recording; the shares of the kinds add up to 1.

use std::cmp::Reverse;

use super::{Class, Recording};
use crate::advise::{Pattern, Requirements};
use crate::report::number;
use crate::sizes::MESSAGE_BYTES_MAX;

/// What the recorded traffic wants of a channel: each kind of message with its share of all, the
/// most frequent first. The shares add up to 1.
///
/// Sizes are the means of their class, the rate is the kind's share of that of the busiest stream;
/// placement, load, needs and weights are those of `base`. Where a table has no directions, the
/// pattern and the reply are those of `base` too. Kinds of less than a hundredth are left out.
#[must_use]
pub fn requirements(recording: &Recording, base: &Requirements) -> Vec<(Requirements, f64)> {
    let knows_directions = recording.answered.is_some();
    let kinds = recording.classes.iter().flat_map(|class| match knows_directions {
        true => by_direction(class, base).to_vec(),
        false => {
            let message_bytes = mean(class.bytes, class.messages);
            vec![(Requirements { message_bytes, ..base.clone() }, class.messages)]
        }
    });
    let mut kinds: Vec<(Requirements, u64)> = kinds.collect();
    let all: u64 = kinds.iter().map(|kind| kind.1).sum();
    kinds.retain(|kind| kind.1 > 0 && kind.1 >= all / SHARE_DIVISOR);
    kinds.sort_by_key(|kind| Reverse(kind.1));
    kinds.truncate(KINDS_MAX);
    let kept: u64 = kinds.iter().map(|kind| kind.1).sum();
    let rate_per_s = recording.rate_per_s.or(base.rate_per_s);
    let with_share = |(wanted, count)| {
        let share = count as f64 / kept as f64;
        let rate_per_s = rate_per_s.map(|all| rate(all * share));
        (Requirements { rate_per_s, ..wanted }, share)
    };
    kinds.into_iter().map(with_share).collect()
}

/// The messages of a class that were answered, and the others.
fn by_direction(class: &Class, base: &Requirements) -> [(Requirements, u64); 2] {
    let Class { answered, answered_bytes, .. } = *class;
    let call = Requirements {
        pattern: Pattern::Call,
        message_bytes: mean(answered_bytes, answered),
        reply_bytes: Some(mean(class.reply_bytes, answered)),
        ..base.clone()
    };
    let alone = class.messages.saturating_sub(answered);
    let one_way = Requirements {
        pattern: Pattern::OneWay,
        message_bytes: mean(class.bytes.saturating_sub(answered_bytes), alone),
        reply_bytes: None,
        ..base.clone()
    };
    [(call, answered), (one_way, alone)]
}

/// A kind of message in words: "calls of 100 B with replies of 30 B".
#[must_use]
pub fn kind_words(wanted: &Requirements) -> String {
    let size = number::size(wanted.message_bytes);
    match (wanted.pattern, wanted.reply_bytes) {
        (Pattern::OneWay, _) => format!("one-way messages of {size}"),
        (Pattern::Call, None | Some(0)) => format!("calls of {size}"),
        (Pattern::Call, Some(reply)) => {
            format!("calls of {size} with replies of {}", number::size(reply))
        }
    }
}

/// Three digits: no recording knows more.
fn rate(rate_per_s: f64) -> f64 {
    let rate = rate_per_s.clamp(RATE_PER_S_MIN, RATE_PER_S_MAX);
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    // Whole units are exact above 1; below, digits are cut by the factor.
    let rounded = if unit >= 1.0 {
        (rate / unit).round() * unit
    } else {
        (rate / unit).round() / (1.0 / unit).round()
    };
    rounded.clamp(RATE_PER_S_MIN, RATE_PER_S_MAX)
}

/// A size that can be measured.
fn mean(bytes: u64, count: u64) -> u64 {
    (bytes / count.max(1)).clamp(1, MESSAGE_BYTES_MAX)
}

/// Rarer kinds do not move the answer, and each has to be measured.
const SHARE_DIVISOR: u64 = 100;

/// As many kinds are measured.
const KINDS_MAX: usize = 6;

/// Requirements know no rate of 0 and none above these.
const RATE_PER_S_MIN: f64 = 0.001;
const RATE_PER_S_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn kinds(text: &str, base: &Requirements) -> Vec<(Pattern, u64, Option<u64>, f64)> {
        let recording = read(&mut text.as_bytes()).unwrap();
        let found = requirements(&recording, base);
        assert!((found.iter().map(|kind| kind.1).sum::<f64>() - 1.0).abs() < 1e-9);
        for (wanted, _) in &found {
            assert_eq!(wanted.check(), Ok(()));
        }
        let facts = |(wanted, share): &(Requirements, f64)| {
            (wanted.pattern, wanted.message_bytes, wanted.reply_bytes, *share)
        };
        found.iter().map(facts).collect()
    }

    #[test]
    fn each_kind_of_message_has_its_share() {
        let text = "0.1,100,out\n0.2,30,in\n0.3,100,out\n0.4,30,in\n0.5,100,out\n0.6,9000,out\n";
        let found = kinds(text, &Requirements::default());
        assert_eq!(
            found,
            [
                (Pattern::Call, 100, Some(30), 0.5),
                (Pattern::OneWay, 100, None, 0.25),
                (Pattern::OneWay, 9_000, None, 0.25)
            ]
        );
    }

    #[test]
    fn the_kinds_share_the_rate_of_the_stream() {
        // Four messages each second, one of them large.
        let mut text = String::new();
        for second in 0..100 {
            text += &format!("{second}.0,8,out\n{second}.25,8,out\n{second}.5,8,out\n");
            text += &format!("{second}.75,9000,out\n");
        }
        let recording = read(&mut text.as_bytes()).unwrap();
        let found = requirements(&recording, &Requirements::default());
        let rates: Vec<f64> = found.iter().filter_map(|kind| kind.0.rate_per_s).collect();
        assert!((rates[0] - 3.0).abs() < 0.1 && (rates[1] - 1.0).abs() < 0.1, "{rates:?}");
    }

    #[test]
    fn rates_have_three_digits() {
        for (given, expected) in
            [(76.344_854, 76.3), (12_345.6, 12_300.0), (0.012_34, 0.012_3), (1.0, 1.0), (1e12, 1e9)]
        {
            assert_eq!(rate(given), expected);
        }
    }

    #[test]
    fn a_table_without_directions_takes_the_pattern_that_the_user_gives() {
        let base = Requirements { reply_bytes: Some(8), ..Requirements::default() };
        assert_eq!(kinds("0.1,100\n0.2,100", &base), [(Pattern::Call, 100, Some(8), 1.0)]);
        let base = Requirements { pattern: Pattern::OneWay, ..Requirements::default() };
        assert_eq!(kinds("0.1,100\n0.2,100", &base), [(Pattern::OneWay, 100, None, 1.0)]);
    }

    #[test]
    fn rare_kinds_are_left_out_and_huge_messages_are_brought_within_the_limit() {
        let mut text = "0.1,8,out\n".repeat(500);
        text.push_str("0.2,100,out\n");
        assert_eq!(kinds(&text, &Requirements::default()).len(), 1);
        let huge = kinds("0.1,99999999999\n", &Requirements::default());
        assert_eq!(huge[0].1, MESSAGE_BYTES_MAX);
    }
}
