//! Model-checked schedules of a growing dentry cache, without the rest of the engine.

use super::dentries::Dentries;
use super::dentry_memory::{DentryMemory, MEMORY_PARTS};
use super::hashed_name::{Key, NameHasher};
use uext4_format::InodeNr;
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use uext4_sync::{Arc, thread};

const MEMORY_BYTES: u64 = 1 << 20;
const WRITERS: u32 = 2;
/// Names per writer; each gets an inode of its own in each round.
const NAMES: u32 = 3;
const ROUNDS: u32 = 2;

struct Table {
    dentries: Dentries,
    hasher: NameHasher,
    memory: Arc<DentryMemory>,
    /// By inode: its users, and whether it was freed for lack of users.
    users: Vec<AtomicU32>,
    freed: Vec<AtomicBool>,
}

/// Names get and lose inodes while their table grows. A forgotten inode is not answered again, and
/// an inode that is answered again after a user was counted is not freed.
///
/// # Panics
/// When one of these fails.
pub fn names_table() {
    let inodes = || 0..WRITERS * NAMES * ROUNDS;
    let table = Arc::new(Table {
        dentries: Dentries::default(),
        hasher: NameHasher::of_seed(1, 2),
        memory: DentryMemory::new(&Arc::new(AtomicU64::new(MEMORY_BYTES * MEMORY_PARTS))),
        users: inodes().map(|_| AtomicU32::new(0)).collect(),
        freed: inodes().map(|_| AtomicBool::new(false)).collect(),
    });
    table.dentries.grow(&table.memory);
    let spawn = |work: fn(&Table, u32), nr| {
        let table = table.clone();
        thread::spawn(move || work(&table, nr))
    };
    let writers = (0..WRITERS).map(|nr| spawn(Table::write, nr));
    let all: Vec<_> = writers.chain([spawn(Table::search, 0)]).collect();
    (0..3).for_each(|_| table.dentries.grow(&table.memory));
    all.into_iter()
        .for_each(|thread| thread.join().expect("no thread panics"));
}

impl Table {
    fn key(&self, name: u32) -> Key {
        self.hasher.key(&name.to_le_bytes())
    }

    /// Puts and forgets the names of one writer, whose blocks no other thread locks.
    fn write(&self, writer: u32) {
        for round in 0..ROUNDS {
            for name in (0..NAMES).map(|nr| writer * NAMES + nr) {
                let (key, nr) = (self.key(name), InodeNr(name * ROUNDS + round));
                self.dentries.put(key, nr);
                let said = self.dentries.get(key);
                assert!(said.is_none_or(|said| said == nr), "an inode of before");
                self.dentries.forget(key);
                assert_eq!(self.dentries.get(key), None, "it was forgotten");
                if self.users[nr.0 as usize].load(SeqCst) == 0 {
                    self.freed[nr.0 as usize].store(true, SeqCst);
                }
            }
        }
    }

    fn search(&self, _: u32) {
        for key in (0..WRITERS * NAMES).map(|name| self.key(name)) {
            let Some(nr) = self.dentries.get(key) else {
                continue;
            };
            self.users[nr.0 as usize].fetch_add(1, SeqCst);
            if self.dentries.get(key) == Some(nr) {
                let is_freed = self.freed[nr.0 as usize].load(SeqCst);
                assert!(!is_freed, "it has a user");
            }
            self.users[nr.0 as usize].fetch_sub(1, SeqCst);
        }
    }
}
