//! A design: the tables that its document published, its runs, and its lines in table and plot.

use crate::page::row::{Key, Rows};
use crate::page::run::{Program, Run};
use crate::report::plot::Scale;

/// Simulated machines, and systems, as rows name them.
pub(super) const KUNPENG: &str = "kunpeng-920";
pub(super) const EPYC: &str = "epyc-9654";
pub(super) const UEXT4: &str = "uext4";
pub(super) const KERNEL: &str = "kernel-ext4";

/// One improvement, with what measures it.
pub(in crate::page) struct Design {
    /// Number of its document.
    pub(in crate::page) document: &'static str,
    pub(in crate::page) title: &'static str,
    /// What is before, and what is after.
    pub(in crate::page) change: &'static str,
    /// Author, title and date of the document, and the machine of its numbers.
    pub(in crate::page) source: &'static str,
    pub(in crate::page) published: &'static [Published],
    pub(in crate::page) runs: &'static [Run],
    pub(in crate::page) lines: &'static [Line],
    pub(in crate::page) shape: Shape,
    /// The sentence that interprets the numbers; `None`: they are not there.
    pub(in crate::page) finding: fn(&Numbers) -> Option<String>,
}

/// A table of the document, as it is there.
pub(in crate::page) struct Published {
    pub(in crate::page) title: &'static str,
    pub(in crate::page) headers: &'static [&'static str],
    pub(in crate::page) rows: &'static [&'static [&'static str]],
}

/// What the lines of a design have in common.
pub(in crate::page) enum Shape {
    /// Rate of each worker by number of workers; the plot shows shares of that of one worker.
    Scaling {
        metric: &'static str,
        unit: &'static str,
    },
    /// Numbers of their own, one plot for each metric.
    Amounts(&'static [Metric]),
}

/// A metric, as rows name it.
pub(in crate::page) struct Metric {
    pub(in crate::page) name: &'static str,
    /// Title for readers, with its unit.
    pub(in crate::page) title: &'static str,
    pub(in crate::page) scale: Scale,
}

/// Whether numbers are those of the base line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) enum Side {
    Before,
    After,
    /// The kernel's ext4, with its present algorithm.
    Peer,
}

/// One row of the table, and line or bars of the plot.
pub(in crate::page) struct Line {
    pub(in crate::page) name: &'static str,
    pub(in crate::page) side: Side,
    pub(in crate::page) source: Source,
}

pub(in crate::page) enum Source {
    /// Of the document: by number of workers, or by index of the metric.
    Published(&'static [(u32, f64)]),
    /// Of all numbers of workers.
    Scaling(Key<'static>),
    /// Of this number of workers.
    At(u32, Key<'static>),
}

/// The numbers of all lines: by number of workers, or by index of the metric.
pub(in crate::page) struct Numbers(pub(in crate::page) Vec<(&'static Line, Vec<(u32, f64)>)>);

impl Numbers {
    pub(in crate::page) fn new(design: &'static Design, rows: &Rows) -> Self {
        Self(
            design
                .lines
                .iter()
                .map(|line| (line, design.numbers(line, rows)))
                .collect(),
        )
    }

    /// A number of the line of this name.
    pub(super) fn value(&self, name: &str, at: u32) -> Option<f64> {
        let (_, numbers) = self.0.iter().find(|(line, _)| line.name == name)?;
        numbers
            .iter()
            .find(|(key, _)| *key == at)
            .map(|(_, value)| *value)
    }

    /// Share of the rate of one worker that each of `workers` has.
    pub(super) fn kept(&self, name: &str, workers: u32) -> Option<f64> {
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
    pub(in crate::page) fn runs_of(&self, program: Program) -> impl Iterator<Item = &'static Run> {
        self.runs.iter().filter(move |run| run.program == program)
    }
}

pub(super) const fn key(
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

pub(super) const fn line(name: &'static str, side: Side, source: Source) -> Line {
    Line { name, side, source }
}

pub(super) const fn lab(quick: &'static str, full: &'static str) -> Run {
    Run {
        program: Program::Lab,
        quick: Some(quick),
        full: Some(full),
    }
}

pub(super) const fn simulator(quick: &'static str, full: &'static str) -> Run {
    Run {
        program: Program::Simulator,
        quick: Some(quick),
        full: Some(full),
    }
}

/// How many times `a` is `b`, with two significant digits.
pub(super) fn times(a: f64, b: f64) -> String {
    let ratio = a / b;
    match ratio {
        _ if ratio >= 10.0 => format!("{ratio:.0} times"),
        _ => format!("{ratio:.1} times"),
    }
}
