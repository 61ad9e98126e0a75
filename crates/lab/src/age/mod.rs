//! An aging workload: the layout that each allocator has left after a volume was overwritten many
//! times at a given utilisation.
//!
//! Layout: [`mod@profile`] has the distributions of published studies, [`workload`] the steps,
//! [`volume`] runs them on a mounted file system, [`layout`] reads the unmounted image and compares
//! it with the workload.

mod layout;
mod profile;
mod volume;
mod workload;

pub(crate) use profile::{Profile, names as profiles, of_name as profile};

use crate::backing::Backing;
use crate::cleanup::Cleanup;
use crate::client::{Client, LibraryClient, SystemClient};
use crate::collection::{Collection, Sample};
use crate::experiments::{Unit, allocators};
use crate::measure::{Key, Results, progress};
use crate::stage::{Setup, Stage, WorkerAccess};
use crate::system::{self, System};
use anyhow::{Context, Result, ensure};
use volume::{Geometry, SHAPE, Tree};
use workload::{Amount, BLOCK_BYTES, Workload};

const EXPERIMENT: &str = "age";
/// The allocators: those of uext4, two of which the kernel has as well.
pub(crate) const VARIANTS: [&str; 3] = ["linear", "optimized", "freespace-tree"];
/// The large file takes this fraction of the space for data: it fits at 95 %.
const LARGE_FILE: u64 = 32;

/// Mean size of a directory, at most.
const DIR_BLOCKS: u64 = 2;

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) profile: &'static Profile,
    pub(crate) systems: Vec<System>,
    pub(crate) variants: Vec<&'static str>,
    /// Percent of the space for data.
    pub(crate) utilisations: Vec<u64>,
    /// Data written, as a multiple of the space for data.
    pub(crate) overwrites: u64,
    pub(crate) runs: u32,
    /// Seed of the first run; the next ones follow.
    pub(crate) seed: u64,
    pub(crate) image_mib: u64,
    pub(crate) journal_mib: u64,
}

/// Runs everything, systems in turn.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let ways: Vec<(System, &'static str, Setup)> = ways(plan);
    ensure!(
        !ways.is_empty(),
        "nothing to run: no system of the list suits"
    );
    let mut cleanup = Cleanup::start()?;
    let backing = Backing::new(plan.image_mib, plan.journal_mib)?;
    cleanup.watch(backing.dir())?;
    let mut fixture = Fixture { backing, cleanup };
    let steps = ways.len() * plan.utilisations.len();
    let progress = progress(u64::from(plan.runs) * steps as u64);
    let mut all = Collection::new(&progress);
    for run in 0..plan.runs {
        for &percent in &plan.utilisations {
            for (system, variant, setup) in &ways {
                let whole = format!("{}, {variant}, {percent} %", system.name());
                progress.set_message(whole.clone());
                let seed = plan.seed + u64::from(run);
                let samples = fixture.one(plan, *system, setup, percent, seed);
                let samples = samples.with_context(|| format!("{whole}, seed {seed}"))?;
                all.add(&key(*system, variant), named(percent, samples));
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(all.results(&plan.systems))
}

fn ways(plan: &Plan) -> Vec<(System, &'static str, Setup)> {
    let systems = system::present(&plan.systems);
    let pairs = plan.variants.iter().flat_map(move |&variant| {
        let systems = systems.clone();
        systems.map(move |system| (system, variant, allocators(variant, system)))
    });
    pairs
        .filter_map(|(system, variant, setup)| Some((system, variant, setup?)))
        .collect()
}

fn key(system: System, variant: &'static str) -> Key {
    Key {
        experiment: EXPERIMENT,
        system,
        variant: variant.into(),
        workers: 1,
    }
}

fn named(percent: u64, samples: Vec<Sample>) -> impl Iterator<Item = Sample> {
    samples.into_iter().map(move |sample| Sample {
        metric: format!("{percent} %: {}", sample.metric),
        ..sample
    })
}

struct Fixture {
    backing: Backing,
    cleanup: Cleanup,
}

impl Fixture {
    /// Ages a fresh file system to `percent`.
    fn one(
        &mut self,
        plan: &Plan,
        system: System,
        setup: &Setup,
        percent: u64,
        seed: u64,
    ) -> Result<Vec<Sample>> {
        self.backing.format_with(&SHAPE)?;
        let image = self.backing.image();
        let geometry = Geometry::read(&image)?;
        let capacity_blocks = capacity_blocks(plan.profile, &geometry);
        let amount = Amount {
            capacity_blocks,
            used_blocks: capacity_blocks * percent / 100,
            written_blocks: capacity_blocks * plan.overwrites,
        };
        let mut workload = Workload::new(plan.profile, amount, seed);
        let scratch = self.backing.dir();
        let stage = Stage::mount(system, &image, scratch, setup, &mut self.cleanup)?;
        let place = stage.access();
        let done = work(plan.profile, &place, &mut workload, amount);
        drop(place);
        let torn_down = stage.tear_down();
        let mut samples = done?;
        torn_down?;
        samples.extend(layout::read(
            &image,
            plan.profile,
            &geometry,
            workload.live(),
        )?);
        Ok(samples)
    }
}

/// The space for data: directories have the rest.
fn capacity_blocks(profile: &Profile, geometry: &Geometry) -> u64 {
    let dirs = profile.parents().len() as u64;
    geometry.free_blocks.saturating_sub(dirs * DIR_BLOCKS)
}

/// Ages the mounted file system, then writes the large file.
fn work(
    profile: &Profile,
    place: &WorkerAccess,
    workload: &mut Workload,
    amount: Amount,
) -> Result<Vec<Sample>> {
    let root: Box<dyn Client> = match place {
        WorkerAccess::Library(filesystem) => Box::new(LibraryClient::new(filesystem.clone())?),
        WorkerAccess::Directory(dir) => Box::new(SystemClient::new(dir)?),
    };
    let tree = Tree::create(profile, &*root)?;
    let capacity_bytes = amount.capacity_blocks * BLOCK_BYTES;
    let aging = tree.age(workload, capacity_bytes)?;
    let (large, extents) = tree.large_file(capacity_bytes / LARGE_FILE)?;
    Ok(vec![
        Sample::new("aging", Unit::MegabytesPerSecond, aging.rate()),
        Sample::new("large file", Unit::MegabytesPerSecond, large.rate()),
        Sample::new("extents of the large file", Unit::Count, extents as f64),
    ])
}
