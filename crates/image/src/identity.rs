//! UUIDs and salts that follow from the UUID of the file system: SHA-256 of a purpose and the UUID.
//!
//! GUIDs of a disk follow from what is on it: two forms of one tree, of different sizes or types,
//! may be attached to one machine, which finds partitions by their GUIDs.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::table::PartitionType;

/// Bytes of a derived salt.
pub(crate) const SALT_BYTES: usize = 32;

fn derived(purpose: &str, file_system: [u8; 16]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"uext4 image\0");
    hash.update(purpose);
    hash.update(b"\0");
    hash.update(file_system);
    hash.finalize().into()
}

/// A UUID of version 8 (RFC 9562) for a purpose.
pub(crate) fn uuid(purpose: &str, file_system: [u8; 16]) -> Uuid {
    let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
        derived(purpose, file_system);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// What distinguishes the disk: the UUID of the file system, size and type of its partition, the
/// first bytes of that, the hash of all of it, if there is one, and the other partitions.
pub(crate) struct Form<'a> {
    pub(crate) file_system: [u8; 16],
    pub(crate) size_bytes: u64,
    pub(crate) kind: PartitionType,
    pub(crate) start: &'a [u8],
    pub(crate) root_hash: Option<[u8; 32]>,
    pub(crate) others: &'a [Other],
}

/// A partition beside that of the file system.
pub(crate) struct Other {
    pub(crate) number: u32,
    pub(crate) start: u64,
    pub(crate) sectors: u64,
    pub(crate) kind: PartitionType,
    /// Of what it holds; zeroes for zeroes.
    pub(crate) hash: [u8; 32],
}

impl Form<'_> {
    /// In 16 bytes, for [`uuid`].
    pub(crate) fn digest(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(self.file_system);
        hash.update(self.size_bytes.to_le_bytes());
        hash.update(kind_bytes(self.kind));
        hash.update(self.root_hash.unwrap_or_default());
        hash.update(self.start);
        for other in self.others {
            hash.update(other.number.to_le_bytes());
            hash.update(other.start.to_le_bytes());
            hash.update(other.sectors.to_le_bytes());
            hash.update(kind_bytes(other.kind));
            hash.update(other.hash);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        digest
    }
}

fn kind_bytes(kind: PartitionType) -> [u8; 16] {
    match kind {
        PartitionType::Gpt(guid) => guid.into_bytes(),
        PartitionType::Dos(byte) => {
            let mut bytes = [0; 16];
            bytes[15] = byte;
            bytes
        }
    }
}

/// The GUID of a partition that has no other.
pub(crate) fn partition(form: [u8; 16], number: u32, has_file_system: bool) -> Uuid {
    if has_file_system {
        uuid("partition", form)
    } else {
        uuid(&format!("partition {number}"), form)
    }
}

/// A salt for the hash tree.
pub(crate) fn salt(file_system: [u8; 16]) -> [u8; SALT_BYTES] {
    derived("verity salt", file_system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_each_file_system_has_its_own() {
        let one = uuid("disk", [1; 16]);
        assert_eq!(one, uuid("disk", [1; 16]));
        assert_ne!(one, uuid("disk", [2; 16]));
        assert_ne!(one, uuid("partition", [1; 16]));
        assert_eq!(one.get_version_num(), 8);
        assert_ne!(salt([1; 16]), salt([2; 16]));
    }
}
