//! Statistics in the text format of Prometheus.
//!
//! Layout: `metrics` maps each metric to its place in the JSON. Counters end in `_total`; times are
//! in seconds. Every sample has the label `mount`.

use super::metrics::{METRICS, Metric, Samples};
use crate::failure::Result;
use serde_json::Value;
use std::io::Write;

const HISTOGRAM: &str = "uext4_request_duration_seconds";

pub(super) fn write(out: &mut dyn Write, stats: &Value) -> Result<()> {
    let mount = text(&stats["server"]["mount_point"]);
    info(out, stats, &mount)?;
    for metric in METRICS {
        let samples = metric.samples(stats);
        if samples.is_empty() {
            continue; // trees without trees, orders without orders
        }
        let kind = if metric.name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        head(out, metric.name, kind, metric.help)?;
        for (label, value) in samples {
            let labels = labels(&[Some(("mount", mount.clone())), label]);
            let value = metric.value(value);
            writeln!(out, "{}{labels} {value}", metric.name)?;
        }
    }
    histogram(out, stats, &mount)
}

impl Metric {
    fn samples(&self, stats: &Value) -> Vec<(Option<(&'static str, String)>, u64)> {
        let at = |pointer| stats.pointer(pointer);
        let found: Vec<(Option<(&'static str, String)>, &Value)> = match self.samples {
            Samples::One(pointer) => at(pointer).map(|value| (None, value)).into_iter().collect(),
            Samples::Keys(pointer, label, field) => {
                let rows = at(pointer).and_then(Value::as_object).into_iter().flatten();
                rows.map(|(key, row)| (Some((label, key.clone())), &row[field]))
                    .collect()
            }
            Samples::List(pointer, label, field) => {
                let rows = at(pointer).and_then(Value::as_array).into_iter().flatten();
                rows.map(|row| (Some((label, text(&row[label]))), &row[field]))
                    .collect()
            }
        };
        found
            .into_iter()
            .filter_map(|(label, value)| value.as_u64().map(|value| (label, value)))
            .collect()
    }

    fn value(&self, value: u64) -> String {
        if self.name.contains("_seconds") {
            seconds(value)
        } else {
            value.to_string()
        }
    }
}

fn info(out: &mut dyn Write, stats: &Value, mount: &str) -> Result<()> {
    head(out, "uext4_info", "gauge", "Always 1; the labels tell.")?;
    let labels = labels(&[
        Some(("mount", mount.to_owned())),
        Some(("version", text(&stats["server"]["version"]))),
        Some(("allocator", text(&stats["engine"]))),
    ]);
    Ok(writeln!(out, "uext4_info{labels} 1")?)
}

/// Histogram of request times. Buckets are cumulative here.
fn histogram(out: &mut dyn Write, stats: &Value, mount: &str) -> Result<()> {
    let numbers = |list: &Value| -> Vec<u64> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_u64).collect()
    };
    let help = "Time from the arrival of a request of the kernel to its answer.";
    head(out, HISTOGRAM, "histogram", help)?;
    let bounds = numbers(&stats["request_bounds_ns"]);
    let bounds = bounds.iter().map(|bound| seconds(*bound));
    let bounds: Vec<String> = bounds.chain(["+Inf".to_owned()]).collect();
    for kind in stats["requests"].as_array().into_iter().flatten() {
        let base = [
            Some(("mount", mount.to_owned())),
            Some(("name", text(&kind["name"]))),
        ];
        let mut sum = 0;
        for (bound, count) in bounds.iter().zip(numbers(&kind["buckets"])) {
            sum += count;
            let le = Some(("le", bound.clone()));
            let labels = labels(&[base[0].clone(), base[1].clone(), le]);
            writeln!(out, "{HISTOGRAM}_bucket{labels} {sum}")?;
        }
        let labels = labels(&base);
        let time = seconds(kind["time_ns"].as_u64().unwrap_or(0));
        writeln!(out, "{HISTOGRAM}_sum{labels} {time}")?;
        writeln!(out, "{HISTOGRAM}_count{labels} {sum}")?;
    }
    Ok(())
}

fn head(out: &mut dyn Write, name: &str, kind: &str, help: &str) -> Result<()> {
    writeln!(out, "# HELP {name} {help}")?;
    Ok(writeln!(out, "# TYPE {name} {kind}")?)
}

/// Nanoseconds as seconds with nine decimals, without rounding.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn labels(labels: &[Option<(&str, String)>]) -> String {
    let labels = labels.iter().flatten();
    let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escape(value)));
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}

/// A label value in the text format.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_do_not_break_a_label() {
        let found = labels(&[Some(("mount", "/a \"b\"\\\n".to_owned())), None]);
        assert_eq!(found, r#"{mount="/a \"b\"\\\n"}"#);
        assert_eq!(seconds(1_000_000_001), "1.000000001");
    }
}
