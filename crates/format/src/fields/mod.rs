//! Fields of structures by their names, for tools that show and change any of them.
//!
//! Layout: a table for each structure says name, offset and form of each field. Names are those of
//! debugfs. A field that has two parts on disk is one number here.
//!
//! Not here: checksums, which the caller computes after a change ([`seal_inode`] and others).
//! References: kernel documentation, `filesystems/ext4`.

mod group;
mod inode;
mod journal;
mod parts;
mod seal;
mod superblock;
#[cfg(test)]
mod tests;

pub use group::group_fields;
pub use inode::INODE;
pub use journal::JOURNAL;
pub use parts::{ATTRIBUTES, ENTRY, EXTENT, INDEX, MMP, NODE};
pub use seal::{seal_inode, seal_journal, seal_mmp, seal_superblock};
pub use superblock::SUPERBLOCK;

use crate::bytes::{get_u8, get_u16, get_u32, get_u32_be, get_u64, join_u32};
use crate::bytes::{part, put_slice, put_u8, put_u16, put_u32, put_u32_be, put_u64};
use uext4_num::{high_u16, high_u32, low_u8, low_u16, low_u32};

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// 32 bits, the most significant byte first.
    Be32,
    /// 16 bits, and the high half at another offset.
    U16And16(usize),
    /// 32 bits, and the high half at another offset.
    U32And32(usize),
    /// 32 bits, and 16 high bits at another offset.
    U32And16(usize),
    /// Seconds since 1970: 32 bits, and 8 high bits at another offset.
    Time(usize),
    /// Text of so many bytes, padded with zeroes.
    Text(usize),
    /// 16 bytes.
    Uuid,
    /// This many numbers of 32 bits.
    Words(usize),
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as in debugfs.
    pub name: &'static str,
    /// Its offset in the structure, in bytes.
    pub at: usize,
    /// How it is stored.
    pub form: Form,
    /// Whether it is an extra field of an inode, which `i_extra_isize` says are there.
    is_extra: bool,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Bytes up to the first zero.
    Text(Vec<u8>),
    /// A UUID.
    Uuid([u8; 16]),
    /// Numbers.
    Words(Vec<u32>),
}

/// Why a field does not take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The number is larger than the field.
    #[error("the value is larger than the field")]
    TooLarge,
    /// The field is not a number, or not text.
    #[error("the field has another kind of value")]
    OtherKind,
    /// The structure ends before the field, as a small inode or descriptor does, or an inode whose
    /// attributes begin there.
    #[error("the structure ends before this field")]
    Outside,
}

impl Field {
    const fn new(name: &'static str, at: usize, form: Form) -> Self {
        let is_extra = false;
        Self {
            name,
            at,
            form,
            is_extra,
        }
    }

    /// An extra field of an inode.
    const fn extra(name: &'static str, at: usize, form: Form) -> Self {
        let field = Self::new(name, at, form);
        Self {
            is_extra: true,
            ..field
        }
    }

    /// Whether a structure has the field.
    fn is_in(&self, bytes: &[u8]) -> bool {
        let mut end = bytes.len();
        if self.is_extra {
            let extra = usize::from(get_u16(bytes, inode::EXTRA_ISIZE_AT));
            end = end.min(extra.saturating_add(inode::BASE_BYTES));
        }
        self.end() <= end
    }

    /// The offset behind the last byte of the field.
    pub fn end(&self) -> usize {
        let (behind, high) = match self.form {
            Form::U8 => (1, None),
            Form::U16 => (2, None),
            Form::U32 | Form::Be32 => (4, None),
            Form::U64 => (8, None),
            Form::U16And16(high) => (2, Some((high, 2))),
            Form::U32And32(high) => (4, Some((high, 4))),
            Form::U32And16(high) => (4, Some((high, 2))),
            Form::Time(high) => (4, Some((high, 1))),
            Form::Text(bytes) => (bytes, None),
            Form::Uuid => (16, None),
            Form::Words(words) => (words.saturating_mul(4), None),
        };
        let end = self.at.saturating_add(behind);
        high.map_or(end, |(at, bytes): (usize, usize)| {
            end.max(at.saturating_add(bytes))
        })
    }

    /// The value in the bytes of a structure; `None` if these end before it.
    pub fn get(&self, bytes: &[u8]) -> Option<Value> {
        if !self.is_in(bytes) {
            return None;
        }
        let at = self.at;
        Some(match self.form {
            Form::U8 => Value::Number(get_u8(bytes, at).into()),
            Form::U16 => Value::Number(get_u16(bytes, at).into()),
            Form::U32 => Value::Number(get_u32(bytes, at).into()),
            Form::U64 => Value::Number(get_u64(bytes, at)),
            Form::Be32 => Value::Number(get_u32_be(bytes, at).into()),
            Form::U16And16(high) => {
                let high = u64::from(get_u16(bytes, high)) << 16;
                Value::Number(u64::from(get_u16(bytes, at)) | high)
            }
            Form::U32And32(high) => {
                Value::Number(join_u32(get_u32(bytes, at), get_u32(bytes, high)))
            }
            Form::U32And16(high) => {
                let high = get_u16(bytes, high).into();
                Value::Number(join_u32(get_u32(bytes, at), high))
            }
            Form::Time(high) => {
                let high = get_u8(bytes, high).into();
                Value::Number(join_u32(get_u32(bytes, at), high))
            }
            Form::Text(len) => {
                let text = part(bytes, at..at.saturating_add(len));
                let text = text.split(|byte| *byte == 0).next();
                Value::Text(text.unwrap_or_default().to_vec())
            }
            Form::Uuid => Value::Uuid(crate::bytes::get_array(bytes, at)),
            Form::Words(words) => {
                let offsets = (0..words).map(|index| at.saturating_add(index.saturating_mul(4)));
                Value::Words(offsets.map(|at| get_u32(bytes, at)).collect())
            }
        })
    }

    /// Sets the value in the bytes of a structure.
    ///
    /// # Errors
    /// The value is of another kind, or does not fit.
    pub fn set(&self, bytes: &mut [u8], value: &Value) -> Result<(), FieldError> {
        if !self.is_in(bytes) {
            return Err(FieldError::Outside);
        }
        match (self.form, value) {
            (Form::Text(len), Value::Text(text)) => {
                let mut padded = text.clone();
                if text.len() > len {
                    return Err(FieldError::TooLarge);
                }
                padded.resize(len, 0);
                put_slice(bytes, self.at, &padded);
            }
            (Form::Uuid, Value::Uuid(uuid)) => put_slice(bytes, self.at, uuid),
            (Form::Words(count), Value::Words(words)) => {
                if words.len() > count {
                    return Err(FieldError::TooLarge);
                }
                for (index, word) in words.iter().enumerate() {
                    let at = self.at.saturating_add(index.saturating_mul(4));
                    put_u32(bytes, at, *word);
                }
            }
            (Form::Text(_) | Form::Uuid | Form::Words(_), _) => return Err(FieldError::OtherKind),
            (_, Value::Number(number)) => {
                if self
                    .bits()
                    .is_some_and(|bits| number.checked_shr(bits).unwrap_or(0) != 0)
                {
                    return Err(FieldError::TooLarge);
                }
                self.set_number(bytes, *number);
            }
            _ => return Err(FieldError::OtherKind),
        }
        Ok(())
    }

    /// Bits of a number; `None` for other kinds.
    pub fn bits(&self) -> Option<u32> {
        Some(match self.form {
            Form::U8 => 8,
            Form::U16 => 16,
            Form::U32 | Form::Be32 | Form::U16And16(_) => 32,
            Form::U64 | Form::U32And32(_) => 64,
            Form::U32And16(_) => 48,
            Form::Time(_) => 40,
            Form::Text(_) | Form::Uuid | Form::Words(_) => return None,
        })
    }

    fn set_number(&self, bytes: &mut [u8], number: u64) {
        let at = self.at;
        let low = low_u32(number);
        match self.form {
            Form::U8 => put_u8(bytes, at, low_u8(number)),
            Form::U16 => put_u16(bytes, at, low_u16(number)),
            Form::U32 => put_u32(bytes, at, low),
            Form::U64 => put_u64(bytes, at, number),
            Form::Be32 => put_u32_be(bytes, at, low),
            Form::U16And16(high) => {
                put_u16(bytes, at, low_u16(number));
                put_u16(bytes, high, high_u16(low));
            }
            Form::U32And32(high) => {
                put_u32(bytes, at, low);
                put_u32(bytes, high, high_u32(number));
            }
            Form::U32And16(high) => {
                put_u32(bytes, at, low);
                put_u16(bytes, high, low_u16(number >> 32));
            }
            Form::Time(high) => {
                put_u32(bytes, at, low);
                put_u8(bytes, high, low_u8(number >> 32));
            }
            Form::Text(_) | Form::Uuid | Form::Words(_) => {}
        }
    }
}

/// The field with a name, with or without the prefix of the kernel (`s_`, `i_`, `bg_`, `h_`).
pub fn find(table: &'static [Field], name: &str) -> Option<&'static Field> {
    let prefixes = ["s_", "i_", "bg_", "h_"];
    let mut stripped = prefixes
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix));
    let exact = table.iter().find(|field| field.name == name);
    exact.or_else(|| stripped.find_map(|name| table.iter().find(|field| field.name == name)))
}
