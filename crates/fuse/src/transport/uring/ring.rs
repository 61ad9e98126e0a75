//! One io_uring whose commands are entries of FUSE queues.
//!
//! Invariants: the kernel owns an entry from [`Ring::register`] or [`Ring::commit`] until its
//! completion. Meanwhile the server has only its address, in the completion's `user_data`, so no
//! code accesses its memory, and each entry is taken back at most once. If a ring is dropped while
//! the kernel owns entries, their memory leaks.
//! Locking: a ring belongs to the thread that called [`Ring::begin`].
#![allow(unsafe_code)]

use super::entry::Entry;
use crate::transport::dev_fuse::DevFuse;
use crate::transport::polling::{BusyPolling, SkippedPolls};
use io_uring::register::Restriction;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use uext4_num::{clamp_u32, clamp_usize, u64_of};
use uext4_sync::{Arc, Mutex, Rank};

/// Capacity of the submission queue.
const SUBMISSIONS: u32 = 64;
/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;
/// Offset of the length in `struct io_uring_sqe`.
const LEN_OFFSET: usize = 24;
/// `user_data` of the eventfd poll; never the address of an entry.
const BELL: u64 = 0;

pub(super) struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: DevFuse,
    returned: Arc<Returned>,
    polling: Arc<BusyPolling>,
    skipped: SkippedPolls,
}

pub(super) enum Completion {
    /// A request that arrived in this entry.
    Request(Box<Entry>),
    /// An entry that the kernel will not use again, with its error.
    Lost(io::Error),
    /// Other threads returned entries.
    Bell,
}

impl Ring {
    /// Makes a ring for the queues of a mount.
    ///
    /// # Errors
    /// Those of `io_uring_setup(2)`.
    pub(super) fn new(device: DevFuse, polling: Arc<BusyPolling>) -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(SUBMISSIONS)?;
        let submitter = ring.submitter();
        submitter.register_files(&[device.as_fd().as_raw_fd()])?;
        // Requests on a ring bypass seccomp filters, so the ring allows only these two.
        submitter.register_restrictions(&mut [
            Restriction::sqe_op(opcode::UringCmd80::CODE),
            Restriction::sqe_op(opcode::PollAdd::CODE),
            Restriction::sqe_flags_allowed(squeue::Flags::FIXED_FILE.bits()),
        ])?;
        let returned = Arc::new(Returned::new()?);
        Ok(Self {
            ring,
            device,
            returned,
            polling,
            skipped: SkippedPolls::default(),
        })
    }

    /// Binds the ring to the calling thread.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        // The registered descriptor saves a lookup per request; the ring keeps the file open.
        debug_assert!(self.device.as_fd().as_raw_fd() >= 0);
        self.ring.submitter().register_enable_rings()?;
        self.watch_bell()
    }

    /// Queue through which other threads return entries.
    pub(super) fn returned(&self) -> &Arc<Returned> {
        &self.returned
    }

    /// Gives the kernel a fresh entry, submitted by the next [`Ring::wait`] or [`Ring::submit`].
    pub(super) fn register(&mut self, entry: Box<Entry>) -> io::Result<()> {
        self.command(REGISTER, entry)
    }

    /// Gives the kernel an entry with a reply, to be reused for the next request.
    pub(super) fn commit(&mut self, entry: Box<Entry>) -> io::Result<()> {
        self.command(COMMIT_AND_FETCH, entry)
    }

    fn command(&mut self, op: u32, mut entry: Box<Entry>) -> io::Result<()> {
        // `struct fuse_uring_cmd_req`: flags, commit id, queue.
        let mut request = [0; 80];
        request[8..16].copy_from_slice(&entry.commit_id().to_ne_bytes());
        request[16..18].copy_from_slice(&entry.queue.to_ne_bytes());
        let vectors = u64_of(entry.vectors().expose_provenance());
        let address = u64_of(Box::into_raw(entry).expose_provenance());
        let command = opcode::UringCmd80::new(types::Fixed(0), op)
            .cmd(request)
            .addr(Some(vectors));
        let mut command = command.build().user_data(address);
        // SAFETY: a submission is 128 bytes of plain numbers, and those at `LEN_OFFSET` are its
        // length, aligned, which the builder has no name for.
        unsafe {
            let bytes: *mut u8 = (&raw mut command).cast();
            bytes.add(LEN_OFFSET).cast::<u32>().write(2);
        }
        self.push(&command)
    }

    fn watch_bell(&mut self) -> io::Result<()> {
        let bell = types::Fd(self.returned.bell.as_raw_fd());
        let poll = opcode::PollAdd::new(bell, u32::from(libc::POLLIN.cast_unsigned())).build();
        self.push(&poll.user_data(BELL).into())
    }

    fn push(&mut self, command: &squeue::Entry128) -> io::Result<()> {
        loop {
            // SAFETY: what the command points to is an entry that was given up, so that it stays
            // until the completion gives it back, or nothing.
            if unsafe { self.ring.submission().push(command) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Submits the queued commands, without waiting.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.enter(0)
    }

    /// Submits the queued commands and waits for a completion.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.enter(0)?;
        if self.has_next() {
            return Ok(());
        }
        let n_wanted = if self.comes() { 0 } else { 1 };
        self.enter(n_wanted)
    }

    /// Whether a completion is ready, at once or after busy polling.
    fn comes(&mut self) -> bool {
        let Self {
            ring,
            polling,
            skipped,
            ..
        } = self;
        let mut ready = || ring.submission().taskrun().then_some(());
        // The last caller may have run at once and sent its next request.
        ready().or_else(|| polling.poll(skipped, ready)).is_some()
    }

    fn enter(&mut self, n_wanted: u32) -> io::Result<()> {
        let n_given = clamp_u32(self.ring.submission().len());
        let mut flags = EnterFlags::GETEVENTS;
        // An idle thread does not wait for a device, so it must not count as iowait.
        flags.set(
            EnterFlags::NO_IOWAIT,
            self.ring.params().is_feature_no_iowait(),
        );
        let submitter = self.ring.submitter();
        let no_mask = None::<&libc::sigset_t>;
        // SAFETY: what the submissions point to stays until they complete (`push`), and no signal
        // mask is given.
        let entered = unsafe { submitter.enter(n_given, n_wanted, flags.bits(), no_mask) };
        match entered {
            Ok(_) => Ok(()),
            // A signal, or a full completion queue: the caller takes completions and retries.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a completion is ready.
    pub(super) fn has_next(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// The next ready completion; `None` if there is none yet.
    pub(super) fn next(&mut self) -> io::Result<Option<Completion>> {
        let Some(done) = self.ring.completion().next() else {
            return Ok(None);
        };
        if done.user_data() == BELL {
            self.returned.silence();
            self.watch_bell()?;
            return Ok(Some(Completion::Bell));
        }
        let address = std::ptr::with_exposed_provenance_mut(clamp_usize(done.user_data()));
        // SAFETY: the address is that of an entry that `command` gave up, since no other commands
        // have another `user_data` than `BELL`; a command completes once (none is multishot); so
        // this is the one box of it.
        let entry: Box<Entry> = unsafe { Box::from_raw(address) };
        Ok(Some(match done.result() {
            0.. => Completion::Request(entry),
            errno => Completion::Lost(io::Error::from_raw_os_error(-errno)),
        }))
    }
}

/// Entries answered by other threads, on their way to the ring thread.
pub(super) struct Returned {
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
    entries: Mutex<Vec<Box<Entry>>>,
    bell: OwnedFd,
}

impl Returned {
    fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let entries = Mutex::new(Rank::Queue, Vec::new());
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { entries, bell })
    }

    /// Returns an entry. Only the first one of a batch signals the eventfd.
    pub(super) fn give(&self, entry: Box<Entry>) {
        let mut entries = self.entries.lock();
        entries.push(entry);
        let is_first = entries.len() == 1;
        drop(entries);
        if is_first {
            // Fails only at an eventfd count of 2^64.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes all returned entries.
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses")]
    pub(super) fn take(&self) -> Vec<Box<Entry>> {
        std::mem::take(&mut *self.entries.lock())
    }

    fn silence(&self) {
        // Fails if the eventfd was not signalled.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}
