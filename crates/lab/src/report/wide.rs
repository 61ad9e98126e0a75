//! Text table with a column per metric: medians only.

use super::human;
use crate::measure::{Key, Results};

/// The table; a row per variant, number of workers and system.
pub(crate) fn wide(results: &Results) -> String {
    let mut metrics: Vec<String> = Vec::new();
    let mut rows: Vec<(&Key, Vec<String>)> = Vec::new();
    for series in &results.series {
        let metric = match series.unit.name() {
            "" => series.metric.clone(),
            unit => format!("{}, {unit}", series.metric),
        };
        let column = metrics.iter().position(|known| *known == metric);
        let column = column.unwrap_or_else(|| {
            metrics.push(metric);
            metrics.len() - 1
        });
        let row = rows.iter().position(|(key, _)| **key == series.key);
        let row = row.unwrap_or_else(|| {
            rows.push((&series.key, Vec::new()));
            rows.len() - 1
        });
        let cells = &mut rows[row].1;
        cells.resize(cells.len().max(column + 1), String::new());
        cells[column] = human(series.median());
    }
    let fixed = ["variant", "workers", "system"].map(str::to_owned);
    let mut lines = vec![[fixed.to_vec(), metrics].concat()];
    lines.extend(rows.into_iter().map(|(key, cells)| {
        let fixed = [
            key.variant.to_string(),
            key.workers.to_string(),
            key.system.name().into(),
        ];
        [fixed.to_vec(), cells].concat()
    }));
    let mut out = aligned(&lines);
    for (system, why) in &results.missing {
        out.push_str(&format!("{}: missing: {why}\n", system.name()));
    }
    out
}

/// Lines with columns of equal width; numbers are aligned to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column {
            0 | 2 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_aligned() {
        let line = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let lines = [
            line(["variant", "workers", "system", "ops"]),
            line(["a", "1", "s", "1 200"]),
        ];
        let table = super::aligned(&lines);
        assert_eq!(
            table,
            "variant  workers  system    ops\na              1  s       1 200\n"
        );
    }
}
