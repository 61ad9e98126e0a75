//! The page as Markdown, for `docs/results`: the same rows, without plots.

use super::content::{Part, Table};
use std::fmt::Write;

const WIDTH: usize = 100;

pub(super) fn page(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        let text = match part {
            Part::Heading(level, text) => format!("{} {text}\n", "#".repeat(*level as usize)),
            Part::Text(text) => wrapped(text),
            Part::Command(text) => format!("```sh\n{text}\n```\n"),
            Part::Table(table) => of_table(table),
            Part::Plot(..) => continue,
        };
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&text);
    }
    out
}

fn of_table(table: &Table) -> String {
    let mut out = if table.title.is_empty() {
        String::new()
    } else {
        wrapped(&format!("{}:", table.title)) + "\n"
    };
    let mut line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "/")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(&table.headers);
    line(&vec!["---".to_owned(); table.headers.len()]);
    table.rows.iter().for_each(|row| line(row));
    out
}

/// The text in lines of at most [`WIDTH`] characters.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_width() {
        let text = wrapped(&"seven77 ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        assert_eq!(text.split_whitespace().count(), 40);
    }

    #[test]
    fn tables_have_a_line_below_the_header() {
        let table = Table {
            headers: vec!["a".into(), "b".into()],
            rows: vec![vec!["1".into(), "2|3".into()]],
            ..Table::default()
        };
        assert_eq!(of_table(&table), "| a | b |\n| --- | --- |\n| 1 | 2/3 |\n");
    }
}
