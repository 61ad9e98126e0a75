//! Command-line grammar: the subcommands and their arguments.

use crate::commands::{
    backup, build, change, check, compact, completions, convert, debug, defrag, diff, export,
    extents, freefrag, fsck, get, help, info, log, ls, mkfs, mount, put, quota, remount, replay,
    resize, stat, stats, trim, tunables, tune, undelete, undo,
};
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  uext4 mkfs disk.img 2G -L data           create a file system
  uext4 build root.img ./rootfs            build a minimal image from a directory tree
  uext4 mkdir disk.img /srv                create a directory in the image
  uext4 put -r disk.img ./site /srv        copy a tree into the image
  uext4 ls -l disk.img /srv/site           list a directory
  uext4 cat disk.img /srv/site/index.html  print a file
  uext4 export disk.img -o disk.tar        export the image as a tar archive
  uext4 info disk.img --json               show sizes, features, state of the journal
  uext4 check disk.img                     check the file system
  uext4 fsck -y disk.img                   check and repair it
  uext4 log disk.img                       show the transactions in the journal
  uext4 undelete disk.img --to found       bring deleted files back
  uext4 mount disk.img /mnt                mount it through FUSE; uext4 umount /mnt unmounts
  uext4 fsck /mnt                          check a running mount
  uext4 backup /mnt copy.qcow2             copy the image of a running mount
  uext4 stats /mnt --watch                 watch the statistics of a mount
  uext4 replay disk.img                    replay the journal after a crash

IMAGE is a file or block device with an ext4 file system. --offset or --partition selects a file
system on a disk image. Paths in the image start at its root.

Exit status:
  0  success
  1  the operation failed: no such file, no space, no permission, I/O error
  2  wrong arguments
  3  not an ext4 file system, or one with a feature that uext4 does not support
  4  the file system is damaged; fsck repairs it (get, export: some files could not be read)
  5  busy: the image is mounted or open for writing elsewhere
For diff, as for diff(1), 1 means different and 2 failed.";

fn styles() -> Styles {
    Styles::styled()
        .header(AnsiColor::Yellow.on_default().bold())
        .usage(AnsiColor::Yellow.on_default().bold())
        .literal(AnsiColor::Green.on_default())
}

/// ext4 in user space: create, mount, inspect, change and recover images.
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
    Fsck(fsck::Args),
    Undo(undo::Args),
    Log(log::Args),
    Undelete(undelete::Args),
    Debug(debug::Args),
    Backup(backup::Args),
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
