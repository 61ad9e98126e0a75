//! The designs of the source documents: what each document published, and which rows compare with
//! it.
//!
//! Layout: a file per design, each with one [`Design`]: its published tables, the runs that measure
//! it, the lines of its table and plot, and the sentence that interprets them.

mod checkpoint;
mod groups;
mod inode_bitmap;
mod orphans;
mod search;
mod shrinker;
mod stream_goal;

use super::row::{Key, Rows};
use super::run::{Program, Run};
use crate::report::plot::Scale;

/// Simulated machines, and systems, as rows name them.
const KUNPENG: &str = "kunpeng-920";
const EPYC: &str = "epyc-9654";
const UEXT4: &str = "uext4";
const KERNEL: &str = "kernel-ext4";

/// In the order of the documents.
pub(super) const ALL: [&Design; 7] = [
    &groups::DESIGN,
    &search::DESIGN,
    &orphans::DESIGN,
    &shrinker::DESIGN,
    &checkpoint::DESIGN,
    &stream_goal::DESIGN,
    &inode_bitmap::DESIGN,
];

/// One improvement.
pub(super) struct Design {
    /// Number of its document.
    pub(super) document: &'static str,
    pub(super) title: &'static str,
    /// What is before, and what is after.
    pub(super) change: &'static str,
    /// Author, title and date of the document, and the machine of its numbers.
    pub(super) source: &'static str,
    pub(super) published: &'static [Published],
    pub(super) runs: &'static [Run],
    pub(super) lines: &'static [Line],
    pub(super) shape: Shape,
    /// The sentence that interprets the numbers; `None`: they are not there.
    pub(super) finding: fn(&Found) -> Option<String>,
}

/// A table of the document, as it is there.
pub(super) struct Published {
    pub(super) title: &'static str,
    pub(super) headers: &'static [&'static str],
    pub(super) rows: &'static [&'static [&'static str]],
}

/// What the lines of a design have in common.
pub(super) enum Shape {
    /// Rate of each worker by number of workers; the plot shows shares of that of one worker.
    Scaling {
        metric: &'static str,
        unit: &'static str,
    },
    /// Numbers of their own, one plot for each metric.
    Amounts(&'static [Metric]),
}

/// A metric, as rows name it.
pub(super) struct Metric {
    pub(super) name: &'static str,
    /// With its unit.
    pub(super) title: &'static str,
    pub(super) scale: Scale,
}

/// Whether numbers are those of the base line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
    /// The kernel's ext4, with its present algorithm.
    Peer,
}

/// One row of the table, and line or bars of the plot.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) side: Side,
    pub(super) source: Source,
}

pub(super) enum Source {
    /// Of the document: by number of workers, or by index of the metric.
    Published(&'static [(u32, f64)]),
    /// Of all numbers of workers.
    Scaling(Key<'static>),
    /// Of this number of workers.
    At(u32, Key<'static>),
}

/// The numbers of all lines: by number of workers, or by index of the metric.
pub(super) struct Found(pub(super) Vec<(&'static Line, Vec<(u32, f64)>)>);

impl Found {
    pub(super) fn new(design: &'static Design, rows: &Rows) -> Self {
        let of = |line: &'static Line| (line, design.numbers(line, rows));
        Self(design.lines.iter().map(of).collect())
    }

    /// A number of the line of this name.
    fn value(&self, name: &str, at: u32) -> Option<f64> {
        let (_, numbers) = self.0.iter().find(|(line, _)| line.name == name)?;
        numbers
            .iter()
            .find(|(key, _)| *key == at)
            .map(|(_, value)| *value)
    }

    /// Share of the rate of one worker that each of `workers` has.
    fn kept(&self, name: &str, workers: u32) -> Option<f64> {
        Some(self.value(name, workers)? / self.value(name, 1)?)
    }
}

impl Design {
    fn numbers(&self, line: &Line, rows: &Rows) -> Vec<(u32, f64)> {
        match (&line.source, &self.shape) {
            (Source::Published(numbers), _) => numbers.to_vec(),
            (Source::Scaling(key), Shape::Scaling { metric, .. }) => {
                let totals = rows.by_workers(key, metric).into_iter();
                totals
                    .map(|(count, total)| (count, total / f64::from(count)))
                    .collect()
            }
            (Source::At(workers, key), Shape::Amounts(metrics)) => {
                let value = |metric: &Metric| rows.value(key, metric.name, *workers);
                let values = (0..).zip(metrics.iter().map(value));
                values
                    .filter_map(|(index, value)| Some((index, value?)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// The command lines that measure it.
    pub(super) fn runs_of(&self, program: Program) -> impl Iterator<Item = &'static Run> {
        self.runs.iter().filter(move |run| run.program == program)
    }
}

const fn key(
    experiment: &'static str,
    variant: &'static str,
    system: &'static str,
) -> Key<'static> {
    Key {
        experiment,
        variant,
        system,
    }
}

const fn line(name: &'static str, side: Side, source: Source) -> Line {
    Line { name, side, source }
}

const fn lab(quick: &'static str, full: &'static str) -> Run {
    Run {
        program: Program::Lab,
        quick: Some(quick),
        full: Some(full),
    }
}

const fn simulator(quick: &'static str, full: &'static str) -> Run {
    Run {
        program: Program::Simulator,
        quick: Some(quick),
        full: Some(full),
    }
}

/// How many times `a` is `b`, with two significant digits.
fn times(a: f64, b: f64) -> String {
    let ratio = a / b;
    match ratio {
        _ if ratio >= 10.0 => format!("{ratio:.0} times"),
        _ => format!("{ratio:.1} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number in a published cell; times in milliseconds.
    fn number(cell: &str) -> Option<f64> {
        if let Some((minutes, seconds)) =
            cell.strip_suffix('s').and_then(|cell| cell.split_once('m'))
        {
            let [minutes, seconds] = [minutes, seconds].map(|part| part.parse::<f64>().ok());
            return Some((minutes? * 60.0 + seconds?) * 1e3);
        }
        if let Some(us) = cell.strip_suffix(" us") {
            return us.parse().ok();
        }
        if let Some(seconds) = cell.strip_suffix('s') {
            return seconds.parse::<f64>().ok().map(|seconds| seconds * 1e3);
        }
        let digits: String = cell
            .chars()
            .take_while(|one| "0123456789.,".contains(*one))
            .collect();
        digits.replace(',', "").parse().ok()
    }

    #[test]
    fn plotted_numbers_of_documents_are_those_of_their_tables() {
        for design in ALL {
            let cells = design
                .published
                .iter()
                .flat_map(|table| table.rows)
                .flat_map(|row| *row);
            let known: Vec<f64> = cells.filter_map(|cell| number(cell)).collect();
            for line in design.lines {
                let Source::Published(numbers) = line.source else {
                    continue;
                };
                let is_known = |(_, value): &(u32, f64)| known.contains(value);
                assert!(
                    !numbers.is_empty() && numbers.iter().all(is_known),
                    "{}",
                    line.name
                );
            }
        }
    }

    #[test]
    fn every_design_has_both_sides() {
        for design in ALL {
            let has = |side| {
                let mut measured = design
                    .lines
                    .iter()
                    .filter(|line| !matches!(line.source, Source::Published(_)));
                measured.any(|line| line.side == side)
            };
            assert!(has(Side::Before) && has(Side::After), "{}", design.title);
            assert!(!design.published.is_empty(), "{}", design.title);
        }
    }
}
