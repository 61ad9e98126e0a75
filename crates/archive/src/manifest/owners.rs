//! Maps of user and group numbers: ranges that move.

use std::str::FromStr;

/// Numbers from `from` on become those from `to` on, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// First number in the source.
    pub from: u32,
    /// First number in the image.
    pub to: u32,
    /// The number of consecutive ids, at least 1.
    pub count: u32,
}

/// A text that is no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a map is FROM:TO:COUNT in numbers, for example 0:100000:65536, and ends below 4294967295")]
pub struct NoIdRange;

impl IdRange {
    /// The number in the image, if the range has this one.
    #[must_use]
    pub fn map(&self, id: u32) -> Option<u32> {
        let offset = id.checked_sub(self.from)?;
        (offset < self.count).then(|| self.to.checked_add(offset))?
    }
}

impl FromStr for IdRange {
    type Err = NoIdRange;

    fn from_str(text: &str) -> Result<IdRange, NoIdRange> {
        let numbers: Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
        let numbers = numbers.map_err(|_| NoIdRange)?;
        let [from, to, count] = numbers[..] else {
            return Err(NoIdRange);
        };
        let fits = |start: u32| start.checked_add(count).is_some();
        if count == 0 || !fits(from) || !fits(to) {
            return Err(NoIdRange);
        }
        Ok(IdRange { from, to, count })
    }
}

/// The number in the image by the first range that has it; without ranges all stay.
pub(super) fn map(ranges: &[IdRange], id: u32) -> Option<u32> {
    if ranges.is_empty() {
        return Some(id);
    }
    ranges.iter().find_map(|range| range.map(id))
}
