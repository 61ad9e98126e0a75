//! Repair of flags that an inode cannot have: the flag goes, or the feature that it needs comes
//! back if the inode proves that it was there.

use super::patch::Patch;
use crate::state::Step;
use uext4_format::extent::ExtentState;
use uext4_format::xattr::{EaInodeFields, NameIndex, XattrName, XattrSet, decode_ibody};
use uext4_format::{DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr};
use uext4_volume::has_map;

/// Flags whose content is lost without their features.
const NEEDED: [(InodeFlags, Feature); 4] = [
    (InodeFlags::INLINE_DATA, Feature::INLINE_DATA),
    (InodeFlags::ENCRYPT, Feature::ENCRYPT),
    (InodeFlags::VERITY, Feature::VERITY),
    (InodeFlags::EA_INODE, Feature::EA_INODE),
];

/// Name of the attribute with the context of an encrypted file.
const CONTEXT: &[u8] = b"c";

impl Patch<'_, '_> {
    pub(super) fn mend_flags(&mut self, nr: InodeNr, inode: &mut Inode) -> Step {
        let bytes = self.inode_bytes(nr)?.unwrap_or_default();
        let kind = inode.file_type();
        if self.check.is_set_aside(nr, &bytes) {
            inode.flags.remove(InodeFlags::CASEFOLD);
            if kind != Some(FileType::Directory) {
                inode.flags.remove(InodeFlags::INDEX);
            }
            return Ok(());
        }
        let Some(kind) = kind else {
            return Ok(());
        };
        if self.check.lacks_extents_flag(inode) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let odd = self.check.odd_flags(nr, inode, kind);
        // With more than one, all of the flags are damaged.
        let needed = NEEDED.iter().find(|(flag, _)| *flag == odd);
        if let Some((flag, feature)) = needed
            && self.proves(nr, inode, kind, *flag)?
        {
            let mut features = self.superblock.features();
            features.insert(*feature);
            self.superblock.set_features(features);
            return Ok(());
        }
        inode.flags.remove(odd);
        inode.flags.remove(self.check.odd_flags(nr, inode, kind));
        Ok(())
    }

    /// Whether the inode has what only a file with this flag has.
    fn proves(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        kind: FileType,
        flag: InodeFlags,
    ) -> Step<bool> {
        let has_data = matches!(
            kind,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        let has_feature = NEEDED
            .iter()
            .any(|(known, feature)| *known == flag && self.check.geometry.features.has(*feature));
        if !has_data || has_feature {
            return Ok(false);
        }
        let set = decode_ibody(&inode.tail, DamageLocation::Inode(nr)).unwrap_or_default();
        Ok(match flag {
            InodeFlags::INLINE_DATA => set.get(&XattrName::inline_data()).is_some(),
            InodeFlags::ENCRYPT => has_context(&set),
            InodeFlags::VERITY => self.has_data_behind(nr, inode)?,
            _ => {
                let fields = EaInodeFields::of(inode);
                let is_counted = (1..=u64::from(u32::MAX)).contains(&fields.refcount);
                kind == FileType::Regular && is_counted && fields.hash != 0 && inode.links == 1
            }
        })
    }

    /// Whether written blocks are behind the end of a file, as a hash tree is.
    fn has_data_behind(&mut self, nr: InodeNr, inode: &Inode) -> Step<bool> {
        if !has_map(inode) {
            return Ok(false);
        }
        let end = inode.size.div_ceil(self.check.block_bytes());
        let extents = self.extents_of(nr, inode)?;
        let mut written = extents
            .iter()
            .filter(|extent| extent.state == ExtentState::Written);
        Ok(written.any(|extent| extent.logical_end() > end))
    }
}

fn has_context(set: &XattrSet) -> bool {
    let name = XattrName::new(NameIndex::ENCRYPTION, CONTEXT);
    set.get(&name).is_some()
}
