//! `uext4 diff --blocks`: runs of blocks that differ, as they are printed.
//!
//! Rows come window by window, and only those of one window are in memory.

use super::diff_owners::Owner;
use crate::failure::Result;
use crate::show::{self, Name};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use uext4::Filesystem;

/// A run of blocks for the user.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) first_block: u64,
    pub(super) blocks: u64,
    pub(super) owner: Owner,
    pub(super) group: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) inodes: Vec<Named>,
}

/// An inode and its first name.
#[derive(Serialize)]
pub(super) struct Named {
    inode: u32,
    path: Option<Name>,
    #[serde(skip)]
    text: String,
}

impl Named {
    pub(super) fn new(nr: u32, names: &BTreeMap<u32, Vec<u8>>) -> Self {
        let path = names.get(&nr);
        Self {
            inode: nr,
            path: path.map(|path| Name::new(path)),
            text: match path {
                Some(path) => show::name(path),
                None => format!("inode {nr}"),
            },
        }
    }
}

/// The first names of inodes.
pub(super) fn names(fs: &Filesystem, wanted: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u8>> {
    let mut names = BTreeMap::new();
    if let Ok(root) = fs.root() {
        names.insert(root.nr().0, b"/".to_vec());
    }
    let Ok(walk) = fs.paths().walk("/") else {
        return names;
    };
    let mut left = wanted.iter().filter(|nr| !names.contains_key(nr)).count();
    // Damage leaves inodes without a name; their numbers are told.
    for file in walk.flatten() {
        if left == 0 {
            break;
        }
        let nr = file.inode.nr().0;
        if wanted.contains(&nr) && !names.contains_key(&nr) {
            names.insert(nr, [b"/", &file.path[..]].concat());
            left -= 1;
        }
    }
    names
}

impl Row {
    /// The owner in words, for a terminal.
    fn text(&self) -> String {
        let names: Vec<&str> = self
            .inodes
            .iter()
            .map(|named| named.text.as_str())
            .collect();
        let (owner, group) = (self.owner.text(), self.group);
        match (self.owner, names.is_empty()) {
            (Owner::InodeTable, false) => {
                format!("{owner} of group {group}: {}", names.join(", "))
            }
            (_, false) => format!("{owner} of {}", names.join(", ")),
            (Owner::Boot | Owner::Mmp | Owner::Journal | Owner::Free | Owner::Unknown, _) => {
                owner.into()
            }
            _ => format!("{owner} of group {group}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

/// Prints rows as they are found.
pub(super) struct Printer<'p> {
    out: &'p mut dyn Write,
    form: Form,
    /// Number of blocks that differ.
    blocks: u64,
    printed: u64,
}

impl<'p> Printer<'p> {
    pub(super) fn begin(
        out: &'p mut dyn Write,
        form: Form,
        block_bytes: u32,
        blocks: u64,
    ) -> Result<Self> {
        if form == Form::Json {
            let equal = blocks == 0;
            write!(
                out,
                "{{\"block_bytes\": {block_bytes}, \"blocks\": {blocks}, "
            )?;
            write!(out, "\"equal\": {equal}, \"runs\": [")?;
        }
        Ok(Self {
            out,
            form,
            blocks,
            printed: 0,
        })
    }

    /// Prints `row`; in JSON, with a comma before it unless it is the first.
    pub(super) fn print(&mut self, row: &Row) -> Result<()> {
        self.printed += 1;
        if self.form == Form::Json {
            let separator = if self.printed == 1 { "" } else { "," };
            let text = serde_json::to_string(row).map_err(std::io::Error::from)?;
            return Ok(write!(self.out, "{separator}\n{text}")?);
        }
        let last = row.first_block + row.blocks - 1;
        let range = format!("{}-{last}", row.first_block);
        let text = row.text();
        Ok(writeln!(self.out, "{range:<24} {:>8}  {text}", row.blocks)?)
    }

    pub(super) fn end(self) -> Result<()> {
        let (blocks, runs) = (self.blocks, self.printed);
        match self.form {
            Form::Json => writeln!(self.out, "\n]}}")?,
            Form::Text if blocks > 0 => {
                writeln!(self.out, "{blocks} blocks differ, in {runs} runs")?;
            }
            Form::Text => {}
        }
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diff_blocks::Runs;
    use crate::commands::diff_owners::{Image, Owners};
    use std::sync::Arc;
    use uext4::MountOptions;
    use uext4::device::MemDevice;
    use uext4::mkfs::{self, MkfsOptions, Preset};

    fn change(device: &Arc<MemDevice>, work: impl FnOnce(&Filesystem)) {
        let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("a mount");
        work(&fs);
        fs.unmount().expect("an unmount");
    }

    /// Two images with differences of all kinds.
    fn images() -> [Arc<MemDevice>; 2] {
        let a = Arc::new(MemDevice::new(16 << 20));
        mkfs::format(&*a, &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
        change(&a, |fs| {
            for nr in 0..30 {
                let data = vec![nr; 1000 * usize::from(nr)];
                fs.paths().write(format!("/{nr}"), data).expect("a file");
            }
            fs.paths()
                .write("/large", vec![1; 1 << 20])
                .expect("a file");
        });
        let b = Arc::new(a.snapshot());
        change(&b, |fs| {
            for nr in (0..30).step_by(3) {
                let data = vec![nr + 1; 1000 * usize::from(nr)];
                fs.paths().write(format!("/{nr}"), data).expect("a file");
            }
            fs.paths().remove_file("/7").expect("a file");
            fs.paths()
                .write("/large", vec![2; 1 << 20])
                .expect("a file");
            fs.paths().create_dir("/new").expect("a directory");
        });
        [a, b]
    }

    fn printed(a: &MemDevice, b: &MemDevice, form: Form, claims_max: usize) -> (String, u64) {
        let disk = uext4::read_superblock(b, None).expect("a superblock");
        let geometry = disk.geometry().expect("a geometry");
        let differing = Runs::compare(a, b, &geometry).expect("reads");
        let image = Image {
            a,
            b,
            disk: &disk,
            geometry: &geometry,
            differing: &differing,
        };
        let open = || {
            let device = Arc::new(b.snapshot());
            Ok(Filesystem::mount(device, MountOptions::default()).expect("a mount"))
        };
        let mut out = Vec::new();
        let size = geometry.block_size();
        let mut printer = Printer::begin(&mut out, form, size, differing.count()).unwrap();
        let (mut from, mut windows) = (0, 0);
        while from < geometry.blocks_count {
            let owners = Owners::find(&image, from, claims_max).expect("owners");
            assert!(owners.end() > from, "gets somewhere");
            from = owners.end();
            for row in owners.named(open).unwrap() {
                printer.print(&row).unwrap();
            }
            windows += 1;
        }
        printer.end().unwrap();
        (String::from_utf8(out).expect("text"), windows)
    }

    #[test]
    fn windows_of_every_length_print_the_same() {
        let [a, b] = images();
        for form in [Form::Text, Form::Json] {
            let (whole, windows) = printed(&a, &b, form, usize::MAX);
            assert_eq!(windows, 1);
            assert!(whole.lines().count() > 25, "{whole}");
            for claims_max in [2, 3, 7, 20] {
                let (same, windows) = printed(&a, &b, form, claims_max);
                assert!(windows > 1, "{windows}");
                assert_eq!(whole, same, "{claims_max} claims");
            }
        }
        let (equal, _) = printed(&a, &a, Form::Text, 10);
        assert_eq!(equal, "");
    }
}
