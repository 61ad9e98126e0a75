//! Copies trees between the host and an image, with mode, owner, times, extended attributes, hard
//! links and holes.
//!
//! Layout: `export` copies from an image and `import` into one. `handles` opens and creates host
//! files below directory handles; `source` reads them; `restore` sets their attributes. `stream`
//! copies single files to and from standard streams. `outcome` counts copied and failed files;
//! `progress` shows a progress bar.

pub(crate) mod export;
pub(crate) mod handles;
pub(crate) mod import;
pub(crate) mod outcome;
mod progress;
pub(crate) mod restore;
pub(crate) mod source;
pub(crate) mod stream;

use crate::failure::{Exit, Failure};

/// Size of the copy buffer in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Joins a directory and a name to a path.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}

/// The last component of a path; `None` if the path means the content of a directory: `/`, `dir/.`,
/// `..`.
pub(crate) fn last_name(path: &[u8]) -> Option<&[u8]> {
    let (_, name) = split(path);
    (!name.is_empty() && name != b"." && name != b"..").then_some(name)
}

/// Directory and last name of a path, which may end with slashes. The directory is empty for a
/// single name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let is_name = |byte: &u8| *byte != b'/';
    let end = path.iter().rposition(is_name).map_or(0, |last| last + 1);
    let path = path.split_at(end).0;
    let start = path.iter().rposition(|byte| *byte == b'/');
    path.split_at(start.map_or(0, |slash| slash + 1))
}

/// Failure of a walk that reached a directory twice: a cycle, or two entries for one directory.
pub(crate) fn second_name(at: &str, inode: u32) -> Failure {
    let problem = "has a second name here: a cycle, or two directories of one";
    let text = format!("{at}: the directory inode {inode} {problem}");
    Failure::new(Exit::Damaged, text).hint("e2fsck repairs it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_the_end() {
        assert_eq!(last_name(b"/a/b//"), Some(b"b".as_slice()));
        assert_eq!(last_name(b"a"), Some(b"a".as_slice()));
        assert!(
            [b"/".as_slice(), b"a/.", b"..", b""]
                .iter()
                .all(|path| last_name(path).is_none())
        );
        assert_eq!(split(b"/a/b//"), (b"/a/".as_slice(), b"b".as_slice()));
        assert_eq!(split(b"a/"), (b"".as_slice(), b"a".as_slice()));
        assert_eq!(split(b"//"), (b"".as_slice(), b"".as_slice()));
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/d", b"a"), b"/d/a");
    }
}
