//! `uext4 info`: prints the superblock, as `dumpe2fs -h` does, or how a mount is served.

use super::groups;
use crate::failure::{At, Failure, Result};
use crate::image::{ImageArgs, Purpose, superblock};
use crate::show::{self, Name};
use crate::{date, numbers};
use serde::Serialize;
use std::io::Write;
use uext4::Timestamp;
use uext4::format::superblock::{ErrorBehaviour, state};
use uext4::format::{Feature, Superblock, Support};
use uext4_fuse::Ask;
use uext4_num::clamp_i64;

/// Show size, features and state of a file system
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 info disk.img
  uext4 info disk.img --json | jq .journal.needs_recovery
  uext4 info disk.img --partition 2 --groups
  uext4 info /mnt/data                     a mount: server, transport and logged errors

Free blocks and inodes are as of the last clean unmount or commit; `uext4 stats` shows the current
numbers of a mount.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Also list the block groups
    #[arg(long)]
    groups: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON form of a superblock.
#[derive(Serialize)]
pub(super) struct Info {
    label: Name,
    uuid: String,
    last_mounted_on: Name,
    state: &'static str,
    size_bytes: u64,
    block_size: u32,
    cluster_size: u64,
    blocks: u64,
    blocks_free: u64,
    blocks_reserved: u64,
    inodes: u32,
    inodes_free: u32,
    inode_size: u16,
    groups: u32,
    blocks_per_group: u32,
    inodes_per_group: u32,
    features: Vec<String>,
    /// Features with which uext4 refuses the file system.
    unsupported: Vec<String>,
    read_only_features: Vec<String>,
    journal: Option<Journal>,
    on_error: &'static str,
    errors: u32,
    made: i64,
    mounted: i64,
    written: i64,
    checked: i64,
    mounts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_list: Option<Vec<groups::Group>>,
}

#[derive(Serialize)]
struct Journal {
    /// Inode of the journal; `None` if it is on another device.
    inode: Option<u32>,
    device_uuid: Option<String>,
    size_bytes: Option<u64>,
    needs_recovery: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        self.image.without_journal()?;
        if self.image.image.is_dir() {
            return self.run_on_mount();
        }
        let device = self.image.device(Purpose::Read)?;
        let name = self.image.name();
        let disk = superblock(&*device).at(&name)?;
        let groups = if self.groups {
            Some(groups::read(&*device, &disk).at(&name)?)
        } else {
            None
        };
        let info = Info::new(&disk, groups).at(&name)?;
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &info)?
        } else {
            info.print(&mut out)?
        }
        Ok(out.flush()?)
    }
}

impl Args {
    fn run_on_mount(&self) -> Result<()> {
        if self.groups || self.image.place.is_part() {
            let other = "of a directory only the mount is shown; see `uext4 stats --groups`";
            return Err(Failure::usage(other));
        }
        let mut server = super::control::ask(&self.image.image, &Ask::Server {})?;
        // A server of an older version does not know this request.
        let met = super::control::ask(&self.image.image, &Ask::Incidents {});
        server["incidents"] = met.unwrap_or_default();
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &server)?;
            return Ok(out.flush()?);
        }
        for (title, name) in [
            ("mounted on", "mount_point"),
            ("served", "served"),
            ("sandbox", "locked"),
            ("process", "pid"),
            ("version", "version"),
        ] {
            let value = &server[name];
            let text = value.as_str().map_or(value.to_string(), str::to_owned);
            writeln!(out, "{title:<13}{}", show::name(text.as_bytes()))?;
        }
        for met in server["incidents"].as_array().into_iter().flatten() {
            writeln!(
                out,
                "{:<13}{}",
                "met",
                uext4_fuse::escape_controls(met.as_str().unwrap_or_default())
            )?;
        }
        Ok(out.flush()?)
    }
}

impl Info {
    pub(super) fn new(
        disk: &Superblock,
        group_list: Option<Vec<groups::Group>>,
    ) -> uext4::Result<Self> {
        let (geometry, features) = (disk.geometry()?, disk.features());
        let named = |support: Option<Support>| -> Vec<String> {
            let list = features
                .iter()
                .filter(|f| support.is_none_or(|s| uext4::support(*f) == s));
            list.map(|feature| feature.to_string()).collect()
        };
        Ok(Self {
            label: Name::new(disk.label()),
            uuid: uext4_format::Uuid(&disk.uuid).to_string(),
            last_mounted_on: Name::new(until_zero(&disk.last_mounted)),
            state: state_in_words(disk),
            size_bytes: geometry.size_bytes(),
            block_size: geometry.block_size(),
            cluster_size: geometry.cluster_size(),
            blocks: geometry.blocks_count,
            blocks_free: disk.free_blocks_count,
            blocks_reserved: disk.r_blocks_count,
            inodes: geometry.inodes_count,
            inodes_free: disk.free_inodes_count,
            inode_size: geometry.inode_size,
            groups: geometry.group_count,
            blocks_per_group: geometry.blocks_per_group,
            inodes_per_group: geometry.inodes_per_group,
            features: named(None),
            unsupported: named(Some(Support::Refused)),
            read_only_features: named(Some(Support::ReadOnly)),
            journal: Journal::new(disk),
            on_error: match ErrorBehaviour::from_raw(disk.errors) {
                ErrorBehaviour::Continue => "continue",
                ErrorBehaviour::RemountReadOnly => "remount read-only",
                ErrorBehaviour::Panic => "panic",
            },
            errors: disk.error_count,
            made: clamp_i64(disk.mkfs_time),
            mounted: clamp_i64(disk.mtime),
            written: clamp_i64(disk.wtime),
            checked: clamp_i64(disk.lastcheck),
            mounts: disk.mnt_count,
            group_list,
        })
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        self.print_space(out)?;
        self.print_state(out)?;
        if let Some(list) = &self.group_list {
            groups::print(out, list)?;
        }
        Ok(())
    }

    /// Label, sizes and counts.
    fn print_space(&self, out: &mut dyn Write) -> Result<()> {
        let bytes =
            |blocks: u64| numbers::readable_size(blocks.saturating_mul(self.block_size.into()));
        let mut line = |name: &str, value: String| writeln!(out, "{name:<13}{value}");
        line("label", text(&self.label))?;
        line("uuid", self.uuid.clone())?;
        line("state", self.state.into())?;
        line(
            "size",
            format!(
                "{}: {} blocks of {}",
                numbers::readable_size(self.size_bytes),
                self.blocks,
                self.block_size
            ),
        )?;
        line(
            "free",
            format!(
                "{}: {} blocks, {} inodes",
                bytes(self.blocks_free),
                self.blocks_free,
                self.inodes_free
            ),
        )?;
        line("reserved", bytes(self.blocks_reserved))?;
        line(
            "inodes",
            format!("{} of {} bytes", self.inodes, self.inode_size),
        )?;
        let clusters = self.cluster_size != u64::from(self.block_size);
        if clusters {
            line("clusters", numbers::readable_size(self.cluster_size))?;
        }
        line(
            "groups",
            format!("{} of {} blocks", self.groups, self.blocks_per_group),
        )?;
        Ok(())
    }

    /// Features, journal, errors and dates.
    fn print_state(&self, out: &mut dyn Write) -> Result<()> {
        let mut line = |name: &str, value: String| writeln!(out, "{name:<13}{value}");
        line("features", self.features.join(" "))?;
        for (name, list) in [
            ("unsupported", &self.unsupported),
            ("read-only by", &self.read_only_features),
        ] {
            if !list.is_empty() {
                line(name, list.join(" "))?;
            }
        }
        line(
            "journal",
            self.journal
                .as_ref()
                .map_or("none".into(), Journal::in_words),
        )?;
        line("on error", self.on_error.into())?;
        line("errors", self.errors.to_string())?;
        for (name, seconds) in [
            ("made", self.made),
            ("mounted", self.mounted),
            ("written", self.written),
            ("checked", self.checked),
        ] {
            line(
                name,
                if seconds == 0 {
                    "never".into()
                } else {
                    date::show(Timestamp::new(seconds, 0)) + " UTC"
                },
            )?;
        }
        line("mounts", self.mounts.to_string())?;
        line("mounted on", text(&self.last_mounted_on))?;
        Ok(())
    }
}

impl Journal {
    fn new(disk: &Superblock) -> Option<Self> {
        let features = disk.features();
        if !features.has(Feature::HAS_JOURNAL) {
            return None;
        }
        let internal = disk.journal_inum != 0;
        let [.., size_high, size_low] = disk.jnl_blocks;
        let size = u64::from(size_high) << 32 | u64::from(size_low);
        Some(Self {
            inode: internal.then_some(disk.journal_inum),
            device_uuid: (!internal).then(|| uext4_format::Uuid(&disk.journal_uuid).to_string()),
            size_bytes: (internal && disk.jnl_backup_type == 1).then_some(size),
            needs_recovery: features.has(Feature::RECOVER),
        })
    }

    fn in_words(&self) -> String {
        let place = match (self.inode, &self.device_uuid) {
            (Some(inode), _) => format!("inode {inode}"),
            (None, Some(uuid)) => format!("on the device with UUID {uuid}"),
            (None, None) => "nowhere".into(),
        };
        let size = self.size_bytes.map_or(String::new(), |bytes| {
            format!(", {}", numbers::readable_size(bytes))
        });
        let state = if self.needs_recovery {
            "needs recovery (uext4 replay, or a mount)"
        } else {
            "clean"
        };
        format!("{place}{size}, {state}")
    }
}

fn state_in_words(disk: &Superblock) -> &'static str {
    let features = disk.features();
    if disk.state & state::ERROR != 0 {
        "errors were found; run `uext4 fsck`"
    } else if features.has(Feature::RECOVER) {
        "in use, or not unmounted"
    } else if disk.state & state::VALID == 0 {
        "not clean"
    } else {
        "clean"
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn text(name: &Name) -> String {
    match name {
        Name::Text(text) if text.is_empty() => "-".into(),
        Name::Text(text) => show::name(text.as_bytes()),
        Name::Bytes { hex } => format!("hex {hex}"),
    }
}
