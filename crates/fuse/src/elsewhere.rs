//! Mounts of a connection in other mount namespaces.
//!
//! An unmount acts on the own namespace. A process in another one that has a copy of the mount, as
//! containers and sandboxed services have, keeps the connection.

use crate::mount_table::has_connection;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time of the search: tables of mounts may be long.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// A process whose namespace has the mount.
pub(crate) struct Keeping {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

/// A process in another mount namespace that has a mount of `connection`. Processes that this user
/// may not look at are not found.
pub(crate) fn keeping(connection: u64) -> Option<Keeping> {
    let own = namespace(Path::new("/proc/self"))?;
    let mut seen: HashSet<PathBuf> = [own].into();
    let pids = fs::read_dir("/proc").ok()?;
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let begin = Instant::now();
    for pid in pids.take_while(|_| begin.elapsed() < LOOK_LIMIT) {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_new = namespace(&process).is_some_and(|found| seen.insert(found));
        let table = is_new.then(|| fs::read(process.join("mountinfo")).ok());
        if table
            .flatten()
            .is_some_and(|table| has_connection(&table, connection))
        {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            return Some(Keeping {
                pid,
                name: name.trim_end().to_owned(),
            });
        }
    }
    None
}

fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}
