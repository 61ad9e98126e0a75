//! Events steer a transfer; errors name the path.

use crate::rig::Rig;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, symlink};
use uext4_tree::{Error, Event, Export, Import};

#[test]
fn a_failure_ends_the_transfer_unless_the_callback_goes_on() {
    let rig = Rig::new();
    rig.make(&["in/", "in/a", "in/b", "in/c"]);
    rig.fs.paths().create_dir("/to").unwrap();
    rig.fs.paths().write("/to/b", "old").unwrap();
    let mut import = Import::new(&rig.fs);
    let failed = import.content(rig.host("in"), "/to").unwrap_err();
    assert_eq!(failed.to_string(), "/to/b: file exists");
    assert!(matches!(&failed, Error::Image(at) if at.path() == b"/to/b"));
    assert!(!rig.fs.paths().exists("/to/c").unwrap());
    rig.fs.paths().remove_file("/to/a").unwrap();

    let (mut files, mut bytes, mut failures) = (Vec::new(), 0, Vec::new());
    let mut import = Import::new(&rig.fs).on_event(|event| {
        match event {
            Event::File(path) => files.push(String::from_utf8_lossy(path).into_owned()),
            Event::Bytes(more) => bytes += more,
            Event::Failed(error) => failures.push(error.to_string()),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    import.content(rig.host("in"), "/to").unwrap();
    let summary = import.summary();
    drop(import);
    assert_eq!(files, ["/to/a", "/to/b", "/to/c"]);
    assert_eq!(failures, ["/to/b: file exists"]);
    assert_eq!(
        (summary.files, summary.failed, summary.bytes),
        (3, 1, bytes),
        "a, c and the directory"
    );
    rig.assert_clean();
}

#[test]
fn a_cancelled_transfer_ends_before_the_next_file() {
    let rig = Rig::new();
    rig.make(&["in/", "in/dir/", "in/dir/a", "in/dir/b", "in/dir/c"]);
    let mode = fs::Permissions::from_mode(0o711);
    fs::set_permissions(rig.host("in/dir"), mode).unwrap();
    let stop_after_a = |event: Event<'_>| match event {
        Event::Bytes(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut import = Import::new(&rig.fs).on_event(stop_after_a);
    let ended = import.tree(rig.host("in"), "/in");
    assert!(matches!(ended, Err(Error::Cancelled)));
    let paths = rig.fs.paths();
    assert_eq!(paths.read("/in/dir/a").unwrap(), b"in/dir/a");
    assert!(!paths.exists("/in/dir/b").unwrap());
    assert_eq!(paths.metadata("/in/dir").unwrap().mode(), 0o711);

    Import::new(&rig.fs).tree(rig.host("in"), "/all").unwrap();
    let mut export = Export::new(&rig.fs).on_event(stop_after_a);
    let ended = export.tree("/all", rig.host("out"));
    assert!(matches!(ended, Err(Error::Cancelled)));
    let names = fs::read_dir(rig.host("out/dir")).unwrap().count();
    assert_eq!(names, 1);
    let mode = fs::metadata(rig.host("out/dir")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o711);
    drop(paths);
    rig.assert_clean();
}

#[test]
fn errors_name_host_and_image_paths() {
    let rig = Rig::new();
    rig.make(&["in/"]);
    symlink("none", rig.host("in/link")).unwrap();
    let told = |failed: uext4_tree::Result<()>| failed.expect_err("it fails").to_string();
    let missing = told(Import::new(&rig.fs).tree(rig.host("in/no"), "/no"));
    assert!(missing.contains("in/no: No such file"), "{missing}");
    let nowhere = told(Import::new(&rig.fs).tree(rig.host("in"), "/no/dir/in"));
    assert_eq!(nowhere, "/no/dir: /no: no such file or directory");
    let nameless = told(Import::new(&rig.fs).tree(rig.host("in"), "/"));
    assert_eq!(nameless, "/: a name is needed");
    let absent = told(Export::new(&rig.fs).tree("/no", rig.host("out")));
    assert_eq!(absent, "/no: no such file or directory");
    let parent = told(Export::new(&rig.fs).tree("/lost+found", rig.host("none/out")));
    assert!(parent.contains("none: No such file"), "{parent}");
    rig.assert_clean();
}

/// The error of a full file system is final: the callback is not asked.
#[test]
fn a_full_file_system_ends_the_transfer() {
    let rig = Rig::new();
    rig.make(&["in/"]);
    for name in ["in/a", "in/b", "in/c"] {
        fs::write(rig.host(name), vec![7; 6 << 20]).unwrap();
    }
    let mut import = Import::new(&rig.fs).on_event(|event| {
        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
        ControlFlow::Continue(())
    });
    let ended = import.tree(rig.host("in"), "/in").unwrap_err();
    assert!(ended.is_final(), "{ended}");
    assert!(matches!(&ended, Error::Image(at) if matches!(at.error(), uext4::Error::NoSpace)));
    drop(import);
    rig.assert_clean();
}
