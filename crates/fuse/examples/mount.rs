//! Mounts an image: `mount IMAGE DIR [daemon] [ro] [through] [gate=FILE] [late=FILE]
//! [io_uring|dev_fuse] [-o WORDS]`, and `mount umount DIR [lazy]`.
//!
//! With `late=FILE`, the image is opened once the file is gone, and a line says that it waits.
//! With `gate=FILE`, a flush of the image waits while another process holds the lock of the file,
//! as on a device whose flushes take long.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use uext4_device::{Access, BlockDevice, FileDevice};
use uext4_fuse::{Channel, DataCache, Lazy, MountOptions, Owners, Run, Sandbox, mount, umount};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["umount", dir, rest @ ..] => {
            let lazy = if rest.contains(&"lazy") {
                Lazy::Yes
            } else {
                Lazy::No
            };
            umount(Path::new(dir), lazy).map(|image| println!("{image:?}"))
        }
        [image, dir, rest @ ..] => serve(image, dir, rest),
        _ => {
            eprintln!("mount IMAGE DIR [daemon] [ro] [through] [io_uring|dev_fuse] [-o WORDS]");
            eprintln!("mount umount DIR [lazy]");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_mode(words: &[&str]) -> Run {
    if words.contains(&"daemon") {
        Run::Daemon
    } else {
        Run::Foreground
    }
}

fn serve(image: &str, dir: &str, words: &[&str]) -> uext4_fuse::Result<()> {
    let read_only = words.contains(&"ro");
    let list = match words {
        [.., "-o", list] => list,
        _ => "",
    };
    let wanted = if read_only {
        uext4::MountOptions::read_only()
    } else {
        uext4::MountOptions::default()
    };
    let gate = words.iter().find_map(|word| word.strip_prefix("gate="));
    let mut owners = Owners::default();
    let is_owner = |word: &&str| owners.take(word).expect("the option makes sense");
    let (_, rest): (Vec<&str>, Vec<&str>) = list.split(',').partition(is_owner);
    let wanted = wanted.parse(&rest.join(","))?;
    let options = MountOptions {
        source: image.to_owned(),
        read_only,
        no_atime: wanted.no_atime,
        nfs_export: words.contains(&"nfs_export"),
        idmap: words.contains(&"idmap"),
        sync: wanted.sync,
        dirsync: wanted.dirsync,
        run: run_mode(words),
        owners,
        // The sandbox has no locks of files.
        sandbox: match gate {
            Some(_) => Sandbox::Off,
            None => Sandbox::Best,
        },
        files: vec![image.into()],
        channel: if words.contains(&"io_uring") {
            Channel::IoUring
        } else if words.contains(&"dev_fuse") {
            Channel::DevFuse
        } else {
            Channel::Best
        },
        data_cache: if words.contains(&"through") {
            DataCache::WriteThrough
        } else {
            DataCache::WriteBack
        },
        ..MountOptions::default()
    };
    let late = words.iter().find_map(|word| word.strip_prefix("late="));
    let open = || {
        if let Some(late) = late {
            println!("waiting");
            while Path::new(late).exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        let mode = if read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let image = FileDevice::open(Path::new(image), mode)?;
        let device: Arc<dyn BlockDevice> = match gate {
            Some(gate) => Arc::new(Gated::new(image, Path::new(gate))),
            None => Arc::new(image),
        };
        uext4::Filesystem::mount(device, wanted)
    };
    mount(open, Path::new(dir), &options)
}

/// An image whose flushes wait for the lock of a file.
struct Gated {
    image: FileDevice,
    gate: File,
}

impl Gated {
    fn new(image: FileDevice, gate: &Path) -> Self {
        let gate = File::open(gate).expect("the gate is there");
        Self { image, gate }
    }
}

impl BlockDevice for Gated {
    fn size_bytes(&self) -> u64 {
        self.image.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), uext4_device::Error> {
        self.image.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), uext4_device::Error> {
        self.image.write_at(offset, buf)
    }

    fn flush(&self) -> Result<(), uext4_device::Error> {
        flock(&self.gate, FlockOperation::LockExclusive).expect("the gate can be locked");
        flock(&self.gate, FlockOperation::Unlock).expect("it is locked");
        self.image.flush()
    }

    fn is_read_only(&self) -> bool {
        self.image.is_read_only()
    }

    fn describe(&self) -> String {
        self.image.describe()
    }
}
