//! Zero-copy replies with splice(2): image, pipe, `/dev/fuse`.
//!
//! The pipe holds references to pages of the image. Until the kernel has copied them, their blocks
//! must not be freed; the lender of the extents guarantees that. The kernel copies before the call
//! returns. Pages are never moved (`SPLICE_F_MOVE`), since they belong to the image.
//!
//! Invariants: the pipe is empty between replies; after a failure a new pipe replaces it.
//! Limits: without privileges, as in the sandbox, a pipe has at most [`PIPE_BYTES`]
//! (`/proc/sys/fs/pipe-max-size`), and the header takes one page. The kernel is therefore told to
//! read at most [`SPLICED_BYTES_MAX`] at a time.

use super::dev_fuse::{DevFuse, Sent};
use crate::protocol::REPLY_HEADER_BYTES;
use crate::reply::InPlace;
use rustix::io::Errno;
use rustix::pipe::{self, PipeFlags, SpliceFlags, pipe_with, splice};
use std::io;
use std::os::fd::OwnedFd;
use uext4::FileRange;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Pipe capacity in bytes that needs no privileges.
const PIPE_BYTES: usize = 1 << 20;
/// Size of the largest read, in bytes; a power of two pages.
pub(super) const SPLICED_BYTES_MAX: u32 = 512 << 10;
/// After this many failures the image counts as one without splice support.
const FAILURES_MAX: u32 = 3;

/// Sends data in place through a descriptor of the device.
pub(super) struct Splicer {
    device: Arc<DevFuse>,
    pipe: Option<Pipe>,
    n_failures: u32,
}

struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    n_pages: usize,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
        // A user over the pipe limit gets a smaller pipe, whose size is read back.
        let _refused = pipe::fcntl_setpipe_size(&into, PIPE_BYTES);
        let n_pages = pipe::fcntl_getpipe_size(&into)? / page_bytes();
        Ok(Self { out, into, n_pages })
    }

    /// Splices an extent of the image into the pipe.
    fn take(&self, range: &FileRange<'_>) -> io::Result<()> {
        let (mut at, mut left) = (range.place.offset, range.len_bytes);
        while left > 0 {
            let file = range.place.file;
            match splice(
                file,
                Some(&mut at),
                &self.into,
                None,
                left,
                SpliceFlags::NONBLOCK,
            ) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(taken) => left -= taken,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn fill(&self, header: &[u8], ranges: &[FileRange<'_>]) -> io::Result<()> {
        if rustix::io::write(&self.into, header)? != header.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        ranges.iter().try_for_each(|range| self.take(range))
    }
}

impl Splicer {
    pub(super) fn new(device: Arc<DevFuse>) -> Self {
        Self {
            device,
            pipe: None,
            n_failures: 0,
        }
    }

    fn take_pipe(&mut self) -> io::Result<Pipe> {
        self.pipe.take().map_or_else(Pipe::new, Ok)
    }

    fn try_send(&mut self, header: &[u8], ranges: &[FileRange<'_>]) -> io::Result<()> {
        // A failure drops the pipe, which may not be empty.
        let pipe = self.take_pipe()?;
        pipe.fill(header, ranges)?;
        let len_bytes: usize = ranges.iter().map(|range| range.len_bytes).sum();
        let sent = self
            .device
            .send_piped(&pipe.out, header.len() + len_bytes)?;
        self.pipe = (sent == Sent::Taken).then_some(pipe);
        Ok(())
    }

    /// Whether the pipe has space for the header and the extents. Makes a pipe if needed.
    fn has_room(&mut self, ranges: &[FileRange<'_>]) -> io::Result<bool> {
        let pipe = self.take_pipe()?;
        let n_pages_max = pipe.n_pages;
        self.pipe = Some(pipe);
        Ok(n_pages(ranges) < n_pages_max)
    }
}

impl InPlace for Splicer {
    fn send(&mut self, header: &[u8; REPLY_HEADER_BYTES], ranges: &[FileRange<'_>]) -> bool {
        if self.n_failures == FAILURES_MAX || matches!(self.has_room(ranges), Ok(false)) {
            return false;
        }
        let sent = self.try_send(header, ranges).is_ok();
        self.n_failures += u32::from(!sent);
        sent
    }
}

/// Pages of the image that the extents touch.
fn n_pages(ranges: &[FileRange<'_>]) -> usize {
    let page_bytes = page_bytes();
    ranges
        .iter()
        .map(|range| {
            let within = clamp_usize(range.place.offset % u64_of(page_bytes));
            (within + range.len_bytes).div_ceil(page_bytes)
        })
        .sum()
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use uext4::device::Backing;

    const HEADER: [u8; REPLY_HEADER_BYTES] = [7; REPLY_HEADER_BYTES];

    fn range(image: &File, offset: u64, len_bytes: usize) -> FileRange<'_> {
        let file = image.as_fd();
        FileRange {
            place: Backing { file, offset },
            len_bytes,
        }
    }

    /// An image, a file in place of the device, and a splicer to it.
    fn rig() -> (File, File, Splicer) {
        let image = tempfile::tempfile().expect("there is room");
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 5) as u8).collect();
        image.write_all_at(&bytes, 0).expect("there is room");
        let device = tempfile::tempfile().expect("there is room");
        let own = device.try_clone().expect("a descriptor");
        (
            image,
            device,
            Splicer::new(Arc::new(DevFuse::new(own.into()))),
        )
    }

    fn taken(mut device: &File) -> Vec<u8> {
        let mut bytes = Vec::new();
        device.rewind().expect("it is a file");
        device.read_to_end(&mut bytes).expect("it reads");
        bytes
    }

    #[test]
    fn header_and_ranges_go_in_order() {
        let (image, device, mut splicer) = rig();
        let ranges = [range(&image, 5000, 1), range(&image, 70_001, 500_000)];
        assert!(splicer.send(&HEADER, &ranges));
        let mut expected = HEADER.to_vec();
        expected.push((5000 / 5) as u8);
        expected.extend((70_001..570_001).map(|at| (at / 5) as u8));
        assert!(taken(&device) == expected);
    }

    #[test]
    fn what_failed_leaves_nothing_in_the_pipe() {
        let (image, device, mut splicer) = rig();
        let end = 1 << 20;
        for n_failures in 1..=FAILURES_MAX {
            assert!(!splicer.send(&HEADER, &[range(&image, end - 9000, 9001)]));
            assert!(taken(&device).is_empty());
            if n_failures < FAILURES_MAX {
                assert!(splicer.send(&HEADER, &[range(&image, 0, 1)]));
                let mut expected = HEADER.to_vec();
                expected.push(0);
                assert_eq!(taken(&device), expected);
                device.set_len(0).expect("it is a file");
                (&device).rewind().expect("it is a file");
            }
        }
        assert!(
            !splicer.send(&HEADER, &[range(&image, 0, 1)]),
            "it tries no more"
        );
    }

    #[test]
    fn what_does_not_fit_in_a_pipe_is_no_failure() {
        let (image, device, mut splicer) = rig();
        let whole = [range(&image, 0, 1 << 20), range(&image, 0, 1)];
        (0..=FAILURES_MAX).for_each(|_| assert!(!splicer.send(&HEADER, &whole)));
        assert!(splicer.send(&HEADER, &[range(&image, 0, 600_000)]));
        assert_eq!(taken(&device).len(), HEADER.len() + 600_000);
    }
}
