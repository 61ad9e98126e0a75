//! One crash, with a text form that repeats it.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use uext4::device::{self, Tearing};

use super::config::Config;
use super::plot::Plot;
use super::record::Run;

/// The pending writes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// All pending writes, whole.
    All,
    /// No pending write.
    None,
    /// A random subset of whole writes, by seed.
    Whole(u64),
    /// A random subset of torn writes, by seed.
    Torn(u64),
}

/// A crash of a run, which can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The run whose recording is cut.
    pub run: Run,
    /// Number of its events before the crash.
    pub cut: usize,
    /// Pending writes that survive the crash.
    pub survivors: Survivors,
}

impl Survivors {
    /// In the form of the device's crash log.
    pub fn for_device(self) -> device::Survivors {
        let seeded = |seed, tearing| device::Survivors::Seeded { seed, tearing };
        match self {
            Self::All => device::Survivors::All,
            Self::None => device::Survivors::None,
            Self::Whole(seed) => seeded(seed, Tearing::Whole),
            Self::Torn(seed) => seeded(seed, Tearing::Sectors),
        }
    }
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Whole(seed) => write!(f, "whole:{seed}"),
            Self::Torn(seed) => write!(f, "torn:{seed}"),
        }
    }
}

impl FromStr for Survivors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once(':') {
            None if text == "all" => Self::All,
            None if text == "none" => Self::None,
            Some(("whole", seed)) => Self::Whole(seed.parse()?),
            Some(("torn", seed)) => Self::Torn(seed.parse()?),
            _ => bail!("no survivors: {text}"),
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.run, self.cut, self.survivors)
    }
}

impl FromStr for Case {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(',').collect();
        let [config, seed, warm_up, steps, cut, survivors] = parts[..] else {
            bail!("a case is CONFIG,SEED,WARM_UP,STEPS,CUT,SURVIVORS: {text}");
        };
        let (config, plot) = match config.split_once('+') {
            None => (config, None),
            Some((config, plot)) => {
                let found = Plot::named(plot);
                (
                    config,
                    Some(found.with_context(|| format!("no plot {plot}"))?),
                )
            }
        };
        let run = Run {
            config: Config::named(config).with_context(|| format!("no configuration {config}"))?,
            plot,
            seed: seed.parse()?,
            warm_up: warm_up.parse()?,
            steps: steps.parse()?,
        };
        Ok(Self {
            run,
            cut: cut.parse()?,
            survivors: survivors.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_case_is_read_back() {
        for text in [
            "ext4,1,0,20,77,all",
            "ext4+punch,3,0,0,5,none",
            "inline,9,30,2,0,torn:12345",
        ] {
            assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
        }
        assert!("ext4,1,0,20,77".parse::<Case>().is_err());
        assert!("ext9,1,0,20,77,all".parse::<Case>().is_err());
    }
}
