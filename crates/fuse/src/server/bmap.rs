//! Block map of a file (`FIBMAP`, swap files).
//!
//! The kernel sends `BMAP` only on mounts of block devices (`fuseblk`), in blocks of the mount's
//! size. Swapping bypasses the server: the kernel forbids changes of a swap file, and the server
//! never moves a written block.

use super::{Handled, Server};
use crate::errno::Errno;
use crate::reply::Reply;
use crate::request::Request;
use uext4::{Extent, FileType};

impl Server {
    /// Answers 0 for holes, unwritten blocks and inline data.
    pub(super) fn bmap(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        // On a part of a device the kernel would use wrong blocks.
        if !self.agreement.maps_blocks() {
            return Err(Errno::ENOSYS);
        }
        let block = self.block_on_device(request)?;
        reply.u64(block.unwrap_or(0));
        Ok(())
    }

    /// Whether writeback of dirty pages may change the reply.
    pub(super) fn bmap_lacks_data(&self, request: &Request<'_>) -> bool {
        self.agreement.maps_blocks()
            && self.may_lack_data(request.node)
            && !matches!(self.block_on_device(request), Ok(Some(_)))
    }

    fn block_on_device(&self, request: &Request<'_>) -> Result<Option<u64>, Errno> {
        let mut args = request.args();
        let (block, block_bytes) = (args.u64()?, u64::from(args.u32()?));
        let inode = self.get(request.node)?;
        let ours = u64::from(self.filesystem.statfs().block_size);
        // Another block size would confuse the kernel's units.
        if inode.kind() != FileType::Regular || block_bytes != ours {
            return Ok(None);
        }
        let at = block.checked_mul(ours).ok_or(Errno::EINVAL)?;
        let extents = self.filesystem.fiemap(&inode, at, 1)?;
        Ok(extents
            .iter()
            .find_map(|extent| device_byte(extent, at))
            .map(|byte| byte / ours))
    }
}

/// Device byte of file byte `at`.
fn device_byte(extent: &Extent, at: u64) -> Option<u64> {
    const ELSEWHERE: u32 = Extent::UNWRITTEN | Extent::DATA_INLINE | Extent::NOT_ALIGNED;
    let skip = at.checked_sub(extent.logical_bytes)?;
    let is_there = skip < extent.len_bytes && extent.flags & ELSEWHERE == 0;
    is_there.then(|| extent.physical_bytes + skip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_blocks_have_a_place() {
        let extent = |flags| Extent {
            logical_bytes: 8192,
            physical_bytes: 40960,
            len_bytes: 8192,
            flags,
        };
        let places = [0, 8192, 12288, 16384].map(|at| device_byte(&extent(Extent::LAST), at));
        assert_eq!(places, [None, Some(40960), Some(45056), None]);
        assert_eq!(device_byte(&extent(Extent::UNWRITTEN), 8192), None);
    }
}
