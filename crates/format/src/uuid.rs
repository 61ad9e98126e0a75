//! Text form of a UUID (RFC 9562): 8-4-4-4-12 hexadecimal digits.

use std::fmt;

/// Displays 16 bytes as a UUID.
pub struct Uuid<'a>(pub &'a [u8; 16]);

impl fmt::Display for Uuid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Uuid<'_> {
    /// Both halves folded into the number that `statfs` shows (`f_fsid`).
    pub fn folded(&self) -> u64 {
        let (halves, _) = self.0.as_chunks();
        halves
            .iter()
            .fold(0, |id, half| id ^ u64::from_le_bytes(*half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_are_where_the_rfc_has_them() {
        let bytes = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes();
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(Uuid(&bytes).to_string(), text);
    }
}
