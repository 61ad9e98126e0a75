//! Reads tar files, OCI layouts and `docker save` archives as sources of ext4 images.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]
