//! Types of the whole engine: errors, attributes, options.

pub(crate) mod attr;
pub(crate) mod base_lines;
pub(crate) mod credits;
pub(crate) mod dir_config;
pub(crate) mod error;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod settings;
