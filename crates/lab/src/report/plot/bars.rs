//! Horizontal bars with one axis below them: a name at the left, the number at the right.

use super::axis::{self, Axis, Scale};
use super::{Anchor, Drawing, colour, line, text};
use crate::report::human;
use std::fmt::Write;

const LEFT: f64 = 300.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 6.0;
const BAR: f64 = 20.0;

pub(crate) struct Bar {
    pub(crate) name: String,
    /// Number of its colour.
    pub(crate) colour: usize,
    pub(crate) value: f64,
    /// The least and the greatest of several measurements.
    pub(crate) range: Option<(f64, f64)>,
}

/// A bar chart of one metric.
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    pub(crate) bars: Vec<Bar>,
}

impl Bars {
    pub(crate) fn draw(&self) -> Drawing {
        // The shortest bar has a length on a logarithmic axis, too.
        let values = self.bars.iter().flat_map(|bar| {
            [
                bar.value / 3.0,
                bar.range.map_or(bar.value, |range| range.1.max(bar.value)),
            ]
        });
        let axis = Axis::new(&*self.title, self.scale, values);
        let bottom = TOP + BAR * self.bars.len() as f64;
        let mut body = String::new();
        draw_axis(&mut body, &axis, bottom);
        for (number, bar) in self.bars.iter().enumerate() {
            draw_bar(&mut body, bar, &axis, TOP + BAR * number as f64);
        }
        let height = bottom + 52.0;
        Drawing { body, height }
    }
}

fn x(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.share(value) * (RIGHT - LEFT)
}

fn draw_axis(out: &mut String, axis: &Axis, bottom: f64) {
    for tick in axis.ticks() {
        let right = x(axis, tick);
        line(out, "grid", (right, TOP), (right, bottom));
        let name = axis::label(tick);
        text(out, (right, bottom + 16.0), Anchor::Middle, &name);
    }
    line(out, "axis", (LEFT, bottom), (RIGHT, bottom));
    line(out, "axis", (LEFT, TOP), (LEFT, bottom));
    let middle = (LEFT + RIGHT) / 2.0;
    text(out, (middle, bottom + 36.0), Anchor::Middle, &axis.title);
}

fn draw_bar(out: &mut String, bar: &Bar, axis: &Axis, y: f64) {
    let middle = y + BAR / 2.0;
    text(out, (LEFT - 8.0, middle + 4.0), Anchor::End, &bar.name);
    // A bar at the low end of the axis is still visible.
    let width = (x(axis, bar.value) - LEFT).max(2.0);
    let _ = writeln!(
        out,
        r#"<rect class="{}" x="{LEFT}" y="{:.1}" width="{width:.1}" height="{}"/>"#,
        colour(bar.colour),
        y + 3.0,
        BAR - 6.0
    );
    let mut end = LEFT + width;
    if let Some((least, most)) = bar.range {
        let most = x(axis, most);
        line(out, "axis", (x(axis, least), middle), (most, middle));
        end = end.max(most);
    }
    let number = human(bar.value);
    text(out, (end + 6.0, middle + 4.0), Anchor::Start, &number);
}
