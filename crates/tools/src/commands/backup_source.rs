//! What a copy of a mount reads: a snapshot, with its log replayed in memory.

use crate::failure;
use std::ops::Range;
use uext4::device::{BlockDevice, Overlay};
use uext4::format::Feature;
use uext4::{MountOptions, repair};
use uext4_fuse::Remote;
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Memory for the changes of a replay, in bytes.
const REPLAY_BYTES: u64 = 2 << 30;

/// What is copied.
pub(super) struct Source {
    pub(super) device: Arc<dyn BlockDevice>,
    /// The same with its log replayed, and the ascending ranges that the replay changed.
    pub(super) changed: Option<(Arc<Overlay>, Vec<Range<u64>>)>,
}

impl Source {
    /// Granules that the replay changed, in ascending order, each once.
    pub(super) fn granules(&self, granule_bytes: u64) -> impl Iterator<Item = u64> {
        let ranges = self.changed.iter().flat_map(|(_, ranges)| ranges);
        let mut next = 0;
        ranges.flat_map(move |range| {
            let first = next.max(range.start / granule_bytes);
            next = next.max(range.end.div_ceil(granule_bytes));
            first..next
        })
    }

    /// Reads a range; most of them have no change.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> uext4::Result<()> {
        let end = offset + u64_of(buf.len());
        if let Some((overlay, changed)) = &self.changed {
            let next = changed.partition_point(|range| range.end <= offset);
            if changed.get(next).is_some_and(|range| range.start < end) {
                return Ok(overlay.read_at(offset, buf)?);
            }
        }
        Ok(self.device.read_at(offset, buf)?)
    }
}

/// The snapshot with its log replayed, as far as that needs memory.
pub(super) fn recovered(snapshot: &Remote, device: Arc<dyn BlockDevice>) -> uext4::Result<Source> {
    let overlay = Arc::new(Overlay::rehearsal(device.clone(), REPLAY_BYTES));
    let journal = snapshot.journal();
    let journal = journal.map(|journal| Arc::new(overlay.beside(journal)));
    let whole: Arc<dyn BlockDevice> = overlay.clone();
    let options = MountOptions {
        journal_device: journal.map(|journal| -> Arc<dyn BlockDevice> { journal }),
        ..MountOptions::default()
    };
    repair::recover(&whole, &options)?;
    let superblock = uext4::read_superblock(&*whole, None)?;
    if superblock.features().has(Feature::MMP) {
        uext4::clear_mmp(&whole)?;
    }
    if options.journal_device.is_some() {
        // The mount uses the journal, which is replayed.
        let left = uext4::set_journal(&whole, &options, uext4::Journal::None);
        if let Err(why) = left {
            failure::info(format_args!(
                "the copy still names the external journal of the mount: {why}"
            ));
        }
    }
    let ranges = overlay.changed_ranges();
    Ok(Source {
        device,
        changed: Some((overlay, ranges)),
    })
}
