//! Check of value inodes: the entries that refer to them, and their reference counts.

use crate::state::{Check, Step};
use std::collections::BTreeMap;
use uext4_format::xattr::{EaInodeFields, entry_hash_of_inode, signed_entry_hash_of_inode};
use uext4_format::{CorruptKind, DamageLocation, FileType, Inode, InodeNr};

/// Memory for each entry and each inode, in bytes.
const BYTES_EACH: u64 = 120;

/// An entry that refers to a value inode.
pub(crate) struct Named {
    pub(crate) place: DamageLocation,
    pub(crate) inode: InodeNr,
    pub(crate) size: u32,
    pub(crate) entry_hash: u32,
    pub(crate) name: Vec<u8>,
}

struct Value {
    size: u64,
    fields: EaInodeFields,
    /// Values of Lustre have their owner's number instead of hash and reference count.
    is_of_lustre: bool,
    names: u64,
}

/// All entries and value inodes found so far.
#[derive(Default)]
pub(crate) struct Values {
    named: Vec<Named>,
    held: BTreeMap<u32, Value>,
}

impl Values {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.held.is_empty()
    }
}

impl Check<'_> {
    pub(crate) fn name_value(&mut self, named: Named) -> Step {
        self.take(BYTES_EACH)?;
        self.values.named.push(named);
        Ok(())
    }

    pub(crate) fn check_value(&mut self, nr: InodeNr, inode: &Inode, kind: FileType) -> Step {
        let place = DamageLocation::Inode(nr);
        // Like the kernel and e2fsck, accepts a symbolic link as well.
        if !matches!(kind, FileType::Regular | FileType::Symlink) {
            self.add_problem(place, "value inode", CorruptKind::NotRegular);
        }
        if inode.links != 1 {
            self.add_problem(place, "value inode", CorruptKind::ValueLinks);
        }
        self.take(BYTES_EACH)?;
        let fields = EaInodeFields::of(inode);
        let value = Value {
            size: inode.size,
            fields,
            is_of_lustre: fields.hash == 0 && fields.refcount == 0,
            names: 0,
        };
        self.values.held.insert(nr.0, value);
        Ok(())
    }

    /// Compares the entries with their value inodes, and the reference counts.
    pub(crate) fn compare_values(&mut self) -> Step {
        let Values { named, mut held } = std::mem::take(&mut self.values);
        for entry in named {
            let problem = match held.get_mut(&entry.inode.0) {
                None => Some(CorruptKind::NamedHoldsNone),
                Some(value) => {
                    value.names += 1;
                    problem_of(&entry, value)
                }
            };
            if let Some(problem) = problem {
                self.add_problem(entry.place, "xattr entry", problem);
            }
        }
        for (nr, value) in held {
            if value.names != value.fields.refcount && !(value.is_of_lustre && value.names == 1) {
                let detail = format!("{}, not {}", value.fields.refcount, value.names);
                let place = DamageLocation::Inode(InodeNr(nr));
                self.add_detailed(place, "value inode", CorruptKind::References, detail);
                self.derive_value_references(nr, value.names)?;
            }
        }
        Ok(())
    }
}

fn problem_of(entry: &Named, value: &Value) -> Option<CorruptKind> {
    if value.size != u64::from(entry.size) {
        return Some(CorruptKind::OtherSize);
    }
    let (name, hash) = (&entry.name, value.fields.hash);
    let both = [
        entry_hash_of_inode(name, hash),
        signed_entry_hash_of_inode(name, hash),
    ];
    let fits = value.is_of_lustre || both.contains(&entry.entry_hash);
    (!fits).then_some(CorruptKind::EntryHash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels with a signed `char` hash bytes from 0x80 on as negative numbers.
    #[test]
    fn hashes_of_both_kinds_of_char_are_sound() {
        let named = |entry_hash| Named {
            place: DamageLocation::Inode(InodeNr(12)),
            inode: InodeNr(13),
            size: 5,
            entry_hash,
            name: b"caf\xE9".to_vec(),
        };
        let fields = EaInodeFields {
            hash: 0x1234_5678,
            refcount: 1,
        };
        let value = Value {
            size: 5,
            fields,
            is_of_lustre: false,
            names: 1,
        };
        let unsigned = entry_hash_of_inode(b"caf\xE9", fields.hash);
        let signed = signed_entry_hash_of_inode(b"caf\xE9", fields.hash);
        assert_ne!(signed, unsigned);
        for hash in [signed, unsigned] {
            assert_eq!(problem_of(&named(hash), &value), None);
        }
        let wrong = problem_of(&named(signed ^ 1), &value);
        assert_eq!(wrong, Some(CorruptKind::EntryHash));
    }
}
