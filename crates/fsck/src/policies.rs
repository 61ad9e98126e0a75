//! Encryption policies of inodes: all files of an encrypted directory have its policy.
//!
//! Layout: the attribute `encryption.c` holds the version of the context, the policy, and 16 bytes
//! that are the inode's own. A policy is kept as a hash with a key of this check, for runs of
//! inodes with the same one.
//! References: kernel documentation, "Filesystem-level encryption".

use crate::state::{Check, Step};
use std::hash::BuildHasher;
use uext4_format::xattr::{NameIndex, XattrName, XattrSet, XattrValue, decode_block, decode_ibody};
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr};
use uext4_sync::Arc;

/// Memory for each run of inodes, in bytes; a list that grows has twice its length.
const BYTES_PER_RUN: u64 = 32;
/// Bytes of a context of each version, and those at its end that are no policy.
const CONTEXTS: [(u8, usize); 2] = [(1, 28), (2, 40)];
const NONCE_BYTES: usize = 16;
/// Stands for all policies of other versions.
const UNKNOWN: u64 = 0;

/// Inodes in a row with the same policy.
#[derive(Clone, Copy)]
struct Run {
    first: u32,
    last: u32,
    policy: u64,
}

/// The policies of all encrypted inodes, in ascending order.
#[derive(Clone, Default)]
pub(crate) struct Policies(Vec<Run>);

impl Policies {
    pub(crate) fn get(&self, nr: InodeNr) -> Option<u64> {
        let behind = self.0.partition_point(|run| run.first <= nr.0);
        let run = self.0.get(behind.checked_sub(1)?)?;
        (nr.0 <= run.last).then_some(run.policy)
    }

    /// Adds an inode behind all others; returns how many runs are new.
    fn put(&mut self, nr: InodeNr, policy: u64) -> u64 {
        match self.0.last_mut() {
            Some(run) if run.policy == policy && run.last.checked_add(1) == Some(nr.0) => {
                run.last = nr.0;
                0
            }
            _ => {
                self.0.push(Run {
                    first: nr.0,
                    last: nr.0,
                    policy,
                });
                1
            }
        }
    }
}

/// What a context is.
#[derive(Clone, Copy)]
pub(crate) enum Context {
    Missing,
    Damaged,
    Policy(u64),
}

impl Check<'_> {
    /// Checks the context of an encrypted inode, and records its policy. Damaged attributes have a
    /// finding of their own.
    pub(crate) fn check_context(&mut self, nr: InodeNr, inode: &Inode) -> Step {
        let is_encrypted = self.geometry.features.has(Feature::ENCRYPT)
            && inode.flags.contains(InodeFlags::ENCRYPT);
        if !is_encrypted {
            return Ok(());
        }
        let Some(context) = self.context_of(nr, inode)? else {
            return Ok(());
        };
        let problem = match context {
            Context::Policy(policy) => return self.put_policy(nr, policy),
            Context::Missing => CorruptKind::ContextMissing,
            Context::Damaged => CorruptKind::ContextDamaged,
        };
        self.add_problem(DamageLocation::Inode(nr), "inode", problem);
        Ok(())
    }

    /// `None` if attributes cannot be read.
    fn context_of(&mut self, nr: InodeNr, inode: &Inode) -> Step<Option<Context>> {
        let place = DamageLocation::Inode(nr);
        let Ok(set) = decode_ibody(&inode.tail, place) else {
            return Ok(None);
        };
        if let Some(context) = self.context_in(&set) {
            return Ok(Some(context));
        }
        let block = inode.file_acl;
        if block.0 == 0 {
            return Ok(Some(Context::Missing));
        }
        if !self.may_map(&(block.0..block.0.saturating_add(1))) {
            return Ok(None);
        }
        // Many inodes may refer to one block.
        let known = self.shared.get_mut(block).and_then(|shared| shared.context);
        if let Some(known) = known {
            return Ok(known);
        }
        let bytes = self.read(block)?;
        let context = match decode_block(&bytes, place) {
            Ok(set) => Some(self.context_in(&set).unwrap_or(Context::Missing)),
            Err(_) => None,
        };
        if let Some(shared) = self.shared.get_mut(block) {
            shared.context = Some(context);
        }
        Ok(context)
    }

    fn context_in(&self, set: &XattrSet) -> Option<Context> {
        let name = XattrName::new(NameIndex::ENCRYPTION, b"c");
        let XattrValue::Here(value) = set.get(&name)? else {
            return Some(Context::Policy(UNKNOWN));
        };
        let version = value.first().copied().unwrap_or(0);
        let known = CONTEXTS.iter().find(|(known, _)| *known == version);
        Some(match known {
            None if version == 0 => Context::Damaged,
            None => Context::Policy(UNKNOWN),
            Some((_, len)) if value.len() != *len => Context::Damaged,
            Some((_, len)) => {
                let policy = value.get(..len - NONCE_BYTES);
                Context::Policy(self.names.hasher.hash_one(policy).max(UNKNOWN + 1))
            }
        })
    }

    pub(crate) fn put_policy(&mut self, nr: InodeNr, policy: u64) -> Step {
        let Some(trial) = &mut self.trial else {
            let n_new = Arc::make_mut(&mut self.policies).put(nr, policy);
            return self.take(n_new * BYTES_PER_RUN);
        };
        if trial.put_policy(nr, policy) {
            return Ok(());
        }
        self.end_trial()
    }

    /// The problem of an inode of this type in a directory with this policy.
    pub(crate) fn problem_of_policy(
        &self,
        policy: u64,
        nr: InodeNr,
        kind: FileType,
    ) -> Option<CorruptKind> {
        let may_be_plain = !matches!(
            kind,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        match self.policies.get(nr) {
            Some(other) => (other != policy).then_some(CorruptKind::PolicyOther),
            None => (!may_be_plain).then_some(CorruptKind::NotEncrypted),
        }
    }
}
