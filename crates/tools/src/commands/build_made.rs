//! What `uext4 build` made around a file system, for people and for programs.

use super::build_output::Output;
use crate::failure::Result;
use crate::show;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use uext4::format::Uuid;
use uext4_image::{Made, Partition, Tree};

impl Output {
    /// What was made at `path`, for programs.
    pub(super) fn json<'a>(&'a self, path: &Path, made: &'a Made) -> Json<'a> {
        let hex = |bytes: &[u8]| show::hex(bytes);
        let uuid = |bytes: &[u8; 16]| Uuid(bytes).to_string();
        let tree_file = self.verity.as_deref().filter(|file| *file != "append");
        let own = made.partitions.iter().find(|one| one.has_file_system);
        Json {
            format: self.format(path),
            disk_bytes: made.disk_bytes,
            verity: made.verity.as_ref().map(|tree| TreeJson {
                root_hash: hex(&tree.root_hash),
                salt: hex(&tree.salt),
                uuid: uuid(&tree.uuid),
                data_blocks: tree.data_blocks,
                hash_file: tree_file.map(|file| file.display().to_string()),
                hash_offset_bytes: tree.start_bytes,
            }),
            partition: own.map(|own| OwnPartitionJson {
                partition: PartitionJson::of(own),
                disk_guid: made.disk_id.clone(),
            }),
            partitions: made.partitions.iter().map(PartitionJson::of).collect(),
        }
    }
}

/// Writes what a person needs to use the tree and the partition.
pub(super) fn say(made: &Made, out: &mut impl Write) -> Result<()> {
    for partition in &made.partitions {
        let own = if partition.has_file_system && made.partitions.len() > 1 {
            ", the file system"
        } else {
            ""
        };
        let kind = if made.disk_id.starts_with("0x") {
            "PARTUUID" // of an MBR
        } else {
            "GUID"
        };
        writeln!(
            out,
            "Partition {} at byte {}, {kind} {}{own}",
            partition.number, partition.start_bytes, partition.uuid
        )?;
    }
    if let Some(Tree {
        root_hash,
        start_bytes,
        ..
    }) = &made.verity
    {
        let hash = show::hex(root_hash);
        writeln!(out, "Root hash {hash}, hash offset {start_bytes}")?;
    }
    Ok(())
}

/// What was made around the file system.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    format: &'a str,
    disk_bytes: u64,
    verity: Option<TreeJson>,
    /// That of the file system.
    partition: Option<OwnPartitionJson>,
    partitions: Vec<PartitionJson>,
}

#[derive(Serialize)]
struct TreeJson {
    root_hash: String,
    salt: String,
    uuid: String,
    data_blocks: u64,
    /// `None`: the tree is behind the file system.
    hash_file: Option<String>,
    hash_offset_bytes: u64,
}

#[derive(Serialize)]
struct PartitionJson {
    number: u32,
    start_bytes: u64,
    size_bytes: u64,
    guid: String,
}

impl PartitionJson {
    fn of(partition: &Partition) -> PartitionJson {
        PartitionJson {
            number: partition.number,
            start_bytes: partition.start_bytes,
            size_bytes: partition.size_bytes,
            guid: partition.uuid.clone(),
        }
    }
}

#[derive(Serialize)]
struct OwnPartitionJson {
    #[serde(flatten)]
    partition: PartitionJson,
    disk_guid: String,
}
