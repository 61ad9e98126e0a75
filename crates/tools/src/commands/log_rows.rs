//! Rows of `uext4 log`, as text and as JSON.

use crate::date;
use crate::show::{self, Name};
use serde::Serialize;
use uext4::Timestamp;
use uext4::format::Tid;
use uext4::format::fast_commit::{Dentry, Record};
use uext4::format::jbd2::ChecksumKind;
use uext4_forensics::{
    Commit, Entry, FastCommits, Image, ImageState, Owners, Ring, Transaction, TransactionState,
};
use uext4_num::{clamp_i64, u64_of};

/// A row: an object of JSON, or a line of text.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Row {
    Journal {
        inode: Option<u32>,
        blocks: u32,
        block_size: u32,
        first: u32,
        sequence: u32,
        start: u32,
        checksums: &'static str,
        errno: i32,
    },
    Transaction {
        transaction: u32,
        state: &'static str,
        log_block: u32,
        /// Newer blocks have overwritten its start.
        is_cut: bool,
        committed: Option<i128>,
    },
    Descriptor {
        transaction: u32,
        log_block: u32,
        tags: u32,
        is_sound: bool,
    },
    Image {
        transaction: u32,
        log_block: u32,
        block: u64,
        escaped: bool,
        state: &'static str,
        owner: String,
    },
    Revokes {
        transaction: u32,
        log_block: u32,
        blocks: u32,
        is_sound: bool,
    },
    Revoked {
        transaction: u32,
        block: u64,
        owner: String,
    },
    Commit {
        transaction: u32,
        log_block: u32,
        committed: i128,
        is_sound: bool,
    },
    FastCommits {
        transaction: u32,
        log_block: u32,
        commits: u32,
        records: u64,
        is_live: bool,
    },
    Record {
        transaction: u32,
        #[serde(flatten)]
        change: Change,
    },
}

/// What a record of a fast commit changes.
#[derive(Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(super) enum Change {
    AddRange {
        inode: u32,
        logical: u32,
        blocks: u16,
        first_block: u64,
    },
    RemoveRange {
        inode: u32,
        logical: u32,
        blocks: u32,
    },
    Create(Named),
    Link(Named),
    Unlink(Named),
    Inode {
        inode: u32,
        bytes: u64,
    },
}

/// A name in a record.
#[derive(Serialize)]
pub(super) struct Named {
    inode: u32,
    parent: u32,
    name: Name,
    #[serde(skip)]
    text: String,
}

impl Named {
    fn new(entry: &Dentry) -> Self {
        Self {
            inode: entry.inode.0,
            parent: entry.parent.0,
            name: Name::new(&entry.name),
            text: show::name(&entry.name),
        }
    }
}

impl Row {
    pub(super) fn journal(image: &Image, ring: &Ring) -> Self {
        let (disk, log) = (image.superblock(), ring.superblock());
        Row::Journal {
            inode: (disk.journal_inum != 0).then_some(disk.journal_inum),
            blocks: log.max_len_blocks,
            block_size: log.block_size,
            first: log.first,
            sequence: log.sequence.0,
            start: log.start,
            checksums: match log.checksum_kind() {
                ChecksumKind::None => "none",
                ChecksumKind::V1 => "v1",
                ChecksumKind::V2 => "v2",
                ChecksumKind::V3 => "v3",
            },
            errno: log.errno,
        }
    }

    pub(super) fn transaction(one: &Transaction) -> Self {
        Row::Transaction {
            transaction: one.tid.0,
            state: match one.state {
                TransactionState::Live => "live",
                TransactionState::Old => "old",
                TransactionState::Torn => "torn",
            },
            log_block: one.first,
            is_cut: one.is_cut,
            committed: one.commit.map(time_of).map(date::nanoseconds),
        }
    }

    pub(super) fn entry(tid: Tid, entry: Entry, owners: &Owners) -> Self {
        let transaction = tid.0;
        match entry {
            Entry::Descriptor { at, tags, is_sound } => Row::Descriptor {
                transaction,
                log_block: at,
                tags,
                is_sound,
            },
            Entry::Image(logged) => Row::Image {
                transaction,
                log_block: logged.at,
                block: logged.block,
                escaped: logged.escaped,
                state: match logged.state {
                    ImageState::Sound => "sound",
                    ImageState::Damaged => "damaged",
                    ImageState::Overwritten => "overwritten",
                },
                owner: owners.of(logged.block).to_string(),
            },
            Entry::Revokes {
                at,
                blocks,
                is_sound,
            } => Row::Revokes {
                transaction,
                log_block: at,
                blocks,
                is_sound,
            },
            Entry::Revoked { block } => Row::Revoked {
                transaction,
                block,
                owner: owners.of(block).to_string(),
            },
            Entry::Commit(commit) => Row::Commit {
                transaction,
                log_block: commit.at,
                committed: date::nanoseconds(time_of(commit)),
                is_sound: commit.is_sound,
            },
        }
    }

    pub(super) fn fast(fast: &FastCommits) -> Self {
        Row::FastCommits {
            transaction: fast.tid.0,
            log_block: fast.first,
            commits: fast.commits,
            records: u64_of(fast.records.len()),
            is_live: fast.is_live,
        }
    }

    pub(super) fn record(tid: Tid, record: &Record) -> Self {
        let change = match record {
            Record::AddRange { inode, extent } => Change::AddRange {
                inode: inode.0,
                logical: extent.logical.0,
                blocks: extent.len,
                first_block: extent.start.0,
            },
            Record::DelRange {
                inode,
                start,
                len_blocks,
            } => Change::RemoveRange {
                inode: inode.0,
                logical: start.0,
                blocks: *len_blocks,
            },
            Record::Create(entry) => Change::Create(Named::new(entry)),
            Record::Link(entry) => Change::Link(Named::new(entry)),
            Record::Unlink(entry) => Change::Unlink(Named::new(entry)),
            Record::Inode { inode, raw } => Change::Inode {
                inode: inode.0,
                bytes: u64_of(raw.len()),
            },
        };
        Row::Record {
            transaction: tid.0,
            change,
        }
    }
}

fn time_of(commit: Commit) -> Timestamp {
    let nanoseconds = commit.nanoseconds.min(999_999_999);
    Timestamp::new(clamp_i64(commit.seconds), nanoseconds)
}

/// The date of a time in nanoseconds.
fn date(nanoseconds: i128) -> String {
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000));
    // The years of ext4; a damaged block may have any number.
    match seconds {
        Ok(seconds) if (0..1 << 35).contains(&seconds) => {
            date::show(Timestamp::new(seconds, 0)) + " UTC"
        }
        _ => "at no known time".into(),
    }
}

/// A line for the terminal.
pub(super) fn as_text(row: &Row) -> String {
    match row {
        Row::Journal { .. } | Row::Transaction { .. } | Row::FastCommits { .. } => title(row),
        Row::Record { change, .. } => format!("  {:>7}  {}", "", change.text()),
        other => part(other),
    }
}

/// The line above those of a transaction.
fn title(row: &Row) -> String {
    match row {
        Row::Journal {
            inode,
            blocks,
            block_size,
            first,
            sequence,
            start,
            checksums,
            errno,
        } => {
            let on = inode.map_or("another device".into(), |nr| format!("inode {nr}"));
            let state = match start {
                0 => format!("clean, next transaction {sequence}"),
                _ => format!("to be replayed from transaction {sequence} in block {start} on"),
            };
            let stopped = match errno {
                0 => String::new(),
                errno => format!(", stopped by error {errno}"),
            };
            format!(
                "journal on {on}: {blocks} blocks of {block_size}, first {first}, checksums \
                 {checksums}, {state}{stopped}"
            )
        }
        Row::Transaction {
            transaction,
            state,
            log_block,
            is_cut,
            committed,
        } => {
            let cut = if *is_cut { ", start overwritten" } else { "" };
            let end = committed.map_or(", no commit block".into(), |at| {
                format!(", committed {}", date(at))
            });
            format!("transaction {transaction}: {state}, from block {log_block} on{cut}{end}")
        }
        Row::FastCommits {
            transaction,
            log_block,
            commits,
            records,
            is_live,
        } => {
            let state = if *is_live { "live" } else { "old" };
            format!(
                "fast commits of transaction {transaction}: {state}, from block {log_block} on, \
                 {commits} commits, {records} records"
            )
        }
        _ => String::new(),
    }
}

/// A block of a transaction.
fn part(row: &Row) -> String {
    let damage = |is_sound: &bool| if *is_sound { "" } else { ", damaged" };
    let (at, text) = match row {
        Row::Descriptor {
            log_block,
            tags,
            is_sound,
            ..
        } => {
            let damage = damage(is_sound);
            (*log_block, format!(" descriptor of {tags} blocks{damage}"))
        }
        Row::Image {
            log_block,
            block,
            escaped,
            state,
            owner,
            ..
        } => {
            let mark = match *state {
                "sound" => ' ',
                "damaged" => '~',
                _ => '!',
            };
            let escaped = if *escaped { " (escaped)" } else { "" };
            (*log_block, format!("{mark}block {block}: {owner}{escaped}"))
        }
        Row::Revokes {
            log_block,
            blocks,
            is_sound,
            ..
        } => {
            let damage = damage(is_sound);
            (*log_block, format!(" revoke of {blocks} blocks{damage}"))
        }
        Row::Commit {
            log_block,
            committed,
            is_sound,
            ..
        } => {
            let (date, damage) = (date(*committed), damage(is_sound));
            (*log_block, format!(" commit {date}{damage}"))
        }
        Row::Revoked { block, owner, .. } => {
            return format!("  {:>7}  revoked {block}: {owner}", "");
        }
        _ => return String::new(),
    };
    format!("  {at:>7} {text}")
}

impl Change {
    fn text(&self) -> String {
        let named = |what: &str, one: &Named| {
            format!(
                "{what} {} in directory {}: inode {}",
                one.text, one.parent, one.inode
            )
        };
        match self {
            Change::AddRange {
                inode,
                logical,
                blocks,
                first_block,
            } => format!("inode {inode}: maps {blocks} blocks from {logical} on to {first_block}"),
            Change::RemoveRange {
                inode,
                logical,
                blocks,
            } => format!("inode {inode}: unmaps {blocks} blocks from {logical} on"),
            Change::Create(one) => named("create", one),
            Change::Link(one) => named("link", one),
            Change::Unlink(one) => named("unlink", one),
            Change::Inode { inode, bytes } => format!("inode {inode}: {bytes} bytes"),
        }
    }
}
