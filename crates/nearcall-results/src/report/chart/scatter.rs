//! Two costs against each other, and the front of those that nothing beats in both.
//!
//! The front is a staircase around what is beaten, not a line between things: between two
//! mechanisms there is no third.

use maud::{Markup, html};

use super::axis::Axis;
use super::label::{Area, beside};
use super::mark::{Look, legend, mark};
use super::plane::Plane;
use super::{Frame, WIDTH, num, path, svg, text};

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// From left to right; less is better.
    pub x: Axis,
    /// From bottom to top; less is better.
    pub y: Axis,
    /// What was found.
    pub spots: Vec<Spot>,
    /// Both costs of what is on the front before all spots, where there is such a thing; the stairs
    /// come from there.
    pub from: Option<[f64; 2]>,
    /// What looks mean; the flag: hollow.
    pub key: Vec<(Look, bool, String)>,
    /// Said under the axis.
    pub remark: Option<String>,
}

/// One thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Its name.
    pub name: String,
    /// Its colour and mark.
    pub look: Look,
    /// Both costs.
    pub at: [f64; 2],
    /// Whether nothing beats it in both, by [`front`]; also of what this chart does not show.
    pub on_front: bool,
    /// Whether its name should stand beside it; what is on the front always has one.
    pub named: bool,
    /// Only its outline.
    pub hollow: bool,
    /// What it says of itself.
    pub label: String,
}

/// Which of these nothing beats: no other is less in one and at most equal in the other. Ascending
/// by the first cost.
#[must_use]
pub fn front(costs: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len())
        .filter(|&index| costs[index].iter().all(|cost| cost.is_finite()))
        .collect();
    order.sort_by(|&a, &b| {
        let ([ax, ay], [bx, by]) = (costs[a], costs[b]);
        ax.total_cmp(&bx).then(ay.total_cmp(&by))
    });
    let mut best = f64::INFINITY;
    order.retain(|&index| {
        let better = costs[index][1] < best;
        best = best.min(costs[index][1]);
        better
    });
    order
}

impl Scatter {
    /// The indices of `spots` on the front, ascending by the first cost.
    #[must_use]
    pub fn front(&self) -> Vec<usize> {
        let mut found: Vec<usize> =
            (0..self.spots.len()).filter(|&index| self.spots[index].on_front).collect();
        found.sort_by(|&a, &b| self.spots[a].at[0].total_cmp(&self.spots[b].at[0]));
        found
    }

    /// Draws it.
    #[must_use]
    pub fn draw(&self, frame: &Frame<'_>) -> Markup {
        let (key, key_height) = legend(&self.key, [0.0, 0.0], WIDTH);
        let plane = Plane::new([&self.x, &self.y], key_height, 12.0);
        let front = self.front();
        let remark = self.remark.as_deref().map(|remark| text::wrap(remark, WIDTH - 8.0));
        let remark = remark.unwrap_or_default();
        let places = front.iter().filter_map(|&index| {
            let [x, y] = self.spots[index].at;
            plane.at(x, y)
        });
        let from =
            self.from.and_then(|[x, y]| Some([plane.x(x).unwrap_or(plane.left), plane.y(y)?]));
        let stairs = stairs(&places.collect::<Vec<_>>(), from, &plane);
        let body = html! {
            (key)
            (plane.draw())
            @if !stairs.is_empty() { path class="front" d=(path(&stairs)) {} }
            @for spot in &self.spots { (draw_spot(spot, &plane)) }
            (self.names(&front, &plane))
            @for (index, line) in remark.iter().enumerate() {
                text class="muted" x="0" y=(num(plane.height() + 12.0 + index as f64 * 15.0)) {
                    (line)
                }
            }
        };
        svg(frame, plane.height() + remark.len() as f64 * 15.0, &body)
    }

    /// Names of the front first, then of the others that want one, where there is room.
    fn names(&self, front: &[usize], plane: &Plane<'_>) -> Markup {
        let place = |spot: &Spot| plane.at(spot.at[0], spot.at[1]);
        let mut taken: Vec<Area> = self.spots.iter().filter_map(place).map(around).collect();
        let within = [plane.left + 2.0, plane.top - 4.0, plane.right + 10.0, plane.bottom - 2.0];
        let others = (0..self.spots.len()).filter(|i| self.spots[*i].named && !front.contains(i));
        let mut placed = Vec::new();
        for index in front.iter().copied().chain(others) {
            let spot = &self.spots[index];
            let name = text::clean(&spot.name);
            let Some(at) = place(spot) else { continue };
            if let Some((from, area)) = beside(&name, at, &taken, within) {
                taken.push(area);
                let tone = match (spot.look, front.contains(&index)) {
                    (Look::Floor, _) => "muted halo",
                    (_, true) => "strong halo",
                    _ => "halo",
                };
                placed.push((name, from, tone));
            }
        }
        html! {
            @for (name, [x, y], tone) in &placed {
                text class=(tone) x=(num(*x)) y=(num(*y)) data-series=(name) { (name) }
            }
        }
    }
}

fn draw_spot(spot: &Spot, plane: &Plane<'_>) -> Markup {
    let Some(at) = plane.at(spot.at[0], spot.at[1]) else { return html! {} };
    html! {
        g class=(spot.look.class()) data-series=(text::clean(&spot.name)) {
            (mark(at, spot.look, spot.hollow, &spot.label))
        }
    }
}

/// From the upper edge down to the first, then right and down to each, and on to the right edge.
/// With `from`, by way of that place.
fn stairs(places: &[[f64; 2]], from: Option<[f64; 2]>, plane: &Plane<'_>) -> Vec<[f64; 2]> {
    let Some(&[first, _]) = places.first() else { return Vec::new() };
    let mut out = match from {
        Some([x, y]) if x > plane.left => vec![[x, plane.top], [x, y], [first, y]],
        Some([x, y]) => vec![[x, y], [first, y]],
        None => vec![[first, plane.top]],
    };
    for (index, &[x, y]) in places.iter().enumerate() {
        out.push([x, y]);
        out.push([places.get(index + 1).map_or(plane.right, |next| next[0]), y]);
    }
    out
}

fn around([x, y]: [f64; 2]) -> Area {
    [x - 5.0, y - 5.0, x + 5.0, y + 5.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_holds_what_nothing_beats() {
        let costs = [[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [3.0, 5.0], [9.0, 1.0], [f64::NAN, 0.0]];
        assert_eq!(front(&costs), [0, 1, 4]);
        assert_eq!(front(&[]), [0; 0]);
    }
}
