//! Tests of the whole journal on a device that remembers every write.

mod basics;
mod crash;
mod device;
mod linux;
mod objects;
mod stress;
