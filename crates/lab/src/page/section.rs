//! The section of one design: published table, our table, plot, interpretation.

use super::content::{Part, Table};
use super::designs::{Design, Line, Metric, Numbers, Published, Shape, Side, Source};
use super::row::Rows;
use super::run::{Depth, Program};
use crate::report::human;
use crate::report::plot::{Bar, Bars, Curve, Lines, Stroke};

/// All parts of a design.
pub(super) fn parts(design: &'static Design, rows: &Rows, depth: Depth) -> Vec<Part> {
    let found = Numbers::new(design, rows);
    let title = format!("Document {}: {}", design.document, design.title);
    let mut parts = vec![
        Part::Heading(2, title),
        Part::Text(design.change.to_owned()),
        Part::Heading(3, "Published".into()),
        Part::Text(design.source.to_owned()),
    ];
    parts.extend(
        design
            .published
            .iter()
            .map(|table| Part::Table(published(table))),
    );
    parts.push(Part::Heading(3, "Measured".into()));
    parts.push(Part::Text(sentence(design, &found)));
    match &design.shape {
        Shape::Scaling { unit, .. } => {
            parts.push(Part::Table(scaling_table(unit, &found)));
            parts.push(scaling_plot(design, &found));
        }
        Shape::Amounts(metrics) => {
            parts.push(Part::Table(amounts_table(metrics, &found)));
            let plots = (0..)
                .zip(*metrics)
                .map(|(at, metric)| bars(metric, at, &found));
            parts.extend(plots.flatten());
        }
    }
    let commands: Vec<String> = [Program::Lab, Program::Simulator]
        .into_iter()
        .flat_map(|program| design.runs_of(program))
        .filter_map(|run| run.command(depth))
        .collect();
    parts.push(Part::Command(commands.join("\n")));
    parts
}

fn sentence(design: &Design, found: &Numbers) -> String {
    let simulates = design.runs_of(Program::Simulator).next().is_some();
    let mut lines = found.0.iter();
    let has_simulated =
        lines.any(|(line, numbers)| line.name.starts_with("simulated") && !numbers.is_empty());
    match (design.finding)(found) {
        Some(sentence) => sentence,
        None if simulates && !has_simulated => {
            "No interpretation: nothing was simulated. `make report` builds the simulator and \
             names it with `--simulator`."
                .into()
        }
        None => "No interpretation: not all of its rows were measured in this run.".into(),
    }
}

fn published(published: &Published) -> Table {
    Table {
        title: published.title.to_owned(),
        headers: texts(published.headers),
        rows: published.rows.iter().map(|row| texts(row)).collect(),
        left: 1,
    }
}

fn texts(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A column for each number of workers that some line has.
fn scaling_table(unit: &str, found: &Numbers) -> Table {
    let mut counts: Vec<u32> = found
        .0
        .iter()
        .flat_map(|(_, numbers)| numbers)
        .map(|at| at.0)
        .collect();
    counts.sort_unstable();
    counts.dedup();
    let mut headers = vec!["workers".to_owned()];
    headers.extend(counts.iter().map(u32::to_string));
    let title = format!("In {unit}");
    Table {
        title,
        headers,
        rows: table_rows(found, &counts),
        left: 1,
    }
}

fn amounts_table(metrics: &[Metric], found: &Numbers) -> Table {
    let columns: Vec<u32> = (0..).take(metrics.len()).collect();
    let mut headers = vec![String::new()];
    headers.extend(metrics.iter().map(|metric| metric.title.to_owned()));
    let rows = table_rows(found, &columns);
    let table = Table {
        headers,
        rows,
        left: 1,
        ..Table::default()
    };
    table.without_empty_columns()
}

/// The lines that have numbers.
fn table_rows(found: &Numbers, columns: &[u32]) -> Vec<Vec<String>> {
    let has_numbers = found.0.iter().filter(|(_, numbers)| !numbers.is_empty());
    has_numbers
        .map(|(line, numbers)| {
            let cells = columns.iter().map(|column| {
                let number = numbers.iter().find(|(at, _)| at == column);
                number.map_or(String::new(), |(_, value)| human(*value))
            });
            std::iter::once(line.name.to_owned()).chain(cells).collect()
        })
        .collect()
}

/// Each line as a share of its rate with one worker; lines without that are not drawn.
fn scaling_plot(design: &Design, found: &Numbers) -> Part {
    let plot = Lines {
        x_title: "workers, each on a core".into(),
        y_title: "rate of each worker, share of that of one".into(),
        curves: found
            .0
            .iter()
            .filter_map(|(line, numbers)| {
                let one = numbers.iter().find(|(workers, _)| *workers == 1)?.1;
                let points = numbers.iter();
                Some(Curve {
                    name: line.name.to_owned(),
                    stroke: stroke(line),
                    points: points
                        .map(|(count, each)| (f64::from(*count), each / one))
                        .collect(),
                })
            })
            .collect(),
    };
    Part::Plot(design.title.to_owned(), plot.draw())
}

fn stroke(line: &Line) -> Stroke {
    match line.source {
        Source::Published(_) => Stroke::Dashed,
        _ if line.name.starts_with("simulated") => Stroke::Solid,
        _ => Stroke::Dotted,
    }
}

/// Bars of a metric; none without numbers.
fn bars(metric: &Metric, index: u32, found: &Numbers) -> Option<Part> {
    let bars: Vec<Bar> = found
        .0
        .iter()
        .filter_map(|(line, numbers)| {
            let (_, value) = numbers.iter().find(|(at, _)| *at == index)?;
            Some(Bar {
                name: line.name.to_owned(),
                colour: colour(line.side),
                value: *value,
                range: None,
            })
        })
        .collect();
    let plot = Bars {
        title: metric.title.to_owned(),
        scale: metric.scale,
        bars,
    };
    (!plot.bars.is_empty()).then(|| Part::Plot(metric.title.to_owned(), plot.draw()))
}

fn colour(side: Side) -> usize {
    match side {
        Side::Before => 0,
        Side::After => 1,
        Side::Peer => 2,
    }
}
