//! Model checking: threads on the slots of one orphan file, without the rest of the engine.

use super::file::OrphanFile;
use uext4_device::BlockDevice;
use uext4_format::InodeNr;
use uext4_journal::{Config, Journal, Threads};
use uext4_sync::{Arc, thread};

const BLOCK_SIZE: u32 = 1024;
/// Each thread holds one slot at a time, and there are four slots.
const THREADS: u32 = 5;

/// Threads allocate and free slots while transactions commit: a slot has one owner, and an
/// allocation fails only if the file is full.
///
/// # Panics
/// If that is violated.
pub fn orphan_slots(device: Arc<dyn BlockDevice>) {
    let mut config = Config::new(device, BLOCK_SIZE);
    config.threads = Threads::Inline;
    let journal = Journal::open(config).expect("opens");
    let file = Arc::new(OrphanFile::empty(10..12, BLOCK_SIZE as usize));
    let workers = (1..=THREADS).map(|nr: u32| {
        let (journal, file) = (journal.clone(), file.clone());
        thread::spawn(move || (0..2).for_each(|_| take_and_empty(&journal, &file, InodeNr(nr))))
    });
    let workers: Vec<_> = workers.collect();
    journal.commit_running().expect("commits");
    workers
        .into_iter()
        .for_each(|worker| worker.join().expect("no thread panics"));
    assert!(file.is_empty());
    let handle = journal.start(2).expect("starts");
    let taken = (1..10).map_while(|nr| file.add(&handle, InodeNr(nr)));
    assert_eq!(taken.count(), 4, "every slot can be taken again");
}

fn take_and_empty(journal: &Journal, file: &OrphanFile, inode: InodeNr) {
    let handle = journal.start(2).expect("starts");
    let Some(slot) = file.add(&handle, inode) else {
        return;
    };
    drop(handle);
    assert!(
        file.entries().any(|entry| entry == (slot, inode)),
        "slot {slot} has another owner"
    );
    let handle = journal.start(2).expect("starts");
    file.remove(&handle, slot);
}
