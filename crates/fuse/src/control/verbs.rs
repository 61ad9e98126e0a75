//! Implementation of the verbs.
//!
//! Locking: none here; verbs run in parallel with requests of the kernel.

use super::quota;
use super::snapshot_list::Snapshots;
use super::wait_slots::WaitSlots;
use super::wire::{Answered, Ask, Refusal};
use crate::fixed_options::FixedOptions;
use crate::request_stats::RequestStats;
use crate::sandbox::Locked;
use crate::server::Server;
use crate::workers::Served;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use uext4::resize::NewSize;
use uext4::{DefragOptions, Filesystem};
use uext4_num::usize_of;
use uext4_sync::{Arc, OnceLock};

/// Maximum number of groups in one answer.
const GROUPS_MAX: u32 = 4096;
/// Maximum number of slices of a free-space map.
const SLICES_MAX: u32 = 1 << 16;

/// The mount that requests are about.
pub(super) struct Mount {
    pub(super) server: Arc<Server>,
    pub(super) path: PathBuf,
    /// Description of the transport, for users.
    pub(super) served: String,
    pub(super) fixed_options: FixedOptions,
    /// State of the sandbox, once known.
    pub(super) locked: Arc<OnceLock<Locked>>,
    pub(super) snapshots: Snapshots,
    wait_slots: WaitSlots,
}

impl Mount {
    pub(super) fn new(
        server: Arc<Server>,
        path: &Path,
        served: &Served,
        fixed_options: FixedOptions,
    ) -> Self {
        Self {
            server,
            path: path.into(),
            served: served.to_string(),
            fixed_options,
            locked: Arc::default(),
            snapshots: Snapshots::default(),
            wait_slots: WaitSlots::default(),
        }
    }

    pub(super) fn filesystem(&self) -> &Filesystem {
        self.server.filesystem()
    }
}

pub(super) fn run(mount: &Mount, ask: Ask) -> Answered {
    let filesystem = mount.filesystem();
    let _place = mount.wait_slots.take(&ask)?;
    match ask {
        Ask::Server {} => Ok(server(mount)),
        Ask::Incidents {} => Ok(incidents(filesystem)),
        Ask::Stats {} => Ok(stats(mount)),
        Ask::Groups { from, count } => Ok(groups(filesystem, from, count)),
        Ask::FreeFragments { slices } => free_fragments(filesystem, slices),
        Ask::Trim {
            from_bytes,
            end_bytes,
            min_len_bytes,
        } => Ok(filesystem
            .trim(from_bytes..end_bytes, min_len_bytes)?
            .into()),
        Ask::Defragment { path, dry_run } => defragment(filesystem, &path, dry_run),
        Ask::Get { names } => get(filesystem, &names),
        Ask::Set { name, value } => set(filesystem, &name, value),
        Ask::Quota { kind, from, count } => quota::rows(filesystem, &kind, from, count),
        Ask::SetQuota { kind, id, limits } => {
            quota::done(limits.set(filesystem, quota::kind_of(&kind)?, id))
        }
        Ask::SetQuotaGrace { kind, grace } => {
            quota::done(grace.set(filesystem, quota::kind_of(&kind)?))
        }
        Ask::Freeze {} => nothing(mount.server.freeze()),
        Ask::Grow {
            size_bytes,
            more_bytes,
            dry_run,
        } => grow(mount, (size_bytes, more_bytes), dry_run),
        Ask::Thaw {} => nothing(mount.server.thaw()),
        Ask::Detached {} => {
            mount.server.end_freezes();
            Ok(Value::Null)
        }
        Ask::Snapshot(_) => Err(Refusal::invalid("a snapshot has a connection of its own")),
        Ask::EndSnapshots { id } => mount.snapshots.end(id),
        Ask::ForgetBackups { id } => mount.snapshots.copies.forget(id.as_deref()),
        Ask::Shutdown { flush } => nothing(mount.server.shutdown(flush)),
        Ask::Remount { options } => nothing(remount(mount, &options)),
    }
}

fn grow(mount: &Mount, size: (Option<u64>, Option<u64>), dry_run: bool) -> Answered {
    let wanted = match size {
        (None, None) => NewSize::Device,
        (Some(bytes), None) => NewSize::Bytes(bytes),
        (None, Some(more)) => NewSize::More(more),
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid(
                "size_bytes and more_bytes exclude each other",
            ));
        }
    };
    let plan = if dry_run {
        mount.filesystem().plan_growth(wanted)
    } else {
        mount.server.grow(wanted)
    };
    Ok(to_value(&plan?.report()))
}

fn remount(mount: &Mount, list: &str) -> uext4::Result<()> {
    mount.server.remount(&mount.fixed_options.leave_out(list)?)
}

fn nothing(done: uext4::Result<()>) -> Answered {
    done.map(|()| Value::Null).map_err(Refusal::from)
}

fn to_value(answer: &impl serde::Serialize) -> Value {
    serde_json::to_value(answer).expect("keys are text and numbers are whole")
}

fn server(mount: &Mount) -> Value {
    json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "mount_point": mount.path.to_string_lossy(),
        "served": mount.served,
        "frozen": mount.filesystem().is_frozen(),
        "locked": mount.locked.get().map(Locked::to_string),
    })
}

/// [`uext4::Stats`] and the statistics of the server.
fn stats(mount: &Mount) -> Value {
    let request_stats = mount.server.request_stats();
    let mut stats = to_value(&mount.filesystem().stats());
    stats["requests"] = to_value(&request_stats.requests());
    stats["reads_in_place"] = request_stats.zero_copy_reads().into();
    stats["request_bounds_ns"] = RequestStats::bounds_ns().into();
    stats["nodes"] = to_value(&mount.server.node_counts());
    stats["snapshots"] = mount.snapshots.state();
    stats["server"] = server(mount);
    stats
}

fn incidents(filesystem: &Filesystem) -> Value {
    let met = filesystem.incidents();
    met.iter().map(|incident| incident.to_string()).collect()
}

fn groups(filesystem: &Filesystem, from: u32, count: u32) -> Value {
    let count = usize_of(count.min(GROUPS_MAX));
    let rows = filesystem.group_stats().skip(usize_of(from)).take(count);
    rows.map(|row| to_value(&row)).collect()
}

fn free_fragments(filesystem: &Filesystem, slices: u32) -> Answered {
    let slices = usize_of(slices.min(SLICES_MAX));
    Ok(to_value(&filesystem.free_fragments(slices)?))
}

/// A symbolic link at the end of the path is not followed.
fn defragment(filesystem: &Filesystem, path: &str, dry_run: bool) -> Answered {
    let found = filesystem.paths().symlink_inode(path);
    let inode = found.map_err(|error| Refusal {
        errno: error.errno(),
        text: error.to_string(),
    })?;
    let options = DefragOptions { dry_run };
    let go_on = &mut |_| ControlFlow::Continue(());
    let done = filesystem.defragment(&inode, &options, go_on);
    let done = done.map_err(|error| Refusal {
        errno: error.errno(),
        text: format!("{path}: {error}"),
    })?;
    Ok(to_value(&done))
}

fn get(filesystem: &Filesystem, names: &[String]) -> Answered {
    let mut all: Map<String, Value> = filesystem
        .readings()
        .iter()
        .map(|(name, reading)| ((*name).to_owned(), to_value(reading)))
        .collect();
    let tunables = Filesystem::TUNABLES.iter();
    all.extend(tunables.map(|name| ((*name).to_owned(), filesystem.tunable(name).into())));
    if names.is_empty() {
        return Ok(all.into());
    }
    let mut found = Map::new();
    for name in names {
        let value = all.get(name).ok_or_else(|| unknown(name))?;
        found.insert(name.clone(), value.clone());
    }
    Ok(found.into())
}

fn set(filesystem: &Filesystem, name: &str, value: u64) -> Answered {
    let done = match name {
        "trigger_fs_error" if value == 0 => Err(uext4::Error::Invalid("0 triggers nothing")),
        "trigger_fs_error" => filesystem.trigger_error(),
        name if filesystem.readings().contains_key(name) => Err(uext4::Error::NotPermitted),
        name => filesystem.set_tunable(name, value),
    };
    done.map_err(|error| match error {
        uext4::Error::NotFound => unknown(name),
        uext4::Error::NotPermitted => Refusal {
            errno: libc::EPERM,
            text: format!("{name} can only be read"),
        },
        other => Refusal {
            errno: other.errno(),
            text: format!("{name}={value}: {other}"),
        },
    })?;
    Ok(Value::Null)
}

fn unknown(name: &str) -> Refusal {
    match Filesystem::reason_not_offered(name) {
        Some(why) => Refusal {
            errno: libc::EOPNOTSUPP,
            text: format!("{name} is not offered: {why}"),
        },
        None if name == "trigger_fs_error" => Refusal {
            errno: libc::EPERM,
            text: format!("{name} can only be set"),
        },
        None => Refusal {
            errno: libc::ENOENT,
            text: format!("{name}: no such tunable"),
        },
    }
}
