//! `-J` of `mkfs` and `tune`: an internal journal in the words of mke2fs.

use crate::numbers;
use uext4::mkfs::JournalPlace;

type Parsed<T> = std::result::Result<T, String>;

/// See the module; `None` leaves the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogWords {
    pub(super) mib: Option<u32>,
    pub(super) fast_commit_kib: Option<u32>,
    pub(super) place: Option<JournalPlace>,
}

impl std::str::FromStr for LogWords {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let mut words = Self::default();
        for word in text.split(',') {
            match word.split_once('=') {
                Some(("size", mib)) => words.mib = Some(number(mib, ['M', 'm'])?),
                Some(("fast_commit_size", kib)) => {
                    words.fast_commit_kib = Some(number(kib, ['K', 'k'])?);
                }
                Some(("location", place)) => words.place = Some(location(place)?),
                _ => return Err("give size=MIB, fast_commit_size=KIB or location=BLOCK".into()),
            }
        }
        Ok(words)
    }
}

fn number(text: &str, unit: [char; 2]) -> Parsed<u32> {
    let digits = text.strip_suffix(unit).unwrap_or(text);
    digits
        .parse()
        .map_err(|_| format!("{text:?} is no number in range"))
}

/// A block, or with a unit a byte of the device.
fn location(text: &str) -> Parsed<JournalPlace> {
    match text.parse() {
        Ok(block) => Ok(JournalPlace::Block(block)),
        Err(_) => numbers::size(text).map(JournalPlace::Byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_mke2fs() {
        let words = "size=4M,fast_commit_size=512,location=1G".parse();
        let expected = LogWords {
            mib: Some(4),
            fast_commit_kib: Some(512),
            place: Some(JournalPlace::Byte(1 << 30)),
        };
        assert_eq!(words, Ok(expected));
        let words = "location=5000".parse::<LogWords>();
        assert_eq!(words.unwrap().place, Some(JournalPlace::Block(5000)));
        for wrong in [
            "4",
            "size",
            "size=x",
            "size=4,",
            "location=-1",
            "device=x",
            "size=4MM",
        ] {
            assert!(wrong.parse::<LogWords>().is_err(), "{wrong}");
        }
    }
}
