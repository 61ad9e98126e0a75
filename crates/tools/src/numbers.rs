//! Parses and formats sizes, modes and UUIDs.

/// Size in bytes with a binary suffix: `512`, `64K`, `2G` or `2GiB`. Fractions such as `1.5T` are
/// refused.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.split_at(digits.len()).1.to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("a size is a number with K, M, G or T behind it, such as 2G".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a number".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".into())
}

/// Size of a file system in the syntax of mke2fs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FsSize {
    Bytes(u64),
    /// Without a suffix: blocks if the block size is given, else KiB.
    Units(u64),
}

impl FsSize {
    /// In bytes, with units of `unit_bytes` bytes.
    pub(crate) fn bytes(self, unit_bytes: u64) -> Option<u64> {
        match self {
            FsSize::Bytes(bytes) => Some(bytes),
            FsSize::Units(units) => units.checked_mul(unit_bytes),
        }
    }
}

impl std::str::FromStr for FsSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(units) = text.parse() {
            return Ok(FsSize::Units(units));
        }
        match text.strip_suffix(['s', 'S']) {
            Some(sectors) => {
                let sectors: u64 = sectors.parse().map_err(|_| "not a number".to_string())?;
                let bytes = sectors.checked_mul(512).ok_or("too large")?;
                Ok(FsSize::Bytes(bytes))
            }
            None => size(text).map(FsSize::Bytes),
        }
    }
}

/// Human-readable size: `2 GiB`, `1.5 MiB`, `17 bytes`.
pub(crate) fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = nearest(bytes) / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

#[expect(clippy::as_conversions, reason = "no other conversion rounds")]
pub(crate) fn nearest(number: u64) -> f64 {
    number as f64
}

/// Permission bits in octal: `755`, `0755`, `4711`.
pub(crate) fn octal_mode(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("a mode is an octal number up to 7777, such as 755".into()),
    }
}

/// A UUID: 32 hex digits, with dashes anywhere.
pub(crate) fn uuid(text: &str) -> Result<[u8; 16], String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let bad =
        || "a UUID has 32 hex digits, such as 01234567-89ab-cdef-0123-456789abcdef".to_string();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let number = u128::from_str_radix(&digits, 16).map_err(|_| bad())?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::Uuid;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(
            [size("1k"), size("1K"), size("1KiB"), size("1kb")],
            [const { Ok(1024) }; 4]
        );
        assert_eq!(size("2G"), Ok(2 << 30));
        for bad in ["", "G", "2X", "1kbb", "1ib", "1.5G", "-1", "99999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        let readable = [
            readable_size(0),
            readable_size(1536),
            readable_size(2 << 30),
        ];
        assert_eq!(readable, ["0 bytes", "1.5 KiB", "2 GiB"]);
    }

    #[test]
    fn sizes_of_file_systems_are_those_of_mke2fs() {
        let bytes = |text: &str, unit| text.parse::<FsSize>().ok()?.bytes(unit);
        assert_eq!(bytes("65536", 1024), Some(64 << 20));
        assert_eq!(bytes("65536", 4096), Some(256 << 20));
        assert_eq!(bytes("64M", 4096), Some(64 << 20));
        assert_eq!(bytes("2048s", 4096), Some(1 << 20));
        assert_eq!(bytes("2G", 1), Some(2 << 30));
        for bad in ["", "s", "1Q", "-1", "99999999999999999999s"] {
            assert_eq!(bytes(bad, 1), None, "{bad}");
        }
    }

    #[test]
    fn uuids_and_modes() {
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(Uuid(&uuid(text).unwrap()).to_string(), text);
        assert!(uuid("0123").is_err() && uuid(&"g".repeat(32)).is_err());
        assert_eq!(octal_mode("0755"), Ok(0o755));
        assert!(octal_mode("10000").is_err() && octal_mode("8").is_err());
    }
}
