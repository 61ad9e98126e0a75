//! `uext4 tune`: changes parameters of an existing file system.

use super::info::Info;
use crate::failure::{At, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::{numbers, show};
use uext4::{OnError, Presence, Tuning, mkfs};

/// Change label, UUID, reserved blocks, error behaviour and features of a file system
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 tune disk.img -O orphan_file       add the orphan file; -O ^orphan_file takes it away
  uext4 tune disk.img -O fast_commit       a cheaper fsync; -O ^fast_commit as before
  uext4 tune disk.img -L data -m 1         a label, and 1 % of the blocks for the superuser
  uext4 tune disk.img -O metadata_csum_seed -U random
  uext4 tune disk.img -e remount-ro        what mounts do about damage

The image must not be mounted. A new UUID would change every checksum, unless the file system has
metadata_csum_seed or no checksums.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Features to turn on, or off with ^: fast_commit, orphan_file; only on: metadata_csum_seed
    #[arg(short = 'O', long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<String>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// UUID, or `random`, or `clear` for none
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Blocks kept for the superuser, in percent of all (0 to 50)
    #[arg(
        short = 'm',
        long,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=50)
    )]
    reserved: Option<u8>,
    /// What mounts do about damage: continue, remount-ro or panic
    #[arg(short = 'e', long, value_name = "BEHAVIOUR", value_parser = behaviour)]
    errors: Option<OnError>,
    /// Print JSON: the file system afterwards, as `uext4 info --json` shows it
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let tuning = self.tuning()?;
        let name = self.image.name();
        if tuning == Tuning::default() {
            let problem = "nothing to change; say -O, -L, -U, -m or -e";
            return Err(Failure::usage(format!("{name}: {problem}")));
        }
        self.image.change(|fs| fs.tune(&tuning).at(&name))?;
        if self.json {
            let disk =
                uext4::read_superblock(&*self.image.device(Purpose::Read)?, None).at(&name)?;
            show::json(&mut std::io::stdout(), &Info::new(&disk, None).at(&name)?)?;
        }
        Ok(())
    }

    fn tuning(&self) -> Result<Tuning> {
        let mut tuning = Tuning {
            label: self.label.clone().map(String::into_bytes),
            uuid: self.uuid,
            reserved_percent: self.reserved,
            on_error: self.errors,
            ..Tuning::default()
        };
        for feature in &self.features {
            match feature.as_str() {
                "orphan_file" => tuning.orphan_file = Some(Presence::Present),
                "^orphan_file" => tuning.orphan_file = Some(Presence::Absent),
                "fast_commit" => tuning.fast_commit = Some(Presence::Present),
                "^fast_commit" => tuning.fast_commit = Some(Presence::Absent),
                "metadata_csum_seed" => tuning.fix_checksum_seed = true,
                other => {
                    let problem =
                        "cannot be changed; fast_commit, orphan_file and metadata_csum_seed can";
                    return Err(Failure::usage(format!("-O {other}: {problem}")));
                }
            }
        }
        Ok(tuning)
    }
}

fn uuid(text: &str) -> std::result::Result<[u8; 16], String> {
    match text {
        "random" => Ok(mkfs::random_uuid()),
        "clear" => Ok([0; 16]),
        text => numbers::uuid(text),
    }
}

fn behaviour(text: &str) -> std::result::Result<OnError, String> {
    match text {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        "panic" => Ok(OnError::Panic),
        _ => Err("continue, remount-ro or panic".into()),
    }
}
