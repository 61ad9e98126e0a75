//! Inode timestamps: 34-bit seconds (32 and two epoch bits) and 30-bit nanoseconds.
//!
//! The low 32 bits are signed, from 1901 to 2038; each epoch adds 2^32 seconds, up to 2446. An
//! inode without space for the extra field has whole seconds up to 2038 only.
//!
//! References: kernel doc `filesystems/ext4/inodes.rst`, "Inode Timestamps".

use uext4_num::{high_u32, low_u32};

/// A point in time; what an inode stores of it is [`Self::as_stored`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds after that, below 10^9.
    pub nanoseconds: u32,
}

/// Latest second with an extra field: in the year 2446.
const SECONDS_MAX: i64 = (3 << 32) + 0x7FFF_FFFF;
const NANOSECONDS_MAX: u32 = 999_999_999;

impl Timestamp {
    /// The time of these seconds and nanoseconds.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self {
            seconds,
            nanoseconds,
        }
    }

    /// From the 32-bit field and the extra field, if the inode has it.
    pub(crate) fn decode(low: u32, extra: Option<u32>) -> Self {
        let seconds = i64::from(low.cast_signed());
        let Some(extra) = extra else {
            return Self {
                seconds,
                nanoseconds: 0,
            };
        };
        Self {
            seconds: seconds.saturating_add(i64::from(extra & 3) << 32),
            nanoseconds: (extra >> 2).min(NANOSECONDS_MAX),
        }
    }

    /// The 32-bit field and the extra field; times out of range become the nearest possible.
    pub(crate) fn encode(self, with_extra: WithExtra) -> (u32, u32) {
        match with_extra {
            WithExtra::No => {
                let seconds = self.seconds.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                (low_u32(seconds.cast_unsigned()), 0)
            }
            WithExtra::Yes => {
                let seconds = self.seconds.clamp(i64::from(i32::MIN), SECONDS_MAX);
                let low = low_u32(seconds.cast_unsigned());
                // The low half is read as signed, so that it counts back from the next epoch.
                let from_zero = seconds.wrapping_sub(i64::from(low.cast_signed()));
                let epoch = high_u32(from_zero.cast_unsigned()) & 3;
                (low, epoch | self.nanoseconds.min(NANOSECONDS_MAX) << 2)
            }
        }
    }

    /// The time that an inode stores for this one, as Linux does: clamped to the range, without
    /// nanoseconds if there is no space for them, or at the first and the last second.
    pub fn as_stored(self, with_extra: WithExtra) -> Self {
        let last = match with_extra {
            WithExtra::Yes => SECONDS_MAX,
            WithExtra::No => i64::from(i32::MAX),
        };
        let at_the_end = self.seconds <= i64::from(i32::MIN) || self.seconds >= last;
        let nanoseconds = if at_the_end { 0 } else { self.nanoseconds };
        let (low, extra) = Self {
            nanoseconds,
            ..self
        }
        .encode(with_extra);
        Self::decode(low, (with_extra == WithExtra::Yes).then_some(extra))
    }
}

/// Whether an inode has space for the extra field of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithExtra {
    /// Seconds to 2446 and nanoseconds.
    Yes,
    /// Seconds to 2038, no nanoseconds.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_reach_from_1901_to_2446() {
        let cases = [
            i64::from(i32::MIN),
            -1,
            0,
            i64::from(i32::MAX),
            i64::from(i32::MAX) + 1,
            i64::from(u32::MAX),
            1 << 32,
            2 << 32,
            (2 << 32) - 1,
            3 << 32,
            SECONDS_MAX,
        ];
        for seconds in cases {
            let time = Timestamp::new(seconds, 123_456_789);
            // Linux drops the nanoseconds of the first and the last second of the range.
            let limit = [i64::from(i32::MIN), SECONDS_MAX].contains(&seconds);
            let kept = if limit { 0 } else { 123_456_789 };
            assert_eq!(
                time.as_stored(WithExtra::Yes),
                Timestamp::new(seconds, kept)
            );
        }
    }

    /// The rows of the table in the kernel document.
    #[test]
    fn documented_encodings() {
        assert_eq!(Timestamp::decode(0x8000_0000, Some(1)).seconds, 0x8000_0000);
        assert_eq!(
            Timestamp::decode(0x7FFF_FFFF, Some(3)).seconds,
            0x3_7FFF_FFFF
        );
        assert_eq!(Timestamp::decode(0xFFFF_FFFF, Some(0)).seconds, -1);
    }

    #[test]
    fn out_of_range_is_clamped() {
        let far = Timestamp::new(i64::MAX, u32::MAX);
        assert_eq!(
            far.as_stored(WithExtra::Yes),
            Timestamp::new(SECONDS_MAX, 0)
        );
        assert_eq!(
            far.as_stored(WithExtra::No),
            Timestamp::new(i64::from(i32::MAX), 0)
        );
        let early = Timestamp::new(i64::MIN, 5);
        assert_eq!(early.as_stored(WithExtra::Yes).seconds, i64::from(i32::MIN));
        assert_eq!(
            Timestamp::decode(0, Some(u32::MAX)).nanoseconds,
            NANOSECONDS_MAX
        );
    }
}
