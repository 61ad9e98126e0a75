//! The command line of `simulate`, which needs a build of its own.

use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct SimulateOptions {
    /// fallocate2, mdtest, stress-orphan, append, fsync, shrinker or checkpoint.
    experiment: String,
    /// kunpeng-920 or epyc-9654, with two sockets, or this-machine.
    #[arg(long, default_value = "kunpeng-920")]
    machine: String,
    /// Numbers of workers, one run each; a core for each of them, and the others of the machine;
    /// default: 1,2,4,8,16,32,64, for shrinker 16, for checkpoint 1.
    #[arg(long, value_delimiter = ',')]
    cores: Vec<u32>,
    /// Variants of the experiment; default: all.
    #[arg(long, value_delimiter = ',')]
    variants: Vec<String>,
    /// Length of a timed phase in milliseconds of virtual time.
    #[arg(long, default_value_t = 4.0)]
    ms: f64,
    /// Files (mdtest, fsync) or appends (append) per worker.
    #[arg(long)]
    count: Option<u64>,
    /// Files with cached extents (shrinker), or blocks that wait for their checkpoint (checkpoint);
    /// one run each.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,
    /// Size of the file system in MiB, in sparse memory; default: 65,536, and for fallocate2 7,680
    /// for each of the most workers.
    #[arg(long)]
    image_mib: Option<u64>,
    /// Size of the journal in MiB.
    #[arg(long, default_value_t = 1024)]
    journal_mib: u64,
    /// Latency of the device.
    #[arg(long, default_value_t = 0.0)]
    latency_us: f64,
    /// Bandwidth of the device in 10^6 bytes per second; 0: unlimited.
    #[arg(long, default_value_t = 0.0)]
    megabytes_per_second: f64,
    /// One JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
    /// Also draw an SVG chart into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl SimulateOptions {
    #[cfg(not(simulated))]
    pub(crate) fn run(self) -> Result<()> {
        anyhow::bail!("this build has no simulator; make simulate ARGS='fallocate2' builds it")
    }

    #[cfg(simulated)]
    pub(crate) fn run(self) -> Result<()> {
        crate::simulate::run(&crate::simulate::Plan {
            experiment: self.experiment,
            machine: self.machine,
            workers: self.cores,
            variants: self.variants,
            seconds: self.ms / 1e3,
            count: self.count,
            sizes: self.sizes,
            image_mib: self.image_mib,
            journal_mib: self.journal_mib,
            latency_us: self.latency_us,
            megabytes_per_second: self.megabytes_per_second,
            json: self.json,
            svg: self.svg,
        })
    }
}
