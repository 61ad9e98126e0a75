//! The axis of a plot: its title with the unit, its range, and its ticks.

/// How values become positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Proportional, from zero.
    Linear,
    /// Powers; all values are above zero.
    Log,
}

/// One axis: title, scale and range of values.
pub(super) struct Axis {
    /// Name of the quantity, with its unit.
    pub(super) title: String,
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that has all `values`.
    pub(super) fn new(
        title: impl Into<String>,
        scale: Scale,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in
            values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
        {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (1.0, 1.0);
        }
        let (low, high) = match scale {
            Scale::Linear => (0.0, most.max(1e-9) * 1.05),
            Scale::Log => log_range(least, most),
        };
        Self {
            title: title.into(),
            scale,
            low,
            high,
        }
    }

    /// An axis from the first to the last of these numbers, which are its ticks.
    pub(super) fn of_counts(title: impl Into<String>, counts: &[f64]) -> Self {
        let low = counts.first().copied().unwrap_or(1.0);
        let high = counts.last().copied().unwrap_or(1.0).max(low * 2.0);
        Self {
            title: title.into(),
            scale: Scale::Log,
            low,
            high,
        }
    }

    /// Position of a value, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.high,
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Values with marks: round ones.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high);
                let count = (self.high / step) as u32;
                (0..=count).map(|tick| f64::from(tick) * step).collect()
            }
            Scale::Log => self.powers(),
        }
    }

    /// Powers of ten, and numbers between them when they are few.
    fn powers(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades < 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let exponents = (first as i32)..=(last as i32);
        let ticks = exponents.flat_map(|exponent| {
            let power = 10f64.powi(exponent);
            factors.iter().map(move |factor| factor * power)
        });
        let slack = 1e-9;
        ticks
            .filter(|tick| *tick >= self.low * (1.0 - slack) && *tick <= self.high * (1.0 + slack))
            .collect()
    }
}

/// From the greatest 1, 2 or 5 times a power of ten below, to the least above.
fn log_range(least: f64, most: f64) -> (f64, f64) {
    let low_power = 10f64.powf(least.log10().floor());
    let mut factors = [5.0, 2.0, 1.0].into_iter();
    let factor = factors.find(|factor| factor * low_power <= least * 1.001);
    let low = factor.unwrap_or(1.0) * low_power;
    let high_power = 10f64.powf(most.log10().floor());
    let mut factors = [1.0, 2.0, 5.0, 10.0].into_iter();
    let factor = factors.find(|factor| factor * high_power >= most * 0.999);
    let high = factor.unwrap_or(10.0) * high_power;
    (low, high.max(low * 2.0))
}

/// Distance of about five ticks.
fn step(high: f64) -> f64 {
    let power = 10f64.powf((high / 5.0).log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|one| one * power * 6.0 >= high);
    factor.unwrap_or(10.0) * power
}

pub(super) fn label(value: f64) -> String {
    let names = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match names.iter().find(|(size, _)| value >= *size) {
        Some((size, name)) => format!("{}{name}", short(value / size)),
        None => short(value),
    }
}

/// At most four digits after the point, without zeros at the end.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new("a", Scale::Log, [0.007, 1.0].into_iter());
        assert_eq!(axis.ticks().len(), 8);
        assert_eq!((axis.low, axis.high), (0.005, 1.0));
        let axis = Axis::new("a", Scale::Linear, [830.0].into_iter());
        assert_eq!(axis.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let axis = Axis::new("a", Scale::Log, [5.0, 600_000.0].into_iter());
        assert_eq!(axis.ticks(), [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn positions_are_shares_of_the_range() {
        let axis = Axis::of_counts("workers", &[1.0, 8.0, 64.0]);
        assert_eq!(
            [1.0, 8.0, 64.0].map(|count| axis.share(count)),
            [0.0, 0.5, 1.0]
        );
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.001, 0.5, 20.0, 2000.0, 1_500_000.0].map(label);
        assert_eq!(shown, ["0.001", "0.5", "20", "2k", "1.5M"]);
    }
}
