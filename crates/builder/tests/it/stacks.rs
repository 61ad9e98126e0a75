//! Random stacks of layers against a plain model, which applies them from the bottom up to a map
//! of paths, as tar does to a directory.
//!
//! Each file has a size of its own, so types, sizes and inode numbers of a listing tell them apart.

mod model;

use std::collections::BTreeMap;
use std::path::Path;

use uext4_builder::{Builder, Entry, Node, Result, Sink, Size};
use uext4_testkit::oracle::{self, debugfs};
use uext4_testkit::rng::Rng;

use self::model::{Layer, Object, Stack};
use crate::support::{attributes, entry, later, options};

/// Stacks of one run; `UEXT4_STACKS` gives another number.
const STACKS: u64 = 80;

/// What a listing tells of a file: its type and permissions, its size, and the first path of it.
type Seen = BTreeMap<String, (u32, u64, String)>;

fn feed_layer(builder: &mut Builder, layer: &Layer, nr: u64) -> Result<()> {
    for (path, object) in &layer.entries {
        match object {
            Object::Directory { mode: Some(mode) } => {
                let mut directory = entry(path, Node::Directory);
                directory.attributes = attributes(*mode);
                builder.add(directory)?;
            }
            Object::Directory { mode: None } => {}
            Object::File(size) => {
                let bytes = vec![b'x'; *size as usize];
                match (nr + size) % 2 {
                    0 => builder.add(later(path, &bytes))?,
                    _ => builder.file(path.as_bytes(), &bytes, attributes(0o644))?,
                }
            }
            Object::Symlink(target) => {
                builder.add(entry(path, Node::Symlink(target.clone().into())))?;
            }
            Object::Link(target) => builder.add(Entry {
                path: path.clone().into(),
                attributes: attributes(0),
                node: Node::Link(target.clone().into()),
            })?,
        }
    }
    for path in &layer.whiteouts {
        builder.hide(path.as_bytes())?;
    }
    for path in &layer.opaque {
        builder.hide_below(path.as_bytes())?;
    }
    Ok(())
}

fn build(image: &Path, stack: &Stack) -> Result<()> {
    let mut builder = Builder::create(image, options(Size::Min))?;
    for (nr, layer) in (0..).zip(stack.layers.iter().rev()) {
        if nr > 0 {
            builder.next_layer()?;
        }
        feed_layer(&mut builder, layer, nr)?;
    }
    builder.finish().map(drop)
}

/// All paths of an image, with one call of debugfs for each level.
fn listing(image: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut level = vec![String::new()];
    while !level.is_empty() {
        let mut next = Vec::new();
        let list = |directory: &String| format!("ls -p \"/{directory}\"");
        let commands: Vec<String> = level.iter().map(list).collect();
        let text = debugfs(image, oracle::Access::Read, &commands).expect("debugfs");
        let mut directories = level.iter();
        let mut directory = "";
        for line in text.lines() {
            if line.starts_with("debugfs: ls") {
                directory = directories.next().expect("a directory");
            }
            let fields: Vec<&str> = line.split('/').collect();
            let [_, ino, mode, _, _, name, size, ..] = fields[..] else {
                continue;
            };
            if !line.starts_with('/') || matches!(name, "." | ".." | "lost+found") {
                continue;
            }
            let mode = u32::from_str_radix(mode, 8).expect("a mode");
            let path = model::join(directory, name);
            let is_directory = mode >> 12 == 4;
            if is_directory {
                next.push(path.clone());
            }
            let size = if is_directory {
                0
            } else {
                size.parse().expect("a size")
            };
            let first = first.entry(ino.to_owned()).or_insert(path.clone());
            *first = first.clone().min(path.clone());
            seen.insert(path, (mode, size, ino.to_owned()));
        }
        level = next;
    }
    for (_, _, same) in seen.values_mut() {
        *same = first[same].clone();
    }
    seen
}

fn check(seed: u64) {
    let stack = Stack::random(&mut Rng::new(seed));
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let built = build(&image, &stack);
    let Some(expected) = stack.merged() else {
        let error = built.expect_err("the model refuses it").to_string();
        assert!(
            error.contains("leads to no directory"),
            "seed {seed}: {error}"
        );
        return;
    };
    if let Err(error) = built {
        panic!("seed {seed}: {error}; {stack:#?}");
    }
    let seen = listing(&image);
    assert_eq!(seen, expected, "seed {seed}: {stack:#?}");
    oracle::assert_clean(&image);
}

#[test]
fn random_stacks_are_as_the_model_says() {
    let count = std::env::var("UEXT4_STACKS").ok();
    let count = count.map_or(STACKS, |text| text.parse().expect("a number"));
    for seed in 0..count {
        check(seed);
    }
}
