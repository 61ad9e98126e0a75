//! Containers against qemu-img, simg2img, veritysetup, sgdisk, sfdisk and partx.
#![allow(missing_docs)]

mod gpt;
mod names;
mod qcow2;
mod sparse;
mod support;
mod table;
mod verity;
