//! Paths through symbolic links.

use super::{Object, Tree, above, join};

/// Most symbolic links of one path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// What to do where a directory of a path is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The path leads to no directory.
    Leave,
    /// The missing directory is made.
    Make,
}

/// A path that leads to no directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dead {
    /// Too many symbolic links.
    Loop,
    /// A file, or a missing name.
    NoDirectory,
}

/// The directory at a path, which stays below the root; `passed` gets the symbolic links.
pub(super) fn walk(
    tree: &mut Tree,
    from: &str,
    target: &str,
    missing: Missing,
    passed: &mut Vec<String>,
) -> Result<String, Dead> {
    let start = |from: &str, target: &str| {
        if target.starts_with('/') {
            String::new()
        } else {
            from.to_owned()
        }
    };
    let mut at = start(from, target);
    let mut left = names_of(target);
    let mut links = 0;
    while let Some(name) = left.pop() {
        match &name[..] {
            "" => continue,
            ".." => {
                at = above(&at).to_owned();
                continue;
            }
            _ => {}
        }
        let next = join(&at, &name);
        match tree.get(&next).cloned() {
            Some(Object::Directory { .. }) => at = next,
            Some(Object::Symlink(target)) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Dead::Loop);
                }
                passed.push(next);
                at = start(&at, &target);
                left.extend(names_of(&target));
            }
            Some(_) => return Err(Dead::NoDirectory),
            None if missing == Missing::Make => {
                tree.insert(next.clone(), Object::Directory { mode: None });
                at = next;
            }
            None => return Err(Dead::NoDirectory),
        }
    }
    Ok(at)
}

/// The names of a target, the last first.
fn names_of(target: &str) -> Vec<String> {
    target.rsplit('/').map(str::to_owned).collect()
}
