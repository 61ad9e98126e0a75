//! Repair of inodes: fields that are wrong get the value that the rest of the inode implies. An
//! inode is cleared only if nothing in it can be believed.

use super::Outcome;
use super::maps::set_format;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::xattr::{decode_ibody, has_ibody_magic};
use uext4_format::{
    Checksums, CorruptKind, DamageLocation, FileType, GOOD_OLD_INODE_BYTES, Inode, InodeFlags,
    InodeNr, KNOWN_EXTRA_BYTES, RawInode, set_extra_isize,
};
use uext4_num::{clamp_u16, low_u32, nonnegative};

/// Byte offsets of fields.
const SIZE_HIGH_LAST: usize = 0x6F;
const FRAGMENT: usize = 0x70;
/// Sizes are signed numbers.
const SIGN_BIT: u8 = 0x80;

impl Patch<'_, '_> {
    /// Repairs fields of an inode, and its checksum.
    pub(super) fn repair_inode(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let Some(mut bytes) = self.inode_bytes(nr)? else {
            return Ok(Outcome::Impossible);
        };
        self.mend_sizes(nr, &mut bytes);
        let problems = || findings.iter().map(|finding| &finding.corrupt.problem);
        if problems().any(|problem| *problem == CorruptKind::FragmentAddress) {
            put(&mut bytes, FRAGMENT, &[0; 4]);
        }
        let Ok(mut inode) = Inode::parse(&bytes, nr, &self.check.geometry, &Checksums::NONE) else {
            return self.clear_inode(nr);
        };
        let is_used = inode.links != 0 && !self.check.is_set_aside(nr, &bytes);
        if is_used && problems().any(is_unread) && self.is_garbage(nr, &inode, &bytes) {
            return self.clear_inode(nr);
        }
        let loses_context = problems().any(|problem| {
            matches!(
                problem,
                CorruptKind::ContextMissing | CorruptKind::ContextDamaged
            )
        });
        let is_link = inode.file_type() == Some(FileType::Symlink);
        if loses_context && is_link && !self.keep_as_file(nr, &mut inode)? {
            return Ok(Outcome::Impossible);
        }
        for problem in problems() {
            if !self.mend_field(nr, &mut inode, problem)? {
                return self.clear_inode(nr);
            }
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Mends one field; false if the inode does not say how.
    fn mend_field(&mut self, nr: InodeNr, inode: &mut Inode, problem: &CorruptKind) -> Step<bool> {
        match problem {
            CorruptKind::InUseDeleted => inode.dtime = 0,
            CorruptKind::SizeHighWrong => inode.size &= u64::from(u32::MAX),
            CorruptKind::SizeOfNone => inode.size = 0,
            CorruptKind::Flag => self.mend_flags(nr, inode)?,
            CorruptKind::OrphanGone | CorruptKind::NeverDeleted => {
                let was_deleted = inode.links == 0 && inode.mode != 0;
                inode.dtime = if was_deleted { self.deletion_time() } else { 0 };
            }
            CorruptKind::ContextMissing | CorruptKind::ContextDamaged => {
                inode.flags.remove(InodeFlags::ENCRYPT);
            }
            CorruptKind::SeemsDirectory => {
                inode.mode = FileType::Directory.mode_bits() | inode.mode & PERMISSIONS;
                set_format(inode);
            }
            CorruptKind::NoFileType => match self.type_of(nr, inode)? {
                Some(kind) => inode.mode = kind.mode_bits() | inode.mode & PERMISSIONS,
                None => return Ok(false),
            },
            _ => {}
        }
        Ok(true)
    }

    /// Now, as a time that is no inode number.
    fn deletion_time(&self) -> u32 {
        let now = nonnegative(self.check.clock.wall().seconds);
        low_u32(now).max(self.check.geometry.inodes_count)
    }

    /// Makes sizes of an inode possible that no reader can use.
    pub(super) fn mend_sizes(&self, nr: InodeNr, bytes: &mut [u8]) {
        if bytes.len() > GOOD_OLD_INODE_BYTES && !RawInode(bytes).has_sound_extra_size() {
            let size = self.extra_size(nr, bytes);
            set_extra_isize(bytes, size);
        }
        if RawInode(bytes).size() > i64::MAX.cast_unsigned()
            && let Some(byte) = bytes.get_mut(SIZE_HIGH_LAST)
        {
            *byte &= !SIGN_BIT;
        }
    }

    /// The size of the extra fields: attributes begin behind them. Without attributes it is the
    /// usual one.
    fn extra_size(&self, nr: InodeNr, bytes: &[u8]) -> u16 {
        let room = bytes.len().saturating_sub(GOOD_OLD_INODE_BYTES);
        let wanted = self.superblock.want_extra_isize;
        let is_possible = wanted.is_multiple_of(4) && (4..=room).contains(&wanted.into());
        let usual = if is_possible {
            wanted
        } else {
            KNOWN_EXTRA_BYTES.min(clamp_u16(room & !3))
        };
        let mut sizes = std::iter::once(usize::from(usual)).chain((4..room).step_by(4));
        let found = sizes.find(|size| {
            let area = bytes.get(GOOD_OLD_INODE_BYTES + size..).unwrap_or_default();
            has_ibody_magic(area)
                && decode_ibody(area, DamageLocation::Inode(nr)).is_ok_and(|set| !set.is_empty())
        });
        found.map_or(usual, clamp_u16)
    }

    /// Clears an inode of which nothing can be believed. The root directory and the file system's
    /// own files have another place to be made from.
    pub(super) fn clear_inode(&mut self, nr: InodeNr) -> Step<Outcome> {
        if nr == InodeNr::ROOT {
            return self.make_root();
        }
        if self.is_journal(nr) {
            return self.give_up_journal(nr);
        }
        if self.is_quota_file(nr) {
            return self.make_quota_file(nr);
        }
        self.forget_file(nr);
        let size = usize::from(self.check.geometry.inode_size);
        self.write_inode_bytes(nr, &vec![0; size])?;
        Ok(Outcome::Repaired)
    }
}

/// The bits of a mode beside the type.
pub(super) const PERMISSIONS: u16 = 0o7777;

/// Problems of an inode that no other check has read.
fn is_unread(problem: &CorruptKind) -> bool {
    matches!(
        problem,
        CorruptKind::Checksum { .. }
            | CorruptKind::ExtraSize { .. }
            | CorruptKind::SizeRange { .. }
    )
}

/// Writes a field of an inode.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}
