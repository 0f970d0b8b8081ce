//! The order in which units start: after those that they need.
//!
//! **Invariants:** a unit comes after those that it needs; units that do not need each other keep
//! the order of the file. A circle is an error that names each of its members.

/// Orders `count` units, of which `needs` returns those that one needs.
///
/// # Errors
///
/// A circle: its members, each of which needs the next one, and the last one the first.
pub(super) fn order<'a>(
    count: usize,
    needs: impl Fn(usize) -> &'a [usize],
) -> Result<Vec<usize>, Vec<usize>> {
    let mut ordered = Vec::with_capacity(count);
    let mut state = vec![State::New; count];
    // Not by recursion, whose depth a file could choose.
    for first in 0..count {
        let mut path: Vec<(usize, usize)> = Vec::new();
        if state[first] == State::New {
            state[first] = State::OnPath;
            path.push((first, 0));
        }
        while let Some((unit, next)) = path.last_mut() {
            let unit = *unit;
            let Some(&needed) = needs(unit).get(*next) else {
                state[unit] = State::Done;
                ordered.push(unit);
                path.pop();
                continue;
            };
            *next += 1;
            match state[needed] {
                State::Done => {}
                State::OnPath => {
                    let circle = path.iter().map(|(unit, _)| *unit);
                    return Err(circle.skip_while(|unit| *unit != needed).collect());
                }
                State::New => {
                    state[needed] = State::OnPath;
                    path.push((needed, 0));
                }
            }
        }
    }
    Ok(ordered)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    OnPath,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(needs: &[&[usize]]) -> Result<Vec<usize>, Vec<usize>> {
        order(needs.len(), |unit| needs[unit])
    }

    #[test]
    fn a_unit_comes_after_those_that_it_needs() {
        assert_eq!(ordered(&[&[], &[], &[]]), Ok(vec![0, 1, 2]));
        assert_eq!(ordered(&[&[2], &[], &[1]]), Ok(vec![1, 2, 0]));
        assert_eq!(ordered(&[&[1, 2], &[3], &[3], &[]]), Ok(vec![3, 1, 2, 0]));
    }

    #[test]
    fn a_circle_is_returned_without_what_leads_to_it() {
        assert_eq!(ordered(&[&[0]]), Err(vec![0]));
        assert_eq!(ordered(&[&[1], &[2], &[3], &[1]]), Err(vec![1, 2, 3]));
    }
}
