//! Text table.

use super::human;
use crate::measure::{Results, Series};
use crate::system::System;

const COLUMNS: usize = 10;
const HEADERS: [&str; COLUMNS] = [
    "variant",
    "workers",
    "metric",
    "system",
    "median",
    "min",
    "max",
    "unit",
    "of fuse2fs",
    "of kernel",
];
/// Right-aligned columns, with numbers.
const RIGHT: [usize; 6] = [1, 4, 5, 6, 8, 9];
/// From this column on, empty columns are omitted.
const RATIOS: usize = 8;

type Row = [String; COLUMNS];

/// The table; rows of one metric are adjacent, so that systems are easy to compare.
pub(crate) fn table(results: &Results, terminal: bool) -> String {
    let mut rows: Vec<Row> = results
        .series
        .iter()
        .map(|series| row(series, results))
        .collect();
    let order: Vec<[String; 3]> = distinct(&rows);
    rows.sort_by_key(|row| order.iter().position(|key| key[..] == row[..3]));
    let has_ratios = rows.iter().any(|row| row[RATIOS..] != ["", ""]);
    let headers: Row = std::array::from_fn(|column| {
        if column < RATIOS || has_ratios {
            HEADERS[column].to_owned()
        } else {
            String::new()
        }
    });
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&headers]);
        let widths = cells.map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    });
    let mut out = String::new();
    let header = line(&headers, &widths);
    out.push_str(&if terminal {
        format!("\x1b[1m{header}\x1b[0m")
    } else {
        header
    });
    for row in &rows {
        out.push('\n');
        out.push_str(&line(row, &widths));
    }
    out.push('\n');
    for (system, why) in &results.missing {
        out.push_str(&format!("{}: missing: {why}\n", system.name()));
    }
    out
}

fn row(series: &Series, results: &Results) -> Row {
    let ratio = |peer| {
        let ratio = series.ratio(results, peer);
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
    };
    [
        series.key.variant.to_string(),
        series.key.workers.to_string(),
        series.metric.clone(),
        series.key.system.name().to_owned(),
        human(series.median()),
        human(series.min()),
        human(series.max()),
        series.unit.name().to_owned(),
        ratio(System::Fuse2fs),
        ratio(System::KernelExt4),
    ]
}

fn distinct(rows: &[Row]) -> Vec<[String; 3]> {
    let mut keys: Vec<[String; 3]> = Vec::new();
    for row in rows {
        let key = [row[0].clone(), row[1].clone(), row[2].clone()];
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn line(cells: &Row, widths: &[usize; COLUMNS]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .enumerate()
        .map(|(column, text)| {
            if RIGHT.contains(&column) {
                format!("{text:>width$}", width = widths[column])
            } else {
                format!("{text:<width$}", width = widths[column])
            }
        })
        .collect();
    cells.join("  ").trim_end().to_owned()
}
