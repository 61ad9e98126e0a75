//! Timestamps that an operation changes, compared with the kernel.

use super::{Op, ROOT, Side, side_by_side, split};
use std::path::Path;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::wait;

/// Pause between operations; longer than the kernel's clock tick.
fn prepare(top: &Path) {
    for dir in ["one", "two"] {
        std::fs::create_dir(top.join(dir)).expect("mkdir");
        for name in ["a", "b", "c", "d"] {
            std::fs::write(top.join(dir).join(name), "contents").expect("write");
        }
        std::fs::create_dir(top.join(dir).join("sub")).expect("mkdir");
        std::os::unix::fs::symlink("x", top.join(dir).join("link")).expect("symlink");
    }
}

fn ops() -> Vec<Op> {
    let text = |text: &str| text.to_owned();
    use Op::*;
    vec![
        Read(text("one/a")),
        Read(text("one/a")),
        Write(text("one/a")),
        Read(text("one/a")),
        ReadDir(text("one")),
        ReadDir(text("one")),
        ReadLink(text("one/link")),
        ReadLink(text("one/link")),
        Create(text("one/new"), 0o644),
        ReadDir(text("one")),
        Mkdir(text("one/newdir"), 0o755),
        Symlink(text("one/newlink")),
        Chmod(text("one/a"), 0o600),
        Chmod(text("one/a"), 0o600),
        Chown(text("one/a"), Some(5), None),
        Chown(text("one"), None, Some(5)),
        Touch(text("one/a")),
        SetTimes(text("one/a")),
        SetAtime(text("one/a")),
        Read(text("one/a")),
        Truncate(text("one/a"), 8),
        Truncate(text("one/a"), 8),
        Truncate(text("one/a"), 3),
        Truncate(text("one/a"), 300),
        Link(text("one/a"), text("two/second")),
        Unlink(text("two/second")),
        Rename(text("one/b"), text("one/renamed")),
        Rename(text("one/renamed"), text("two/b")),
        Rename(text("two/sub"), text("one/moved")),
        Rename(text("one/sub"), text("one/moved")),
        Rmdir(text("one/moved")),
        Unlink(text("one/c")),
        SetXattr(text("one/d"), "user.x", b"value".to_vec()),
        SetXattr(text("one/d"), "user.x", b"value".to_vec()),
        GetXattr(text("one/d"), "user.x"),
        RemoveXattr(text("one/d"), "user.x"),
        SetXattr(
            text("one/d"),
            "system.posix_acl_access",
            super::acl(&[
                (1, 6, u32::MAX),
                (2, 4, 7),
                (4, 4, u32::MAX),
                (0x10, 4, u32::MAX),
                (0x20, 0, u32::MAX),
            ]),
        ),
        Chmod(text("one/d"), 0o660),
        RemoveXattr(text("one/d"), "system.posix_acl_access"),
    ]
}

/// Paths that an operation may touch: its own, their directories, and the source `one/a`.
fn watched(op: &Op) -> Vec<String> {
    let own = op
        .paths()
        .into_iter()
        .flat_map(|path| [path, split(path).0]);
    own.map(str::to_owned).chain(["one/a".into()]).collect()
}

/// For each watched path: which of atime, mtime and ctime changed; `None` for a new path.
fn changed(side: &impl Side, op: &Op) -> Vec<(String, Option<[bool; 3]>)> {
    let paths = watched(op);
    let before: Vec<_> = paths.iter().map(|path| side.stat(path)).collect();
    wait::clock_tick();
    assert_eq!(side.run(ROOT, op), 0, "{op:?}");
    let compare = |(path, before): (String, Option<super::Stat>)| {
        let after = side.stat(&path);
        let both = before.zip(after);
        let moved = both.map(|(old, new)| std::array::from_fn(|i| old.times[i] != new.times[i]));
        (path, moved)
    };
    paths.into_iter().zip(before).map(compare).collect()
}

#[test]
fn operations_set_the_times_that_the_kernel_sets() {
    if !KernelMount::available_or_skip("times of operations") {
        return;
    }
    for shape in [&[][..], &["-O", "inline_data"]] {
        side_by_side(shape, prepare, |host, library| {
            let mut wrong = Vec::new();
            for op in ops() {
                let (theirs, ours) = (changed(host, &op), changed(library, &op));
                if ours != theirs {
                    wrong.push(format!("{op:?}\n  ours   {ours:?}\n  theirs {theirs:?}"));
                }
            }
            assert!(wrong.is_empty(), "{shape:?}:\n{}", wrong.join("\n"));
        });
    }
}
