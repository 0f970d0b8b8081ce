//! Figures of a comparison as text, the same in every form that it is shown in.

use crate::report::number;

/// A share in percent: `3 %`, `0.5 %`, `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let text = number::three_digits(share * 100.0);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} %")
}

/// A figure with its unit.
pub(crate) fn figure(unit: &str, value: f64) -> String {
    if unit == "/s" { number::message_rate(value) } else { number::time(value) }
}

/// An interval of a ratio: `1.15 to 1.34`.
pub(crate) fn interval([low, high]: [f64; 2]) -> String {
    let bare = |value: f64| number::ratio(value).trim_end_matches('×').to_owned();
    format!("{} to {}", bare(low), bare(high))
}

/// A p value: `0.23`, `0.0021`, `<0.0001`.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if p < 0.000_1 => "<0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.2}"),
    }
}
