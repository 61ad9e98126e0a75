//! Mounts an image: `mount IMAGE DIR [daemon] [ro] [through] [io_uring|dev_fuse] [-o WORDS]`, and
//! `mount umount DIR [lazy]`.

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

fn serve(image: &str, dir: &str, words: &[&str]) -> uext4_fuse::Result<()> {
    let read_only = words.contains(&"ro");
    let list = match words {
        [.., "-o", list] => list,
        _ => "",
    };
    let wanted = match read_only {
        true => uext4::MountOptions::read_only(),
        false => uext4::MountOptions::default(),
    };
    let mut owners = Owners::default();
    let is_owner = |word: &&str| owners.take(word).expect("the option makes sense");
    let (_, rest): (Vec<&str>, Vec<&str>) = list.split(',').partition(is_owner);
    let wanted = wanted.parse(&rest.join(","))?;
    let options = MountOptions {
        source: image.to_owned(),
        read_only,
        no_atime: wanted.no_atime,
        sync: wanted.sync,
        dirsync: wanted.dirsync,
        run: if words.contains(&"daemon") {
            Run::Daemon
        } else {
            Run::Foreground
        },
        owners,
        sandbox: Sandbox::Best,
        files: vec![image.into()],
        channel: if words.contains(&"io_uring") {
            Channel::IoUring
        } else if words.contains(&"dev_fuse") {
            Channel::DevFuse
        } else {
            Channel::Best
        },
        data_cache: match words.contains(&"through") {
            true => DataCache::WriteThrough,
            false => DataCache::WriteBack,
        },
        ..MountOptions::default()
    };
    let open = || {
        let mode = if read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(Path::new(image), mode)?);
        uext4::Filesystem::mount(device, wanted)
    };
    mount(open, Path::new(dir), &options)
}
