//! SVG chart: rate of each worker, as a share of that of one worker alone, by number of workers.

use super::{Plan, Row};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;
/// The smallest share that is shown.
const LEAST: f64 = 0.001;
const COLORS: [&str; 6] = [
    "#1b7837", "#4575b4", "#d8a03c", "#b2182b", "#762a83", "#555555",
];

/// Places of the axes, both logarithmic.
struct Scale {
    workers_max: f64,
}

impl Scale {
    fn x(&self, workers: u32) -> f64 {
        let part = f64::from(workers).ln() / self.workers_max.ln().max(1e-9);
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }
    fn y(&self, share: f64) -> f64 {
        let part = share.clamp(LEAST, 1.5).ln() / LEAST.ln();
        TOP + part * (HEIGHT - TOP - BOTTOM)
    }
}

/// The whole chart.
pub(super) fn svg(plan: &Plan, rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.workers).max().unwrap_or(1);
    let scale = Scale {
        workers_max: f64::from(most.max(2)),
    };
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}""#
    );
    let _ = writeln!(out, r#" font-family="sans-serif" font-size="12">"#);
    let _ = writeln!(out, r#"<rect width="100%" height="100%" fill="white"/>"#);
    let title = format!(
        "{} on {} (simulated): share of ideal",
        plan.experiment, plan.machine
    );
    text(&mut out, (16.0, 24.0), &title);
    for share in [1.0, 0.1, 0.01, 0.001] {
        line(
            &mut out,
            &[(LEFT, scale.y(share)), (WIDTH - RIGHT, scale.y(share))],
            "#cccccc",
        );
        text(&mut out, (8.0, scale.y(share) + 4.0), &share.to_string());
    }
    for (index, name) in names(rows).iter().enumerate() {
        let of_name = rows.iter().filter(|row| self::name(row) == *name);
        let points: Vec<_> = of_name
            .map(|row| (scale.x(row.workers), scale.y(row.of_ideal)))
            .collect();
        line(&mut out, &points, COLORS[index % COLORS.len()]);
        let end = points.last().copied().unwrap_or((LEFT, TOP));
        text(&mut out, (end.0 + 6.0, end.1 + 4.0), name);
    }
    let mut workers: Vec<u32> = rows.iter().map(|row| row.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    for count in workers {
        text(
            &mut out,
            (scale.x(count) - 6.0, HEIGHT - 14.0),
            &count.to_string(),
        );
    }
    out.push_str("</svg>\n");
    out
}

fn name(row: &Row) -> String {
    format!("{}, {}", row.variant, row.metric)
}

fn names(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        let name = name(row);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn text(out: &mut String, (x, y): (f64, f64), text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}">{text}</text>"#);
}

fn line(out: &mut String, points: &[(f64, f64)], color: &str) {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let points = points.join(" ");
    let _ = writeln!(
        out,
        r#"<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>"#
    );
}
