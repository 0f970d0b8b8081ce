//! Where names stand so that none covers another.

use super::text;

/// Moves places on a line apart until each is `gap` from its neighbours, all of them as little as
/// possible, within `[low, high]` if there is room. The order of equal places is kept.
#[must_use]
pub fn spread(wanted: &[f64], gap: f64, [low, high]: [f64; 2]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Without the gaps it is the nearest ascending sequence: neighbours out of order are pooled.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        let mut pool = (wanted[index] - rank as f64 * gap, 1);
        while let Some(&(mean, count)) = pools.last() {
            if mean <= pool.0 {
                break;
            }
            let total = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
            pools.pop();
        }
        pools.push(pool);
    }
    let last = (high - wanted.len().saturating_sub(1) as f64 * gap).max(low);
    let flat = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
    let mut places = vec![0.0; wanted.len()];
    for (rank, (index, base)) in order.into_iter().zip(flat).enumerate() {
        places[index] = base.clamp(low, last) + rank as f64 * gap;
    }
    places
}

/// A rectangle: left, top, right, bottom.
pub type Area = [f64; 4];

/// Finds room for `name` beside a mark at `at`: its left end and its baseline. `None` if every
/// place would cover something in `taken` or leave `within`.
#[must_use]
pub fn beside(name: &str, at: [f64; 2], taken: &[Area], within: Area) -> Option<([f64; 2], Area)> {
    let (wide, [x, y]) = (text::width(name), at);
    let places = [
        [x + 8.0, y + 4.0],
        [x - 8.0 - wide, y + 4.0],
        [x - wide / 2.0, y - 9.0],
        [x - wide / 2.0, y + 18.0],
        [x + 6.0, y - 7.0],
        [x + 6.0, y + 15.0],
        [x - 6.0 - wide, y - 7.0],
        [x - 6.0 - wide, y + 15.0],
        [x + 14.0, y - 18.0],
        [x + 14.0, y + 26.0],
        [x - 14.0 - wide, y - 18.0],
        [x - 14.0 - wide, y + 26.0],
    ];
    places.into_iter().find_map(|[left, base]| {
        let area = [left - 1.0, base - 10.0, left + wide + 1.0, base + 3.0];
        let inside = area[0] >= within[0]
            && area[1] >= within[1]
            && area[2] <= within[2]
            && area[3] <= within[3];
        let free = taken.iter().all(|other| !covers(&area, other));
        (inside && free).then_some(([left, base], area))
    })
}

fn covers(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_apart_and_no_further() {
        assert_eq!(spread(&[10.0, 50.0], 10.0, [0.0, 100.0]), [10.0, 50.0]);
        assert_eq!(spread(&[20.0, 20.0], 10.0, [0.0, 100.0]), [15.0, 25.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, [0.0, 100.0]), [100.0, 90.0]);
        assert_eq!(spread(&[1.0], 10.0, [5.0, 2.0]), [5.0]);
        assert_eq!(spread(&[], 10.0, [0.0, 1.0]), [0.0; 0]);
    }

    #[test]
    fn a_name_avoids_what_is_there() {
        let within = [0.0, 0.0, 100.0, 100.0];
        let (first, area) = beside("pipe", [50.0, 50.0], &[], within).unwrap();
        let (second, _) = beside("pipe", [50.0, 50.0], &[area], within).unwrap();
        assert_ne!(first, second);
        assert!(beside("pipe", [50.0, 50.0], &[within], within).is_none());
    }
}
