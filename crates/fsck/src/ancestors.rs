//! Check that every directory is connected to the root, and that its ".." leads to its parent.

use crate::state::{Check, Step};
use uext4_format::{CorruptKind, DamageLocation, InodeNr};
use uext4_num::u64_of;

impl Check<'_> {
    /// Checks that every directory leads up to the root, and its "..".
    pub(crate) fn check_ancestors(&mut self) -> Step {
        let len = self.links.n_directories();
        self.take(u64_of(len) * u64_of(size_of::<usize>()))?;
        // The start of the walk that visited each directory first.
        let mut met_from = vec![usize::MAX; len];
        for at in 0..len {
            let mut next = Some(at);
            while let Some(here) = next.filter(|&here| met_from[here] == usize::MAX) {
                met_from[here] = at;
                next = self.above(here);
                if next.is_some_and(|next| met_from[next] == at) {
                    let nr = InodeNr(self.links.directories[here].nr);
                    self.add_problem(
                        DamageLocation::Inode(nr),
                        "directory",
                        CorruptKind::InsideItself,
                    );
                    break;
                }
            }
            self.compare_up(at);
        }
        Ok(())
    }

    fn above(&self, at: usize) -> Option<usize> {
        let found = self.links.directories.get(at)?;
        let parent = (found.nr != InodeNr::ROOT.0).then_some(found.parent)?;
        self.links.position(InodeNr(parent))
    }

    fn compare_up(&mut self, at: usize) {
        let Some(found) = self.links.directories.get(at) else {
            return;
        };
        let is_root = found.nr == InodeNr::ROOT.0;
        let parent = if is_root { found.nr } else { found.parent };
        if parent != 0 && found.up != 0 && found.up != parent {
            let detail = format!("{}, not {parent}", found.up);
            let place = DamageLocation::Inode(InodeNr(found.nr));
            self.add_detailed(place, "directory", CorruptKind::DotDotElsewhere, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Directory, Links};
    use crate::report::Limits;
    use crate::subject::Subject;
    use std::sync::Arc;
    use uext4_device::MemDevice;
    use uext4_mkfs as mkfs;
    use uext4_mkfs::{MkfsOptions, Preset};
    use uext4_sync::RealClock;
    use uext4_volume::superblock::read_primary;

    /// The findings on directories, given as pairs of a directory and its parent.
    fn said(pairs: impl Iterator<Item = (u32, u32)>) -> Vec<String> {
        let device = Arc::new(MemDevice::new(8 << 20));
        mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
        let superblock = read_primary(&*device, None).expect("a superblock");
        let subject = Subject {
            shared_data: Default::default(),
            device,
            geometry: superblock.geometry().expect("a sound superblock"),
            superblock,
            replayed: None,
            journal_device: None,
            clock: Arc::new(RealClock::new()),
        };
        let limits = Limits::default();
        let mut check = Check::new(&subject, &limits);
        check.links = Links::new(1 << 20);
        for (nr, parent) in [(2, 2)].into_iter().chain(pairs) {
            let directories = &mut check.links.directories;
            let up = parent;
            directories.push(Directory { nr, parent, up });
        }
        check.check_ancestors().expect("it may take the memory");
        let findings = check.report.findings.iter();
        findings.map(ToString::to_string).collect()
    }

    #[test]
    fn circles_are_found_once() {
        let pairs = [(11, 12), (12, 13), (13, 11), (14, 12), (15, 2), (16, 15)];
        let found = "inode 13: directory: it is inside itself";
        assert_eq!(said(pairs.into_iter()), [found]);
    }

    /// Each directory is on the path up from the first, so the work per directory must not grow
    /// with the path.
    #[test]
    fn a_very_deep_tree_is_sound() {
        const LAST: u32 = 300_000;
        let pairs = (11..LAST).map(|nr| (nr, nr + 1)).chain([(LAST, 2)]);
        assert_eq!(said(pairs), [""; 0]);
    }
}
