//! Rows of experiments, as their JSON lines have them: those of a real machine and those that are
//! simulated.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One metric of one system with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) experiment: String,
    /// The system, or the simulated machine.
    #[serde(alias = "machine")]
    pub(super) system: String,
    pub(super) variant: String,
    pub(super) workers: u32,
    pub(super) metric: String,
    #[serde(default)]
    pub(super) unit: String,
    /// The median of a real machine; the total of all workers of a simulated one.
    #[serde(alias = "total")]
    pub(super) median: f64,
}

/// A line of an experiment that measures calls by size.
#[derive(Deserialize)]
struct Calls {
    experiment: String,
    machine: String,
    variant: String,
    workers: u32,
    size: u64,
    worst_us: f64,
    total_ms: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonLine {
    Row(Row),
    Calls(Calls),
}

impl JsonLine {
    fn rows(self) -> Vec<Row> {
        match self {
            Self::Row(row) => vec![row],
            Self::Calls(calls) => calls.rows().into(),
        }
    }
}

impl Calls {
    /// The variant is named with the size.
    fn rows(&self) -> [Row; 2] {
        let numbers = [
            ("worst call", "us", self.worst_us),
            ("all calls", "ms", self.total_ms),
        ];
        numbers.map(|(metric, unit, median)| Row {
            experiment: self.experiment.clone(),
            system: self.machine.clone(),
            variant: format!("{}, {}", self.variant, self.size),
            workers: self.workers,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            median,
        })
    }
}

/// What a row is about, but for its metric and number of workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub(super) experiment: &'a str,
    pub(super) variant: &'a str,
    pub(super) system: &'a str,
}

/// All rows of a report.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Rows(Vec<Row>);

impl Rows {
    /// The rows of JSON lines.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty());
        let mut rows = Vec::new();
        for line in lines {
            let line: JsonLine = serde_json::from_str(line).with_context(|| line.to_owned())?;
            rows.extend(line.rows());
        }
        Ok(Self(rows))
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Numbers of workers, ascending, with the values of a metric: the first, if runs overlap.
    pub(super) fn by_workers(&self, key: &Key<'_>, metric: &str) -> Vec<(u32, f64)> {
        let found = self.0.iter().filter(|row| {
            row.metric == metric
                && row.experiment == key.experiment
                && row.variant == key.variant
                && row.system == key.system
        });
        let mut values: Vec<_> = found.map(|row| (row.workers, row.median)).collect();
        values.sort_by_key(|(workers, _)| *workers);
        values.dedup_by_key(|(workers, _)| *workers);
        values
    }

    pub(super) fn value(&self, key: &Key<'_>, metric: &str, workers: u32) -> Option<f64> {
        let values = self.by_workers(key, metric);
        let found = values.iter().find(|(count, _)| *count == workers);
        found.map(|(_, value)| *value)
    }

    /// The rows of an experiment, in order.
    pub(super) fn of_experiment<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.experiment == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_and_simulated_rows_are_read() {
        let text = "\
            {\"experiment\":\"e\",\"system\":\"uext4\",\"variant\":\"v\",\"workers\":2,\
             \"metric\":\"m\",\"unit\":\"1/s\",\"median\":3.5,\"min\":1,\"max\":4,\"runs\":5}\n\
            {\"experiment\":\"e\",\"machine\":\"kunpeng-920\",\"variant\":\"v\",\"workers\":1,\
             \"metric\":\"m\",\"total\":7,\"of_ideal\":1,\"hottest\":[]}\n\
            {\"experiment\":\"e\",\"machine\":\"kunpeng-920\",\"variant\":\"v\",\"workers\":1,\
             \"size\":50,\"calls\":3,\"worst_us\":9,\"mean_us\":8,\"total_ms\":0.1}\n";
        let rows = Rows::parse(text).expect("three lines");
        let sized = Key {
            experiment: "e",
            variant: "v, 50",
            system: "kunpeng-920",
        };
        assert_eq!(rows.value(&sized, "worst call", 1), Some(9.0));
        let key = |system| Key {
            experiment: "e",
            variant: "v",
            system,
        };
        assert_eq!(rows.value(&key("uext4"), "m", 2), Some(3.5));
        assert_eq!(rows.value(&key("kunpeng-920"), "m", 1), Some(7.0));
        assert_eq!(rows.value(&key("uext4"), "m", 1), None);
    }
}
