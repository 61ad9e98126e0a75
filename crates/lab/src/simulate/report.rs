//! Outcome for people (a table, with the hottest lines) and for programs (JSON lines).

use super::plan::Plan;
use super::row::Row;
use crate::report::human;
use anyhow::Result;
use serde_json::json;
use std::fmt::Write;
use uext4_sync::simulation::HotLine;

/// The table, and the hottest lines of the largest number of workers of each variant and metric.
pub(super) fn table(plan: &Plan, rows: &[Row]) -> String {
    let mut out = format!("{} on {} (simulated)\n", plan.experiment, plan.machine);
    let _ = writeln!(
        out,
        "{:<16} {:>7}  {:<10} {:>14} {:>12} {:>8} {:>8} {:>8}",
        "variant", "workers", "metric", "total 1/s", "each 1/s", "of ideal", "near/op", "far/op"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:<16} {:>7}  {:<10} {:>14.0} {:>12.0} {:>8.3} {:>8.3} {:>8.3}",
            row.variant,
            row.workers,
            row.metric,
            row.total,
            row.total / f64::from(row.workers),
            row.of_ideal,
            row.near,
            row.far
        );
    }
    calls(&mut out, rows);
    for row in rows.iter().filter(|row| is_largest(row, rows)) {
        hottest(&mut out, row, "lines", "nr", &row.hottest);
        hottest(&mut out, row, "places", "lines", &row.places);
    }
    out
}

/// A row as it is shown when it finishes.
pub(super) fn short_line(plan: &Plan, row: &Row) -> String {
    let (total, of_ideal) = (human(row.total), row.of_ideal);
    format!(
        "{} {} x{}, {} (simulated): {} {total} 1/s, {of_ideal:.3} of ideal",
        plan.experiment, row.variant, row.workers, plan.machine, row.metric
    )
}

/// The times of single calls, where the experiment takes them.
fn calls(out: &mut String, rows: &[Row]) {
    for (at, row) in rows.iter().filter(|row| row.call_us.is_some()).enumerate() {
        if at == 0 {
            let _ = writeln!(
                out,
                "\n{:<16} {:>7}  {:<10} {:>14} {:>12}",
                "variant", "workers", "metric", "median µs", "mean µs"
            );
        }
        let (median, mean) = row.call_us.unwrap_or_default();
        let _ = writeln!(
            out,
            "{:<16} {:>7}  {:<10} {median:>14.1} {mean:>12.1}",
            row.variant, row.workers, row.metric
        );
    }
}

fn is_largest(row: &Row, rows: &[Row]) -> bool {
    rows.iter()
        .filter(|one| one.variant == row.variant && one.metric == row.metric)
        .all(|one| one.workers <= row.workers)
}

fn hottest(out: &mut String, row: &Row, what: &str, number: &str, lines: &[HotLine]) {
    let (variant, metric, workers) = (&row.variant, &row.metric, row.workers);
    let _ = writeln!(
        out,
        "\nhottest {what} of {variant}, {metric}, {workers} workers"
    );
    let _ = writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>10} {:>10} {number:>7}  {:<44} type",
        "time lost", "in locks", "accesses", "near", "far", "place"
    );
    for line in lines {
        let share = |ps: u64| ps as f64 / row.time_ps.max(1) as f64 * 100.0;
        let (lost, locks) = (share(line.lost_ps()), share(line.waited_ps));
        let _ = writeln!(
            out,
            "{lost:>9.2}% {locks:>9.2}% {:>10} {:>10} {:>10} {:>7}  {:<44} {}",
            line.accesses,
            line.near,
            line.far,
            line.number,
            line.place.trim_start_matches("crates/"),
            short(line.kind)
        );
    }
}

/// A type without the paths of its parts.
fn short(kind: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for letter in kind.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => word.push(letter),
            ':' => word.clear(),
            _ => {
                out.push_str(&std::mem::take(&mut word));
                out.push(letter);
            }
        }
    }
    out + &word
}

/// One object per row.
pub(super) fn json_lines(plan: &Plan, rows: &[Row]) -> Result<String> {
    let mut out = String::new();
    for row in rows {
        let hottest: Vec<_> = row
            .hottest
            .iter()
            .map(|line| {
                json!({
                    "place": line.place, "type": line.kind, "accesses": line.accesses,
                    "near": line.near, "far": line.far,
                    "moved_ps": line.moved_ps, "queued_ps": line.queued_ps,
                    "waited_ps": line.waited_ps,
                })
            })
            .collect();
        let line = json!({
            "experiment": plan.experiment, "machine": plan.machine, "variant": row.variant,
            "workers": row.workers, "metric": row.metric, "total": row.total,
            "of_ideal": row.of_ideal, "near_per_operation": row.near,
            "far_per_operation": row.far, "hottest": hottest,
            "call_us_median": row.call_us.map(|(median, _)| median),
            "call_us_mean": row.call_us.map(|(_, mean)| mean),
        });
        writeln!(out, "{line}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn types_lose_their_paths() {
        let kind = "uext4_sync::backend::Mutex<alloc::vec::Vec<(u64, a::B)>>";
        assert_eq!(super::short(kind), "Mutex<Vec<(u64, B)>>");
    }
}
