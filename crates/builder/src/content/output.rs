//! The thread that writes contents to the device.
//!
//! Locking: none; batches go through a channel, which holds at most 8 of about 1 MiB. After a
//! failure the channel is closed, and the error waits for [`Output::finish`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use uext4_device::{BlockDevice, Error};

/// Most writes that wait in the channel.
const WAITING_MAX: usize = 8;
/// Bytes for one place of the device.
pub(crate) struct Write {
    /// Offset in the device, in bytes.
    pub(crate) at: u64,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The parts of the bytes, back to back on the device.
    pub(crate) ranges: Vec<Range<usize>>,
}

impl Write {
    /// Adds a part, which follows the one before on the device.
    pub(crate) fn push(&mut self, range: Range<usize>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }
}

/// The thread, and the channels to and from it.
pub(crate) struct Output {
    writes: Option<SyncSender<Write>>,
    /// Buffers whose bytes are written.
    spent: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Output {
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> Output {
        let (writes, taken) = sync_channel(WAITING_MAX);
        let (back, spent) = sync_channel(WAITING_MAX);
        let thread = std::thread::spawn(move || write_all(&*device, &taken, &back));
        Output {
            writes: Some(writes),
            spent,
            thread: Some(thread),
        }
    }

    /// Hands a write to the thread.
    ///
    /// # Errors
    /// That of an earlier write.
    pub(crate) fn write(&mut self, write: Write) -> Result<(), Error> {
        let sent = self.writes.as_ref().map(|writes| writes.send(write));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => self.finish(),
        }
    }

    /// A buffer whose bytes are written, to be used again.
    pub(crate) fn spent(&mut self) -> Option<Vec<u8>> {
        self.spent.try_recv().ok()
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// The error of the first write that failed.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.writes = None;
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            let _failure_of_a_dropped_image = thread.join();
        }
    }
}

fn write_all(
    device: &dyn BlockDevice,
    writes: &Receiver<Write>,
    back: &SyncSender<Vec<u8>>,
) -> Result<(), Error> {
    while let Ok(Write { at, bytes, ranges }) = writes.recv() {
        let parts: Vec<&[u8]> = ranges.into_iter().map(|range| &bytes[range]).collect();
        device.write_vectored_at(at, &parts)?;
        if let Some(buffer) = Arc::into_inner(bytes) {
            let _or_there_are_enough = back.try_send(buffer);
        }
    }
    Ok(())
}
