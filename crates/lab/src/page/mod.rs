//! `report`: the tables of the source documents beside our own numbers, on one page.
//!
//! Layout: [`designs`] says what is compared, [`mod@run`] measures it in child processes whose JSON
//! lines are [`row`]s, [`section`], [`mounted`] and [`validation`] make [`content`] of rows, and
//! [`html`] and [`markdown`] write it.
//! Invariants: all numbers of a page but the published ones are rows of one record, which is beside
//! the page, so that the page can be written again.

mod content;
mod designs;
mod html;
mod machine;
mod markdown;
mod mounted;
mod row;
mod run;
mod section;
#[cfg(test)]
mod tests;
mod validation;

pub(crate) use run::Depth;
pub(crate) use validation::validate;

use anyhow::{Context, Result};
use content::Part;
use row::Rows;
use run::{Program, Run};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

const TITLE: &str = "uext4 beside the documents it implements";

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) depth: Depth,
    /// Directory that the page is written to.
    pub(crate) out: PathBuf,
    pub(crate) simulator: Option<PathBuf>,
    /// An earlier record, instead of measurements.
    pub(crate) record: Option<PathBuf>,
}

/// What was measured, for pages that are written later.
#[derive(Serialize, Deserialize)]
struct Record {
    machine: String,
    depth: Depth,
    rows: Rows,
    /// Command lines that failed.
    failures: Vec<String>,
}

/// Measures and writes the page.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let record = match &plan.record {
        Some(path) => read(path)?,
        None => measure(plan)?,
    };
    let parts = parts(&record);
    fs::create_dir_all(&plan.out).with_context(|| format!("make {}", plan.out.display()))?;
    let write = |name: &str, text: String| {
        let path = plan.out.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        eprintln!("{}", path.display());
        anyhow::Ok(())
    };
    write("record.json", serde_json::to_string_pretty(&record)? + "\n")?;
    write("report.md", markdown::page(&parts))?;
    write("report.html", html::page(TITLE, &parts))
}

fn read(path: &PathBuf) -> Result<Record> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// All runs of a report.
fn runs(program: Program) -> impl Iterator<Item = &'static Run> {
    let of_designs = designs::ALL.iter().flat_map(|design| design.runs.iter());
    let others = validation::RUNS.iter().chain([&mounted::RUN]);
    of_designs
        .chain(others)
        .filter(move |run| run.program == program)
}

/// Runs everything; what fails is missing from the page.
fn measure(plan: &Plan) -> Result<Record> {
    let lines = |program| runs(program).filter_map(|run| run.args(plan.depth));
    let mut record = Record {
        machine: machine::sentence()?,
        depth: plan.depth,
        rows: Rows::default(),
        failures: Vec::new(),
    };
    for line in lines(Program::Lab) {
        record.add(line, run::measure(line));
    }
    if let Some(simulator) = &plan.simulator {
        let lines: Vec<&str> = lines(Program::Simulator).collect();
        for (line, rows) in run::simulate(simulator, &lines)? {
            record.add(line, rows);
        }
    }
    Ok(record)
}

impl Record {
    fn add(&mut self, line: &str, rows: Result<Rows>) {
        match rows {
            Ok(rows) => self.rows.extend(rows),
            Err(error) => {
                eprintln!("{error:#}");
                self.failures.push(line.to_owned());
            }
        }
    }
}

fn parts(record: &Record) -> Vec<Part> {
    let (rows, depth) = (&record.rows, record.depth);
    let mut parts = vec![
        Part::Heading(1, TITLE.to_owned()),
        Part::Text(record.machine.clone()),
        Part::Text(
            "Published numbers are those of the documents, on their machines. Numbers of 2 real \
             cores and of the kernel are medians of this run. Simulated numbers are the real code \
             in the virtual time of a model of the document's machine: no number is one of real \
             hardware with many cores."
                .into(),
        ),
    ];
    if !record.failures.is_empty() {
        let failures = record.failures.join("`, `");
        parts.push(Part::Text(format!("These runs failed: `{failures}`.")));
    }
    for design in designs::ALL {
        parts.extend(section::parts(design, rows, depth));
    }
    parts.extend(mounted::parts(rows, depth));
    parts.extend(validation::parts(rows, depth));
    parts
}
