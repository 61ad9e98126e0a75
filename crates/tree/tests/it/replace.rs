//! Replacing files: the old or the new one is whole at each end, also across hard links.

use crate::rig::Rig;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use uext4_testkit::skip;
use uext4_tree::{Error, Event, Existing, Export, Import};

fn replacing(rig: &Rig) -> Import<'_> {
    Import::new(&rig.fs).existing(Existing::Replace)
}

/// Trees of backups share files between their directories.
#[test]
fn a_source_may_be_another_name_of_what_it_replaces() {
    let rig = Rig::new();
    rig.make(&["a/", "b/", "a/f", "a/g"]);
    fs::hard_link(rig.host("a/f"), rig.host("b/f")).unwrap();
    fs::hard_link(rig.host("a/f"), rig.host("b/g")).unwrap();
    let mut import = replacing(&rig);
    import.content(rig.host("a"), "/").unwrap();
    import.content(rig.host("b"), "/").unwrap();
    import.content(rig.host("b"), "/").unwrap();
    drop(import);
    let paths = rig.fs.paths();
    for name in ["/f", "/g"] {
        assert_eq!(paths.read(name).unwrap(), b"a/f");
        assert_eq!(paths.metadata(name).unwrap().nlink(), 2);
    }
    rig.assert_clean();
}

/// The names of a file are replaced one by one; the next source has a further name of it.
#[test]
fn a_further_name_of_a_file_that_was_replaced_is_a_new_file() {
    let rig = Rig::new();
    rig.make(&["x/", "y/", "z/", "x/f", "y/f"]);
    fs::hard_link(rig.host("x/f"), rig.host("z/g")).unwrap();
    let mut import = replacing(&rig);
    for source in ["x", "y", "z"] {
        import.content(rig.host(source), "/").unwrap();
    }
    drop(import);
    assert_eq!(rig.fs.paths().read("/f").unwrap(), b"y/f");
    assert_eq!(rig.fs.paths().read("/g").unwrap(), b"x/f");
    rig.assert_clean();
}

/// What e2fsck found is wanted; the empty directory belongs to the file system.
#[test]
fn lost_files_are_copied_and_an_empty_directory_for_them_is_not() {
    let rig = Rig::new();
    rig.make(&["empty/", "full/"]);
    Export::new(&rig.fs)
        .content("/", rig.host("empty"))
        .unwrap();
    assert!(!rig.host("empty/lost+found").exists());
    rig.fs.paths().write("/lost+found/#12", b"found").unwrap();
    Export::new(&rig.fs).content("/", rig.host("full")).unwrap();
    let found = fs::read(rig.host("full/lost+found/#12"));
    assert_eq!(found.unwrap(), b"found");
    rig.assert_clean();
}

fn names(rig: &Rig) -> Vec<Vec<u8>> {
    let entries = rig.fs.paths().read_dir("/").unwrap();
    let names = entries.map(|entry| entry.unwrap().name);
    names.filter(|name| name != b"lost+found").collect()
}

#[test]
fn a_full_image_keeps_the_old_file() {
    let rig = Rig::new();
    rig.fs.paths().write("/file", b"old").unwrap();
    fs::write(rig.host("file"), vec![7; 20 << 20]).unwrap();
    let failed = replacing(&rig).tree(rig.host("file"), "/file");
    assert!(failed.unwrap_err().is_final());
    assert_eq!(rig.fs.paths().read("/file").unwrap(), b"old");
    assert_eq!(names(&rig), [b"file"]);
    rig.assert_clean();
}

#[test]
fn a_cancelled_copy_keeps_the_old_file() {
    let rig = Rig::new();
    rig.fs.paths().write("/file", b"old").unwrap();
    fs::write(rig.host("file"), vec![7; 2 << 20]).unwrap();
    let mut import = replacing(&rig).on_event(|event| match event {
        Event::Bytes(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let failed = import.tree(rig.host("file"), "/file");
    assert!(matches!(failed, Err(Error::Cancelled)));
    drop(import);
    assert_eq!(rig.fs.paths().read("/file").unwrap(), b"old");
    assert_eq!(names(&rig), [b"file"]);
    replacing(&rig).tree(rig.host("file"), "/file").unwrap();
    assert_eq!(rig.fs.paths().metadata("/file").unwrap().len(), 2 << 20);
    assert_eq!(names(&rig), [b"file"]);
    rig.assert_clean();
}

#[test]
fn an_attribute_that_does_not_fit_fails_its_file_only() {
    let rig = Rig::new();
    rig.make(&["in/", "in/a", "in/large", "in/z"]);
    let large = rig.host("in/large");
    let set = rustix::fs::setxattr(
        &large,
        "user.large",
        &[7; 3000],
        rustix::fs::XattrFlags::empty(),
    );
    let test = "an_attribute_that_does_not_fit_fails_its_file_only";
    if !skip::can_or_skip(test, set.is_ok(), "a host with extended attributes") {
        return;
    }
    let mut failed = Vec::new();
    let mut import = Import::new(&rig.fs).on_event(|event| {
        if let Event::Failed(error) = event {
            failed.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    import.tree(rig.host("in"), "/in").unwrap();
    assert_eq!((import.summary().files, import.summary().failed), (3, 1));
    drop(import);
    assert!(failed[0].contains("/in/large") && failed[0].contains("user.large"));
    assert_eq!(rig.fs.paths().read("/in/z").unwrap(), b"in/z");
    rig.assert_clean();
}

#[test]
fn the_directory_at_the_top_gets_its_attributes() {
    let rig = Rig::new();
    rig.make(&["secret/", "secret/file"]);
    fs::set_permissions(rig.host("secret"), PermissionsExt::from_mode(0o750)).unwrap();
    let old = fs::metadata(rig.host("secret")).unwrap();
    Import::new(&rig.fs)
        .content(rig.host("secret"), "/new")
        .unwrap();
    let new = rig.fs.paths().metadata("/new").unwrap();
    assert_eq!(new.mode() & 0o7777, 0o750);
    assert_eq!((new.uid(), new.gid()), (old.uid(), old.gid()));
    assert_eq!(new.modified(), old.modified().unwrap());
    rig.fs.paths().set_permissions("/new", 0o711).unwrap();
    Export::new(&rig.fs)
        .content("/new", rig.host("out"))
        .unwrap();
    let out = fs::metadata(rig.host("out")).unwrap();
    assert_eq!(out.mode() & 0o7777, 0o711);
    assert_eq!(out.modified().unwrap(), old.modified().unwrap());
    rig.make(&[
        "empty/",
        "fresh/",
        "fresh/lost+found/",
        "home/",
        "home/kept",
    ]);
    for (name, mode) in [("empty", 0o711), ("fresh", 0o711), ("home", 0o700)] {
        fs::set_permissions(rig.host(name), PermissionsExt::from_mode(0o700)).unwrap();
        let done = Export::new(&rig.fs).content("/new", rig.host(name));
        done.unwrap();
        // A directory that was in use is no copy.
        let found = fs::metadata(rig.host(name)).unwrap();
        assert_eq!(found.mode() & 0o7777, mode, "{name}");
        assert!(rig.host(name).join("file").exists());
    }
    rig.assert_clean();
}

/// The size that they claim is 0, or a page.
#[test]
fn files_of_the_kernel_are_read_to_their_end() {
    let rig = Rig::new();
    let mut import = Import::new(&rig.fs);
    for (nr, host) in ["/proc/cpuinfo", "/sys/class/net/lo/address"]
        .iter()
        .enumerate()
    {
        let Ok(expected) = fs::read(host) else {
            continue; // a sandbox without these file systems
        };
        let path = format!("/{nr}");
        import.tree(host, &path).unwrap();
        let copy = rig.fs.paths().read(&path).unwrap();
        // Frequencies of processors change.
        assert_eq!(copy.len().abs_diff(expected.len()) / 64, 0, "{host}");
        assert!(!copy.is_empty() && !copy.contains(&0), "{host}");
    }
    drop(import);
    rig.assert_clean();
}
