//! Contents that can be read at any time are read at the end, by several threads.

use uext4_num::u64_of;

use crate::content::readers::{Job, Readers};
use crate::content::writer::ContentWriter;
use crate::error::{Error, Result, shown};
use crate::tree::arena::Tree;
use crate::tree::file::DataLocation;
use crate::tree::lookup::path_of;
use crate::tree::order::Sorted;

/// Reads and writes the contents that were left, in the order of the image.
pub(crate) fn write_deferred(
    tree: &mut Tree,
    sorted: &Sorted,
    writer: &mut ContentWriter,
    threads: usize,
) -> Result<()> {
    let mut jobs = Vec::new();
    for id in &sorted.order {
        let DataLocation::Later(later) = tree.file(*id).location else {
            continue;
        };
        let file = tree.file_mut(*id);
        file.location = DataLocation::None;
        jobs.push(Job {
            file: *id,
            size: file.size,
            later,
        });
    }
    let files = std::mem::take(&mut tree.laters);
    let progress = &mut writer.reporter.progress;
    progress.total_files = Some(progress.files + u64_of(jobs.len()));
    let mut readers = Readers::new(jobs, files, threads, writer.block_size());
    while let Some(outcome) = readers.next() {
        let batch = outcome.map_err(|(file, error)| Error::Source {
            source_name: shown(&path_of(tree, file)),
            error,
        })?;
        writer.write_batch(tree, batch)?;
        if let Some(buffer) = writer.output.spent() {
            readers.reuse(buffer);
        }
    }
    Ok(())
}
