//! Phases of an experiment, and what one worker does in them.

use anyhow::Result;

/// Unit of a phase's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Operations of a phase per second.
    PerSecond,
    /// 10^6 bytes per second; the phase counts bytes.
    MegabytesPerSecond,
    Milliseconds,
    Count,
    Mebibytes,
    /// A plain number, averaged over the workers.
    Mean,
    /// 2^10 bytes, averaged over the workers.
    MeanKibibytes,
    Nanoseconds,
    Microseconds,
    Percent,
}

impl Unit {
    const ALL: [Self; 10] = [
        Self::PerSecond,
        Self::MegabytesPerSecond,
        Self::Milliseconds,
        Self::Count,
        Self::Mebibytes,
        Self::Mean,
        Self::MeanKibibytes,
        Self::Nanoseconds,
        Self::Microseconds,
        Self::Percent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::Milliseconds => "ms",
            Self::Count => "",
            Self::Mebibytes => "MiB",
            Self::Mean => "mean",
            Self::MeanKibibytes => "KiB",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Percent => "%",
        }
    }

    /// Whether it counts per second.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Self::PerSecond | Self::MegabytesPerSecond)
    }

    /// The unit of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }
}

/// A part of a run that all workers start together.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) metric: String,
    pub(crate) unit: Unit,
}

impl Phase {
    pub(super) fn new(metric: impl Into<String>, unit: Unit) -> Self {
        Self {
            metric: metric.into(),
            unit,
        }
    }
}

/// One worker at work.
pub(crate) trait Work {
    /// Runs the phase of this index; returns its amount in the phase's unit. The index after the
    /// last phase completes the pending work of a rehearsal.
    fn phase(&mut self, index: usize) -> Result<u64>;

    /// Takes the times of the calls of the last phase, where they are of interest.
    #[cfg(simulated)]
    fn take_latencies(&mut self) -> Vec<std::time::Duration> {
        Vec::new()
    }
}
