//! Directories that no source has: lost+found, and those above the files of sources.

use uext4_format::FileType;
use uext4_num::clamp_i64;

use crate::error::Result;
use crate::sources::entry::Attributes;
use crate::tree::arena::Tree;
use crate::tree::file::Origin;
use crate::tree::ids::FileId;
use crate::tree::order::Sorted;

/// Sets owner, mode and extended attributes of a directory that no source has; see
/// [`crate::Builder::describe`].
pub(crate) type Describe = Box<dyn FnMut(&[u8], &mut Attributes) + Send>;

/// Adds lost+found, unless the tree has one.
pub(crate) fn add_recovery_directory(tree: &mut Tree) -> Result<Option<FileId>> {
    if tree.find_alive(tree.root, b"lost+found").is_some() {
        return Ok(None);
    }
    let attributes = crate::Attributes {
        permissions: 0o700,
        ..crate::Attributes::default()
    };
    let attributes = tree.attributes.intern(b"lost+found", &attributes)?;
    let file = tree.new_file(FileType::Directory, Origin::Implicit, attributes)?;
    let known = tree.names.find(tree.root, b"lost+found");
    tree.bind(tree.root, b"lost+found", known, file)?;
    Ok(Some(file))
}

/// Gives them the time of the image.
pub(crate) fn date(tree: &mut Tree, time: u64) {
    for file in &mut tree.files {
        if file.origin == Origin::Implicit {
            (file.seconds, file.nanoseconds) = (clamp_i64(time), 0);
        }
    }
}

/// Asks for the attributes of all of them.
pub(crate) fn describe(tree: &mut Tree, sorted: &Sorted, describe: &mut Describe) -> Result<()> {
    let mut left = vec![(tree.root, Vec::new())];
    while let Some((id, path)) = left.pop() {
        for name in sorted.children(tree.file(id).location) {
            let child = tree.names.get(*name).file;
            if tree.file(child).is_directory() {
                let name = tree.names.bytes(*name);
                let path = if path.is_empty() {
                    name.to_vec()
                } else {
                    [&path, name].join(&b'/')
                };
                left.push((child, path));
            }
        }
        if tree.file(id).origin == Origin::Implicit {
            let shared = tree.attributes.get(tree.file(id).attributes);
            let mut attributes = Attributes {
                permissions: shared.permissions,
                uid: shared.uid,
                gid: shared.gid,
                ..Attributes::default()
            };
            describe(&path, &mut attributes);
            tree.file_mut(id).attributes = tree.attributes.intern(&path, &attributes)?;
        }
    }
    Ok(())
}
