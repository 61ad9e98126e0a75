//! Comparison of trees, and checks of images.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use uext4::MountOptions;
use uext4::check::{Limits, check};
use uext4::device::FileDevice;
use uext4_testkit::manifest::{Field, FileKind, Manifest, Policy};
use uext4_testkit::oracle::{Access, KernelMount, debugfs, e2fsck};

/// Maximum number of differences in a message.
const SHOWN: usize = 20;

/// Fails with the first differences.
pub(crate) fn same(
    what: &str,
    expected: &Manifest,
    found: &Manifest,
    policy: &Policy,
) -> Result<()> {
    let differences = expected.diff(found, policy);
    let shown: Vec<_> = differences
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    ensure!(
        differences.is_empty(),
        "{what}: {} differences in {} names:\n{}",
        differences.len(),
        expected.entries.len(),
        shown.join("\n")
    );
    Ok(())
}

/// Fails if e2fsck or our own check reports damage.
pub(crate) fn clean(what: &str, image: &Path) -> Result<()> {
    let verdict = e2fsck(image)?;
    ensure!(verdict.is_clean(), "{what}: {verdict}");
    let device = FileDevice::open(image, uext4::device::Access::ReadOnly)?;
    let looked = check(
        Arc::new(device),
        MountOptions::default(),
        &Limits::default(),
    );
    let report = looked.with_context(|| format!("{what}: our own check"))?;
    ensure!(report.is_clean(), "{what}: {report:?}");
    Ok(())
}

/// The tree of `image`, read through the kernel's mount.
pub(crate) fn by_kernel(image: &Path) -> Result<Manifest> {
    let mount = KernelMount::new(image, "ro")?;
    let manifest = Manifest::of_dir(mount.path())?;
    mount.unmount()?;
    Ok(manifest)
}

/// The tree that debugfs copies out of `image`: files, directories and symlinks. It drops extended
/// attributes and hard links.
pub(super) fn by_debugfs(image: &Path, dir: &Path) -> Result<Manifest> {
    std::fs::create_dir(dir)?;
    debugfs(image, Access::Read, &[format!("rdump / {}", dir.display())])?;
    Manifest::of_dir(dir)
}

/// The part of a manifest that debugfs copies.
pub(super) fn copied_by_debugfs(manifest: &Manifest) -> Manifest {
    let plain = [FileKind::File, FileKind::Directory, FileKind::Symlink];
    let entries = manifest
        .entries
        .iter()
        .filter(|(_, entry)| plain.contains(&entry.kind));
    Manifest {
        entries: entries
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect(),
    }
}

/// debugfs preserves names, content, sizes and targets. It changes owners after modes, which clears
/// mode bits, and gives some files no owner.
pub(super) fn debugfs_policy() -> Policy {
    use Field::{LinkGroup, Mode, Mtime, Nlink, Owner, Root, Xattrs};
    let dropped = [Root, Xattrs, Nlink, LinkGroup, Mtime, Mode, Owner];
    dropped.into_iter().fold(Policy::default(), Policy::ignore)
}
