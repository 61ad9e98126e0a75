//! Linux and this library read each other's attributes.

use super::*;
use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{KernelMount, scratch_dir};

const OPTIONS: [&[&str]; 4] = [
    &["-I", "128"],
    &["-b", "4096", "-I", "256", "-O", "ea_inode"],
    &["-b", "1024", "-I", "1024", "-O", "ea_inode"],
    &["-I", "128", "-O", "ea_inode,^metadata_csum"],
];

fn sh(dir: &Path, script: &str) -> String {
    let out = Command::new("sh")
        .arg("-ec")
        .arg(script)
        .current_dir(dir)
        .output()
        .expect("sh");
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{script}: {error}");
    String::from_utf8(out.stdout).expect("text")
}

/// Runs `script` in the image, mounted by the kernel; returns its output.
fn with_kernel(image: &Path, script: &str) -> String {
    let mount = KernelMount::new(image, "").expect("the kernel mounts");
    let said = sh(mount.path(), script);
    mount.unmount().expect("unmounts");
    said
}

fn image_of(rig: Rig, image: &Path) {
    let device = rig.device.clone();
    rig.assert_clean();
    std::fs::write(image, device.to_bytes()).expect("the image");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In the format of `getfattr -d -m - -e hex`, names sorted.
fn dump_text(rig: &Rig, name: &str) -> Vec<String> {
    let line = |(name, value): (Vec<u8>, Vec<u8>)| {
        let name = String::from_utf8(name).expect("names of ASCII");
        if value.is_empty() {
            format!("{name}=")
        } else {
            format!("{name}=0x{}", hex(&value))
        }
    };
    dump(rig, &lookup(rig, name))
        .into_iter()
        .map(line)
        .collect()
}

fn attributes(text: &str) -> Vec<String> {
    let shown = text
        .lines()
        .filter(|line| line.contains('=') && !line.starts_with('#'));
    let mut lines: Vec<_> = shown
        .map(|line| line.replace("=\"\"", "=").replace("=0x\n", "="))
        .collect();
    lines.sort();
    lines
        .iter()
        .map(|line| {
            line.strip_suffix("=0x")
                .map_or(line.clone(), |l| format!("{l}="))
        })
        .collect()
}

#[test]
fn linux_reads_what_is_written_here() {
    if !KernelMount::available_or_skip("linux_reads_what_is_written_here") {
        return;
    }
    for options in OPTIONS {
        let rig = Rig::new(24, options);
        let large = options.iter().any(|option| option.contains("ea_inode"));
        for nr in 0..6 {
            let file = create(&rig, &format!("f{nr}"));
            set(&rig, &file, "user.empty", b"").unwrap();
            set(&rig, &file, "user.some", &bytes(60 * nr as usize, nr)).unwrap();
            set(&rig, &file, "trusted.more", &bytes(150, 1)).unwrap();
            set(&rig, &file, "security.x", b"label").unwrap();
            if large {
                set(&rig, &file, "user.large", &bytes(7000 + nr as usize, nr)).unwrap();
            }
            set(&rig, &file, "system.posix_acl_access", &acl(5)).unwrap();
        }
        let ours: Vec<_> = (0..6)
            .map(|nr| dump_text(&rig, &format!("f{nr}")))
            .collect();
        let dir = scratch_dir().unwrap();
        let image = dir.path().join("image");
        image_of(rig, &image);
        for (nr, ours) in ours.iter().enumerate() {
            let theirs = with_kernel(&image, &format!("getfattr -d -m - -e hex f{nr}"));
            assert_eq!(&attributes(&theirs), ours, "{options:?}");
        }
        let listed = with_kernel(
            &image,
            "getfacl -cn f0; rm f1; setfattr -n user.some -v x f2; setfattr -x trusted.more f3",
        );
        assert_eq!(
            listed.trim(),
            "user::rw-\nuser:1000:r-x\ngroup::r--\nmask::r-x\nother::---"
        );
        uext4_testkit::oracle::assert_clean(&image);
    }
}

/// user::rw- user:1000:PERM group::r-- mask::PERM other::---, as programs pass it.
fn acl(perm: u16) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, perm, id) in [
        (1u16, 6, none),
        (2, perm, 1000),
        (4, 4, none),
        (16, perm, none),
        (32, 0, none),
    ] {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

#[test]
fn what_linux_writes_is_read_and_changed_here() {
    if !KernelMount::available_or_skip("what_linux_writes_is_read_and_changed_here") {
        return;
    }
    for options in OPTIONS {
        let large = options.iter().any(|option| option.contains("ea_inode"));
        let dir = scratch_dir().unwrap();
        let image = dir.path().join("image");
        image_of(Rig::new(24, options), &image);
        let mut script = "mkdir d; setfacl -d -m u:1000:rwx,g:7:r d; umask 077; touch d/f a b c; \
            for f in a b c; do setfattr -n user.v -v $(head -c 300 /dev/zero | tr '\\0' y) $f; \
            setfattr -n trusted.t -v $(head -c 200 /dev/zero | tr '\\0' z) $f; done; \
            setfattr -n user.b -v 1 b; "
            .to_string();
        if large {
            script += "for f in a b c; do \
                setfattr -n user.l -v $(head -c 6000 /dev/zero | tr '\\0' q) $f; done; ";
        }
        script +=
            "mv d/f f; for f in a b c d f; do echo \"% $f\"; getfattr -d -m - -e hex $f; done";
        let theirs = with_kernel(&image, &script);
        uext4_testkit::oracle::assert_clean(&image);
        let rig = Rig::mount_image(&std::fs::read(&image).unwrap());
        for part in theirs.split("% ").skip(1) {
            let name = &part[..1];
            assert_eq!(dump_text(&rig, name), attributes(part), "{options:?}");
        }
        remove(&rig, &lookup(&rig, "a"), "user.v").unwrap();
        set(&rig, &lookup(&rig, "b"), "user.b", b"22").unwrap();
        if large {
            remove(&rig, &lookup(&rig, "b"), "user.l").unwrap();
        }
        unlink(&rig, "c");
        rig.assert_clean();
    }
}
