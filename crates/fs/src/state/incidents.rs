//! Incident log of the mount: each damaged place and failed access once, for programs that log.
//!
//! Operations and background threads enter damage, failed device accesses, and the end of writing.
//! Entries stay until the unmount, so a listener that registers later also gets those of the mount
//! itself.
//!
//! Invariants: one entry per structure and place; at most [`PLACES_MAX`] entries, then one that
//! says so. A listener gets each entry once.
//! Locking: [`Rank::Queue`] guards the list; a listener is called without it.

use crate::types::error::Error;
use std::collections::HashSet;
use std::fmt;
use uext4_format::{Corrupt, DamageLocation};
use uext4_sync::{Arc, Mutex, Rank};

/// Distinct places that are listed in one mount.
const PLACES_MAX: usize = 1024;

/// Damage, a failed access, or the end of writing.
#[derive(Clone, Debug)]
pub enum Incident {
    /// A structure is damaged, or the device failed an access.
    Met(Error),
    /// Writing has ended, with its cause.
    Stopped(Error),
    /// The list is full; further places are not reported.
    Unlisted,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met(error) => error.fmt(f),
            Self::Stopped(cause) => write!(f, "nothing more is written: {cause}"),
            Self::Unlisted => write!(
                f,
                "errors were met in {PLACES_MAX} places; further places are not told"
            ),
        }
    }
}

/// Receiver of the incidents of a mount.
pub trait Listener: Send + Sync {
    /// Runs on the thread that met the incident, which may hold locks of the file system: it must
    /// not wait, and must not use the file system.
    fn hear(&self, incident: &Incident);
}

/// Identity of an incident, for deduplication.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Damage(DamageLocation, &'static str),
    /// The kind of access and its block.
    Access(&'static str, u64),
    LostFlush,
}

#[derive(Default)]
struct Entered {
    keys: HashSet<Key>,
    is_stopped: bool,
    list: Vec<Incident>,
    listener: Option<Arc<dyn Listener>>,
}

pub(crate) struct Incidents {
    entered: Mutex<Entered>,
    block_bits: u32,
}

impl Incidents {
    /// An empty log, for a file system with this block size.
    pub(crate) fn new(block_bits: u32) -> Self {
        Self {
            entered: Mutex::new(Rank::Queue, Entered::default()),
            block_bits,
        }
    }

    /// Enters an error of the image or its device; other errors are ignored.
    pub(crate) fn met(&self, error: &Error) {
        let Some(key) = self.key(error) else {
            return;
        };
        self.enter(|entered| match entered.keys.len() {
            _ if entered.keys.contains(&key) => None,
            PLACES_MAX.. => None,
            before => {
                entered.keys.insert(key);
                let last = (before + 1 == PLACES_MAX).then_some(Incident::Unlisted);
                Some([Some(Incident::Met(error.clone())), last])
            }
        });
    }

    /// Enters the end of writing. Only the first cause is entered; a requested end is no incident.
    pub(crate) fn stopped(&self, cause: &Error) {
        if matches!(cause, Error::Journal(uext4_journal::Error::Closed)) {
            return;
        }
        self.enter(|entered| {
            let is_first = !std::mem::replace(&mut entered.is_stopped, true);
            is_first.then(|| [Some(Incident::Stopped(cause.clone())), None])
        });
    }

    /// Registers `listener`, which replaces an earlier one, and gives it the entries so far.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        let mut entered = self.entered.lock();
        entered.listener = Some(listener.clone());
        let past = entered.list.clone();
        drop(entered);
        past.iter().for_each(|incident| listener.hear(incident));
    }

    /// All entries, oldest first.
    pub(crate) fn list(&self) -> Vec<Incident> {
        self.entered.lock().list.clone()
    }

    fn enter(&self, news: impl FnOnce(&mut Entered) -> Option<[Option<Incident>; 2]>) {
        let mut entered = self.entered.lock();
        let news = news(&mut entered).into_iter().flatten().flatten();
        let news: Vec<Incident> = news.collect();
        entered.list.extend(news.iter().cloned());
        let listener = entered.listener.clone();
        drop(entered);
        if let Some(listener) = listener {
            news.iter().for_each(|incident| listener.hear(incident));
        }
    }

    fn key(&self, error: &Error) -> Option<Key> {
        match error {
            Error::Corrupt(corrupt) => Some(damage(corrupt)),
            Error::Device(device) => self.access(device),
            Error::Journal(journal) => self.key_of_journal(journal),
            _ => None,
        }
    }

    /// Errors that stop the journal have no key here: [`Self::stopped`] enters them.
    fn key_of_journal(&self, error: &uext4_journal::Error) -> Option<Key> {
        use uext4_journal::Error as Journal;
        match error {
            Journal::Corrupt(corrupt) => Some(damage(corrupt)),
            Journal::Device(device) => self.access(device),
            Journal::Unwritten { cause } => self.key_of_journal(cause),
            Journal::Lost => Some(Key::LostFlush),
            _ => None,
        }
    }

    fn access(&self, error: &uext4_device::Error) -> Option<Key> {
        use uext4_device::Error as Device;
        match error {
            Device::Io { op, offset, .. } => Some(Key::Access(op, offset >> self.block_bits)),
            Device::OutOfRange { offset, .. } => {
                Some(Key::Access("access", offset >> self.block_bits))
            }
            _ => None,
        }
    }
}

fn damage(corrupt: &Corrupt) -> Key {
    Key::Damage(corrupt.place, corrupt.structure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::{BlockNr, CorruptKind, InodeNr};

    #[derive(Default)]
    struct Heard(std::sync::Mutex<Vec<String>>);

    impl Listener for Heard {
        fn hear(&self, incident: &Incident) {
            let mut heard = self.0.lock().expect("nothing panics with it");
            heard.push(incident.to_string());
        }
    }

    fn leaf(block: u64) -> Error {
        let place = DamageLocation::InodeBlock(InodeNr(12), BlockNr(block));
        Corrupt::new(place, "directory leaf", CorruptKind::ChecksumTail).into()
    }

    fn read(offset: u64) -> Error {
        let source = std::io::Error::from_raw_os_error(5);
        uext4_device::Error::io("read", offset, 512, source).into()
    }

    fn told(incidents: &Incidents) -> Vec<String> {
        let list = &incidents.entered.lock().list;
        list.iter().map(Incident::to_string).collect()
    }

    #[test]
    fn a_place_is_entered_once() {
        let incidents = Incidents::new(12);
        let heard = Arc::new(Heard::default());
        incidents.entered.lock().listener = Some(heard.clone());
        for error in [
            leaf(7),
            leaf(7),
            leaf(8),
            read(4096),
            read(5000),
            read(8192),
        ] {
            incidents.met(&error);
        }
        // Errors of the request do not concern the image.
        incidents.met(&Error::NotFound);
        incidents.met(&Error::NoSpace);
        let told = told(&incidents);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("inode 12, block 7: directory leaf"));
        assert_eq!(*heard.0.lock().expect("nothing panics with it"), told);
    }

    #[test]
    fn the_end_of_writing_is_entered_once_and_only_if_it_is_an_error() {
        let incidents = Incidents::new(12);
        incidents.stopped(&uext4_journal::Error::Closed.into());
        assert!(told(&incidents).is_empty());
        incidents.stopped(&read(0));
        incidents.stopped(&leaf(1));
        let told = told(&incidents);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("nothing more is written: device: read"));
    }

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let incidents = Incidents::new(12);
        (0..3000).for_each(|block| incidents.met(&leaf(block)));
        incidents.stopped(&leaf(0));
        let told = told(&incidents);
        assert_eq!(told.len(), PLACES_MAX + 2);
        assert!(told[PLACES_MAX].contains("further places are not told"));
        assert!(told[PLACES_MAX + 1].starts_with("nothing more is written"));
    }
}
