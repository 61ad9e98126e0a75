//! Options of `uext4 mount -o` for the server and the mount point, and the help for all options.
//! Parser and help use the same tables.

use crate::location::Location;
use std::collections::HashSet;
use uext4::device::LoopIo;
use uext4::{MountOptions, OptionHelp};
use uext4_fuse::{BadOwners, Channel, DataCache, Owners, Sandbox, Sharing};
use uext4_num::u64_of;

/// Whether the image comes from a trusted source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Yes,
    No,
}

/// Options for an untrusted image: read-only, and limits of metadata bytes and seconds per
/// operation.
const UNTRUSTED_WORDS: &str = "ro,operation_bytes=268435456,operation_seconds=30";
/// Memory limit of the server of an untrusted image, and the share of each core's rings, in bytes.
const UNTRUSTED_MEMORY_BYTES: u64 = 2 << 30;
const RING_MEMORY_BYTES: u64 = 256 << 20;

/// What the setters of mount words change.
struct Ours<'a> {
    mount: &'a mut uext4_fuse::MountOptions,
    trust: Trust,
    over_loop: Option<LoopIo>,
}

/// What remains of a list, and the options that are not of the mount itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The options of the file system.
    pub(super) rest: String,
    pub(super) trust: Trust,
    /// Whether the image is mounted through a loop device of its own.
    pub(super) over_loop: Option<LoopIo>,
}

/// An option without a value, and its setter.
type Word = (&'static str, fn(&mut Ours<'_>));

/// Options with one help text.
struct Row {
    words: &'static [Word],
    about: &'static str,
}

const TABLE: &[Row] = &[
    Row {
        words: &[
            ("nosuid", |it| it.mount.no_suid = true),
            ("nodev", |it| it.mount.no_dev = true),
            ("noexec", |it| it.mount.no_exec = true),
        ],
        about: "ignore setuid and setgid bits, do not open device files, do not run programs",
    },
    Row {
        words: &[("allow_other", |it| {
            it.mount.sharing = Sharing::All;
        })],
        about: "let other users access the mount (always on for the superuser); needs \
                user_allow_other in /etc/fuse.conf",
    },
    Row {
        words: &[("nfs_export", |it| it.mount.nfs_export = true)],
        about: "keep file handles valid after the kernel has evicted the inode, for an NFS \
                server; files copied up by an overlayfs on such a mount may fail with ESTALE",
    },
    Row {
        words: &[("idmap", |it| it.mount.idmap = true)],
        about: "allow idmapped mounts (mount --bind -o X-mount.idmap=...; Linux 6.12); the server \
                then reads the privileges of callers from /proc",
    },
    Row {
        words: &[
            ("writeback", |it| {
                it.mount.data_cache = DataCache::WriteBack;
            }),
            ("writethrough", |it| {
                it.mount.data_cache = DataCache::WriteThrough;
            }),
        ],
        about: "the kernel caches writes and sends them later (default), or sends each write at \
                once, so that write itself returns ENOSPC",
    },
    Row {
        words: &[
            ("io_uring", |it| it.mount.channel = Channel::IoUring),
            ("no_io_uring", |it| it.mount.channel = Channel::DevFuse),
        ],
        about: "transport of requests: require io_uring, or use /dev/fuse (default: io_uring if \
                the kernel offers it: Linux 6.14, Y in \
                /sys/module/fuse/parameters/enable_uring)",
    },
    Row {
        words: &[
            ("sandbox", |it| it.mount.sandbox = Sandbox::Must),
            ("no_sandbox", |it| it.mount.sandbox = Sandbox::Off),
        ],
        about: "require the Landlock and seccomp sandbox for the server and otherwise refuse to \
                mount, or disable it (default: as far as the kernel supports it)",
    },
    Row {
        words: &[
            ("loop", |it| it.over_loop = Some(LoopIo::Buffered)),
            ("loop_direct", |it| it.over_loop = Some(LoopIo::Direct)),
        ],
        about: "mount an image file through a loop device, so that sync and syncfs reach it; \
                loop_direct uses direct I/O on the file; superuser only",
    },
    Row {
        words: &[("untrusted", |it| it.trust = Trust::No)],
        about: "treat the image as untrusted: see above",
    },
];

/// Removes the options of the server and the mount point from the list and returns the others.
pub(super) fn take_ours(
    list: &str,
    mount: &mut uext4_fuse::MountOptions,
) -> std::result::Result<Words, BadOwners> {
    let mut rest = Vec::new();
    let mut ours = Ours {
        mount,
        trust: Trust::Yes,
        over_loop: None,
    };
    for word in list.split(',').filter(|word| !word.is_empty()) {
        let mut known = TABLE.iter().flat_map(|row| row.words);
        match known.find(|(name, _)| *name == word) {
            Some((_, set)) => set(&mut ours),
            None if ours.mount.owners.take(word)? => {}
            None => {
                ours.mount.no_atime |= word == "noatime";
                rest.push(word);
            }
        }
    }
    let Ours {
        mount,
        trust,
        over_loop,
    } = ours;
    if trust == Trust::No {
        let cores = u64_of(uext4_sync::cores());
        mount.memory_bytes_max = Some(UNTRUSTED_MEMORY_BYTES + cores * RING_MEMORY_BYTES);
        (mount.no_suid, mount.no_dev) = (true, true);
        mount.sandbox = Sandbox::Must;
        // Later words override these.
        rest.insert(0, UNTRUSTED_WORDS);
    }
    Ok(Words {
        rest: rest.join(","),
        trust,
        over_loop,
    })
}

/// All mount options, in the order of help.
fn all() -> Vec<OptionHelp> {
    let row = |section, forms, about| OptionHelp {
        section,
        forms,
        about,
    };
    let server = TABLE.iter().map(|it| {
        let words = it.words.iter().map(|(name, _)| (*name).to_owned());
        row("Mount and server", words.collect(), it.about)
    });
    let owners = Owners::words()
        .map(|(name, value, about)| row("Owners", vec![format!("{name}={value}")], about));
    let place = Location::words().map(|(name, value, about)| {
        row(
            "Location of the file system",
            vec![format!("{name}={value}")],
            about,
        )
    });
    let ours: Vec<OptionHelp> = place.chain(server).chain(owners).collect();
    // The file system accepts and ignores some of them.
    let taken: HashSet<&String> = ours.iter().flat_map(|row| &row.forms).collect();
    let mut theirs = MountOptions::help();
    for row in &mut theirs {
        row.forms.retain(|form| !taken.contains(form));
    }
    let mut all = ours.clone();
    all.extend(theirs.into_iter().filter(|row| !row.forms.is_empty()));
    all
}

/// Width of help in columns, so that a man page on a terminal of 80 columns does not break its
/// lines; and width of the first column.
const WIDTH: usize = 71;
const COLUMN: usize = 28;

/// A table of all options.
pub(super) fn help() -> String {
    let mut text = String::from("Mount options:\n");
    let mut section = "";
    for row in all() {
        if row.section != section {
            section = row.section;
            text.push_str(&format!(" {section}\n"));
        }
        let forms = wrapped(&row.forms.join(", "), WIDTH - 2);
        let about = wrapped(row.about, WIDTH - COLUMN);
        let fits = forms.len() == 1 && forms[0].len() + 4 <= COLUMN;
        let mut about = about.iter();
        for form in &forms {
            match about.as_slice().first().filter(|_| fits) {
                Some(first) => {
                    about.next();
                    text.push_str(&format!("  {form:<column$}{first}\n", column = COLUMN - 2));
                }
                None => text.push_str(&format!("  {form}\n")),
            }
        }
        about.for_each(|line| text.push_str(&format!("{:COLUMN$}{line}\n", "")));
    }
    text
}

/// Wraps the text into lines of at most `width` bytes, if words allow it.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_of_both_sides_are_told_apart() {
        let mut mount = uext4_fuse::MountOptions::default();
        let words = |rest: &str, trust, over_loop| {
            let rest = rest.to_owned();
            Ok(Words {
                rest,
                trust,
                over_loop,
            })
        };
        assert_eq!(
            take_ours("ro,nosuid,noatime,uid=7,writethrough,commit=9", &mut mount),
            words("ro,noatime,commit=9", Trust::Yes, None)
        );
        assert!(mount.no_suid && mount.no_atime && !mount.no_dev);
        assert_ne!(mount.owners, uext4_fuse::Owners::default());
        assert!(take_ours("ro,map=u:1", &mut mount).is_err());
        let rest = take_ours("untrusted,rw,dev", &mut mount);
        let all = format!("{UNTRUSTED_WORDS},rw,dev");
        assert_eq!(rest, words(&all, Trust::No, None));
        assert!(mount.memory_bytes_max.is_some());
        assert!(mount.no_suid && mount.no_dev);
        assert_eq!(mount.sandbox, Sandbox::Must);
        assert_eq!(mount.data_cache, DataCache::WriteThrough);
        for (word, channel) in [
            ("io_uring", Channel::IoUring),
            ("no_io_uring", Channel::DevFuse),
        ] {
            let rest = take_ours(word, &mut mount);
            assert_eq!(rest, words("", Trust::Yes, None));
            assert_eq!(mount.channel, channel);
        }
        for (word, how) in [("loop", LoopIo::Buffered), ("loop_direct", LoopIo::Direct)] {
            let rest = take_ours(word, &mut mount);
            assert_eq!(rest, words("", Trust::Yes, Some(how)));
        }
    }

    /// Options in the first column of a page's table.
    fn listed(page: &str) -> HashSet<String> {
        let page = page.replace("\\-", "-").replace("\\&", "");
        let (_, table) = page.split_once("Mount options:").expect("its heading");
        let column = |line: &str| Some(line.strip_prefix("  ")?.split("  ").next()?.to_owned());
        let forms = table.lines().filter_map(column);
        let forms: Vec<String> = forms.collect();
        let forms = forms.iter().flat_map(|line| line.split(", "));
        let forms = forms.map(|form| form.trim_end_matches(',').to_owned());
        forms.filter(|form| !form.is_empty()).collect()
    }

    #[test]
    fn help_and_the_man_page_list_every_word_of_the_parsers() {
        let mut cli = crate::cli::Cli::command();
        let mount = cli.find_subcommand_mut("mount").expect("it is there");
        let help = listed(&mount.render_long_help().to_string());
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(mount.clone());
        man.render(&mut page).expect("memory takes it");
        let page = listed(&String::from_utf8(page).expect("text"));
        let server = TABLE.iter().flat_map(|row| row.words);
        let server = server.map(|(name, _)| (*name).to_owned());
        let owners = Owners::words().map(|(name, value, _)| format!("{name}={value}"));
        let place = Location::words().map(|(name, value, _)| format!("{name}={value}"));
        let theirs = MountOptions::help().into_iter().flat_map(|row| row.forms);
        let all: Vec<_> = server.chain(owners).chain(place).chain(theirs).collect();
        assert!(all.len() > 150, "{}", all.len());
        for form in all {
            assert!(help.contains(&form), "--help does not list {form}");
            assert!(page.contains(&form), "the man page does not list {form}");
        }
    }

    #[test]
    fn lines_of_help_are_short_and_each_form_is_listed_once() {
        let text = help();
        for line in text.lines() {
            assert!(line.len() <= WIDTH, "{line}");
        }
        let forms: Vec<String> = all().into_iter().flat_map(|row| row.forms).collect();
        let once: HashSet<&String> = forms.iter().collect();
        assert_eq!(once.len(), forms.len());
    }
}
