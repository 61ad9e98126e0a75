//! The table for people.

use super::human;
use crate::measure::Results;

const HEADERS: [&str; 8] = [
    "variant", "workers", "metric", "system", "median", "min", "max", "unit",
];
/// Columns that hold numbers.
const RIGHT: [usize; 4] = [1, 4, 5, 6];

/// Rows of one metric stand together, so that systems are compared at a glance.
pub(crate) fn table(results: &Results, terminal: bool) -> String {
    let mut rows: Vec<[String; 8]> = results.series.iter().map(row).collect();
    let order: Vec<[String; 3]> = distinct(&rows);
    rows.sort_by_key(|row| order.iter().position(|key| key[..] == row[..3]));
    let widths: [usize; 8] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADERS[column].len()]).max().unwrap_or(0)
    });
    let mut out = String::new();
    let header = line(&HEADERS.map(str::to_owned), &widths);
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

fn row(series: &crate::measure::Series) -> [String; 8] {
    [
        series.key.variant.to_owned(),
        series.key.workers.to_string(),
        series.metric.clone(),
        series.key.system.name().to_owned(),
        human(series.median()),
        human(series.min()),
        human(series.max()),
        series.unit.name().to_owned(),
    ]
}

fn distinct(rows: &[[String; 8]]) -> Vec<[String; 3]> {
    let mut keys: Vec<[String; 3]> = Vec::new();
    for row in rows {
        let key = [row[0].clone(), row[1].clone(), row[2].clone()];
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn line(cells: &[String; 8], widths: &[usize; 8]) -> String {
    let cell = |(column, text): (usize, &String)| match RIGHT.contains(&column) {
        true => format!("{text:>width$}", width = widths[column]),
        false => format!("{text:<width$}", width = widths[column]),
    };
    let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
    cells.join("  ").trim_end().to_owned()
}
