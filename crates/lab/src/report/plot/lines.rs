//! Lines over a number of workers, both axes logarithmic, with a legend beside them.

use super::axis::{self, Axis, Scale};
use super::{Anchor, Drawing, colour, line, text};
use std::fmt::Write;

const LEFT: f64 = 78.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 330.0;
const LEGEND: f64 = 564.0;
const LEGEND_LINE: f64 = 18.0;
/// Least distance of two labels of the number of workers.
const LABEL_DISTANCE: f64 = 26.0;

/// Kind of a line: where its numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Computed by the simulator.
    Solid,
    /// Published by others.
    Dashed,
    /// Measured on a real machine.
    Dotted,
}

impl Stroke {
    fn dashes(self) -> &'static str {
        match self {
            Self::Solid => "none",
            Self::Dashed => "8 4",
            Self::Dotted => "2 3",
        }
    }
}

/// One line; points ascend.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A line chart of one metric by number of workers.
pub(crate) struct Lines {
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) curves: Vec<Curve>,
}

impl Lines {
    pub(crate) fn draw(&self) -> Drawing {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let mut counts: Vec<f64> = points().map(|point| point.0).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        let x = Axis::of_counts(&*self.x_title, &counts);
        let y = Axis::new(&*self.y_title, Scale::Log, points().map(|point| point.1));
        let mut body = String::new();
        draw_axes(&mut body, &x, &y, &counts);
        for (number, curve) in self.curves.iter().enumerate() {
            draw_curve(&mut body, curve, number, (&x, &y));
            draw_legend(&mut body, curve, number);
        }
        let legend = TOP + LEGEND_LINE * self.curves.len() as f64 + 20.0;
        let height = (BOTTOM + 50.0).max(legend);
        Drawing { body, height }
    }
}

fn at(x: &Axis, y: &Axis, point: (f64, f64)) -> (f64, f64) {
    let right = LEFT + x.share(point.0) * (RIGHT - LEFT);
    (right, BOTTOM - y.share(point.1) * (BOTTOM - TOP))
}

fn draw_axes(out: &mut String, x: &Axis, y: &Axis, counts: &[f64]) {
    for tick in y.ticks() {
        let height = BOTTOM - y.share(tick) * (BOTTOM - TOP);
        line(out, "grid", (LEFT, height), (RIGHT, height));
        let name = axis::label(tick);
        text(out, (LEFT - 8.0, height + 4.0), Anchor::End, &name);
    }
    line(out, "axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    line(out, "axis", (LEFT, TOP), (LEFT, BOTTOM));
    let mut free = f64::NEG_INFINITY;
    for count in counts {
        let right = LEFT + x.share(*count) * (RIGHT - LEFT);
        line(out, "axis", (right, BOTTOM), (right, BOTTOM + 4.0));
        if right >= free {
            let below = (right, BOTTOM + 18.0);
            text(out, below, Anchor::Middle, &axis::label(*count));
            free = right + LABEL_DISTANCE;
        }
    }
    let middle = (LEFT + RIGHT) / 2.0;
    text(out, (middle, BOTTOM + 38.0), Anchor::Middle, &x.title);
    let (left, half) = (16.0, (TOP + BOTTOM) / 2.0);
    let _ = writeln!(
        out,
        r#"<text x="{left}" y="{half}" text-anchor="middle" {}>{}</text>"#,
        format_args!(r#"transform="rotate(-90 {left} {half})""#),
        super::escape(&y.title)
    );
}

fn draw_curve(out: &mut String, curve: &Curve, number: usize, (x, y): (&Axis, &Axis)) {
    let (class, dashes) = (colour(number), curve.stroke.dashes());
    let places: Vec<_> = curve.points.iter().map(|point| at(x, y, *point)).collect();
    let texts: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let points = texts.join(" ");
    let _ = writeln!(
        out,
        r#"<polyline class="curve {class}" stroke-dasharray="{dashes}" points="{points}"/>"#
    );
    for (x, y) in places {
        let _ = writeln!(
            out,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="3"/>"#
        );
    }
}

fn draw_legend(out: &mut String, curve: &Curve, number: usize) {
    let (class, dashes) = (colour(number), curve.stroke.dashes());
    let y = TOP + LEGEND_LINE * number as f64 + 8.0;
    let (from, to) = (LEGEND, LEGEND + 34.0);
    let _ = writeln!(
        out,
        r#"<polyline class="curve {class}" stroke-dasharray="{dashes}" {}/>"#,
        format_args!(r#"points="{from},{y} {to},{y}""#)
    );
    text(out, (to + 8.0, y + 4.0), Anchor::Start, &curve.name);
}
