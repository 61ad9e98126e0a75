//! Collects samples of runs into series.

use crate::experiments::Unit;
use crate::measure::{Key, Results, Series};
use crate::system::{self, System};

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
#[derive(Default)]
pub(crate) struct Collection(Vec<Series>);

impl Collection {
    pub(crate) fn add(&mut self, key: &Key, samples: impl IntoIterator<Item = Sample>) {
        for sample in samples {
            let alike = |one: &&mut Series| one.key == *key && one.metric == sample.metric;
            match self.0.iter_mut().find(alike) {
                Some(one) => one.samples.push(sample.value),
                None => self.0.push(Series {
                    key: key.clone(),
                    metric: sample.metric,
                    unit: sample.unit,
                    samples: vec![sample.value],
                }),
            }
        }
    }

    /// The results of a plan for `systems`.
    pub(crate) fn results(self, systems: &[System]) -> Results {
        let mut series = self.0;
        for one in &mut series {
            one.samples.sort_by(f64::total_cmp);
        }
        let missing = system::missing(systems);
        Results { series, missing }
    }
}
