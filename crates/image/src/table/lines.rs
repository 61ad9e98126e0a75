//! Lines of a table: headers, and partitions as fields.
//!
//! A header is `NAME: VALUE`. A partition is a list of fields, separated by commas and spaces,
//! behind `DEVICE :`, if that is there. A value with commas or spaces is in quotes. `\xHH` is a
//! byte, as in a dump; any other backslash is one.

use super::problem::Problem;

/// Kind of a line, with its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// An empty line, or a comment.
    Nothing,
    Header {
        name: &'a str,
        value: &'a str,
    },
    Partition {
        /// Text before the colon, which names a device.
        device: Option<&'a str>,
        fields: &'a str,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// In the letters of the text.
    pub(super) key: &'a str,
    /// `None`: there is no `=`.
    pub(super) value: Option<&'a str>,
}

/// Sorts a line. What is before a colon is the device of a partition if it ends in a digit, as
/// that of every dump does; headers do not.
pub(super) fn sort(line: &str) -> Text<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Text::Nothing;
    }
    let before_value = &line[..line.find(['=', '"']).unwrap_or(line.len())];
    match before_value.split_once(':') {
        None => Text::Partition {
            device: None,
            fields: line,
        },
        Some((device, _)) if device.trim_end().ends_with(|c: char| c.is_ascii_digit()) => {
            Text::Partition {
                device: Some(device.trim_end()),
                fields: &line[device.len() + 1..],
            }
        }
        Some((name, _)) => Text::Header {
            name: name.trim_end(),
            value: line[name.len() + 1..].trim(),
        },
    }
}

/// Splits the text after the colon into fields.
pub(super) fn fields(text: &str) -> Result<Vec<Field<'_>>, Problem> {
    let is_between = |c: char| c == ',' || c.is_whitespace();
    let mut fields = Vec::new();
    let mut rest = text.trim_start_matches(is_between);
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_between(c));
        let (key, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let Some(value) = behind.strip_prefix('=') else {
            fields.push(Field { key, value: None });
            rest = behind.trim_start_matches(is_between);
            continue;
        };
        let value = value.trim_start();
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or(Problem::Value {
                value: value.to_owned(),
                wanted: "a value with a quote at both ends",
            })?,
            None => value.split_at(value.find(is_between).unwrap_or(value.len())),
        };
        if !behind.is_empty() && !behind.starts_with(is_between) {
            return Err(Problem::Value {
                value: behind.to_owned(),
                wanted: "a comma or a space, which separate fields",
            });
        }
        let value = Some(value);
        fields.push(Field { key, value });
        rest = behind.trim_start_matches(is_between);
    }
    Ok(fields)
}

/// The bytes of a value, with each `\xHH` as a byte.
pub(super) fn bytes(value: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = match rest {
            [b'\\', b'x', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&str, Option<&str>)> {
        let fields = fields(text).unwrap();
        fields.iter().map(|one| (one.key, one.value)).collect()
    }

    #[test]
    fn fields_of_a_dump() {
        let Text::Partition { device, fields } =
            sort("/dev/sda12 : start=   2048, size=5, name=\"a, b=c\", bootable")
        else {
            panic!("no partition");
        };
        assert_eq!(device, Some("/dev/sda12"));
        let expected = [
            ("start", Some("2048")),
            ("size", Some("5")),
            ("name", Some("a, b=c")),
            ("bootable", None),
        ];
        assert_eq!(pairs(fields), expected);
        assert_eq!(
            pairs(" ,size=1M type=U,"),
            [("size", Some("1M")), ("type", Some("U"))]
        );
        assert_eq!(
            pairs("name=\"\", size="),
            [("name", Some("")), ("size", Some(""))]
        );
    }

    #[test]
    fn kinds_of_lines() {
        assert_eq!((sort(" # x"), sort("  ")), (Text::Nothing, Text::Nothing));
        let (name, value) = ("device", "/dev/sda:1");
        assert_eq!(sort("device: /dev/sda:1"), Text::Header { name, value });
        let partition = |device, fields| Text::Partition { device, fields };
        assert_eq!(sort("3:size=1M"), partition(Some("3"), "size=1M"));
        assert_eq!(sort("name=\"1: x\""), partition(None, "name=\"1: x\""));
        assert!(fields("name=\"open").is_err() && fields("name=\"a\"b").is_err());
    }

    #[test]
    fn bytes_of_escapes() {
        assert_eq!(bytes(r"a\x22b\xFFc"), b"a\"b\xFFc");
        assert_eq!(bytes(r"\x2 \xzz \n \"), br"\x2 \xzz \n \");
        assert_eq!(bytes(r"\x5cx41"), br"\x41");
    }
}
