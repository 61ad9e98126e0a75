//! The commands, one file each.

pub(crate) mod backup;
mod backup_copy;
mod backup_identity;
mod backup_parts;
mod backup_since;
mod backup_source;
mod backup_target;
pub(crate) mod build;
mod build_changes;
mod build_made;
mod build_output;
mod build_pipe;
mod build_report;
mod build_words;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
mod control;
pub(crate) mod convert;
pub(crate) mod debug;
pub(crate) mod defrag;
pub(crate) mod diff;
mod diff_blocks;
mod diff_claims;
mod diff_owners;
mod diff_rows;
pub(crate) mod export;
pub(crate) mod extents;
mod foreign_size;
pub(crate) mod freefrag;
pub(crate) mod fsck;
mod fsck_decisions;
mod fsck_end;
mod fsck_explain;
mod fsck_extended;
mod fsck_mount;
mod fsck_optimise;
mod fsck_progress;
mod fsck_superblock;
mod fsck_told;
pub(crate) mod get;
mod get_rescue;
pub(crate) mod groups;
pub(crate) mod help;
pub(crate) mod info;
mod journal_words;
pub(crate) mod log;
mod log_rows;
pub(crate) mod ls;
pub(crate) mod mkfs;
mod mkfs_extended;
mod mkfs_report;
mod mkfs_target;
mod mode;
pub(crate) mod mount;
mod mount_access;
mod mount_loop;
mod mount_words;
pub(crate) mod put;
pub(crate) mod quota;
pub(crate) mod remount;
pub(crate) mod replay;
pub(crate) mod resize;
mod resize_partition;
mod snapshot;
pub(crate) mod stat;
pub(crate) mod stats;
pub(crate) mod trim;
pub(crate) mod tunables;
pub(crate) mod tune;
mod tune_journal;
mod tune_target;
mod tune_words;
pub(crate) mod undelete;
pub(crate) mod undo;

use crate::cli::Command;
use crate::failure::Result;

pub(crate) fn run(command: Command) -> Result<()> {
    snapshot::unless_ended(run_one(command))
}

fn run_one(command: Command) -> Result<()> {
    match command {
        Command::Mkfs(args) => args.run(),
        Command::Build(args) => args.run(),
        Command::Mount(args) => args.run(),
        Command::Umount(args) => args.run(),
        Command::Remount(args) => args.run(),
        Command::Freeze(args) => args.run(),
        Command::Thaw(args) => args.run(),
        Command::Shutdown(args) => args.run(),
        Command::Info(args) => args.run(),
        Command::Ls(args) => args.run(),
        Command::Stat(args) => args.run(),
        Command::Cat(args) => args.run(),
        Command::Get(args) => args.run(),
        Command::Put(args) => args.run(),
        Command::Export(args) => args.run(),
        Command::Diff(args) => args.run(),
        Command::Mkdir(args) => args.run(),
        Command::Rm(args) => args.run(),
        Command::Ln(args) => args.run(),
        Command::Mv(args) => args.run(),
        Command::Chmod(args) => args.run(),
        Command::Chown(args) => args.run(),
        Command::Extents(args) => args.run(),
        Command::Check(args) => args.run(),
        Command::Fsck(args) => args.run(),
        Command::Undo(args) => args.run(),
        Command::Log(args) => args.run(),
        Command::Debug(args) => args.run(),
        Command::Undelete(args) => args.run(),
        Command::Backup(args) => args.run(),
        Command::Freefrag(args) => args.run(),
        Command::Trim(args) => args.run(),
        Command::Defrag(args) => args.run(),
        Command::Compact(args) => args.run(),
        Command::Convert(args) => args.run(),
        Command::Stats(args) => args.run(),
        Command::Tunables(args) => args.run(),
        Command::Tune(args) => args.run(),
        Command::Resize(args) => args.run(),
        Command::Quota(args) => args.run(),
        Command::Replay(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Man(args) => args.run(),
        Command::Help(args) => args.run(),
    }
}
