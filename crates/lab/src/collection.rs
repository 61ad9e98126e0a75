//! Collects samples of runs into series.

use crate::experiments::Unit;
use crate::measure::{Key, Results, Series, Words};
use crate::system::{self, System};
use indicatif::ProgressBar;

/// One number of one run.
pub(crate) struct Sample {
    pub(crate) metric: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn new(metric: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self {
            metric: metric.into(),
            unit,
            value,
        }
    }
}

/// All series so far, in the order of first occurrence.
pub(crate) struct Collection {
    series: Vec<Series>,
    progress: ProgressBar,
}

impl Collection {
    /// An empty collection, which shows the samples of each run above the progress bar.
    pub(crate) fn new(progress: &ProgressBar) -> Self {
        Self {
            series: Vec::new(),
            progress: progress.clone(),
        }
    }

    /// Adds the samples of one run.
    pub(crate) fn add(&mut self, key: &Key, samples: impl IntoIterator<Item = Sample>) {
        let mut words = Words::new(key);
        for sample in samples {
            words.add(&sample.metric, sample.value, sample.unit);
            let series = self
                .series
                .iter_mut()
                .find(|one| one.key == *key && one.metric == sample.metric);
            match series {
                Some(one) => one.samples.push(sample.value),
                None => self.series.push(Series {
                    key: key.clone(),
                    metric: sample.metric,
                    unit: sample.unit,
                    samples: vec![sample.value],
                }),
            }
        }
        words.show(&self.progress);
    }

    /// The results of a plan for `systems`.
    pub(crate) fn results(self, systems: &[System]) -> Results {
        let mut series = self.series;
        for one in &mut series {
            one.samples.sort_by(f64::total_cmp);
        }
        let missing = system::missing(systems);
        Results { series, missing }
    }
}
