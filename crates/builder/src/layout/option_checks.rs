//! Options that make no image are refused before anything is written.

use uext4_format::Feature;
use uext4_mkfs::Plan;

use crate::content::chunks::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::layout::size_plan::first_plan;
use crate::options::BuildOptions;

/// Features without which it makes nothing.
const NEEDED: [Feature; 2] = [Feature::EXTENTS, Feature::FLEX_BG];

/// Checks the options, and computes the first numbers and the most blocks.
pub(crate) fn check(options: &mut BuildOptions) -> Result<(Plan, u64)> {
    let format = &mut options.format;
    format.placement = uext4_mkfs::Placement::Packed;
    let features = format.features;
    for feature in NEEDED {
        if !features.has(feature) {
            let problem = format!("the feature {feature} is off");
            return Err(Error::Refused {
                source_name: "the options".to_owned(),
                problem,
                advice: "leave it on: images need it",
            });
        }
    }
    if features.has(Feature::EA_INODE) && features.has(Feature::QUOTA) {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: "quota and ea_inode are both on".to_owned(),
            advice: "leave one out: attributes in inodes are not counted for their owners",
        });
    }
    if format.external_journal.is_some() {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: "an image has no journal on another device".to_owned(),
            advice: "build without a journal and add it later",
        });
    }
    let (plan, blocks) = first_plan(options.size, format)?;
    let cluster_bytes = 1024_u64 << plan.superblock.log_cluster_size;
    if cluster_bytes > CHUNK_BYTES {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: format!("a cluster has {cluster_bytes} bytes"),
            advice: "images have clusters of up to 1 MiB",
        });
    }
    Ok((plan, blocks))
}
