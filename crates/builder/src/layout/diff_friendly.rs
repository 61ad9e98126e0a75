//! Diff-friendly images: what does not follow from paths is decided before any contents.
//!
//! UUID, hash seed and time follow from the options, numbers and tables from the size. So the early
//! draft has everything that such images share, and contents get what is left.

use uext4_format::{BlockNr, Feature, InodeNr};
use uext4_mkfs::{Contents, Draft, Plan};

use crate::error::{Error, Result};
use crate::layout::{identity, size_plan};
use crate::options::{BuildOptions, Size};
use crate::tree::order::LOST_FOUND;

/// The numbers and the file system without contents. Fills in the options that have a default.
pub(crate) fn begin(options: &mut BuildOptions) -> Result<(Plan, Draft)> {
    let Size::Bytes(bytes) = options.size else {
        return Err(refused(
            "an image of the smallest size has other places when a file grows",
            "give a size in bytes, about twice that of the contents",
        ));
    };
    if options.format.features.has(Feature::QUOTA) {
        return Err(refused(
            "the feature quota makes files whose places follow from all others",
            "leave quota out, and add it by tune later",
        ));
    }
    if options.format.features.has(Feature::BIGALLOC) {
        return Err(refused(
            "places by path and size are those of blocks, not of clusters",
            "leave bigalloc out",
        ));
    }
    let mut plan = size_plan::given_size(options, bytes)?;
    let format = &mut options.format;
    let (uuid, hash_seed) = identity::of_options(&plan.superblock, &format.label);
    let uuid = *format.uuid.get_or_insert(uuid);
    let hash_seed = *format.hash_seed.get_or_insert(hash_seed);
    let time = *format.time.get_or_insert(0);
    plan.identify(format, uuid, hash_seed, time)?;
    let mut draft = Draft::new(plan.clone(), format)?;
    draft.allocate_group_metadata()?;
    draft.add_hidden_files(InodeNr(LOST_FOUND.0 + 1), &|_| Vec::new())?;
    Ok((plan, draft))
}

/// The early draft of a diff-friendly image with the contents.
pub(crate) fn complete(mut draft: Draft, used: &[(u64, u64)], contents: &Contents) -> Draft {
    for (start, end) in used {
        draft.occupy(BlockNr(*start), BlockNr(*end));
    }
    draft.use_inodes(contents.clone());
    draft
}

fn refused(problem: &str, advice: &'static str) -> Error {
    Error::Refused {
        source_name: "diff-friendly places".to_owned(),
        problem: problem.to_owned(),
        advice,
    }
}
