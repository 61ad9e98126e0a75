//! Random stacks of layers against the plain model of [`uext4_testkit::layers`].

use std::path::Path;

use uext4_builder::{Builder, Entry, Node, Result, Sink, Size};
use uext4_testkit::layers::{Layer, Object, Stack, listing};
use uext4_testkit::oracle;
use uext4_testkit::rng::Rng;

use crate::support::{attributes, entry, later, options};

/// Stacks of one run; `UEXT4_STACKS` gives another number.
const STACKS: u64 = 80;

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

fn check(seed: u64) {
    let stack = Stack::random(&mut Rng::new(seed));
    if !stack.is_known() {
        return;
    }
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
