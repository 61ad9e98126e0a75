//! Called by `mount(8)`, for `mount -t fuse.uext4`, fstab and mount units.
//!
//! Layout: as a helper of its own the program is `/sbin/mount.fuse.uext4` (a link to it) and gets
//! `SRC DIR [-sfnv] [-N NS] [-o LIST] [-t TYPE]`; where there is none, `mount.fuse3` runs
//! `uext4 SRC DIR -o LIST`. Both become the command line of `uext4 mount`, or of `uext4 remount`
//! when the list says so.
//! References: man pages `mount(8)` ("External helpers") and `mount.fuse3(8)`.

use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Words of the list that come from the kernel's list of mounts, at a remount.
const KERNEL_WORDS: [&str; 7] = [
    "remount",
    "default_permissions",
    "allow_other",
    "user_id",
    "group_id",
    "blksize",
    "max_read",
];

/// The command line that is meant; `None` when nothing is to be done.
pub(crate) fn meant(args: Vec<OsString>) -> Result<Option<Vec<OsString>>> {
    if !is_helper(&args) {
        return Ok(Some(args));
    }
    let asked = Asked::read(&args[1..])?;
    match asked.fake {
        true => Ok(None),
        false => asked.command_line().map(Some),
    }
}

fn is_helper(args: &[OsString]) -> bool {
    let name = args.first().and_then(|arg| Path::new(arg).file_name());
    let named = name.is_some_and(|name| name.to_string_lossy().starts_with("mount."));
    // No command begins with a slash.
    named || args.get(1).is_some_and(|arg| Path::new(arg).is_absolute())
}

#[derive(Default)]
struct Asked {
    places: Vec<OsString>,
    options: Vec<String>,
    /// All but the mount itself (`mount -f`).
    fake: bool,
}

impl Asked {
    fn read(args: &[OsString]) -> Result<Self> {
        let mut asked = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("-o") => asked.options.extend(list(args.next())?),
                Some("-t") => drop(args.next()),
                Some(flags) if flags.starts_with('-') => asked.flags(flags)?,
                _ => asked.places.push(arg.clone()),
            }
        }
        Ok(asked)
    }

    fn flags(&mut self, flags: &str) -> Result<()> {
        flags.chars().skip(1).try_for_each(|flag| {
            match flag {
                'f' => self.fake = true,
                // There is no mtab to keep, and nothing more to tell.
                'n' | 'v' => {}
                _ => return Err(Failure::usage(format!("mount -{flag}: not supported"))),
            }
            Ok(())
        })
    }

    fn command_line(self) -> Result<Vec<OsString>> {
        let [source, dir] = <[OsString; 2]>::try_from(self.places)
            .map_err(|_| Failure::usage("mount needs an image and a directory"))?;
        let remount = self.options.iter().any(|word| word == "remount");
        let words = self.options.into_iter().filter(|word| {
            let name = word.split('=').next().unwrap_or(word);
            !(remount && KERNEL_WORDS.contains(&name))
        });
        let mut words: Vec<String> = words.collect();
        if words.iter().any(|word| word == "untrusted") {
            // mount(8) says rw whenever nobody says ro.
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

fn list(arg: Option<&OsString>) -> Result<Vec<String>> {
    let text = arg.and_then(|arg| OsStr::to_str(arg));
    let text = text.ok_or_else(|| Failure::usage("-o needs a list of options"))?;
    Ok(text.split(',').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(line: &str) -> Option<String> {
        let args = line.split(' ').map(OsString::from).collect();
        let meant = meant(args).expect("it is understood")?;
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
            ("mount.fuse.uext4 img /mnt -f -o ro", None),
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
        ] {
            let args = refused.split(' ').map(OsString::from).collect();
            assert!(meant(args).is_err(), "{refused}");
        }
    }
}
