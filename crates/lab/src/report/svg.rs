//! SVG chart of results: bars per metric and number of workers, with median, minimum and maximum.

use super::plot::{Bar, Bars, Drawing, Scale, standalone};
use crate::measure::{Results, Series};
use crate::system::System;

pub(crate) fn svg(results: &Results) -> String {
    let title = results.series.first();
    let title = title.map_or("", |series| series.key.experiment);
    let groups = groups(&results.series);
    let plots: Vec<Drawing> = groups.iter().map(|group| draw(group)).collect();
    standalone(title, &plots)
}

/// Groups the series of compared metrics, which share a scale.
fn groups(series: &[Series]) -> Vec<Vec<&Series>> {
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for one in series {
        let group = groups.iter_mut().find(|group| {
            let first = group[0];
            first.metric == one.metric && first.key.is_beside(&one.key)
        });
        match group {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn draw(group: &[&Series]) -> Drawing {
    let first = group[0];
    let workers = first.key.workers;
    let unit = first.unit.name();
    let title = format!("{}, {workers} workers ({unit})", first.metric);
    let bars = group.iter().map(|series| bar(series)).collect();
    let plot = Bars {
        title,
        scale: Scale::Linear,
        bars,
    };
    plot.draw()
}

fn bar(series: &Series) -> Bar {
    let key = &series.key;
    Bar {
        name: format!("{}, {}", key.system.name(), key.variant),
        colour: colour(key.system),
        value: series.median(),
        range: Some((series.min(), series.max())),
    }
}

fn colour(system: System) -> usize {
    match system {
        System::Uext4 => 1,
        System::Uext4Mount => 5,
        System::KernelExt4 => 2,
        System::Fuse2fs => 3,
    }
}
