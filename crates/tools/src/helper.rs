//! Mount helper for `mount(8)` and `umount(8)`: `mount -t fuse.uext4`, fstab and mount units.
//!
//! Layout: the helper `/sbin/mount.fuse.uext4` is a link to the program and gets `SRC DIR [-sfnv]
//! [-N NS] [-o LIST] [-t TYPE]`. Without that link, `mount.fuse3` runs `uext4 SRC DIR -o LIST`.
//! Both become the command line of `uext4 mount`, or of `uext4 remount` if the list contains
//! `remount`.
//!
//! `/sbin/umount.fuse.uext4` gets `DIR [-nlfvr] [-N NS] [-t TYPE]` and becomes `uext4 umount`, so
//! that `umount DIR` returns after the image is closed.
//!
//! Under the names `e2fsck` and `fsck.ext4`, as `fsck(8)` calls it, the program is `uext4 fsck`.
//!
//! References: man pages `mount(8)` ("External helpers"), `umount(8)` and `mount.fuse3(8)`.

use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Anybody,
    Mount,
    Umount,
    Fsck,
}

impl Caller {
    /// Identifies the caller from the arguments, which include the program's name.
    pub(crate) fn of(args: &[OsString]) -> Self {
        let name = args.first().and_then(|arg| Path::new(arg).file_name());
        let name = name.unwrap_or_default().to_string_lossy();
        // No subcommand begins with a slash.
        if FSCK_NAMES.contains(&&*name) {
            Self::Fsck
        } else if name.starts_with("umount.") {
            Self::Umount
        } else if name.starts_with("mount.")
            || args.get(1).is_some_and(|arg| Path::new(arg).is_absolute())
        {
            Self::Mount
        } else {
            Self::Anybody
        }
    }

    /// Translates the arguments to a `uext4` command line. `None` if there is nothing to do.
    pub(crate) fn meant(self, args: Vec<OsString>) -> Result<Option<Vec<OsString>>> {
        match self {
            Self::Anybody => return Ok(Some(args)),
            Self::Fsck => {
                let words = ["uext4", "fsck"].map(OsString::from).into_iter();
                return Ok(Some(words.chain(args.into_iter().skip(1)).collect()));
            }
            _ => {}
        }
        let asked = Asked::read(&args[1..])?;
        match self {
            Self::Umount => asked.umount().map(Some),
            _ if asked.needs_nothing() => Ok(None),
            _ => asked.mount().map(Some),
        }
    }
}

/// Names by which `fsck(8)` and scripts call a checker of ext4.
const FSCK_NAMES: [&str; 4] = ["e2fsck", "fsck.ext2", "fsck.ext3", "fsck.ext4"];

/// Words that `mount(8)` copies from the kernel's mount table into the list at a remount.
const KERNEL_WORDS: [&str; 7] = [
    "remount",
    "default_permissions",
    "allow_other",
    "user_id",
    "group_id",
    "blksize",
    "max_read",
];

#[derive(Default)]
struct Asked {
    places: Vec<OsString>,
    options: Vec<String>,
    /// Letters of the flags, without dashes.
    flags: String,
}

impl Asked {
    fn read(args: &[OsString]) -> Result<Self> {
        let mut asked = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("-o") => asked.options.extend(list(args.next())?),
                // The type is known, and `mount(8)` entered the namespace already.
                Some("-t" | "-N") => drop(args.next()),
                Some(flags) if flags.starts_with('-') => asked.flags.push_str(&flags[1..]),
                _ => asked.places.push(arg.clone()),
            }
        }
        Ok(asked)
    }

    /// Refuses flags other than `known`, `n` and `v`. `n` and `v` have no effect: there is no mtab,
    /// and no verbose output.
    fn allow(&self, program: &str, known: &str) -> Result<()> {
        let unknown = self
            .flags
            .chars()
            .find(|flag| !known.contains(*flag) && !"nv".contains(*flag));
        match unknown {
            Some(flag) => Err(Failure::usage(format!("{program} -{flag}: not supported"))),
            None => Ok(()),
        }
    }

    fn has(&self, wanted: &str) -> bool {
        self.options.iter().any(|word| word == wanted)
    }

    /// `mount -f` does everything except the mount. With `nofail` a missing image is no error.
    fn needs_nothing(&self) -> bool {
        let absent = self.places.first().is_some_and(|place| is_absent(place));
        self.flags.contains('f') || (self.has("nofail") && !self.has("remount") && absent)
    }

    fn umount(self) -> Result<Vec<OsString>> {
        self.allow("umount", "l")?;
        let [dir] = <[OsString; 1]>::try_from(self.places)
            .map_err(|_| Failure::usage("umount needs a directory"))?;
        let lazy = self.flags.contains('l').then_some("--lazy");
        let words = ["uext4", "umount"].into_iter().chain(lazy).chain(["--"]);
        Ok(words.map(OsString::from).chain([dir]).collect())
    }

    fn mount(self) -> Result<Vec<OsString>> {
        self.allow("mount", "f")?;
        let remount = self.has("remount");
        let [source, dir] = <[OsString; 2]>::try_from(self.places)
            .map_err(|_| Failure::usage("mount needs an image and a directory"))?;
        let words = self.options.into_iter().filter(|word| {
            let name = word.split('=').next().unwrap_or(word);
            !(remount && KERNEL_WORDS.contains(&name))
        });
        let mut words: Vec<String> = words.collect();
        if words.iter().any(|word| word == "untrusted") {
            // mount(8) adds rw to every list without ro.
            words.retain(|word| word != "rw");
        }
        let command = if remount { "remount" } else { "mount" };
        let mut line: Vec<OsString> = ["uext4", command, "-o"].map(OsString::from).into();
        line.push(words.join(",").into());
        line.push("--".into());
        line.extend((!remount).then_some(source));
        line.push(dir);
        Ok(line)
    }
}

fn is_absent(source: &OsStr) -> bool {
    matches!(Path::new(source).try_exists(), Ok(false))
}

fn list(arg: Option<&OsString>) -> Result<Vec<String>> {
    let text = arg.and_then(|arg| OsStr::to_str(arg));
    let text = text.ok_or_else(|| Failure::usage("-o needs a list of options"))?;
    Ok(text.split(',').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(args: Vec<OsString>) -> Result<Option<Vec<OsString>>> {
        Caller::of(&args).meant(args)
    }

    fn means(line: &str) -> Option<String> {
        let args = line.split(' ').map(OsString::from).collect();
        let meant = understood(args).expect("it is understood")?;
        let words: Vec<_> = meant.iter().map(|arg| arg.to_string_lossy()).collect();
        Some(words.join(" "))
    }

    #[test]
    fn what_mount_says_becomes_a_command() {
        for (said, meant) in [
            ("uext4 ls /img /", Some("uext4 ls /img /")),
            (
                "uext4 /img /mnt -o rw,dev",
                Some("uext4 mount -o rw,dev -- /img /mnt"),
            ),
            (
                "/sbin/mount.fuse.uext4 img /mnt -nv -o ro -t fuse.uext4",
                Some("uext4 mount -o ro -- img /mnt"),
            ),
            (
                "/sbin/fsck.ext4 -a /dev/vdb",
                Some("uext4 fsck -a /dev/vdb"),
            ),
            ("e2fsck -fn disk.img", Some("uext4 fsck -fn disk.img")),
            ("mount.fuse.uext4 img /mnt -f -o ro", None),
            ("mount.fuse.uext4 /no/img /mnt -o rw,nofail", None),
            (
                "mount.fuse.uext4 /dev/null /mnt -o rw,nofail",
                Some("uext4 mount -o rw,nofail -- /dev/null /mnt"),
            ),
            (
                "/sbin/umount.fuse.uext4 /mnt -nv -t fuse.uext4",
                Some("uext4 umount -- /mnt"),
            ),
            (
                "umount.fuse.uext4 /mnt -l -N 4",
                Some("uext4 umount --lazy -- /mnt"),
            ),
            (
                "mount.fuse.uext4 /img /mnt -o remount,ro,user_id=0,allow_other",
                Some("uext4 remount -o ro -- /mnt"),
            ),
            (
                "uext4 /img /mnt -o rw,untrusted",
                Some("uext4 mount -o untrusted -- /img /mnt"),
            ),
        ] {
            assert_eq!(means(said).as_deref(), meant, "{said}");
        }
        for refused in [
            "uext4 /img",
            "mount.fuse.uext4 a b -s",
            "uext4 /img /mnt -o",
            "umount.fuse.uext4 /mnt -f",
            "umount.fuse.uext4 /mnt /other",
        ] {
            let args = refused.split(' ').map(OsString::from).collect();
            assert!(understood(args).is_err(), "{refused}");
        }
    }
}
