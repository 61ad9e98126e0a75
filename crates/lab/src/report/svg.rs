//! SVG chart: one group of bars per metric, a bar per system, with median, minimum and maximum.

use super::human;
use crate::measure::{Results, Series};
use crate::system::System;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 250.0;
const BAR: f64 = 16.0;
const GAP: f64 = 12.0;
const TOP: f64 = 44.0;

fn color(system: System) -> &'static str {
    match system {
        System::Uext4 => "#1b7837",
        System::Uext4Mount => "#7fbf7b",
        System::KernelExt4 => "#4575b4",
        System::Fuse2fs => "#d8a03c",
    }
}

/// The whole chart.
pub(crate) fn svg(results: &Results) -> String {
    let groups = groups(&results.series);
    let bars: usize = groups.iter().map(Vec::len).sum();
    let height = TOP + bars as f64 * BAR + groups.len() as f64 * GAP + 16.0;
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}""#
    );
    let _ = writeln!(out, r#" font-family="sans-serif" font-size="12">"#);
    let _ = writeln!(out, r#"<rect width="100%" height="100%" fill="white"/>"#);
    let title = results
        .series
        .first()
        .map_or("", |series| series.key.experiment);
    let _ = writeln!(
        out,
        r#"<text x="16" y="26" font-size="16">{}</text>"#,
        escape(title)
    );
    let mut y = TOP;
    for group in groups {
        y = draw_group(&mut out, &group, y) + GAP;
    }
    out.push_str("</svg>\n");
    out
}

/// Groups the series of compared metrics, which share a scale.
fn groups(series: &[Series]) -> Vec<Vec<&Series>> {
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for one in series {
        let alike = |group: &&mut Vec<&Series>| {
            let first = group[0];
            first.metric == one.metric && first.key.is_beside(&one.key)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn draw_group(out: &mut String, group: &[&Series], mut y: f64) -> f64 {
    let top = group.iter().map(|series| series.max()).fold(1e-9, f64::max);
    let scale = (WIDTH - LEFT - 220.0) / top;
    let first = group[0];
    let label = format!("{}, {} workers", first.metric, first.key.workers);
    let _ = writeln!(
        out,
        r#"<text x="16" y="{}">{}</text>"#,
        y + BAR * 0.75,
        escape(&label)
    );
    for series in group {
        draw_bar(out, series, y, scale);
        y += BAR;
    }
    y
}

fn draw_bar(out: &mut String, series: &Series, y: f64, scale: f64) {
    let width = series.median() * scale;
    let (min, max) = (LEFT + series.min() * scale, LEFT + series.max() * scale);
    let middle = y + BAR / 2.0;
    let _ = writeln!(
        out,
        r#"<rect x="{LEFT}" y="{}" width="{width:.1}" height="{}" fill="{}"/>"#,
        y + 1.0,
        BAR - 2.0,
        color(series.key.system)
    );
    let _ = writeln!(
        out,
        r#"<line x1="{min:.1}" x2="{max:.1}" y1="{middle}" y2="{middle}" stroke="black"/>"#
    );
    let text = format!(
        "{}, {}: {} {}",
        series.key.system.name(),
        series.key.variant,
        human(series.median()),
        series.unit.name()
    );
    let _ = writeln!(
        out,
        r#"<text x="{:.1}" y="{}">{}</text>"#,
        max.max(LEFT + width) + 6.0,
        y + BAR * 0.75,
        escape(&text)
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
