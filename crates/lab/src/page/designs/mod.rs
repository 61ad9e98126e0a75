//! The designs of the source documents: what each document published, and which rows compare with
//! it.
//!
//! Layout: `design` the types; a file per design, each with one [`Design`]: its published tables,
//! the runs that measure it, the lines of its table and plot, and the sentence that interprets
//! them.

mod checkpoint;
mod design;
mod groups;
mod inode_bitmap;
mod orphans;
mod search;
mod shrinker;
mod stream_goal;

pub(super) use design::{Design, Line, Metric, Numbers, Published, Shape, Side, Source};

/// In the order of the documents.
pub(super) const ALL: [&Design; 7] = [
    &groups::DESIGN,
    &search::DESIGN,
    &orphans::DESIGN,
    &shrinker::DESIGN,
    &checkpoint::DESIGN,
    &stream_goal::DESIGN,
    &inode_bitmap::DESIGN,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The number in a published cell; times in milliseconds.
    fn number(cell: &str) -> Option<f64> {
        if let Some((minutes, seconds)) =
            cell.strip_suffix('s').and_then(|cell| cell.split_once('m'))
        {
            let [minutes, seconds] = [minutes, seconds].map(|part| part.parse::<f64>().ok());
            return Some((minutes? * 60.0 + seconds?) * 1e3);
        }
        if let Some(us) = cell.strip_suffix(" us") {
            return us.parse().ok();
        }
        if let Some(seconds) = cell.strip_suffix('s') {
            return seconds.parse::<f64>().ok().map(|seconds| seconds * 1e3);
        }
        let digits: String = cell
            .chars()
            .take_while(|one| "0123456789.,".contains(*one))
            .collect();
        digits.replace(',', "").parse().ok()
    }

    #[test]
    fn plotted_numbers_of_documents_are_those_of_their_tables() {
        for design in ALL {
            let cells = design
                .published
                .iter()
                .flat_map(|table| table.rows)
                .flat_map(|row| *row);
            let known: Vec<f64> = cells.filter_map(|cell| number(cell)).collect();
            for line in design.lines {
                let Source::Published(numbers) = line.source else {
                    continue;
                };
                let is_known = |(_, value): &(u32, f64)| known.contains(value);
                assert!(
                    !numbers.is_empty() && numbers.iter().all(is_known),
                    "{}",
                    line.name
                );
            }
        }
    }

    #[test]
    fn every_design_has_both_sides() {
        for design in ALL {
            let has = |side| {
                let mut measured = design
                    .lines
                    .iter()
                    .filter(|line| !matches!(line.source, Source::Published(_)));
                measured.any(|line| line.side == side)
            };
            assert!(has(Side::Before) && has(Side::After), "{}", design.title);
            assert!(!design.published.is_empty(), "{}", design.title);
        }
    }
}
