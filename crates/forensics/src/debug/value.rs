//! Values of fields as text.

use super::CommandError;
use uext4_format::Uuid;
use uext4_format::fields::{Field, Form, Value};
use uext4_num::{clamp_u32, usize_of};

/// A number: decimal, `0x` and hexadecimal digits, or `0` and octal digits as for modes.
pub fn parse(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// The text of a value, as [`parse`] and the commands take it.
pub fn show(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.escape_ascii().to_string(),
        Value::Uuid(uuid) => Uuid(uuid).to_string(),
        Value::Words(words) => {
            let words: Vec<String> = words.iter().map(u32::to_string).collect();
            words.join(",")
        }
    }
}

/// A name with an index behind it, `block[3]`.
pub(super) fn split_index(name: &str) -> (&str, Option<&str>) {
    let inner = name.strip_suffix(']').and_then(|name| name.split_once('['));
    inner.map_or((name, None), |(name, index)| (name, Some(index)))
}

/// The value of a field whose old value is given.
pub(super) fn parse_for(
    field: &Field,
    old: Option<Value>,
    index: Option<&str>,
    text: &str,
) -> Result<Value, CommandError> {
    let wrong = || CommandError::Value(field.name.to_owned(), text.to_owned());
    let number = |text: &str| parse(text).ok_or_else(wrong);
    let word = |text: &str| number(text).and_then(|one| u32::try_from(one).map_err(|_| wrong()));
    match (field.form, index) {
        (Form::Words(count), Some(index)) => {
            let at = parse(index).filter(|at| *at < uext4_num::u64_of(count));
            let at = usize_of(clamp_u32(at.ok_or_else(wrong)?));
            let Some(Value::Words(mut words)) = old else {
                return Err(wrong());
            };
            if let Some(old) = words.get_mut(at) {
                *old = word(text)?;
            }
            Ok(Value::Words(words))
        }
        (_, Some(_)) => Err(wrong()),
        (Form::Words(_), None) => {
            let words: Result<Vec<u32>, CommandError> = text.split(',').map(word).collect();
            Ok(Value::Words(words?))
        }
        (Form::Text(_), None) => Ok(Value::Text(text.as_bytes().to_vec())),
        (Form::Uuid, None) => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            let bytes = hex(&digits).ok_or_else(wrong)?;
            let uuid = bytes.try_into().map_err(|_| wrong())?;
            Ok(Value::Uuid(uuid))
        }
        _ => Ok(Value::Number(number(text)?)),
    }
}

/// The bytes of hexadecimal digits.
pub(super) fn hex(digits: &str) -> Option<Vec<u8>> {
    let bytes = digits.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(2) {
        return None;
    }
    let pairs = bytes.chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
