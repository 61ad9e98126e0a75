//! Every document has its parts on the page, and a page without rows or with a broken tag is found.

use super::designs::{ALL, Design, Shape, Source};
use super::row::{Key, Row, Rows};
use super::run::Depth;
use super::{Record, content::Part, html, markdown, parts};

/// Numbers of workers that some document has.
const COUNTS: [u32; 6] = [1, 2, 16, 64, 80, 96];

fn row(key: &Key<'_>, metric: &str, workers: u32) -> Row {
    let per_worker = 1000.0 / f64::from(workers).sqrt();
    Row {
        experiment: key.experiment.to_owned(),
        system: key.system.to_owned(),
        variant: key.variant.to_owned(),
        workers,
        metric: metric.to_owned(),
        unit: "1/s".to_owned(),
        median: per_worker * f64::from(workers),
    }
}

/// A row for each number that the design asks for.
fn rows_of(design: &Design) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in design.lines {
        match (&line.source, &design.shape) {
            (Source::Scaling(key), Shape::Scaling { metric, .. }) => {
                rows.extend(COUNTS.map(|workers| row(key, metric, workers)));
            }
            (Source::At(workers, key), Shape::Amounts(metrics)) => {
                rows.extend(metrics.iter().map(|metric| row(key, metric.name, *workers)));
            }
            _ => {}
        }
    }
    rows
}

fn record(rows: Vec<Row>) -> Record {
    let text: Vec<String> = rows
        .iter()
        .map(|row| serde_json::to_string(row).expect("a row is JSON"))
        .collect();
    Record {
        machine: "a machine".to_owned(),
        depth: Depth::Quick,
        rows: Rows::parse(&text.join("\n")).expect("rows"),
        failures: vec!["a --failed run".to_owned()],
    }
}

fn whole() -> Record {
    record(ALL.iter().flat_map(|design| rows_of(design)).collect())
}

fn page(record: &Record) -> String {
    html::page("a page", &parts(record))
}

/// The sections of the documents.
fn sections(page: &str) -> Vec<&str> {
    let sections = page.split("<section>").skip(1);
    sections
        .filter(|text| text.contains("<h2>Document "))
        .collect()
}

#[test]
fn every_document_has_tables_a_plot_and_an_interpretation() {
    let page = page(&whole());
    let sections = sections(&page);
    assert_eq!(sections.len(), ALL.len());
    for document in ["000", "001", "002", "003", "004"] {
        let heading = format!("<h2>Document {document}: ");
        assert!(
            sections.iter().any(|text| text.contains(&heading)),
            "{document}"
        );
    }
    for section in sections {
        assert!(section.matches("<table>").count() >= 2, "{section}");
        assert!(section.contains("<svg"), "{section}");
        assert!(!section.contains("No interpretation"), "{section}");
    }
}

/// The canary of the test above: without rows, every section says so.
#[test]
fn a_page_without_rows_says_what_is_missing() {
    let page = page(&record(Vec::new()));
    for section in sections(&page) {
        assert!(section.contains("No interpretation"), "{section}");
    }
    assert_well_formed(&page);
}

#[test]
fn plots_name_their_axes_with_units() {
    let page = page(&whole());
    for plot in page.split("<svg").skip(1) {
        let plot = plot.split("</svg>").next().expect("the plot");
        let has = |text: &str| plot.contains(text);
        let is_scaling = has("workers, each on a core") && has("rate of each worker, share");
        let is_amounts = ["(ms)", "(us)", "(ns)", "per second"].into_iter().any(has);
        assert!(is_scaling || is_amounts, "{plot}");
    }
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let page = page(&whole());
    for word in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("prefers-color-scheme:dark"));
}

#[test]
fn the_page_is_well_formed() {
    assert_well_formed(&page(&whole()));
}

#[test]
#[should_panic(expected = "closes b")]
fn a_wrong_page_is_found() {
    assert_well_formed("<a><b></a></b>");
}

/// Every element ends in the order of its beginning, and no character of markup is left.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let page = page.strip_prefix("<!DOCTYPE html>").unwrap_or(page);
    for piece in page.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop().expect("an element is open");
            assert_eq!(last, name, "{name} closes {last}");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_document_has_the_same_tables_without_plots() {
    let record = whole();
    let parts = parts(&record);
    let text = markdown::page(&parts);
    let tables = parts.iter().filter(|part| matches!(part, Part::Table(_)));
    let rules = text.lines().filter(|line| line.starts_with("| ---"));
    assert_eq!(rules.count(), tables.count());
    assert!(!text.contains("svg") && text.contains("a --failed run"));
}
