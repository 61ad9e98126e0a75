//! The size of what the server of another user sends.

use crate::failure::{At, Exit, Failure, Result};
use uext4::device::BlockDevice;

/// Refuses a device of another user's server that is larger than its file system, and would fill
/// the host.
pub(super) fn refuse_more_than_the_file_system(name: &str, device: &dyn BlockDevice) -> Result<()> {
    let size_bytes = device.size_bytes();
    let disk = uext4::read_superblock(device, None).at(name)?;
    let geometry = disk.geometry().map_err(uext4::Error::from).at(name)?;
    let has_bytes = disk
        .blocks_count
        .saturating_mul(geometry.block_size().into());
    if size_bytes <= has_bytes {
        return Ok(());
    }
    let text = format!(
        "{name}: the server of another user sends {size_bytes} bytes, and the file system has \
         {has_bytes}"
    );
    Err(Failure::new(Exit::Failed, text).hint("run the command as that user"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4::device::MemDevice;
    use uext4::mkfs::{MkfsOptions, Preset};
    use uext4_sync::Arc;

    #[test]
    fn a_stranger_sends_no_more_than_its_file_system() {
        let device = |bytes: u64| -> Arc<dyn BlockDevice> {
            let device = Arc::new(MemDevice::new(bytes));
            let window = uext4::device::Window::new(device.clone(), 0, 8 << 20);
            let window: Arc<dyn BlockDevice> = Arc::new(window.expect("it is inside"));
            uext4::mkfs::format(&*window, &MkfsOptions::new(Preset::Ext4)).expect("it has room");
            device
        };
        let refused = |bytes| refuse_more_than_the_file_system("mnt", &*device(bytes));
        assert!(refused(8 << 20).is_ok());
        assert!(refused((8 << 20) + 512).is_err());
        assert!(refused(1 << 40).is_err());
        let blank = MemDevice::new(8 << 20);
        assert!(refuse_more_than_the_file_system("mnt", &blank).is_err());
    }
}
