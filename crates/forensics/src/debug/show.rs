//! What has more than one structure: directories, maps, attributes, bytes.

use super::CommandError;
use super::command::{Row, number};
use crate::map::{Nodes, Part, Trust, walk};
use crate::{Image, Memory, Owners};
use std::collections::BTreeSet;
use uext4_format::dirent::RecordHeader;
use uext4_format::extent::{ExtentNode, MAX_DEPTH};
use uext4_format::fields::{EXTENT, Field, INDEX, NODE, Value};
use uext4_format::xattr::{Area, Xattr, XattrValue, salvage};
use uext4_format::{Checksums, FileType, Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;

/// Memory for each row, in bytes.
const ROW_BYTES: u64 = 512;
/// Memory for each block that was met, in bytes.
const BLOCK_BYTES: u64 = 64;
/// Bytes of a row of a block.
const LINE_BYTES: usize = 16;
/// Bytes of a header, an extent and an index of a node.
const ITEM_BYTES: usize = 12;

type Found<T> = std::result::Result<T, CommandError>;

/// Whether a part of the map of an inode fits.
pub(super) fn maps(image: &Image, nr: InodeNr, fits: &dyn Fn(&Part) -> bool) -> Found<bool> {
    let inode = parsed(image, nr)?;
    let mut nodes = Nodes::new(image.geometry(), image);
    let mut found = false;
    if uext4_volume::has_map(&inode) {
        walk(
            image.geometry(),
            &inode,
            Trust::Any,
            &mut nodes,
            &mut |part| {
                found |= fits(&part);
            },
        );
    }
    Ok(found)
}

fn parsed(image: &Image, nr: InodeNr) -> Found<Inode> {
    let bytes = image.inode_bytes(nr).ok_or(CommandError::Outside)?;
    let inode = Inode::parse(&bytes, nr, image.geometry(), &Checksums::NONE);
    Ok(inode.map_err(crate::Error::from)?)
}

/// The entries of a directory, those that are free included.
pub(super) fn directory(image: &Image, nr: InodeNr, memory: &Memory) -> Found<Vec<Row>> {
    let inode = parsed(image, nr)?;
    if inode.file_type() != Some(FileType::Directory) {
        return Err(CommandError::Missing("a directory"));
    }
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        return Err(CommandError::Missing(
            "blocks of a directory, which is in its inode,",
        ));
    }
    let mut nodes = Nodes::new(image.geometry(), image);
    let (mut rows, mut failed, mut visited) = (Vec::new(), Ok(()), BTreeSet::new());
    // Extents may overlap.
    let mut left = image.geometry().blocks_count;
    walk(
        image.geometry(),
        &inode,
        Trust::Any,
        &mut nodes,
        &mut |part| {
            let Part::Data(extent) = part else {
                return;
            };
            let len = u64::from(extent.len).min(left);
            left = left.saturating_sub(len);
            for block in extent.start.0..extent.start.0.saturating_add(len) {
                if failed.is_err() || !visited.insert(block) {
                    continue;
                }
                failed = match image.block(block) {
                    Some(bytes) => add_entries(block, &bytes, &mut rows, memory),
                    None => memory.take(BLOCK_BYTES).map_err(CommandError::from),
                };
            }
        },
    );
    failed?;
    Ok(rows)
}

fn add_entries(block: u64, bytes: &[u8], rows: &mut Vec<Row>, memory: &Memory) -> Found<()> {
    memory.take(BLOCK_BYTES)?;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        let Some(header) = RecordHeader::read(rest, bytes.len()) else {
            break;
        };
        let end = RecordHeader::BYTES.saturating_add(header.name_len);
        let name = rest.get(RecordHeader::BYTES..end).unwrap_or_default();
        memory.take(ROW_BYTES)?;
        rows.push(vec![
            ("block", number(block)),
            ("offset", number(u64_of(at))),
            ("inode", number(header.inode.0)),
            ("rec_len", number(u64_of(header.rec_len))),
            ("name_len", number(u64_of(header.name_len))),
            ("file_type", number(header.code)),
            ("name", Value::Text(name.to_vec())),
        ]);
        if header.rec_len < RecordHeader::BYTES {
            break;
        }
        at = at.saturating_add(header.rec_len);
    }
    Ok(())
}

/// The nodes, extents and indexes of a file, or its runs of blocks if it has tables.
pub(super) fn extents(image: &Image, nr: InodeNr, memory: &Memory) -> Found<Vec<Row>> {
    let inode = parsed(image, nr)?;
    let mut rows = Vec::new();
    if inode.flags.contains(InodeFlags::EXTENTS) {
        let mut visited = BTreeSet::new();
        let mut waiting = vec![(None, inode.i_block.to_vec())];
        while let Some((block, bytes)) = waiting.pop() {
            let below = add_node(block, &bytes, &mut rows, memory)?;
            for child in below.into_iter().rev() {
                if !visited.insert(child) {
                    continue;
                }
                if let Some(bytes) = image.block(child) {
                    memory.take(u64_of(bytes.len()))?;
                    waiting.push((Some(child), bytes));
                }
            }
        }
        return Ok(rows);
    }
    let mut nodes = Nodes::new(image.geometry(), image);
    let (mut extents, mut failed) = (Vec::new(), Ok(()));
    walk(
        image.geometry(),
        &inode,
        Trust::Any,
        &mut nodes,
        &mut |part| {
            if let (Part::Data(extent), Ok(())) = (part, &failed) {
                failed = memory.take(ROW_BYTES);
                uext4_volume::append_extent(&mut extents, extent);
            }
        },
    );
    failed?;
    rows.extend(extents.iter().map(|extent| {
        vec![
            ("block", number(extent.logical.0)),
            ("len", number(extent.len)),
            ("start", number(extent.start.0)),
        ]
    }));
    Ok(rows)
}

/// Adds the rows of a node. Returns the nodes below it.
fn add_node(
    block: Option<u64>,
    bytes: &[u8],
    rows: &mut Vec<Row>,
    memory: &Memory,
) -> Found<Vec<u64>> {
    let node = ExtentNode::new(bytes);
    let name = match block {
        Some(block) => number(block),
        None => Value::Text(b"root".to_vec()),
    };
    let row = |kind: &[u8], index: Option<usize>, table: &'static [Field], bytes: &[u8]| {
        let mut row = vec![("node", name.clone()), ("kind", Value::Text(kind.to_vec()))];
        row.extend(index.map(|index| ("index", number(u64_of(index)))));
        row.extend(
            table
                .iter()
                .filter_map(|field| Some((field.name, field.get(bytes)?))),
        );
        row
    };
    memory.take(ROW_BYTES)?;
    rows.push(row(b"header", None, NODE, bytes));
    let depth = node.depth();
    let count = node.count().min(node.capacity());
    let items = bytes.chunks_exact(ITEM_BYTES).skip(1).take(count);
    for (index, item) in items.enumerate() {
        memory.take(ROW_BYTES)?;
        rows.push(match depth {
            0 => row(b"extent", Some(index), EXTENT, item),
            _ => row(b"index", Some(index), INDEX, item),
        });
    }
    if depth == 0 || depth > MAX_DEPTH {
        return Ok(Vec::new());
    }
    Ok(node
        .indexes()
        .take(count)
        .map(|index| index.child.0)
        .collect())
}

/// The attributes of an inode, those in its block included.
pub(super) fn attributes(image: &Image, nr: InodeNr) -> Found<Vec<Row>> {
    let inode = parsed(image, nr)?;
    let mut rows = Vec::new();
    for one in salvage(&inode.tail, Area::InInode).iter() {
        rows.push(attribute(b"inode", one));
    }
    if inode.file_acl.0 != 0
        && let Some(bytes) = image.block(inode.file_acl.0)
    {
        for one in salvage(&bytes, Area::InBlock).iter() {
            rows.push(attribute(b"block", one));
        }
    }
    Ok(rows)
}

fn attribute(place: &[u8], one: &Xattr) -> Row {
    let prefix = one.name.index.prefix().unwrap_or_default();
    let name = [prefix.as_bytes(), &one.name.rest].concat();
    let value = match &one.value {
        XattrValue::Here(bytes) => ("value", Value::Text(bytes.clone())),
        XattrValue::Inode { inode, .. } => ("value_inode", number(inode.0)),
    };
    vec![
        ("in", Value::Text(place.to_vec())),
        ("name", Value::Text(name)),
        ("size", number(u64_of(one.value.len()))),
        value,
    ]
}

/// The bytes of a block, and its owner.
pub(super) fn block(image: &Image, nr: u64) -> Found<Vec<Row>> {
    let bytes = image.block(nr).ok_or(CommandError::Outside)?;
    let memory = Memory::new(1 << 20);
    let owners = Owners::find(image, vec![nr], &memory)?;
    let owner = owners.of(nr).to_string();
    let mut rows = vec![vec![("owner", Value::Text(owner.into_bytes()))]];
    for (line, bytes) in bytes.chunks(LINE_BYTES).enumerate() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        rows.push(vec![
            ("offset", number(u64_of(line.saturating_mul(LINE_BYTES)))),
            ("bytes", Value::Text(hex.into_bytes())),
        ]);
    }
    Ok(rows)
}
