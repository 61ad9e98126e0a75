//! The page as one HTML file that refers to nothing outside; it is well-formed XML, too.

use super::content::{Part, Table};
use crate::report::plot::{STYLE, escape};
use std::fmt::Write;

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.5 sans-serif;max-width:900px;margin:2em auto;padding:0 1em;\
color:#222222;background:#ffffff}
table{border-collapse:collapse;margin:1em 0;font-size:13px;font-variant-numeric:tabular-nums}
caption{text-align:left;font-style:italic;padding:.2em 0}
th,td{border-bottom:1px solid #d8d8d8;padding:.15em .7em;text-align:left}
th,td{white-space:nowrap}
th.n,td.n{text-align:right}
figure{margin:1em 0}
.scroll{overflow-x:auto}
svg.plot{max-width:100%;height:auto}
pre{background:#f2f2f2;padding:.5em .8em;white-space:pre-wrap}
@media (prefers-color-scheme:dark){
body{color:#e4e4e4;background:#1b1d20}
th,td{border-color:#3a3d42}
pre{background:#26292e}
}
";

pub(super) fn page(title: &str, parts: &[Part]) -> String {
    let name = escape(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>{name}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n"
    );
    let mut is_open = false;
    for part in parts {
        if let Part::Heading(2, _) = part {
            out.push_str(if is_open {
                "</section>\n<section>\n"
            } else {
                "<section>\n"
            });
            is_open = true;
        }
        write_part(&mut out, part);
    }
    out.push_str(if is_open { "</section>\n" } else { "" });
    out + "</body>\n</html>\n"
}

fn write_part(out: &mut String, part: &Part) {
    let _ = match part {
        Part::Heading(level, text) => writeln!(out, "<h{level}>{}</h{level}>", marked(text)),
        Part::Text(text) => writeln!(out, "<p>{}</p>", marked(text)),
        Part::Command(text) => writeln!(out, "<pre>{}</pre>", escape(text)),
        Part::Table(table) => write_table(out, table),
        Part::Plot(title, drawing) => {
            writeln!(out, "<figure>\n{}</figure>", drawing.inline(title))
        }
    };
}

/// Text with words between backticks as code.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for (index, piece) in text.split('`').enumerate() {
        let piece = escape(piece);
        match index % 2 {
            0 => out.push_str(&piece),
            _ => _ = write!(out, "<code>{piece}</code>"),
        }
    }
    out
}

fn write_table(out: &mut String, table: &Table) -> std::fmt::Result {
    writeln!(out, "<div class=\"scroll\"><table>")?;
    if !table.title.is_empty() {
        writeln!(out, "<caption>{}</caption>", marked(&table.title))?;
    }
    let mut row = |cells: &[String], tag: &str| {
        out.push_str("<tr>");
        for (column, cell) in cells.iter().enumerate() {
            let class = if column < table.left {
                ""
            } else {
                " class=\"n\""
            };
            write!(out, "<{tag}{class}>{}</{tag}>", marked(cell))?;
        }
        writeln!(out, "</tr>")
    };
    row(&table.headers, "th")?;
    table.rows.iter().try_for_each(|cells| row(cells, "td"))?;
    writeln!(out, "</table></div>")
}
