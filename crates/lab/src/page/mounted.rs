//! The section of the mount: rates of its requests beside those of its peers.

use super::content::{Part, Table};
use super::row::{Row, Rows};
use super::run::{Depth, Program, Run};
use crate::report::human;

const EXPERIMENT: &str = "mount";

pub(super) const RUN: Run = Run {
    program: Program::Lab,
    quick: Some("mount --workers 1 --count 200 --runs 1"),
    full: Some("mount --workers 1 --runs 5"),
};

/// Columns: system and variant.
const COLUMNS: [(&str, &str, &str); 4] = [
    ("uext4, `/dev/fuse`", "uext4-mount", "dev_fuse"),
    ("uext4, io_uring", "uext4-mount", "io_uring"),
    ("fuse2fs", "fuse2fs", "peers"),
    ("kernel ext4", "kernel-ext4", "peers"),
];

/// All parts; the ratio is that of the better transport to fuse2fs.
pub(super) fn parts(rows: &Rows, depth: Depth) -> Vec<Part> {
    let rows: Vec<&Row> = rows.of_experiment(EXPERIMENT).collect();
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for row in &rows {
        if !metrics.contains(&(&row.metric, &row.unit)) {
            metrics.push((&row.metric, &row.unit));
        }
    }
    let mut headers = vec!["request".to_owned(), "unit".to_owned()];
    headers.extend(COLUMNS.iter().map(|(name, ..)| (*name).to_owned()));
    headers.push("of fuse2fs".into());
    let table = Table {
        headers,
        rows: metrics.iter().map(|metric| line(&rows, *metric)).collect(),
        left: 2,
        ..Table::default()
    };
    let mut parts = vec![
        Part::Heading(2, "Requests to the mount".into()),
        Part::Text(sentence(&rows, &metrics)),
        Part::Table(table.without_empty_columns()),
    ];
    parts.extend(RUN.command(depth).map(Part::Command));
    parts
}

fn value(rows: &[&Row], metric: &str, (_, system, variant): (&str, &str, &str)) -> Option<f64> {
    rows.iter()
        .find(|row| (&*row.metric, &*row.system, &*row.variant) == (metric, system, variant))
        .map(|row| row.median)
}

/// Rate of our better transport, as a multiple of that of fuse2fs.
fn ratio(rows: &[&Row], metric: &str) -> Option<f64> {
    let [ours, rings, fuse2fs, _] = COLUMNS.map(|column| value(rows, metric, column));
    Some(ours.into_iter().chain(rings).reduce(f64::max)? / fuse2fs?)
}

fn line(rows: &[&Row], (metric, unit): (&str, &str)) -> Vec<String> {
    let mut cells = vec![metric.to_owned(), unit.to_owned()];
    let values = COLUMNS.map(|column| value(rows, metric, column));
    cells.extend(values.map(|value| value.map_or(String::new(), human)));
    cells.push(ratio(rows, metric).map_or(String::new(), |ratio| format!("{ratio:.1}")));
    cells
}

fn sentence(rows: &[&Row], metrics: &[(&str, &str)]) -> String {
    let ratios = || {
        metrics
            .iter()
            .filter_map(|(metric, _)| Some((ratio(rows, metric)?, (*metric).to_owned())))
    };
    let least = ratios().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = ratios().max_by(|one, other| one.0.total_cmp(&other.0));
    match (least, most) {
        (Some((least, slow)), Some((most, fast))) => format!(
            "One client over the better transport has {least:.1} ({slow}) to {most:.1} times \
             ({fast}) the rate of fuse2fs."
        ),
        _ => "No interpretation: mounts and fuse2fs were not measured in this run.".into(),
    }
}
