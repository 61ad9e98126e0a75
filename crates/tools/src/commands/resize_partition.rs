//! `uext4 resize --partition` beyond the end of the partition: the partition of a GPT grows first.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::numbers::readable_size;
use crate::show;
use std::path::Path;
use uext4::device::partition::{self, Growth};
use uext4::device::{Access, BlockDevice, Error, FileDevice};
use uext4_sync::Arc;

/// Growth of a partition before that of its file system.
pub(super) struct Longer<'a> {
    path: &'a Path,
    name: String,
    number: u32,
    size_bytes: u64,
    growth: Growth,
}

impl<'a> Longer<'a> {
    /// What a file system of `size_bytes` needs; `None` if it is in no partition, or fits.
    pub(super) fn plan(image: &'a ImageArgs, size_bytes: u64) -> Result<Option<Self>> {
        let Some(number) = image.place.partition else {
            return Ok(None);
        };
        let (path, name) = (image.storage(), image.name());
        let disk = FileDevice::open(path, Access::ReadOnly).at(&name)?;
        let there = partition::read_table(&disk).at(&name)?;
        let own = there.iter().find(|partition| partition.number == number);
        if own.is_some_and(|own| size_bytes <= own.len_bytes) {
            return Ok(None);
        }
        let growth = match Growth::plan(&disk, number, size_bytes) {
            Err(error @ Error::NotGpt { .. }) => return Err(by_sfdisk(&name, number, &error)),
            growth => growth.at(&name)?,
        };
        let (_, after) = growth.len_bytes();
        let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        if !is_file && growth.disk_bytes() > disk.size_bytes() {
            let text = format!(
                "{name}: partition {number} of {} with the table behind it ends at byte {}, and \
                 the device at {}",
                readable_size(after),
                growth.disk_bytes(),
                disk.size_bytes()
            );
            return Err(Failure::new(Exit::Failed, text).hint("give a smaller SIZE"));
        }
        Ok(Some(Self {
            path,
            name,
            number,
            size_bytes,
            growth,
        }))
    }

    /// Writes the table, and opens the longer partition. A file gets the length for it.
    pub(super) fn open(self) -> Result<Arc<dyn BlockDevice>> {
        let name = &self.name;
        let disk = FileDevice::open(self.path, Access::ReadWrite).at(name)?;
        // The path may name another disk now, or a program may have changed the table.
        let again = Growth::plan(&disk, self.number, self.size_bytes).at(name)?;
        if again != self.growth {
            let problem = format!("{name}: its partition table changed meanwhile");
            return Err(Failure::new(Exit::Failed, problem).hint("try again"));
        }
        if self.growth.disk_bytes() > disk.size_bytes() {
            disk.set_size(self.growth.disk_bytes()).at(name)?;
        }
        self.growth.write(&disk).at(name)?;
        let partition = partition::open(Arc::new(disk), self.number).at(name)?;
        Ok(Arc::new(partition))
    }

    pub(super) fn say(&self) -> Result<()> {
        let (before, after) = self.growth.len_bytes();
        let (name, number) = (&self.name, self.number);
        let (before, after) = (readable_size(before), readable_size(after));
        show::line(format_args!(
            "{name}: partition {number} from {before} to {after}"
        ))?;
        Ok(())
    }
}

/// The steps for a table that is not changed here.
fn by_sfdisk(name: &str, number: u32, error: &Error) -> Failure {
    let steps = format!(
        "`truncate` makes a file longer, `echo ,+ | sfdisk -N {number} {name}` the partition, and \
         `uext4 resize {name} --partition {number}` its file system"
    );
    Failure::new(Exit::Failed, format!("{name}: {error}")).hint(&steps)
}
