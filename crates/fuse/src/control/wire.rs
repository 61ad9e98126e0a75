//! Messages of the control protocol.
//!
//! Layout: a request is `{"version":1,"verb":VERB,...}` with the fields of the variant of [`Ask`].
//! An answer is `{"version":1,"answer":...}` or `{"version":1,"refusal":{"errno":N,"text":...}}`.

use super::quota::{NewGrace, NewLimits};
use super::snapshot_wire::SnapshotWanted;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use uext4::Flush;

/// Version of the protocol; a server refuses others.
pub(super) const VERSION: u64 = 1;
/// Maximum size of a request, in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Maximum size of an answer that a client reads, in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Maximum time that a client waits for most answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests to a running mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// The server: process id, program version, mount point, transport, freeze and sandbox state.
    Server {},
    /// Incidents since the mount: a list of sentences ([`uext4::Incident`]).
    Incidents {},
    /// All statistics: those of [`uext4::Stats`], `server`, and requests of the kernel.
    Stats {},
    /// Statistics of block groups in ascending order: a list of [`uext4::GroupStats`].
    Groups {
        /// Number of the first group, from 0.
        from: u32,
        /// Maximum number of groups; the server may list fewer.
        count: u32,
    },
    /// Free space by extent length and by position ([`uext4::FreeFragments`]).
    FreeFragments {
        /// Number of slices of the map by position.
        slices: u32,
    },
    /// Discards free space ([`uext4::Filesystem::trim`]); returns the number of discarded bytes.
    Trim {
        /// First byte of the range in the file system.
        from_bytes: u64,
        /// End of the range, exclusive.
        end_bytes: u64,
        /// Minimum length of a discarded run.
        min_len_bytes: u64,
    },
    /// Moves data of a file into fewer extents ([`uext4::Filesystem::defragment`]); returns a
    /// [`uext4::Defragmented`].
    Defragment {
        /// Path of the file from the root of the file system.
        path: String,
        /// Counts extents, and moves nothing.
        dry_run: bool,
    },
    /// Values of tunables and readings: an object by name.
    Get {
        /// The names; an empty list means all.
        names: Vec<String>,
    },
    /// Sets a tunable to a number.
    Set {
        /// One of [`uext4::Filesystem::TUNABLES`], or `trigger_fs_error`.
        name: String,
        /// The new value, in the unit of the tunable.
        value: u64,
    },
    /// Usage and limits of owners in ascending order: a list of [`QuotaRow`](super::QuotaRow).
    Quota {
        /// `user`, `group` or `project`.
        kind: String,
        /// Lowest id to be listed.
        from: u32,
        /// Maximum number of owners; the server may list fewer.
        count: u32,
    },
    /// Sets the limits of an owner.
    SetQuota {
        /// `user`, `group` or `project`.
        kind: String,
        /// Id of the user, group or project.
        id: u32,
        /// The limits to be changed.
        limits: NewLimits,
    },
    /// Sets the grace times of a kind.
    SetQuotaGrace {
        /// `user`, `group` or `project`.
        kind: String,
        /// The grace times to be changed.
        grace: NewGrace,
    },
    /// Flushes everything to the image and freezes it; changes wait.
    Freeze {},
    /// Grows the file system ([`uext4::Filesystem::grow`]); returns a
    /// [`uext4::resize::ResizeReport`].
    Grow {
        /// The new size. Without it and without `more_bytes`: all of the device.
        size_bytes: Option<u64>,
        /// The growth, instead of a size.
        more_bytes: Option<u64>,
        /// Plans only, and changes nothing.
        dry_run: bool,
    },
    /// Thaws a frozen mount; waiting changes go on.
    Thaw {},
    /// After an unmount: thaws, and refuses any further freeze or remount.
    Detached {},
    /// Shuts the file system down ([`uext4::Filesystem::shutdown`]).
    Shutdown {
        /// Data that are written before the shutdown.
        flush: Flush,
    },
    /// Takes a snapshot, which this connection reads from then on ([`super::Remote`]).
    Snapshot(SnapshotWanted),
    /// Ends running snapshots; returns their number.
    EndSnapshots {
        /// Number of the one; without it all of them.
        id: Option<u64>,
    },
    /// Forgets copies that a later one could continue; returns their number.
    ForgetBackups {
        /// Identifier of the one; without it all of them.
        id: Option<String>,
    },
    /// Changes mount options ([`uext4::Filesystem::remount`]).
    Remount {
        /// Options as of `mount -o remount`, separated by commas.
        options: String,
    },
}

impl Ask {
    /// Maximum wait for the answer; `None` for work without a time limit.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self {
            Ask::Server {}
            | Ask::Incidents {}
            | Ask::Stats {}
            | Ask::Groups { .. }
            | Ask::FreeFragments { .. }
            | Ask::Get { .. }
            | Ask::Set { .. }
            | Ask::Quota { .. }
            | Ask::Thaw {}
            | Ask::EndSnapshots { .. }
            | Ask::ForgetBackups { .. }
            | Ask::Detached {} => Some(PATIENCE),
            // Changes of quota wait while the mount is frozen.
            Ask::Trim { .. }
            | Ask::Defragment { .. }
            | Ask::SetQuota { .. }
            | Ask::SetQuotaGrace { .. }
            | Ask::Freeze {}
            | Ask::Grow { .. }
            | Ask::Shutdown { .. }
            | Ask::Snapshot(_)
            | Ask::Remount { .. } => None,
        }
    }
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Linux errno of the refusal.
    pub errno: i32,
    /// The reason as one sentence, for the user.
    pub text: String,
}

impl Refusal {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self {
            errno: libc::EINVAL,
            text: text.into(),
        }
    }
}

impl From<uext4::Error> for Refusal {
    fn from(error: uext4::Error) -> Self {
        Self {
            errno: error.errno(),
            text: error.to_string(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Answer to a request: a value, or a refusal.
pub(super) type Answered = Result<Value, Refusal>;

pub(super) fn request(ask: &Ask) -> Vec<u8> {
    line(serde_json::to_value(ask).expect("its fields are plain"))
}

pub(super) fn parse_request(line: &[u8]) -> Result<Ask, Refusal> {
    let nonsense = |error: serde_json::Error| Refusal::invalid(format!("request: {error}"));
    let mut value: Value = serde_json::from_slice(line).map_err(nonsense)?;
    check_version(&mut value)?;
    serde_json::from_value(value).map_err(nonsense)
}

pub(super) fn answer(answered: Answered) -> Vec<u8> {
    line(match answered {
        Ok(value) => json!({ "answer": value }),
        Err(refusal) => json!({ "refusal": refusal }),
    })
}

/// Decodes an answer. The outer error is a malformed line.
pub(super) fn parse_answer(line: &[u8]) -> Result<Answered, Refusal> {
    let nonsense = |error: serde_json::Error| Refusal::invalid(format!("answer: {error}"));
    let mut value: Value = serde_json::from_slice(line).map_err(nonsense)?;
    check_version(&mut value)?;
    match value.get_mut("answer").map(Value::take) {
        Some(answer) => Ok(Ok(answer)),
        None => serde_json::from_value(value["refusal"].take())
            .map(Err)
            .map_err(nonsense),
    }
}

fn line(mut value: Value) -> Vec<u8> {
    value["version"] = VERSION.into();
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn check_version(value: &mut Value) -> Result<(), Refusal> {
    let object = value.as_object_mut();
    let object = object.ok_or_else(|| Refusal::invalid("a line is a JSON object"))?;
    match object.remove("version").and_then(|found| found.as_u64()) {
        Some(VERSION) => Ok(()),
        other => Err(Refusal {
            errno: libc::EPROTONOSUPPORT,
            text: match other {
                Some(other) => format!("version {other} of the protocol, not {VERSION}"),
                None => "the version of the protocol is missing".into(),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_back() {
        let ask = Ask::Set {
            name: "mb_prefetch".into(),
            value: 7,
        };
        assert_eq!(parse_request(&request(&ask)), Ok(ask));
        let refusal = Refusal::invalid("no");
        for answered in [Ok(json!([1, "x"])), Ok(Value::Null), Err(refusal)] {
            assert_eq!(parse_answer(&answer(answered.clone())), Ok(answered));
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (line, reason) in [
            ("", "EOF"),
            ("[]", "object"),
            (r#"{"verb":"stats"}"#, "version"),
            (r#"{"version":2,"verb":"stats"}"#, "version 2"),
            (r#"{"version":1,"verb":"dance"}"#, "unknown variant `dance`"),
            (r#"{"version":1,"verb":"get"}"#, "names"),
            (r#"{"version":1,"verb":"stats","more":1}"#, "more"),
            (r#"{"version":1,"verb":"set","name":"x","value":-1}"#, "-1"),
        ] {
            let refusal = parse_request(line.as_bytes()).expect_err(line);
            assert!(refusal.text.contains(reason), "{line}: {refusal}");
        }
    }
}
