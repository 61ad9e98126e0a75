//! `uext4 quota`: what users, groups and projects use and may use.

use super::control;
use crate::failure::{At, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::{numbers, show};
use serde::Serialize;
use std::io::Write;
use uext4::format::quota::{QuotaEntry, QuotaKind};
use uext4::{Filesystem, GraceTimes};

/// Show what users, groups and projects use, and set what they may use
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mkfs disk.img --size 1G -O quota,project
  uext4 quota disk.img                             users; --kind group or project for others
  uext4 quota disk.img --json | jq '.[] | select(.space_bytes > 1e9)'
  uext4 quota disk.img --set 1000 --space-soft 900M --space-hard 1G --inodes-hard 10000
  uext4 quota disk.img --kind project --space-grace 86400

The image must not be mounted. A limit of 0 is none; limits that are not named stay. They hold on
mounts with -o usrquota, grpquota or prjquota; what is used is counted on every mount.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Whose quota
    #[arg(long, default_value = "user", value_parser = kind)]
    kind: QuotaKind,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Set limits of this user, group or project
    #[arg(long, value_name = "ID")]
    set: Option<u32>,
    #[command(flatten)]
    limits: Limits,
    /// Seconds that the soft limit of space may be exceeded
    #[arg(long, value_name = "SECONDS")]
    space_grace: Option<u32>,
    /// Seconds that the soft limit of inodes may be exceeded
    #[arg(long, value_name = "SECONDS")]
    inodes_grace: Option<u32>,
}

#[derive(clap::Args)]
struct Limits {
    /// Space that may be used for the grace time only (64K, 1M and so on)
    #[arg(long, value_name = "BYTES", requires = "set", value_parser = numbers::size)]
    space_soft: Option<u64>,
    /// Space that may be used at all
    #[arg(long, value_name = "BYTES", requires = "set", value_parser = numbers::size)]
    space_hard: Option<u64>,
    /// Inodes that may be used for the grace time only
    #[arg(long, value_name = "COUNT", requires = "set")]
    inodes_soft: Option<u64>,
    /// Inodes that may be used at all
    #[arg(long, value_name = "COUNT", requires = "set")]
    inodes_hard: Option<u64>,
}

/// An owner in JSON; limits of 0 are none.
#[derive(Serialize)]
struct Row {
    id: u32,
    space_bytes: u64,
    space_soft_bytes: u64,
    space_hard_bytes: u64,
    space_grace_end_seconds: u64,
    inodes: u64,
    inodes_soft: u64,
    inodes_hard: u64,
    inodes_grace_end_seconds: u64,
}

impl Row {
    fn of(entry: &QuotaEntry) -> Self {
        Self {
            id: entry.id,
            space_bytes: entry.space_bytes,
            space_soft_bytes: entry.space_soft_kib.saturating_mul(1024),
            space_hard_bytes: entry.space_hard_kib.saturating_mul(1024),
            space_grace_end_seconds: entry.space_grace_end,
            inodes: entry.inodes,
            inodes_soft: entry.inodes_soft,
            inodes_hard: entry.inodes_hard,
            inodes_grace_end_seconds: entry.inodes_grace_end,
        }
    }
}

fn kind(text: &str) -> std::result::Result<QuotaKind, String> {
    let mut all = QuotaKind::ALL.into_iter();
    let found = all.find(|kind| kind.name() == text);
    found.ok_or_else(|| "user, group or project".into())
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if control::is_running(&self.image.image) {
            let problem = "quota is told of images that are not mounted; unmount it first";
            return Err(Failure::usage(format!("{}: {problem}", self.image.name())));
        }
        let changes_grace = self.space_grace.is_some() || self.inodes_grace.is_some();
        if self.set.is_some() || changes_grace {
            let name = self.image.name();
            return self.image.change(|fs| self.change(fs, &name));
        }
        let fs = self.image.mount(Purpose::Read)?;
        let rows = self.rows(&fs)?;
        let mut out = show::stdout();
        if self.json {
            let rows: Vec<Row> = rows.iter().map(Row::of).collect();
            show::json(&mut out, &rows)?;
        } else {
            table(&mut out, self.kind, &rows)?;
        }
        Ok(out.flush()?)
    }

    fn rows(&self, fs: &Filesystem) -> Result<Vec<QuotaEntry>> {
        let (name, kind) = (self.image.name(), self.kind.name());
        let problem = format!("{name}: the file system keeps no {kind} quota");
        fs.quota(self.kind)
            .ok_or_else(|| Failure::new(crate::failure::Exit::Failed, problem))
    }

    fn change(&self, fs: &Filesystem, name: &str) -> Result<()> {
        let rows = self.rows(fs)?;
        if let Some(id) = self.set {
            let old = rows.into_iter().find(|entry| entry.id == id);
            let wanted = self.limits.over(old.unwrap_or(QuotaEntry {
                id,
                ..QuotaEntry::default()
            }));
            fs.set_quota(self.kind, &wanted).at(name)?;
        }
        let Some(now) = fs.quota_grace(self.kind) else {
            return Ok(());
        };
        let grace = GraceTimes {
            space_seconds: self.space_grace.unwrap_or(now.space_seconds),
            inodes_seconds: self.inodes_grace.unwrap_or(now.inodes_seconds),
        };
        if grace != now {
            fs.set_quota_grace(self.kind, grace).at(name)?;
        }
        Ok(())
    }
}

impl Limits {
    /// The entry with the limits that are named.
    fn over(&self, old: QuotaEntry) -> QuotaEntry {
        let kib = |bytes: Option<u64>, old: u64| bytes.map_or(old, |bytes| bytes.div_ceil(1024));
        QuotaEntry {
            space_soft_kib: kib(self.space_soft, old.space_soft_kib),
            space_hard_kib: kib(self.space_hard, old.space_hard_kib),
            inodes_soft: self.inodes_soft.unwrap_or(old.inodes_soft),
            inodes_hard: self.inodes_hard.unwrap_or(old.inodes_hard),
            ..old
        }
    }
}

fn table(out: &mut dyn Write, kind: QuotaKind, rows: &[QuotaEntry]) -> Result<()> {
    let kind = kind.name();
    let [space, soft, hard] = ["space", "soft", "hard"];
    writeln!(
        out,
        "{kind:>10} {space:>12} {soft:>12} {hard:>12} {:>10} {soft:>10} {hard:>10}",
        "inodes"
    )?;
    let limit = |number: u64, text: String| if number == 0 { "-".into() } else { text };
    for row in rows.iter().map(Row::of) {
        let size = |bytes| limit(bytes, numbers::readable_size(bytes));
        let count = |number: u64| limit(number, number.to_string());
        writeln!(
            out,
            "{:>10} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10}",
            row.id,
            numbers::readable_size(row.space_bytes),
            size(row.space_soft_bytes),
            size(row.space_hard_bytes),
            row.inodes,
            count(row.inodes_soft),
            count(row.inodes_hard)
        )?;
    }
    Ok(())
}
