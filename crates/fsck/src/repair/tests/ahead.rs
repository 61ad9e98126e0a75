//! What is read was asked for before.

use super::tree::{Tree, options};
use crate::report::Limits;
use crate::subject::Subject;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use uext4_device::{BlockDevice, Error};
use uext4_format::InodeNr;
use uext4_mkfs::InodeCount;
use uext4_num::u64_of;

const BLOCK: u64 = 1024;

/// A device that knows what it was asked for.
struct Asked {
    inner: Arc<dyn BlockDevice>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    asked: BTreeSet<u64>,
    n_requests: usize,
    n_reads: usize,
    /// Blocks that were asked for before they were read.
    ahead: BTreeSet<u64>,
}

impl BlockDevice for Asked {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut log = self.log.lock().unwrap();
        log.n_reads += 1;
        let blocks = offset / BLOCK..(offset + u64_of(buf.len())).div_ceil(BLOCK);
        let ahead: Vec<_> = blocks.filter(|block| log.asked.contains(block)).collect();
        log.ahead.extend(ahead);
        self.inner.read_at(offset, buf)
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        let mut log = self.log.lock().unwrap();
        log.n_requests += 1;
        log.asked
            .extend(offset / BLOCK..(offset + len).div_ceil(BLOCK));
    }
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn directories_and_inodes_are_asked_for_before_they_are_read() {
    const N: usize = 60;
    let names: Vec<_> = (0..N).map(|at| format!("{at}/")).collect();
    let mut options = options(&[], &[]);
    options.inodes = InodeCount::AtLeast(320);
    options.blocks_per_group = Some(1024);
    let tree = Tree::new(&options, &names);
    let (wanted, tables) = tree.change(|patch| {
        let numbers: Vec<_> = patch
            .check
            .links
            .directories
            .iter()
            .map(|it| it.nr)
            .collect();
        let mut blocks = BTreeSet::new();
        let mut tables = BTreeSet::new();
        // The first part is read at once.
        for nr in numbers.into_iter().skip(2).map(InodeNr) {
            let inode = patch.inode(nr).expect("a read").expect("an inode");
            let extents = patch.extents_of(nr, &inode).expect("a map");
            blocks.extend(extents.iter().flat_map(|it| it.start.0..it.physical_end()));
            let group = patch.check.geometry.split_inode(nr).expect("a group").0.0;
            if group > 0 {
                tables.extend(patch.check.inode_byte(nr).map(|byte| byte / BLOCK));
            }
        }
        (blocks, tables)
    });
    assert!(wanted.len() >= N && tables.len() > 5, "{tables:?}");
    for threads in [1, 3] {
        let subject = tree.subject();
        let device = Arc::new(Asked {
            inner: subject.device,
            log: Mutex::default(),
        });
        let subject = Subject {
            device: device.clone(),
            ..subject
        };
        let limits = Limits {
            threads,
            ..Limits::default()
        };
        let report = crate::whole_check::check(&subject, &limits).expect("a check");
        assert!(report.is_clean(), "{report:#?}");
        let log = device.log.lock().unwrap();
        // Each other thread begins with parts that it reads at once.
        let missed = wanted.union(&tables).filter(|at| !log.ahead.contains(at));
        let missed = missed.count();
        let expected = if threads == 1 { 0 } else { threads * 4 };
        assert!(missed <= expected, "{missed} by {threads} threads");
        assert!(log.n_requests < log.n_reads, "{}", log.n_requests);
    }
}
