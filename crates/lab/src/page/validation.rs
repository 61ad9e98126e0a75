//! Comparison of the simulator with this machine: rate of two workers over that of one.

use super::content::{Part, Table};
use super::row::{Key, Row, Rows};
use super::run::{self, Depth, Program, Run};
use anyhow::Result;
use std::path::Path;

/// The machine that is simulated and real.
const MACHINE: &str = "this-machine";
/// Differences up to here agree.
const AGREES: f64 = 0.15;

/// What the report runs for this alone; the rows of the designs are compared, too.
pub(super) const RUNS: [Run; 4] = [
    simulator("fallocate2 --machine this-machine --cores 1,2 --ms 2"),
    simulator("stress-orphan --machine this-machine --cores 1,2 --ms 2"),
    simulator("mdtest --machine this-machine --cores 1,2 --variants own,shared"),
    simulator("append --machine this-machine --cores 1,2 --count 1024"),
];

const fn simulator(args: &'static str) -> Run {
    Run {
        program: Program::Simulator,
        quick: Some(args),
        full: Some(args),
    }
}

/// Experiments on the real machine, and the options besides the number of runs.
const REAL: [&str; 4] = [
    "fallocate2 --workers 1,2 --systems uext4 --seconds 0.5 \
     --variants blocking,linear,optimized,freespace-tree",
    "stress-orphan --workers 1,2 --systems uext4 --seconds 0.5 --variants file,list",
    "mdtest --workers 1,2 --systems uext4 --variants own,shared",
    "append --workers 1,2 --systems uext4 --count 1024",
];

/// Rates of two workers over those of one.
struct Pair<'a> {
    row: &'a Row,
    simulated: f64,
    real: f64,
}

impl Pair<'_> {
    fn difference(&self) -> f64 {
        self.simulated / self.real - 1.0
    }
}

/// Measures and prints the table.
pub(crate) fn validate(simulator: &Path, runs: u32) -> Result<()> {
    let lines: Vec<&str> = RUNS.iter().filter_map(|run| run.quick).collect();
    let mut rows = Rows::default();
    for (_, found) in run::simulate(simulator, &lines)? {
        rows.extend(found?);
    }
    for line in REAL {
        rows.extend(run::measure(&format!("{line} --runs {runs}"))?);
    }
    let pairs = pairs(&rows);
    print!("{}", super::markdown::page(&parts_of(&pairs)));
    Ok(())
}

/// The section about the validation, as parts of a page.
pub(super) fn parts(rows: &Rows, depth: Depth) -> Vec<Part> {
    let mut parts = vec![Part::Heading(2, "Validation of the simulator".into())];
    parts.extend(parts_of(&pairs(rows)));
    let commands = RUNS.iter().filter_map(|run| run.command(depth));
    parts.push(Part::Command(commands.collect::<Vec<_>>().join("\n")));
    parts
}

fn parts_of(pairs: &[Pair<'_>]) -> Vec<Part> {
    let within = pairs
        .iter()
        .filter(|pair| pair.difference().abs() <= AGREES);
    let sentence = if pairs.is_empty() {
        "No comparison: nothing was simulated on `this-machine`.".to_owned()
    } else {
        format!(
            "Rate of two workers over that of one: {} of {} simulated ratios are within 15 % of \
             the real ones.",
            within.count(),
            pairs.len()
        )
    };
    let headers = [
        "experiment",
        "variant",
        "metric",
        "simulated",
        "real",
        "difference",
    ];
    let table = Table {
        headers: headers.map(str::to_owned).to_vec(),
        rows: pairs.iter().map(cells).collect(),
        left: 3,
        ..Table::default()
    };
    vec![Part::Text(sentence), Part::Table(table)]
}

fn cells(pair: &Pair<'_>) -> Vec<String> {
    vec![
        pair.row.experiment.clone(),
        pair.row.variant.clone(),
        pair.row.metric.clone(),
        format!("{:.2}", pair.simulated),
        format!("{:.2}", pair.real),
        format!("{:+.0} %", pair.difference() * 100.0),
    ]
}

/// All metrics that were simulated and measured with one and two workers.
fn pairs(rows: &Rows) -> Vec<Pair<'_>> {
    rows.iter()
        .filter(|row| row.system == MACHINE && row.workers == 1)
        .filter_map(|row| {
            Some(Pair {
                row,
                simulated: ratio(rows, row, MACHINE)?,
                real: ratio(rows, row, "uext4")?,
            })
        })
        .collect()
}

fn ratio(rows: &Rows, row: &Row, system: &str) -> Option<f64> {
    let key = Key {
        experiment: &row.experiment,
        variant: &row.variant,
        system,
    };
    Some(rows.value(&key, &row.metric, 2)? / rows.value(&key, &row.metric, 1)?)
}
