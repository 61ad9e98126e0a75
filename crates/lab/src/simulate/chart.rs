//! SVG chart: rate of each worker, as a share of that of one worker alone, by number of workers.

use super::plan::Plan;
use super::row::Row;
use crate::report::plot::{Curve, Lines, Stroke, standalone};

pub(super) fn svg(plan: &Plan, rows: &[Row]) -> String {
    let plot = Lines {
        x_title: "workers".into(),
        y_title: "rate of each worker, share of that of one".into(),
        curves: curves(rows),
    };
    let title = format!("{} on {} (simulated)", plan.experiment, plan.machine);
    standalone(&title, &[plot.draw()])
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let name = format!("{}, {}", row.variant, row.metric);
        let point = (f64::from(row.workers), row.of_ideal);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name,
                stroke: Stroke::Solid,
                points: vec![point],
            }),
        }
    }
    curves
}
