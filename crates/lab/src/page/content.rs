//! The parts of a page, without a format.

use crate::report::plot::Drawing;

pub(super) enum Part {
    /// Level of the heading, and its text.
    Heading(u32, String),
    /// Words between backticks are code.
    Text(String),
    /// A command line that repeats what follows.
    Command(String),
    Table(Table),
    /// With the title for readers that see no pictures.
    Plot(String, Drawing),
}

/// A table; numbers are in the columns from `left` on.
#[derive(Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) headers: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Number of columns on the left that are text.
    pub(super) left: usize,
}

impl Table {
    /// The table without columns that are empty in all rows.
    pub(super) fn without_empty_columns(mut self) -> Self {
        let used: Vec<bool> = (0..self.headers.len())
            .map(|column| {
                let mut cells = self.rows.iter().filter_map(|row| row.get(column));
                column < self.left || cells.any(|cell| !cell.is_empty())
            })
            .collect();
        let keep = |cells: &mut Vec<String>| {
            let mut used = used.iter();
            cells.retain(|_| used.next().copied().unwrap_or(true));
        };
        keep(&mut self.headers);
        self.rows.iter_mut().for_each(keep);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn empty_columns_go() {
        let cells = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let table = Table {
            headers: cells(["a", "b", "c"]),
            rows: vec![cells(["x", "", "1"]), cells(["", "", ""])],
            left: 1,
            ..Table::default()
        };
        let table = table.without_empty_columns();
        assert_eq!(table.headers, ["a", "c"]);
        assert_eq!(table.rows, [["x", "1"], ["", ""]]);
    }
}
