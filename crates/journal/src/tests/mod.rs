//! Tests of the whole journal on a device that remembers every write.

mod basics;
mod device;
mod objects;
