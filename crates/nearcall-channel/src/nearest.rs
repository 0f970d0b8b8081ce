//! The name that was probably meant by a word that is none.
//!
//! **Not here:** which names there are, and what is said of it.

/// Returns the name that differs from a word in the fewest letters, unless more than half do. Case
/// does not count, and of names with dots the last part decides first.
#[must_use]
pub fn nearest_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let (word, end) = (word.to_lowercase(), last(word));
    let near =
        |name: &str| (edit_distance(&end, &last(name)), edit_distance(&word, &name.to_lowercase()));
    let ((distance, _), name) =
        names.into_iter().map(|name| (near(name), name)).min_by_key(|(near, _)| *near)?;
    (distance <= last(name).len().max(end.len()) / 2).then_some(name)
}

/// Levenshtein's distance: letters to insert, remove or replace.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Longer words are near no name, and the distance costs their length squared.
const WORD_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_by_its_last_part() {
        let names = ["home.v1.Thermostat", "home.v1.Temperature", "echo.v1.Echo"];
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest_name(word, names), expected, "{word}");
        };
        check("home.v2.Thermostat", Some(names[0]));
        check("thermosta", Some(names[0]));
        check("Temperatur", Some(names[1]));
        check("home.v1.Eco", Some(names[2]));
        let long = "Thermostat".repeat(100);
        for far in ["", "home.v1.Radiator.", "x", &long] {
            check(far, None);
        }
        assert_eq!(nearest_name("word", []), None);
    }
}
