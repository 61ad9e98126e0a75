use super::*;
use uext4_builder::{Attributes, Entry, Node, Result, Sink, Xattr};
use uext4_format::{DeviceNumber, Timestamp};

/// Paths with attributes and nodes as text.
#[derive(Default)]
struct Kept(Vec<(String, Attributes, String)>);

impl Sink for Kept {
    fn next_layer(&mut self) -> Result<()> {
        Ok(())
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let path = String::from_utf8(entry.path).unwrap();
        self.0
            .push((path, entry.attributes, format!("{:?}", entry.node)));
        Ok(())
    }

    fn hide(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn hide_below(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn entry(path: &str, node: Node<'static>) -> Entry<'static> {
    Entry {
        path: path.into(),
        attributes: Attributes {
            permissions: 0o640,
            uid: 5,
            gid: 6,
            ..Attributes::default()
        },
        node,
    }
}

fn changed(changes: &Changes, entries: Vec<Entry<'_>>) -> std::result::Result<Kept, String> {
    let mut kept = Kept::default();
    let mut sink = Changed::new(&mut kept, changes);
    let added = entries.into_iter().try_for_each(|entry| sink.add(entry));
    added.map_err(|error| error.to_string())?;
    sink.finish().map_err(|error| error.to_string())?;
    Ok(kept)
}

#[test]
fn ranges_move_owners_in_lists_too() {
    let changes = Changes {
        users: vec!["0:100000:6".parse().unwrap()],
        groups: vec!["6:1:1".parse().unwrap(), "0:50:100".parse().unwrap()],
        ..Changes::default()
    };
    let mut file = entry("a", Node::Fifo);
    let list = |uid: u8| [&b"\x02\0\0\0\x02\0\x07\0"[..], &[uid, 0, 0, 0]].concat();
    file.attributes.xattrs.push(Xattr {
        name: b"system.posix_acl_access".to_vec(),
        value: list(0),
    });
    let kept = changed(&changes, vec![file]).unwrap();
    let attributes = &kept.0[0].1;
    assert_eq!((attributes.uid, attributes.gid), (100_005, 1));
    assert_eq!(attributes.xattrs[0].value[8..], 100_000_u32.to_le_bytes());
    let mut file = entry("a", Node::Fifo);
    file.attributes.uid = 6;
    let error = changed(&changes, vec![file]).err().unwrap();
    assert!(
        error.contains("the file a has the user 6, which no map has"),
        "{error}"
    );
    for bad in [
        "",
        "1:2",
        "1:2:0",
        "1:2:3:4",
        "-1:2:3",
        "4294967295:0:1",
        "0:4294967290:9",
    ] {
        assert_eq!(bad.parse::<IdRange>(), Err(NoIdRange), "{bad}");
    }
}

#[test]
fn one_owner_for_all() {
    let changes = Changes {
        owner: Some((0, 1)),
        ..Changes::default()
    };
    let kept = changed(&changes, vec![entry("a", Node::Fifo)]).unwrap();
    assert_eq!((kept.0[0].1.uid, kept.0[0].1.gid), (0, 1));
}

const SPECIFICATION: &str = r"#mtree
/set type=file uid=1 gid=2 mode=0600
. type=dir mode=0755
    etc type=dir mode=0711
        pass\040wd size=5 uid=9 time=12.000000034 xattr.user.a=x\012
    ..
    dev type=dir
        null type=char device=linux,1,3 \
            mode=0666
        sda type=block device=0x801
    ..
..
/unset uid
./run/pipe type=fifo uname=root uid=3
./run/link type=link link=../a\\b
./absent optional
";

#[test]
fn an_mtree_changes_files_and_adds_others() {
    let changes = Changes {
        mtree: Some(Mtree::parse("spec", SPECIFICATION.as_bytes()).unwrap()),
        ..Changes::default()
    };
    let device = DeviceNumber { major: 9, minor: 9 };
    let source = vec![
        entry("etc/pass wd", Node::File(empty())),
        entry("dev/null", Node::CharDevice(device)),
        entry("other", Node::Socket),
    ];
    let kept = changed(&changes, source).unwrap().0;
    let find = |path: &str| kept.iter().find(|(other, ..)| other == path).unwrap();
    let file = &find("etc/pass wd").1;
    assert_eq!((file.uid, file.gid, file.permissions), (9, 2, 0o600));
    assert_eq!(file.mtime, Timestamp::new(12, 34));
    assert_eq!(file.xattrs[0].value, b"x\n");
    assert_eq!(find("other").1, entry("other", Node::Socket).attributes);
    assert!(
        find("dev/null").2.contains("major: 1, minor: 3"),
        "{}",
        find("dev/null").2
    );
    assert_eq!(find("dev/null").1.permissions, 0o666);
    assert!(
        find("dev/sda")
            .2
            .contains("BlockDevice(DeviceNumber { major: 8, minor: 1 })")
    );
    assert_eq!((find("run/pipe").1.uid, find("run/pipe").1.gid), (3, 2));
    assert_eq!(
        find("run/link").2,
        format!("{:?}", Node::Symlink(b"../a\\b".to_vec()))
    );
    assert_eq!(find("etc").1.permissions, 0o711);
    assert_eq!(find("").1.permissions, 0o755);
    assert_eq!(kept.len(), 9);
}

fn empty() -> uext4_builder::Content<'static> {
    struct Nothing;
    impl uext4_builder::ReadAt for Nothing {
        fn read_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
            Ok(())
        }
    }
    let data = uext4_builder::Data::Later {
        ranges: Vec::new(),
        file: Box::new(Nothing),
    };
    uext4_builder::Content { size: 0, data }
}

#[test]
fn bad_lines_of_an_mtree() {
    for (text, words) in [
        (
            "a flags=nodump",
            "line 1 has the flags nodump, which an image",
        ),
        ("a mode=u+x", "line 1 has mode=u+x, whose value is none"),
        ("\na type=door", "line 2 has type=door"),
        ("a device=native,1,2,3", "line 1 has device"),
        ("a uname=root", "line 1 names an owner without its number"),
        ("../a type=dir", "line 1 has `..` in its name"),
        (r"a\8 type=dir", "line 1 has a bad escape"),
        ("a time=1.1000000000", "line 1 has time"),
        (
            "a size=3\nb mod=0644",
            "line 2 has the key mod, which is none",
        ),
    ] {
        let error = Mtree::parse("spec", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("spec: ") && error.contains(words),
            "{error}"
        );
    }
    for (text, words) in [
        ("a type=file", "line 1 is for a file that no source has"),
        ("a type=char", "line 1 is a new file without device=NUMBER"),
        ("s type=dir", "line 1 has another type than the file"),
    ] {
        let changes = Changes {
            mtree: Some(Mtree::parse("spec", text.as_bytes()).unwrap()),
            ..Changes::default()
        };
        let error = changed(&changes, vec![entry("s", Node::Socket)])
            .err()
            .unwrap();
        assert!(error.contains(words), "{error}");
    }
}

const CONTEXTS: &str = r"
# comment
/.*                     u:r:default:s0
/etc(/.*)?              u:r:etc:s0
/etc/passwd     --      u:r:passwd:s0
/etc/a\.b              u:r:literal:s0
/etc/pass.*             u:r:pass:s0
/etc/a.*                u:r:regex:s0
/etc/dir        -d      u:r:dir:s0
/proc(/.*)?             <<none>>
/(usr|opt)/bin/.*\.sh   u:r:shell:s0
/usr/bin(/.*)?  -l      u:r:link:s0
";

#[test]
fn labels_of_the_last_or_literal_line() {
    let contexts = FileContexts::parse("file_contexts", CONTEXTS.as_bytes()).unwrap();
    let label = |path: &str, node: &Node<'_>| {
        let label = contexts.label(path.as_bytes(), node)?;
        Some(String::from_utf8(label.strip_suffix(b"\0")?.to_vec()).unwrap())
    };
    let file = Node::File(empty());
    let cases = [
        ("", &Node::Directory, Some("u:r:default:s0")),
        ("etc", &Node::Directory, Some("u:r:etc:s0")),
        ("etcetera", &file, Some("u:r:default:s0")),
        ("etc/passwd", &file, Some("u:r:passwd:s0")),
        ("etc/passwd", &Node::Fifo, Some("u:r:pass:s0")),
        ("etc/passwd-", &file, Some("u:r:pass:s0")),
        ("etc/dir", &Node::Directory, Some("u:r:dir:s0")),
        ("etc/dir", &file, Some("u:r:etc:s0")),
        ("etc/a.b", &file, Some("u:r:literal:s0")),
        ("etc/a_b", &file, Some("u:r:regex:s0")),
        ("proc/1", &file, None),
        ("opt/bin/a.sh", &file, Some("u:r:shell:s0")),
        ("opt/bin/a_sh", &file, Some("u:r:default:s0")),
        (
            "usr/bin/x",
            &Node::Symlink(b"y".to_vec()),
            Some("u:r:link:s0"),
        ),
    ];
    for (path, node, expected) in cases {
        assert_eq!(label(path, node).as_deref(), expected, "{path}");
    }
    let changes = Changes {
        contexts: Some(contexts),
        ..Changes::default()
    };
    let mut old = entry("proc/x", Node::Fifo);
    old.attributes.xattrs.push(Xattr {
        name: b"security.selinux".to_vec(),
        value: b"old\0".to_vec(),
    });
    let kept = changed(&changes, vec![old, entry("etc/x", Node::Fifo)])
        .unwrap()
        .0;
    assert_eq!(kept[0].1.xattrs, []);
    assert_eq!(kept[1].1.xattrs[0].value, b"u:r:etc:s0\0");
    for bad in ["/a", "/a -x l", "/a -- l m", "/[ l"] {
        let error = FileContexts::parse("file_contexts", bad.as_bytes()).unwrap_err();
        assert!(
            error.to_string().starts_with("file_contexts: line 1 has "),
            "{error}"
        );
    }
}
