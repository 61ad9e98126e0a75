//! Tests of the whole journal on a recording device.

mod basics;
mod crash;
mod device;
mod fast;
#[cfg(not(shuttle))]
mod group;
mod hostile;
mod linux;
#[cfg(shuttle)]
mod model;
pub(crate) mod objects;
mod quiet;
#[cfg(not(shuttle))]
mod reclaim;
mod stress;
mod supersede;
