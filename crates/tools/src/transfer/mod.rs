//! Transfers between the host and an image, for `put`, `get` and `export`.
//!
//! Layout: `console` prints progress, failures and the result; `stream` copies single files to and
//! from standard streams. `uext4_tree` copies trees. Of an export, `target` is the new file, `oci`
//! a layout of such files, `compress` and `digest` are what streams go through.

pub(crate) mod compress;
pub(crate) mod console;
pub(crate) mod digest;
pub(crate) mod oci;
mod progress;
pub(crate) mod stream;
pub(crate) mod target;

pub(crate) use progress::Progress;
use uext4_num::low_u16;

/// Raises the soft limit of open files to the hard limit, because a transfer holds one descriptor
/// per level of the tree.
pub(crate) fn allow_deep_trees() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If it fails, a tree that is too deep fails with an error.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// The umask of this process, which can only be read by setting it.
pub(crate) fn umask() -> u16 {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    low_u16(umask.as_raw_mode() & 0o777)
}

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
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let path = path.split_at(end).0;
    let start = path.iter().rposition(|byte| *byte == b'/');
    path.split_at(start.map_or(0, |slash| slash + 1))
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
