//! Memory of a large build.

use uext4_builder::{Builder, Content, Data, Node, ReadAt, Sink, Size};
use uext4_testkit::oracle;

use crate::support::{entry, options};

/// A file of one byte, with a handle of the size that files of the host have.
struct Handle([u64; 3]);

impl ReadAt for Handle {
    fn read_at(&self, _: u64, buf: &mut [u8]) -> std::io::Result<()> {
        buf.fill(self.0[0] as u8);
        Ok(())
    }
}

fn file(path: &str) -> uext4_builder::Entry<'static> {
    let data = Data::Later {
        ranges: std::iter::once(0..1).collect(),
        file: Box::new(Handle([1, 2, 3])),
    };
    entry(path, Node::File(Content { size: 1, data }))
}

/// Most kilobytes that this process had in memory.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("VmHWM");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}

/// A million files of a block each. Alone in its process: `cargo test -- --ignored a_million`.
#[test]
#[ignore = "slow: cargo test -p uext4-builder a_million -- --ignored, alone in its process"]
fn a_million_files_take_256_mib() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut builder = Builder::create(&image, options(Size::Min)).expect("builder");
    for at in 0..1_000_000 {
        let path = format!("some/directory/{:03}/file-{at:07}", at % 1000);
        builder.add(file(&path)).expect("add");
    }
    builder.finish().expect("image");
    assert!(peak_kib() <= 256 << 10, "{} KiB", peak_kib());
}
