//! Results for people (a table, a drawing) and for programs (JSON lines).

mod json;
pub(crate) mod plot;
mod svg;
mod table;
mod wide;

pub(crate) use json::json_lines;
pub(crate) use svg::svg;
pub(crate) use table::table;
pub(crate) use wide::wide;

/// A number with its significant digits, thousands separated.
pub(crate) fn human(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_read_well() {
        let shown = [3.25, 99.0, 100.4, 1234.0, 1234567.0].map(super::human);
        assert_eq!(shown, ["3.2", "99.0", "100", "1 234", "1 234 567"]);
    }
}
