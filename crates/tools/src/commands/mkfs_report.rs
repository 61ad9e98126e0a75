//! Report of mkfs, as text and as JSON.

use super::info::Info;
use crate::failure::{At, Result};
use crate::{numbers, show};
use serde::Serialize;
use std::io::Write;
use uext4::format::{GroupNr, Support};
use uext4::mkfs::MkfsReport;

/// A file system that was made, or would be in a dry run.
pub(super) struct Made<'a> {
    pub(super) name: &'a str,
    pub(super) report: &'a MkfsReport,
    pub(super) root_owner: (u32, u32),
    pub(super) dry_run: bool,
}

#[derive(Serialize)]
struct Json {
    /// As `uext4 info --json` shows it.
    #[serde(flatten)]
    info: Info,
    journal_blocks: u32,
    /// Features that were requested and left out.
    dropped_features: Vec<String>,
    /// Owner and group of the root directory.
    root_owner: (u32, u32),
    /// Block numbers of the backup superblocks.
    backup_superblocks: Vec<u64>,
    /// Only a plan: nothing was written.
    dry_run: bool,
}

impl Made<'_> {
    pub(super) fn json(&self) -> Result<()> {
        let report = self.report;
        let dropped = report.dropped_features.iter();
        let json = Json {
            info: Info::new(&report.superblock, None).at(self.name)?,
            journal_blocks: report.journal_blocks,
            dropped_features: dropped.map(|feature| feature.to_string()).collect(),
            root_owner: self.root_owner,
            backup_superblocks: self.backups(),
            dry_run: self.dry_run,
        };
        let mut out = show::stdout();
        show::json(&mut out, &json)?;
        Ok(out.flush()?)
    }

    fn backups(&self) -> Vec<u64> {
        let geometry = &self.report.geometry;
        let groups = (1..geometry.group_count).map(GroupNr);
        let copies = groups.filter_map(|group| geometry.superblock_block(group));
        copies.map(|block| block.0).collect()
    }

    /// Prints the report as text.
    pub(super) fn say(&self) -> Result<()> {
        let (name, report) = (self.name, self.report);
        let (geometry, disk) = (&report.geometry, &report.superblock);
        let journal = match report.journal_blocks {
            0 => "no journal".to_string(),
            blocks => {
                let bytes = u64::from(blocks) * u64::from(geometry.block_size());
                format!("a journal of {}", numbers::readable_size(bytes))
            }
        };
        show::line(format_args!(
            "{name}: {}, {} blocks of {}, {} inodes, {journal}\nUUID {}",
            numbers::readable_size(geometry.size_bytes()),
            geometry.blocks_count,
            numbers::readable_size(u64::from(geometry.block_size())),
            geometry.inodes_count,
            uext4_format::Uuid(&disk.uuid),
        ))?;
        if self.root_owner != (0, 0) {
            let (uid, gid) = self.root_owner;
            let hint = "-E root_owner=0:0 gives it to root";
            show::line(format_args!("root directory of {uid}:{gid}; {hint}"))?;
        }
        if self.dry_run {
            let backups = self.backups();
            let blocks: Vec<_> = backups.iter().map(u64::to_string).collect();
            show::line(format_args!(
                "copies of the superblock in blocks {}",
                blocks.join(", ")
            ))?;
            show::line(format_args!("dry run: nothing was written"))?;
        }
        let dropped: Vec<String> = report
            .dropped_features
            .iter()
            .map(|f| f.to_string())
            .collect();
        if !dropped.is_empty() {
            crate::failure::info(format_args!(
                "made without {}, which it has no space or use for",
                dropped.join(", ")
            ));
        }
        for feature in disk.features().iter() {
            let can = match uext4::support(feature) {
                Support::ReadWrite => continue,
                Support::ReadOnly => "can only read it",
                Support::Refused => "cannot mount it",
            };
            crate::failure::info(format_args!("{feature}: Linux can use it, uext4 {can}"));
        }
        Ok(())
    }
}
