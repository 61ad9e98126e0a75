//! Plots as SVG: lines over a logarithmic number ([`lines`]) and horizontal bars ([`bars`]), with
//! axes that have titles and units.
//!
//! Colours are classes of [`STYLE`], which follows the reader's preference for light or dark. A
//! page has the style once; [`standalone`] makes a file with its own.

mod axis;
mod bars;
mod lines;

pub(crate) use axis::Scale;
pub(crate) use bars::{Bar, Bars};
pub(crate) use lines::{Curve, Lines, Stroke};

use std::fmt::Write;

/// Number of colours in [`STYLE`].
const COLOURS: usize = 8;

/// Width of a plot in pixels.
const WIDTH: f64 = 860.0;

pub(crate) const STYLE: &str = "\
.plot{font:12px sans-serif}
.plot text{fill:#222222}
.plot .paper{fill:#ffffff}
.plot .grid{stroke:#d8d8d8}
.plot .axis{stroke:#444444}
.plot .c0{stroke:#b2182b;fill:#b2182b}
.plot .c1{stroke:#1b7837;fill:#1b7837}
.plot .c2{stroke:#2166ac;fill:#2166ac}
.plot .c3{stroke:#a06a00;fill:#a06a00}
.plot .c4{stroke:#762a83;fill:#762a83}
.plot .c5{stroke:#00797c;fill:#00797c}
.plot .c6{stroke:#c2186b;fill:#c2186b}
.plot .c7{stroke:#5a5a5a;fill:#5a5a5a}
.plot polyline.curve{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){
.plot text{fill:#e4e4e4}
.plot .paper{fill:#1b1d20}
.plot .grid{stroke:#3a3d42}
.plot .axis{stroke:#b0b0b0}
.plot .c0{stroke:#ff7b72;fill:#ff7b72}
.plot .c1{stroke:#5fd07d;fill:#5fd07d}
.plot .c2{stroke:#79b8ff;fill:#79b8ff}
.plot .c3{stroke:#e3b341;fill:#e3b341}
.plot .c4{stroke:#d2a8ff;fill:#d2a8ff}
.plot .c5{stroke:#56d4dd;fill:#56d4dd}
.plot .c6{stroke:#ff8fc0;fill:#ff8fc0}
.plot .c7{stroke:#b8b8b8;fill:#b8b8b8}
}
";

/// A file of plots, one below the other.
pub(crate) fn standalone(title: &str, plots: &[Drawing]) -> String {
    let height: f64 = TITLE + plots.iter().map(|plot| plot.height).sum::<f64>();
    let mut out = open("xmlns=\"http://www.w3.org/2000/svg\" ", title, height);
    let _ = writeln!(out, "<style>{STYLE}</style>");
    out.push_str(PAPER);
    text(&mut out, (16.0, 24.0), Anchor::Start, title);
    let mut y = TITLE;
    for plot in plots {
        let _ = writeln!(out, r#"<g transform="translate(0 {y:.1})">"#);
        out.push_str(&plot.body);
        out.push_str("</g>\n");
        y += plot.height;
    }
    out + "</svg>\n"
}

const TITLE: f64 = 36.0;
const PAPER: &str = "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";

/// Elements of a plot, and its height.
pub(crate) struct Drawing {
    body: String,
    height: f64,
}

impl Drawing {
    /// The plot as a part of a page that has [`STYLE`]; the title is for readers that see no
    /// pictures.
    pub(crate) fn inline(&self, title: &str) -> String {
        open("", title, self.height) + PAPER + &self.body + "</svg>\n"
    }
}

fn open(attributes: &str, title: &str, height: f64) -> String {
    let title = escape(title);
    format!(
        "<svg {attributes}class=\"plot\" role=\"img\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\">\n\
         <title>{title}</title>\n"
    )
}

/// Text with the characters of markup replaced.
pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Side of a text that is at its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: Anchor, text: &str) {
    let (anchor, text) = (anchor.name(), escape(text));
    let _ = writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
    );
}

fn line(out: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        out,
        r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
    );
}

/// Class of the colour of this number.
fn colour(number: usize) -> String {
    format!("c{}", number % COLOURS)
}
