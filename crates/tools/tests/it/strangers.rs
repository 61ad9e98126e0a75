//! Interference by other users with root's commands, and leftovers of a killed server.

use crate::rig::Rig;
use crate::room::{OURS, ROOT, UNPRIVILEGED, can_mount, in_room, rig_of};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Shell functions that end a hanging command. The tool waits for at most 2 s per step.
const PRELUDE: &str = r#"
    chmod 755 .
    chown 65534 mnt disk.img
    as() { id=$1; shift; setpriv --reuid="$id" --regid="$id" --clear-groups "$@"; }
    # In the background: $! is the command, not a shell that waits for it.
    become() { id=$1; shift; exec setpriv --reuid="$id" --regid="$id" --clear-groups "$@"; }
    # In time, whatever it answers.
    in_time() {
        got=0; timeout 20 "$@" >said 2>&1 || got=$?
        [ "$got" != 124 ] || { echo "$*: hangs" >&2; exit 1; }
    }
    # It answered with this status.
    got() { [ "$got" = "$1" ] || { echo "$got, not $1: $(cat said)" >&2; exit 1; }; }
    # silent USER SOCKET BACKLOG: listens, and says nothing.
    silent() {
        become "$1" /usr/bin/python3 -c 'import os, signal, socket, sys
os.umask(0)
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(int(sys.argv[2]))
os.rename(sys.argv[1], sys.argv[3]); signal.pause()' "$2.new" "$3" "$2" >/dev/null 2>&1 &
        holders="${holders:-} $!"
        until [ -S "$2" ]; do sleep 0.02; done
    }
"#;

const SOCKETS: &str = r#"
    silent 65534 tmp/quiet 5
    in_time "$TOOL" stats tmp/quiet
    got 1
    in_time "$TOOL" freeze tmp/quiet
    # A queue that is full: no client is accepted.
    silent 65534 tmp/full 0
    python3 -c 'import signal, socket, sys
held = []
try:
    while True:
        held.append(socket.socket(socket.AF_UNIX)); held[-1].setblocking(False)
        held[-1].connect(sys.argv[1])
except BlockingIOError:
    open("tmp/is-full", "w").close()
signal.pause()' tmp/full >/dev/null 2>&1 &
    holders="$holders $!"
    until [ -e tmp/is-full ]; do sleep 0.02; done
    in_time "$TOOL" stats tmp/full
    got 1
    kill $holders 2>/dev/null || true
"#;

const OUTPUTS: &str = r#"
    chmod 1777 tmp
    as 65534 mkfifo tmp/planted
    # It reads what comes.
    (become 65534 timeout 20 cat tmp/planted >stolen) &
    reader=$!
    in_time "$TOOL" export disk.img -o tmp/planted
    got 1
    grep -q 'another user owns it' said
    kill "$reader" 2>/dev/null || true
    [ ! -s stolen ]
    # A pipe of root's own, and an open file.
    mkfifo tmp/own
    cat tmp/own >got &
    in_time "$TOOL" export disk.img -o tmp/own
    got 0
    wait "$!"
    tar -tf got >/dev/null
    "$TOOL" export disk.img -o /dev/stdout | cat >through
    cmp got through
"#;

const PLACES: &str = r#"
    dir=tmp/uext4-65534
    # A pipe in place of the claim.
    as 65534 "$TOOL" mount disk.img mnt
    name=$(ls $dir)
    claim=$name/claim
    as 65534 rm "$dir/$claim"
    as 65534 mkfifo "$dir/$claim"
    in_time "$TOOL" umount mnt
    got 0
    closed
    rm -rf $dir
    # A lock that is never given up, by a claim that names a process of another user.
    as 65534 "$TOOL" mount disk.img mnt
    become 65534 sh -c "rm '$dir/$claim'; echo 1 >'$dir/$claim'; exec flock '$dir/$claim' \
        sh -c ': >tmp/locked; exec sleep 20'" >/dev/null 2>&1 &
    holders="${holders:-} $!"
    until [ -e tmp/locked ]; do sleep 0.02; done
    in_time "$TOOL" umount mnt
    got 5
    grep -q "is user 65534's" said || { cat said >&2; exit 1; }
    closed
    # A directory and a socket of another user.
    rm -rf $dir
    as 65534 "$TOOL" mount disk.img mnt
    mv $dir tmp/moved
    as 1234 mkdir $dir "$dir/$name"
    silent 1234 "$dir/$name/control" 5
    in_time "$TOOL" umount mnt
    got 0
    kill $holders 2>/dev/null || true
"#;

/// A process of another user blocks in `execve(2)`, which locks its `/proc/PID/fd`.
const EXEC: &str = r#"
    truncate -s 16M other.img
    "$TOOL" mkfs -q other.img
    loop=$(losetup -f --show other.img)
    trap 'exit 1' TERM
    trap 'as 65534 "$TOOL" thaw mnt; losetup -d "$loop"; umount -l "$room/mnt"' EXIT
    as 65534 "$TOOL" mount disk.img mnt
    as 65534 /usr/bin/python3 -c 'import os, time
file = os.open("mnt/file", os.O_RDWR | os.O_CREAT)
open("tmp/there", "w").close()
while not os.path.exists("tmp/frozen"): time.sleep(0.01)
os.write(file, b"kept back")
os.open("tmp/written", os.O_RDWR | os.O_CREAT)
os.execv("/bin/true", ["true"])' >/dev/null 2>&1 &
    stuck=$!
    until [ -e tmp/there ]; do sleep 0.02; done
    as 65534 "$TOOL" freeze mnt
    touch tmp/frozen
    until [ -e tmp/written ]; do sleep 0.02; done
    /usr/bin/python3 -c 'import os, signal, sys
held = os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)
open("tmp/held", "w").close(); signal.pause()' "$loop" >/dev/null 2>&1 &
    holder=$!
    until [ -e tmp/held ]; do sleep 0.02; done
    # The close of the file in `execve` waits for the thaw.
    minor=$(awk -v dir="$PWD/mnt" '$5 == dir { sub(".*:", "", $3); print $3 }' \
        /proc/self/mountinfo)
    until [ "$(cat "/sys/fs/fuse/connections/$minor/waiting")" -gt 0 ]; do sleep 0.02; done
    in_time "$TOOL" put "$loop" functions /new
    got 5
    grep -q python3 said || { cat said >&2; exit 1; }
    kill "$holder"
    as 65534 "$TOOL" thaw mnt
    wait "$stuck"
    as 65534 "$TOOL" umount mnt
    losetup -d "$loop"
    trap - EXIT
"#;

#[test]
fn other_users_do_not_keep_the_superuser_waiting() {
    if !can_mount() {
        return;
    }
    for script in [SOCKETS, OUTPUTS, PLACES, EXEC] {
        let rig = rig_of(UNPRIVILEGED);
        in_room(&rig, OURS, ROOT, &format!("{PRELUDE}{script}"));
    }
}

const KILLED: &str = r#"
    "$TOOL" mount disk.img mnt
    [ -S run/uext4/*/control ]
    pid=$("$TOOL" stats mnt --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
    kill -KILL "$pid"
    for _ in $(seq 200); do [ -n "$(ls run/uext4)" ] || break; sleep 0.05; done
    [ -z "$(ls run/uext4)" ] || { ls run/uext4 >&2; exit 1; }
    "$TOOL" umount mnt 2>/dev/null
    # Without a process that stays behind, the next umount clears up.
    "$TOOL" mount -o no_sandbox disk.img mnt
    pid=$("$TOOL" stats mnt --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
    kill -KILL "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    "$TOOL" umount mnt 2>/dev/null
    [ -z "$(ls run/uext4)" ] || { ls run/uext4 >&2; exit 1; }
"#;

#[test]
fn a_killed_server_leaves_no_socket() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(ROOT);
    in_room(&rig, OURS, ROOT, KILLED);
}

#[test]
fn names_in_messages_do_not_reach_the_terminal_raw() {
    let rig = Rig::new(&[]);
    let name = OsStr::from_bytes(b"/no \x1b[31mred\nline\x07\x7f");
    for command in [&["cat", "disk.img"][..], &["rm", "disk.img"], &["info"]] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_uext4"));
        tool.current_dir(rig.path("")).args(command).arg(name);
        let output = tool.output().expect("the tool starts");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let raw = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(raw), "{command:?}: {said:?}");
        assert_eq!(said.lines().count(), 1, "{command:?}: {said:?}");
        assert!(said.contains("red"), "{command:?}: {said:?}");
    }
}
