//! Names of entries as paths of the image.
//!
//! Leading `./` and `/`, repeated and trailing `/`, and `.` in between mean nothing and are left
//! out: all names are below the root of the tree. `..`, which could lead out of it, is refused.

use crate::fault::{Checked, DAMAGED, Fault};

const RELATIVE: &str = "make the archive with names relative to its root, as tar -C DIR . does";

/// Most bytes of a name.
const PATH_MAX_BYTES: usize = 1 << 20;

/// Most names in a path. Each is a directory of the image, which takes memory, and a copy of an
/// image to the host makes as many.
const LEVELS_MAX: usize = 4096;

/// The path of a name; empty for the root.
pub(crate) fn path_of(name: &[u8]) -> Checked<Vec<u8>> {
    if name.is_empty() {
        return Err(Fault::refused("has no name", DAMAGED));
    }
    if name.contains(&0) {
        return Err(Fault::refused("has a name with a zero byte", DAMAGED));
    }
    if name.len() > PATH_MAX_BYTES {
        let problem = format!("has a name of more than {PATH_MAX_BYTES} bytes");
        return Err(Fault::refused(problem, DAMAGED));
    }
    let parts = name.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&b"..".as_slice()) {
        return Err(Fault::refused("has `..` in its name", RELATIVE));
    }
    if parts.len() > LEVELS_MAX {
        let problem = format!("has a name with more than {LEVELS_MAX} levels of directories");
        return Err(Fault::refused(problem, DAMAGED));
    }
    Ok(parts.join(&b'/'))
}

/// The path of the target of a hard link.
pub(crate) fn target_of(name: &[u8]) -> Checked<Vec<u8>> {
    let path = path_of(name).map_err(|fault| fault.about("is a hard link to a file that"))?;
    if path.is_empty() {
        return Err(Fault::refused("is a hard link to the root", DAMAGED));
    }
    Ok(path)
}

/// The path below another one.
pub(crate) fn join(above: &[u8], path: &[u8]) -> Vec<u8> {
    match (above, path) {
        ([], _) => path.to_vec(),
        (_, []) => above.to_vec(),
        _ => [above, b"/", path].concat(),
    }
}

/// The directory of a path, and the last name; the root has neither.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_paths_below_the_root() {
        let cases: [(&[u8], Option<&[u8]>); 12] = [
            (b"a/b", Some(b"a/b")),
            (b"./a", Some(b"a")),
            (b"././/a//b/./c/", Some(b"a/b/c")),
            (b".", Some(b"")),
            (b"./", Some(b"")),
            (b"...", Some(b"...")),
            (b"a\xFF", Some(b"a\xFF")),
            (b"", None),
            (b"/", Some(b"")),
            (b"//a/b", Some(b"a/b")),
            (b"a/../b", None),
            (b"a\0b", None),
        ];
        for (name, path) in cases {
            let read = path_of(name).ok();
            assert_eq!(read.as_deref(), path, "{}", name.escape_ascii());
        }
        assert!(path_of(&b"a/".repeat(LEVELS_MAX)).is_ok());
        assert!(path_of(&b"a/".repeat(LEVELS_MAX + 1)).is_err());
        assert!(path_of(&b"a".repeat(PATH_MAX_BYTES)).is_ok());
        assert!(path_of(&b"a".repeat(PATH_MAX_BYTES + 1)).is_err());
        assert_eq!(target_of(b"/a").ok().as_deref(), Some(b"a".as_slice()));
        assert!(target_of(b"./").is_err());
        assert_eq!(split(b"a/b/c"), (b"a/b".as_slice(), b"c".as_slice()));
        assert_eq!(split(b"a"), (b"".as_slice(), b"a".as_slice()));
        assert_eq!(join(b"x", b""), b"x");
    }
}
