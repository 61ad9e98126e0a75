//! `uext4 quota`: usage and limits of users, groups and projects.

use super::control;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::{numbers, show};
use std::io::Write;
use uext4::Filesystem;
use uext4::format::quota::QuotaKind;
use uext4_fuse::{Ask, NewGrace, NewLimits, QuotaRow};

/// Owners per request to a running mount.
const OWNERS_AT_ONCE: u32 = 4096;

/// Show usage, and show or set quota limits of users, groups and projects
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mkfs disk.img --size 1G -O quota,project
  uext4 quota disk.img                             users; --kind group or project for others
  uext4 quota disk.img --json | jq '.[] | select(.space_bytes > 1e9)'
  uext4 quota disk.img --set 1000 --space-soft 900M --space-hard 1G --inodes-hard 10000
  uext4 quota disk.img --kind project --space-grace 86400
  uext4 quota /mnt/data --set 1000 --space-hard 2G     a mount

0 means no limit; limits that are not given keep their values. They are enforced on mounts with
-o usrquota, grpquota or prjquota; usage is accounted on every mount.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Kind of quota
    #[arg(long, default_value = "user")]
    kind: QuotaKind,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Set limits of the user, group or project with this ID
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u32).range(..=0xFFFF_FFFE))]
    set: Option<u32>,
    #[command(flatten)]
    limits: Limits,
    /// Grace time of the soft limit of space, in seconds
    #[arg(long, value_name = "SECONDS")]
    space_grace: Option<u32>,
    /// Grace time of the soft limit of inodes, in seconds
    #[arg(long, value_name = "SECONDS")]
    inodes_grace: Option<u32>,
}

#[derive(clap::Args)]
struct Limits {
    /// Soft limit of space, which may be exceeded during the grace time (64K, 1M and so on)
    #[arg(long, value_name = "BYTES", requires = "set", value_parser = numbers::size)]
    space_soft: Option<u64>,
    /// Hard limit of space
    #[arg(long, value_name = "BYTES", requires = "set", value_parser = numbers::size)]
    space_hard: Option<u64>,
    /// Soft limit of inodes, which may be exceeded during the grace time
    #[arg(long, value_name = "COUNT", requires = "set")]
    inodes_soft: Option<u64>,
    /// Hard limit of inodes
    #[arg(long, value_name = "COUNT", requires = "set")]
    inodes_hard: Option<u64>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let is_running = control::is_running(&self.image)?;
        if self.set.is_some() || self.grace() != NewGrace::default() {
            return if is_running {
                self.change_running()
            } else {
                let name = self.image.name();
                self.image.change(|fs| self.change(fs, &name))
            };
        }
        let rows = if is_running {
            self.running_rows()?
        } else {
            self.rows(&self.image.mount(Purpose::Read)?)?
        };
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &rows)?
        } else {
            table(&mut out, self.kind, &rows)?
        }
        Ok(out.flush()?)
    }

    fn rows(&self, fs: &Filesystem) -> Result<Vec<QuotaRow>> {
        let (name, kind) = (self.image.name(), self.kind.name());
        let problem = format!("{name}: the file system keeps no {kind} quota");
        let rows = fs.quota(self.kind);
        let rows = rows.ok_or_else(|| {
            Failure::new(Exit::Failed, problem).hint("`uext4 mkfs -O quota` makes one")
        })?;
        Ok(rows.iter().map(QuotaRow::of).collect())
    }

    /// As [`Self::rows`], from a running mount.
    fn running_rows(&self) -> Result<Vec<QuotaRow>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (kind, count) = (self.kind.name().to_owned(), OWNERS_AT_ONCE);
            let from_there = Ask::Quota {
                kind,
                from: first,
                count,
            };
            let answer = control::ask(&self.image.image, &from_there)?;
            let rows: Vec<QuotaRow> = serde_json::from_value(answer)
                .map_err(|error| Failure::new(Exit::Failed, format!("strange answer: {error}")))?;
            from = rows.last().and_then(|last| last.id.checked_add(1));
            all.extend(rows);
        }
        Ok(all)
    }

    fn change(&self, fs: &Filesystem, name: &str) -> Result<()> {
        self.rows(fs)?; // says what is missing
        if let Some(id) = self.set {
            self.limits.named().set(fs, self.kind, id).at(name)?;
        }
        self.grace().set(fs, self.kind).at(name)
    }

    fn change_running(&self) -> Result<()> {
        let kind = || self.kind.name().to_owned();
        if let Some(id) = self.set {
            let limits = self.limits.named();
            let ask = Ask::SetQuota {
                kind: kind(),
                id,
                limits,
            };
            control::ask(&self.image.image, &ask)?;
        }
        let grace = self.grace();
        if grace != NewGrace::default() {
            let ask = Ask::SetQuotaGrace {
                kind: kind(),
                grace,
            };
            control::ask(&self.image.image, &ask)?;
        }
        Ok(())
    }

    fn grace(&self) -> NewGrace {
        NewGrace {
            space_seconds: self.space_grace,
            inodes_seconds: self.inodes_grace,
        }
    }
}

impl Limits {
    fn named(&self) -> NewLimits {
        NewLimits {
            space_soft_bytes: self.space_soft,
            space_hard_bytes: self.space_hard,
            inodes_soft: self.inodes_soft,
            inodes_hard: self.inodes_hard,
        }
    }
}

fn table(out: &mut dyn Write, kind: QuotaKind, rows: &[QuotaRow]) -> Result<()> {
    let kind = kind.name();
    let [space, soft, hard] = ["space", "soft", "hard"];
    writeln!(
        out,
        "{kind:>10} {space:>12} {soft:>12} {hard:>12} {:>10} {soft:>10} {hard:>10}",
        "inodes"
    )?;
    for row in rows {
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

fn limit(number: u64, text: String) -> String {
    if number == 0 { "-".into() } else { text }
}
