//! Rules for the entries of directories. The check reports what breaks them, and repairs apply the
//! same rules.

use crate::opened::{Names, Rules};
use crate::state::Check;
use uext4_format::dirent::DirEntry;
use uext4_format::{CorruptKind, Feature, FileType, Inode, InodeFlags, InodeNr};

/// Shortest encrypted name in bytes: one block of the cipher.
const ENCRYPTED_BYTES_MIN: usize = 16;

impl Check<'_> {
    /// The rules of a directory.
    pub(crate) fn rules_of(&self, dir: InodeNr, inode: &Inode) -> Rules {
        let has_encryption = self.geometry.features.has(Feature::ENCRYPT);
        let names = if has_encryption && inode.flags.contains(InodeFlags::ENCRYPT) {
            Names::Encrypted
        } else {
            Names::Text
        };
        let policy = match names {
            Names::Encrypted => self.policies.get(dir),
            Names::Text => None,
        };
        Rules { dir, names, policy }
    }

    /// The problem of an entry of a directory by itself; "." and ".." at its start have their own
    /// rules.
    pub(crate) fn problem_of(&self, rules: Rules, entry: &DirEntry<'_>) -> Option<CorruptKind> {
        let dir = rules.dir;
        let geometry = &self.geometry;
        if matches!(entry.name, b"." | b"..") {
            return Some(CorruptKind::NotWhereItBelongs);
        }
        let is_text = rules.names == Names::Text;
        if is_text && entry.name.iter().any(|byte| is_forbidden(*byte)) {
            return Some(CorruptKind::NameBytes);
        }
        if !is_text && entry.name.len() < ENCRYPTED_BYTES_MIN {
            return Some(CorruptKind::NameEncryptedShort);
        }
        let hidden = &self.hidden;
        let is_journal_file = hidden.is_journal(entry.inode)
            && entry.inode.0 >= geometry.first_inode
            && dir == InodeNr::ROOT;
        let reserved = hidden.contains(entry.inode) && !is_journal_file;
        if reserved || entry.inode == InodeNr::ROOT || !geometry.contains_inode(entry.inode) {
            return Some(CorruptKind::InodeNumber);
        }
        if entry.inode == dir {
            return Some(CorruptKind::BelowItself);
        }
        if self.links.is_nameless(entry.inode) && !is_journal_file {
            return Some(CorruptKind::InodeUnnameable);
        }
        let Some(kind) = self.links.kind(entry.inode) else {
            return Some(CorruptKind::InodeFreeOrDamaged);
        };
        let policy = rules.policy;
        let other = policy.and_then(|policy| self.problem_of_policy(policy, entry.inode, kind));
        other.or_else(|| self.problem_of_type(entry, kind))
    }

    /// The problem of an entry of an inode of this type.
    pub(crate) fn problem_of_type(
        &self,
        entry: &DirEntry<'_>,
        kind: FileType,
    ) -> Option<CorruptKind> {
        let typed = self.geometry.features.has(Feature::FILETYPE);
        // 0 is an unknown type; without the feature all types are.
        let is_wrong = entry.code != 0 && !(typed && entry.code == kind.dirent_code());
        is_wrong.then_some(CorruptKind::EntryType)
    }
}

/// Whether no text may have this byte.
pub(crate) fn is_forbidden(byte: u8) -> bool {
    matches!(byte, b'/' | 0)
}
