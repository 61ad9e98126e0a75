//! Values of `uext4 build`: sizes and journals.

use crate::numbers;
use uext4::format::Feature;
use uext4::mkfs::{JournalSize, MkfsOptions};
use uext4_builder::Size;

/// `min`, `min+N%`, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageSize(pub(super) Size);

impl std::str::FromStr for ImageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "min" {
            return Ok(Self(Size::Min));
        }
        let Some(more) = text.strip_prefix("min+") else {
            return numbers::size(text).map(|bytes| Self(Size::Bytes(bytes)));
        };
        let percent = more
            .strip_suffix('%')
            .and_then(|number| number.parse().ok());
        match percent {
            Some(percent) if percent <= 100_000 => Ok(Self(Size::MinPlusPercent(percent))),
            _ => Err("more than min is min+PERCENT%, such as min+20%".into()),
        }
    }
}

/// `none`, `lazy`, or a size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalWord {
    None,
    Lazy,
    Bytes(u64),
}

impl std::str::FromStr for JournalWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "lazy" => Ok(Self::Lazy),
            size => numbers::size(size)
                .map(Self::Bytes)
                .map_err(|problem| format!("none, lazy or a size: {problem}")),
        }
    }
}

impl JournalWord {
    /// A feature list that asks for a journal has been applied before.
    pub(super) fn apply(self, options: &mut MkfsOptions) {
        match self {
            Self::None => {
                for feature in [
                    Feature::HAS_JOURNAL,
                    Feature::ORPHAN_FILE,
                    Feature::FAST_COMMIT,
                ] {
                    options.features.remove(feature);
                }
            }
            Self::Lazy => {}
            Self::Bytes(bytes) => {
                let block = u64::from(options.block_size.unwrap_or(4096));
                let blocks = u32::try_from(bytes / block).unwrap_or(u32::MAX);
                options.journal = JournalSize::Blocks(blocks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_images() {
        let size = |text: &str| text.parse::<ImageSize>().map(|size| size.0);
        assert_eq!(size("min"), Ok(Size::Min));
        assert_eq!(size("min+10%"), Ok(Size::MinPlusPercent(10)));
        assert_eq!(size("2G"), Ok(Size::Bytes(2 << 30)));
        for bad in ["min+", "min+10", "min+x%", "min-5%", "max"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn journals() {
        assert_eq!("none".parse(), Ok(JournalWord::None));
        assert_eq!("64M".parse(), Ok(JournalWord::Bytes(64 << 20)));
        assert!("some".parse::<JournalWord>().is_err());
    }
}
