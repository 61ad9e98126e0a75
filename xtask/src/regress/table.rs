//! The table of a comparison.

use std::fmt;

use anyhow::{Context, Result, ensure};

use super::experiment::Measured;

/// Metrics in the order in which they were first measured.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    /// Metrics and experiments that the old build lacks, a sentence each.
    left_out: Vec<String>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: String,
    /// Values of the old and the new build, one for each pair.
    pairs: Vec<(f64, f64)>,
}

impl Table {
    /// Adds one run of each build.
    ///
    /// # Errors
    /// The new build lacks a metric, or a value is not a positive number.
    pub(super) fn add_pair(&mut self, old: &[Measured], new: &[Measured]) -> Result<()> {
        for before in old {
            let after = new.iter().find(|other| other.name == before.name);
            let after = after.with_context(|| format!("the new build lacks {}", before.name))?;
            self.add(before, after)?;
        }
        for after in new
            .iter()
            .filter(|after| !old.iter().any(|before| before.name == after.name))
        {
            self.leave_out(format!(
                "{}: the old build does not measure it.",
                after.name
            ));
        }
        Ok(())
    }

    /// Names something that is not compared, once.
    pub(super) fn leave_out(&mut self, sentence: String) {
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
    }

    fn add(&mut self, old: &Measured, new: &Measured) -> Result<()> {
        for value in [old.value, new.value] {
            ensure!(value.is_finite() && value >= 0.0, "{}: {value}", old.name);
        }
        let place = self.rows.iter().position(|row| row.name == old.name);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Row {
                name: old.name.clone(),
                unit: old.unit.clone(),
                pairs: Vec::new(),
            });
            self.rows.len() - 1
        });
        self.rows[place].pairs.push((old.value, new.value));
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| metric | unit | old | new | new / old | least | greatest |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for row in &self.rows {
            let [old, new, ratio] = [
                median(row.pairs.iter().map(|pair| pair.0)),
                median(row.pairs.iter().map(|pair| pair.1)),
                median(ratios(&row.pairs)),
            ];
            let least = ratios(&row.pairs).fold(f64::INFINITY, f64::min);
            let greatest = ratios(&row.pairs).fold(0.0, f64::max);
            writeln!(
                f,
                "| {} | {} | {old:.4} | {new:.4} | {ratio:.2} | {least:.2} | {greatest:.2} |",
                row.name, row.unit
            )?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\nNot compared:\n")?;
        }
        let mut sentences = self.left_out.iter();
        sentences.try_for_each(|sentence| writeln!(f, "- {sentence}"))
    }
}

/// New over old of each pair; 1 where both are 0.
fn ratios(pairs: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    pairs.iter().map(|(old, new)| match (*old, *new) {
        (0.0, 0.0) => 1.0,
        (old, new) => new / old,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}
