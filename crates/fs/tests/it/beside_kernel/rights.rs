//! Permission checks, compared with the kernel.

use super::{Identity, Op, ROOT, Side, Stat, acl, side_by_side, split};
use std::path::Path;
use std::process::Command;
use uext4_sync::Rng;
use uext4_testkit::oracle::KernelMount;

/// Operations per seed.
const STEPS: usize = 4000;

const CALLERS: &[Identity] = &[
    ROOT,
    Identity {
        uid: 1000,
        gid: 1000,
        groups: &[500],
    },
    Identity {
        uid: 2000,
        gid: 2000,
        groups: &[],
    },
    Identity {
        uid: 3000,
        gid: 500,
        groups: &[1000, 600],
    },
];
const DIRS: &[(&str, u32, u32, u32)] = &[
    ("", 0o755, 0, 0),
    ("plain", 0o755, 1000, 1000),
    ("open", 0o777, 0, 0),
    ("sticky", 0o1777, 0, 0),
    ("mine", 0o1777, 1000, 500),
    ("setgid", 0o2775, 0, 500),
    ("closed", 0o700, 1000, 1000),
    ("blind", 0o733, 0, 0),
    ("lists", 0o755, 0, 0),
    ("fixed", 0o777, 0, 0),
    ("growing", 0o777, 0, 0),
];
const NAMES: &[&str] = &["a", "b", "c", "d"];
const MODES: &[u16] = &[
    0o600, 0o644, 0o666, 0o640, 0o4755, 0o2755, 0o2745, 0o6777, 0o1777, 0o777, 0o000, 0o070,
];
const IDS: &[u32] = &[0, 500, 600, 1000, 2000, 3000];

fn prepare(top: &Path) {
    for (dir, mode, uid, gid) in DIRS.iter().filter(|(dir, ..)| !dir.is_empty()) {
        let path = top.join(dir);
        std::fs::create_dir(&path).expect("mkdir");
        for name in NAMES {
            std::fs::write(path.join(name), "contents").expect("write");
        }
        std::os::unix::fs::chown(&path, Some(*uid), Some(*gid)).expect("chown");
        let mode = rustix::fs::Mode::from_raw_mode(*mode);
        rustix::fs::chmod(&path, mode).expect("chmod");
    }
    let chattr = |flag: &str, path: &str| {
        let done = Command::new("chattr")
            .arg(flag)
            .arg(top.join(path))
            .status();
        assert!(done.expect("chattr").success());
    };
    chattr("+i", "fixed/a");
    chattr("+a", "fixed/b");
    chattr("+i", "fixed");
    chattr("+a", "growing");
    chattr("+a", "growing/b");
}

/// A random ACL with a mask, users and groups.
fn list(rng: &mut Rng) -> Vec<u8> {
    let mut perm = || rng.below(8) as u16;
    let (a, b, c, d, e, f) = (perm(), perm(), perm(), perm(), perm(), perm());
    acl(&[
        (1, a, u32::MAX),
        (2, b, 2000),
        (4, c, u32::MAX),
        (8, d, 600),
        (0x10, e, u32::MAX),
        (0x20, f, u32::MAX),
    ])
}

fn path(rng: &mut Rng) -> String {
    let (dir, ..) = DIRS[rng.below(DIRS.len() as u64) as usize];
    if dir.is_empty() || rng.chance(1, 6) {
        return if dir.is_empty() {
            "top".into()
        } else {
            dir.into()
        };
    }
    format!("{dir}/{}", NAMES[rng.below(NAMES.len() as u64) as usize])
}

fn op(rng: &mut Rng) -> Op {
    let at = path(rng);
    let mode = MODES[rng.below(MODES.len() as u64) as usize];
    let id = |rng: &mut Rng| {
        rng.chance(2, 3)
            .then(|| IDS[rng.below(IDS.len() as u64) as usize])
    };
    const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
    const PLAIN: [&str; 4] = ["user.x", "trusted.x", "security.x", LISTS[0]];
    let plain = PLAIN[rng.below(4) as usize];
    match rng.below(22) {
        0..=2 => Op::Create(at, mode),
        3 => Op::Mkdir(at, mode),
        4 => Op::Symlink(at),
        5 => Op::Unlink(at),
        6 => Op::Rmdir(at),
        7..=8 => Op::Rename(at, path(rng)),
        9 => Op::Link(at, path(rng)),
        10..=11 => Op::Chmod(at, mode),
        12 => Op::Chown(at, id(rng), id(rng)),
        13 => Op::Touch(at),
        14 => Op::SetTimes(at),
        15 => Op::SetAtime(at),
        16 => Op::Truncate(at, rng.below(20)),
        17 => Op::Write(at),
        18 => Op::Read(at),
        19 => {
            if rng.chance(1, 2) {
                Op::ReadDir(at)
            } else {
                Op::GetXattr(at, plain)
            }
        }
        20 => Op::SetXattr(at, LISTS[rng.below(2) as usize], list(rng)),
        _ if rng.chance(1, 2) => Op::SetXattr(at, plain, b"value".to_vec()),
        _ => Op::RemoveXattr(at, plain),
    }
}

/// Excludes operations under two rules of the VFS that a file system does not implement: protected
/// hard links, and following symbolic links.
fn is_comparable(host: &impl Side, caller: Identity, op: &Op) -> bool {
    use Op::*;
    let is_link = |path: &str| {
        host.stat(path)
            .is_some_and(|stat| stat.mode == 0o777 && stat.size.is_none() && stat.links == 1)
    };
    let follows = !matches!(
        op,
        Unlink(_) | Rmdir(_) | Rename(..) | Create(..) | Mkdir(..)
    );
    if follows && op.paths().iter().any(|path| is_link(path)) {
        return false;
    }
    match op {
        // The VFS treats the ACL attribute of a symbolic link as a plain value.
        SetXattr(_, name, value) if name.contains("acl") && value == b"value" => false,
        Link(from, _) => host
            .stat(from)
            .is_none_or(|stat| caller.uid == 0 || stat.uid == caller.uid),
        Chown(_, None, None) => false,
        _ => true,
    }
}

fn without_times(stat: Option<Stat>) -> Option<Stat> {
    stat.map(|stat| Stat {
        times: [0; 3],
        ..stat
    })
}

fn compare(host: &impl Side, library: &impl Side, caller: Identity, op: &Op) {
    let before: Vec<_> = op
        .paths()
        .iter()
        .map(|path| without_times(host.stat(path)))
        .collect();
    let (theirs, ours) = (host.run(caller, op), library.run(caller, op));
    assert_eq!(ours, theirs, "{op:?} by {caller:?}, before: {before:?}");
    for path in op.paths() {
        for path in [path, split(path).0] {
            let (theirs, ours) = (
                without_times(host.stat(path)),
                without_times(library.stat(path)),
            );
            assert_eq!(
                ours, theirs,
                "{path} after {op:?} by {caller:?}, before: {before:?}"
            );
        }
    }
}

#[test]
fn the_same_is_allowed_and_refused() {
    if !KernelMount::available_or_skip("rights") {
        return;
    }
    for seed in 0..3 {
        side_by_side(&[], prepare, |host, library| {
            let mut rng = Rng::new(seed);
            for _ in 0..STEPS {
                let caller = CALLERS[rng.below(CALLERS.len() as u64) as usize];
                let op = op(&mut rng);
                if is_comparable(host, caller, &op) {
                    compare(host, library, caller, &op);
                }
            }
        });
    }
}
