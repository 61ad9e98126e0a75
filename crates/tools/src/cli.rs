//! Command-line grammar: the subcommands and their arguments.

use crate::commands::{
    build, change, check, compact, completions, convert, defrag, diff, export, extents, freefrag,
    get, help, info, ls, mkfs, mount, put, quota, remount, replay, resize, stat, stats, trim,
    tunables, tune,
};
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  uext4 mkfs disk.img 2G -L data           make a file system
  uext4 build root.img ./rootfs            make one of a tree, as small as possible
  uext4 mkdir disk.img /srv                a directory in it
  uext4 put -r disk.img ./site /srv        copy a tree into that
  uext4 ls -l disk.img /srv/site           look at it
  uext4 cat disk.img /srv/site/index.html  read a file
  uext4 export disk.img -o disk.tar        all of it as a tar archive
  uext4 info disk.img --json               sizes, features, state of the journal
  uext4 check disk.img                     is it sound?
  uext4 mount disk.img /mnt                through FUSE; uext4 umount /mnt ends it
  uext4 stats /mnt --watch                 see what the mount does
  uext4 replay disk.img                    bring the journal home after a crash

IMAGE is a file or block device with an ext4 file system; --offset or --partition finds it on a
whole disk. Paths in the image start at its root.

Exit status:
  0  done
  1  the operation failed: no such file, no space, permission, I/O
  2  wrong arguments
  3  not an ext4 file system, or one with a feature that uext4 does not support
  4  the file system is damaged; e2fsck repairs it (get, export: some files failed for it)
  5  busy: the image is mounted or open for writing elsewhere
For diff 1 means different and 2 failed, as for diff(1).";

fn styles() -> Styles {
    Styles::styled()
        .header(AnsiColor::Yellow.on_default().bold())
        .usage(AnsiColor::Yellow.on_default().bold())
        .literal(AnsiColor::Green.on_default())
}

/// ext4 in user space: make, mount, inspect, change and recover images.
#[derive(Parser)]
#[command(
    name = "uext4",
    version,
    after_help = EXAMPLES,
    styles = styles(),
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Mkfs(Box<mkfs::Args>),
    Build(Box<build::Args>),
    Mount(mount::Args),
    Umount(mount::UmountArgs),
    Remount(remount::Args),
    Freeze(remount::FreezeArgs),
    Thaw(remount::ThawArgs),
    Shutdown(remount::ShutdownArgs),
    Info(info::Args),
    Check(check::Args),
    Ls(ls::Args),
    Stat(stat::Args),
    Cat(stat::CatArgs),
    Get(get::Args),
    Put(put::Args),
    Export(export::Args),
    Diff(diff::Args),
    Mkdir(change::MkdirArgs),
    Rm(change::RmArgs),
    Ln(change::LnArgs),
    Mv(change::MvArgs),
    Chmod(change::ChmodArgs),
    Chown(change::ChownArgs),
    Extents(extents::Args),
    Freefrag(freefrag::Args),
    Trim(trim::Args),
    Defrag(defrag::Args),
    Compact(compact::Args),
    Stats(stats::Args),
    Tunables(tunables::Args),
    Tune(tune::Args),
    Convert(convert::Args),
    Resize(resize::Args),
    Quota(quota::Args),
    Replay(replay::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
    Help(help::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
