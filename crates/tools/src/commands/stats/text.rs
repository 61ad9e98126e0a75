//! Statistics as text for a terminal.

use crate::failure::Result;
use serde_json::Value;
use std::io::Write;
use uext4::Timestamp;

/// Sections that contain one number per name: JSON pointer and title.
const SECTIONS: &[(&str, &str)] = &[
    ("/space", "space"),
    ("/allocator", "allocator"),
    ("/trees", "free-space trees"),
    ("/nodes", "nodes"),
    ("/extent_status", "extent status"),
    ("/journal", "journal"),
    ("/fast_commits", "fast commits"),
    ("/full_commits", "full commits instead"),
];

/// Journal times that are shown as averages per transaction: JSON field and label.
const PER_TRANSACTION_NS: &[(&str, &str)] = &[
    ("running_ns", "running"),
    ("commit_ns", "committing"),
    ("drain_ns", "  locked"),
    ("render_ns", "  rendering"),
    ("encode_ns", "  checksums"),
    ("write_ns", "  logging"),
    ("flush_ns", "  flushing"),
    ("publish_ns", "  publishing"),
];

pub(super) fn write(out: &mut dyn Write, stats: &Value) -> Result<()> {
    write_added(out, &Value::Null, stats)
}

/// Writes all statistics, with the differences to `before` if it has any.
pub(super) fn write_added(out: &mut dyn Write, before: &Value, stats: &Value) -> Result<()> {
    let server = &stats["server"];
    let (point, engine) = (&server["mount_point"], &stats["engine"]);
    let (point, engine) = (point.as_str().unwrap_or(""), engine.as_str().unwrap_or(""));
    let (pid, served) = (&server["pid"], server["served"].as_str().unwrap_or(""));
    let locked = server["locked"].as_str().unwrap_or("");
    writeln!(
        out,
        "{point}: process {pid}, {served}, allocator {engine}; {locked}"
    )?;
    snapshots(out, &stats["snapshots"])?;
    for (pointer, title) in SECTIONS {
        section(out, title, before.pointer(pointer), stats.pointer(pointer))?;
    }
    averages(out, &stats["journal"])?;
    table(out, "criterion", &stats["criteria"])?;
    table(out, "cache", &stats["caches"])?;
    orders(out, &stats["orders"])?;
    locks(out, &stats["locks"])?;
    requests(out, stats)
}

/// Snapshots that are read, and what became of the last ones.
fn snapshots(out: &mut dyn Write, snapshots: &Value) -> Result<()> {
    let running = snapshots["running"].as_array();
    for one in running.into_iter().flatten() {
        let (purpose, pid) = (one["purpose"].as_str().unwrap_or(""), &one["pid"]);
        let kept = number(one, "memory_bytes") + number(one, "spilled_bytes");
        writeln!(
            out,
            "snapshot {}: {purpose} by process {pid} for {} s, {} read, {} kept",
            one["id"],
            one["seconds"],
            crate::numbers::readable_size(number(one, "read_bytes")),
            crate::numbers::readable_size(kept),
        )?;
        if let (Some(pass), Some(percent)) = (one["pass"].as_u64(), one["percent"].as_u64()) {
            let rate = crate::numbers::readable_size(number(one, "bytes_per_second"));
            writeln!(out, "  pass {pass}, {percent} %, {rate} a second")?;
        }
    }
    for one in snapshots["backups"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "backup {}: {} changed since",
            one["id"].as_str().unwrap_or(""),
            crate::numbers::readable_size(number(one, "changed_bytes")),
        )?;
    }
    for (name, title) in [("last_check", "last check"), ("last_backup", "last backup")] {
        if let Some(verdict) = snapshots[name]["verdict"].as_str() {
            let seconds = snapshots[name]["started"].as_i64().unwrap_or(0);
            let date = crate::date::show(Timestamp::new(seconds, 0));
            writeln!(out, "{title}, {date}: {verdict}")?;
        }
    }
    Ok(())
}

fn section(
    out: &mut dyn Write,
    title: &str,
    before: Option<&Value>,
    now: Option<&Value>,
) -> Result<()> {
    let Some(rows) = now.and_then(Value::as_object) else {
        return Ok(());
    };
    writeln!(out, "\n{title}")?;
    for (name, value) in rows {
        write!(out, "  {name:<26} {:>16}", value.to_string())?;
        let was = before.and_then(|before| before[name].as_i64());
        match (was, value.as_i64()) {
            (Some(was), Some(is)) if was != is => writeln!(out, "  {:+}", is - was)?,
            _ => writeln!(out)?,
        }
    }
    Ok(())
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

/// Averages per transaction, as in the head of `/proc/fs/jbd2/*/info`.
fn averages(out: &mut dyn Write, journal: &Value) -> Result<()> {
    let transactions = number(journal, "transactions").max(1);
    writeln!(out, "\naverage per transaction")?;
    for name in ["handles", "image_blocks", "log_blocks"] {
        let average = number(journal, name) / transactions;
        writeln!(out, "  {name:<26} {average:>16}")?;
    }
    for (field, name) in PER_TRANSACTION_NS {
        let average = duration(number(journal, field) / transactions);
        writeln!(out, "  {name:<26} {average:>16}")?;
    }
    let waits = number(journal, "handle_waits").max(1);
    let wait = duration(number(journal, "handle_wait_ns") / waits);
    writeln!(out, "  {:<26} {wait:>16}", "wait of a handle")?;
    Ok(())
}

/// A table with one row per name; all rows have the same columns.
fn table(out: &mut dyn Write, title: &str, rows: &Value) -> Result<()> {
    let Some(rows) = rows.as_object().filter(|rows| !rows.is_empty()) else {
        return Ok(());
    };
    for (index, (name, row)) in rows.iter().enumerate() {
        let columns = || row.as_object().into_iter().flatten();
        if index == 0 {
            write!(out, "\n{title:<14}")?;
            for (column, _) in columns() {
                write!(out, " {column:>17}")?;
            }
            writeln!(out)?;
        }
        write!(out, "{name:<14}")?;
        for (_, value) in columns() {
            write!(out, " {:>17}", value.to_string())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Groups per order, as in `mb_structs_summary`.
fn orders(out: &mut dyn Write, orders: &Value) -> Result<()> {
    let Some(orders) = orders.as_array().filter(|orders| !orders.is_empty()) else {
        return Ok(());
    };
    writeln!(out, "\norder  groups by largest  groups by average")?;
    for row in orders {
        let [order, largest, average] =
            ["order", "groups_by_largest", "groups_by_average"].map(|name| number(row, name));
        writeln!(out, "{order:>5}  {largest:>17}  {average:>17}")?;
    }
    Ok(())
}

fn locks(out: &mut dyn Write, locks: &Value) -> Result<()> {
    writeln!(out, "\n{:<20} {:>12} {:>12}", "lock", "waits", "mean wait")?;
    for row in locks.as_array().into_iter().flatten() {
        let (waits, rank) = (number(row, "waits"), row["rank"].as_str().unwrap_or(""));
        if let Some(mean) = number(row, "wait_ns").checked_div(waits) {
            writeln!(out, "{rank:<20} {waits:>12} {:>12}", duration(mean))?;
        }
    }
    Ok(())
}

fn requests(out: &mut dyn Write, stats: &Value) -> Result<()> {
    let heads = ["count", "errors", "mean", "half", "99 %"];
    write!(out, "\n{:<20}", "request")?;
    for head in heads {
        write!(out, " {head:>12}")?;
    }
    writeln!(out)?;
    for kind in stats["requests"].as_array().into_iter().flatten() {
        let (count, name) = (number(kind, "count"), kind["name"].as_str().unwrap_or(""));
        let mean = duration(number(kind, "time_ns").checked_div(count).unwrap_or(0));
        let within = |percent| within(&kind["buckets"], &stats["request_bounds_ns"], percent);
        let (half, most) = (within(50), within(99));
        let errors = number(kind, "errors");
        writeln!(
            out,
            "{name:<20} {count:>12} {errors:>12} {mean:>12} {half:>12} {most:>12}"
        )?;
    }
    Ok(())
}

/// The histogram bound within which `percent` of the requests were served.
fn within(buckets: &Value, bounds_ns: &Value, percent: u64) -> String {
    let counts: Vec<u64> = buckets
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    let wanted = (counts.iter().sum::<u64>() * percent).div_ceil(100);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    match bucket.and_then(|bucket| bounds_ns[bucket].as_u64()) {
        Some(bound) => format!("<{}", duration(bound)),
        None => "more".into(),
    }
}

/// Free space per group, in the format of `mb_groups`.
pub(super) fn write_groups(out: &mut dyn Write, rows: &[Value]) -> Result<()> {
    for row in rows {
        let chunks = row["chunks"].as_array().into_iter().flatten();
        let chunks: Vec<String> = chunks.map(|count| format!("{count:<5}")).collect();
        let first = row["first_free"]
            .as_u64()
            .map_or("-".into(), |first| first.to_string());
        let head = ["group", "free_clusters", "fragments"].map(|name| number(row, name));
        let [group, free, fragments] = head;
        writeln!(
            out,
            "#{group:<7}: {free:<6} {fragments:<6} {first:<6} [ {} ]",
            chunks.join(" ")
        )?;
    }
    Ok(())
}

fn duration(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1000),
        10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let (buckets, bounds) = (json!([0, 98, 1, 0, 1]), json!([1000, 2000, 4000, 8000]));
        assert_eq!(within(&buckets, &bounds, 50), "<2000 ns");
        assert_eq!(within(&buckets, &bounds, 99), "<4000 ns");
        assert_eq!(within(&buckets, &bounds, 100), "more");
    }
}
