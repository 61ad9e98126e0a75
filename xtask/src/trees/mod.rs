//! Copies whole trees through our mount and the kernel's, in both directions, for every kind of
//! file system.
//!
//! Forward: tar unpacks an archive into our mount; the tree is compared there, by e2fsck, by our
//! next mount and by the kernel. Back: our mount must show the tree that the kernel wrote, and
//! e2fsck must find no damage after our mount removed it.

mod configs;
pub(crate) mod judge;
mod round;

use std::time::Instant;

use anyhow::{Context, Result};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::served::ServedMount;

use crate::server::Server;

pub use configs::Config;
pub use round::{Figures, round_trip};

/// Runs all configurations, or one, and prints the progress in lines.
///
/// # Errors
/// The first configuration that failed, with the seed.
pub fn run(server: &Server, entries: usize, seed: u64, only: Option<Config>) -> Result<()> {
    let configs = only.map_or_else(|| Config::ALL.to_vec(), |config| vec![config]);
    if !(ServedMount::available_or_skip("trees") && KernelMount::available_or_skip("trees")) {
        return Ok(());
    }
    println!(
        "{entries} names, seed {seed}, {} configurations",
        configs.len()
    );
    for config in configs {
        let start = Instant::now();
        let figures = round_trip(server, &config, entries, seed)
            .with_context(|| format!("config {}, seed {seed}, {entries} names", config.name))?;
        println!(
            "{:15} {figures}, all in {:.1} s",
            config.name,
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
