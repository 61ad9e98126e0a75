//! The control socket of a running mount, and misbehaving clients.

use crate::support::{Mounted, run, runtime_dir, try_run};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use uext4_fuse::{Ask, Client, Error};
use uext4_testkit::wait;

/// Connects to the socket in a directory as another user, and prints what the server says at once.
const STRANGER: &str = r#"
import os, socket, sys
os.chdir(sys.argv[1])
os.setgroups([])
os.setuid(65534)
client = socket.socket(socket.AF_UNIX)
client.connect("control")
print(client.makefile().readline())
"#;

/// The socket of the mount.
fn socket(mounted: &Mounted) -> PathBuf {
    let socket = runtime_dir(&mounted.root()).join("control");
    // The socket appears a moment after the mount.
    wait::until_true("the socket answers", || {
        UnixStream::connect(&socket).is_ok()
    });
    socket
}

/// Threads of the server that serve clients.
fn clients(mounted: &mut Mounted) -> usize {
    let tasks = format!("/proc/{}/task", mounted.server().id());
    let tasks = std::fs::read_dir(tasks).expect("the server runs");
    let is_client = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim_end() == "uext4-client")
    };
    tasks.filter_map(Result::ok).filter(is_client).count()
}

fn get(client: &Client, name: &str) -> Value {
    let names = vec![name.to_owned()];
    client.ask(&Ask::Get { names }).expect("it is known")[name].take()
}

#[test]
fn numbers_come_out_and_tunables_go_in() {
    let mut mounted = Mounted::new();
    std::fs::write(mounted.path("file"), vec![1; 1 << 20]).unwrap();
    run("sync", &[&mounted.path("file")]);
    let socket = socket(&mounted);
    let client = mounted.client();
    let stats = client.ask(&Ask::Stats {}).unwrap();
    assert!(
        stats["journal"]["transactions"].as_u64() > Some(0),
        "{stats}"
    );
    assert!(
        stats["allocator"]["clusters"].as_u64() >= Some(256),
        "{stats}"
    );
    let requests = stats["requests"].as_array().unwrap();
    let write = requests
        .iter()
        .find(|kind| kind["name"] == "write")
        .unwrap();
    let in_buckets = |kind: &Value| -> u64 {
        let buckets = kind["buckets"].as_array().unwrap();
        buckets.iter().map(|count| count.as_u64().unwrap()).sum()
    };
    assert!(write["count"].as_u64() > Some(0) && write["count"] == in_buckets(write));
    let groups = client.ask(&Ask::Groups { from: 1, count: 9 }).unwrap();
    assert_eq!(groups.as_array().map(Vec::len), Some(1), "{groups}");
    assert_eq!(groups[0]["group"], 1);
    let value = get(&client, "mb_max_to_scan").as_u64().unwrap() + 3;
    let name = "mb_max_to_scan".to_owned();
    client.ask(&Ask::Set { name, value }).unwrap();
    // Another client uses the path of the socket.
    let other = Client::connect(&socket).expect("it is the socket");
    assert_eq!(get(&other, "mb_max_to_scan"), value);
    let server = other.ask(&Ask::Server {}).unwrap();
    assert_eq!(server["pid"], mounted.server().id());
    assert_eq!(server["mount_point"], mounted.root().to_str().unwrap());
    let name = "no_such".to_owned();
    let refused = client
        .ask(&Ask::Set { name, value: 1 })
        .expect_err("there is none");
    assert!(
        matches!(&refused, Error::Refused(no) if no.errno == libc::ENOENT),
        "{refused}"
    );
    mounted.unmount();
    assert!(!socket.exists());
    let refused = Client::connect(&mounted.root()).err();
    assert!(
        matches!(refused, Some(Error::NotMounted { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_bad_client_harms_no_other() {
    let mut mounted = Mounted::new();
    let socket = socket(&mounted);
    let connect = || UnixStream::connect(&socket).expect("it listens");
    let line_of = |stream: &UnixStream| -> Value {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    };
    // A malformed line gets an answer, and the next line is served.
    let mut odd = connect();
    odd.write_all(b"\x00\xff nonsense\n").unwrap();
    assert_eq!(line_of(&odd)["refusal"]["errno"], libc::EINVAL);
    odd.write_all(b"{\"version\":1,\"verb\":\"server\"}\n")
        .unwrap();
    assert_eq!(line_of(&odd)["answer"]["pid"], mounted.server().id());
    odd.write_all(format!("{}\n", "[".repeat(60_000)).as_bytes())
        .unwrap();
    assert_eq!(line_of(&odd)["refusal"]["errno"], libc::EINVAL);
    drop(odd);
    // An oversized line is cut off. The server may close before it has read all.
    let mut loud = connect();
    let sent = loud.write_all(&vec![b'x'; 4 << 20]);
    let mut said = Vec::new();
    let _ = loud.read_to_end(&mut said);
    assert!(sent.is_err(), "it listened to all: {said:?}");
    drop(loud);
    wait::until_true("both clients have gone", || clients(&mut mounted) == 0);
    // Enough silent clients, or clients that never read, for the next one to be rejected.
    let mut silent: Vec<UnixStream> = (0..15).map(|_| connect()).collect();
    let mut deaf = connect();
    deaf.write_all(&b"{\"version\":1,\"verb\":\"stats\"}\n".repeat(1000))
        .unwrap();
    let one_more = connect();
    assert_eq!(line_of(&one_more)["refusal"]["errno"], libc::EBUSY);
    silent[0].write_all(b"{\"version\":1,\"verb\":").unwrap();
    std::fs::write(mounted.path("file"), "as if nothing were").unwrap();
    mounted.unmount();
    assert!(
        !matches!(silent[0].read(&mut [0]), Ok(1)),
        "there is no answer"
    );
}

#[test]
fn a_stranger_is_not_let_in_and_a_dead_socket_is_replaced() {
    let mut mounted = Mounted::new();
    let socket = socket(&mounted);
    let mode = std::fs::metadata(socket.parent().unwrap())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let stranger = "exec setpriv --reuid 65534 --clear-groups test -e \"$0\"";
    let output = try_run("sh", &[&"-c", &stranger, &socket]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // One that was let into the directory is refused by its user ID.
    let open = |dir: u32, control: u32| {
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
        set(&socket, control).and_then(|()| set(socket.parent().unwrap(), dir))
    };
    open(0o711, 0o666).unwrap();
    let output = try_run("python3", &[&"-c", &STRANGER, &socket.parent().unwrap()]);
    open(0o700, 0o600).unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(line["refusal"]["errno"], libc::EACCES, "{output:?}");
    mounted.kill();
    // The keeper removes the leftovers of the server, now or a moment later.
    assert!(UnixStream::connect(&socket).is_err());
    uext4_fuse::umount(&mounted.root(), uext4_fuse::Lazy::No).unwrap();
    mounted.mount(&[]);
    assert_eq!(self::socket(&mounted), socket);
    let client = mounted.client();
    assert!(client.ask(&Ask::Stats {}).is_ok());
    mounted.unmount();
}
