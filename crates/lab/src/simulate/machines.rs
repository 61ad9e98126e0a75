//! Machines, from files in which each number has its source.

use super::schedule::Work;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use uext4_sync::simulation::Machine;

/// The machine that the work of operations was measured on.
pub(super) const THIS: &str = "this-machine";

const FILES: [(&str, &str); 3] = [
    (
        "kunpeng-920",
        include_str!("../../machines/kunpeng-920.json"),
    ),
    ("epyc-9654", include_str!("../../machines/epyc-9654.json")),
    (THIS, include_str!("../../machines/this-machine.json")),
];

/// A machine, and how it compares with the one on which operations were measured.
pub(super) struct Host {
    pub(super) machine: Machine,
    /// Cores of all sockets.
    pub(super) cores: usize,
    /// Time of the same work, as a multiple of that on `this-machine`.
    work_scale: f64,
}

/// A number with its source.
#[derive(Deserialize)]
struct Figure {
    value: f64,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sockets: Figure,
    cores_per_socket: Figure,
    line_bytes: Figure,
    hit_ns: Figure,
    rmw_ns: Figure,
    near_ns: Figure,
    far_ns: Figure,
    spin_ns: Figure,
    block_ns: Figure,
    wake_ns: Figure,
    wake_latency_ns: Figure,
    switch_ns: Figure,
    slice_ns: Figure,
    work_scale: Figure,
}

impl Host {
    pub(super) fn of_name(name: &str) -> Result<Self> {
        let Some((name, text)) = FILES.into_iter().find(|(one, _)| *one == name) else {
            let names: Vec<&str> = FILES.into_iter().map(|(name, _)| name).collect();
            bail!("the machines are {}", names.join(", "));
        };
        let file: File = serde_json::from_str(text).with_context(|| name.to_owned())?;
        file.host(name)
    }
}

impl Host {
    /// The work measured on `this-machine`, on this one. How busy cores slow each other down is
    /// known of `this-machine` alone.
    pub(super) fn work(&self, measured: Work) -> Work {
        Work {
            ps: (measured.ps as f64 * self.work_scale) as u64,
            busy_scale: if self.machine.name == THIS {
                measured.busy_scale
            } else {
                1.0
            },
        }
    }
}

impl File {
    fn host(&self, name: &str) -> Result<Host> {
        let of = |figure: &Figure| -> Result<f64> {
            if figure.source.is_empty() {
                bail!("{name}: a number has no source")
            } else {
                Ok(figure.value)
            }
        };
        let ps = |figure: &Figure| of(figure).map(|ns| (ns * 1e3) as u64);
        let cores_per_socket = of(&self.cores_per_socket)? as usize;
        let machine = Machine {
            name: name.to_owned(),
            cores_per_socket,
            line_bytes: of(&self.line_bytes)? as usize,
            hit_ps: ps(&self.hit_ns)?,
            rmw_ps: ps(&self.rmw_ns)?,
            near_ps: ps(&self.near_ns)?,
            far_ps: ps(&self.far_ns)?,
            spin_ps: ps(&self.spin_ns)?,
            block_ps: ps(&self.block_ns)?,
            wake_ps: ps(&self.wake_ns)?,
            wake_latency_ps: ps(&self.wake_latency_ns)?,
            switch_ps: ps(&self.switch_ns)?,
            slice_ps: ps(&self.slice_ns)?,
        };
        Ok(Host {
            machine,
            cores: of(&self.sockets)? as usize * cores_per_socket,
            work_scale: of(&self.work_scale)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_machines_are_complete() {
        for (name, _) in FILES {
            let host = Host::of_name(name).expect("its file is complete");
            assert!(host.machine.near_ps <= host.machine.far_ps && host.cores > 1);
        }
    }
}
