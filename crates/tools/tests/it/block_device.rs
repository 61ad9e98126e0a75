//! Mounts of block devices, which the kernel claims (`fuseblk`).

use crate::rig::Rig;
use crate::room::{OURS, ROOT, can_mount, in_room, rig_of};
use uext4_testkit::oracle::LoopDevice;
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::skip;

const WRITTEN: &str = r#"
    device() {
        case "$(how)" in "fuseblk.uext4 $1"*) ;; *) echo "not $1: $(how)" >&2; exit 1;; esac
    }
    mount -t fuse.uext4 "$LOOP" mnt -o noatime,$VIA
    device rw,noatime
    echo first >mnt/file
    fails 5 "in use" "$TOOL" tune "$LOOP" -L label
    mkdir other
    fails 32 "already mounted" mount -t ext4 "$LOOP" other
    mount -t fuse.uext4 "$LOOP" other -o ro
    umount other
    if "$TOOL" stats mnt | grep -q '^syncfs'; then exit 1; fi
    sync -f mnt
    # Linux asks for it since 6.18.
    if "$TOOL" stats mnt | grep '^syncfs'; then
        cp disk.img cut.img
        "$TOOL" replay cut.img >/dev/null
        test "$("$TOOL" cat cut.img /file)" = first
    fi
    # No waiting: umount returns when the device is clean, though no helper does it.
    umount -i mnt
    e2fsck -fn "$LOOP" >/dev/null
    mount -t fuse.uext4 "$LOOP" mnt -o $VIA
    mount -o remount,ro mnt
    device ro
    mount -o remount,rw mnt
    echo second >>mnt/file
    "$TOOL" freeze mnt
    umount mnt
    e2fsck -fn "$LOOP" >/dev/null
    test "$("$TOOL" cat "$LOOP" /file)" = "$(printf 'first\nsecond')"
    "$TOOL" tune "$LOOP" -L label
"#;

#[test]
fn the_kernel_keeps_others_from_it_and_waits_until_it_is_clean() {
    if !can_mount() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "io_uring");
    for via in [Some("no_io_uring"), over_rings].into_iter().flatten() {
        let rig = rig_of(ROOT);
        let device = LoopDevice::attach(&rig.image()).expect("a loop device");
        let told = format!("VIA={via} LOOP={}\n{WRITTEN}", device.path());
        let said = in_room(&rig, OURS, ROOT, &told);
        if said.is_empty() {
            skip::record("sync of a mount", "a kernel that passes syncfs on");
        }
        drop(device);
        rig.assert_clean();
    }
}

const MAPPED: &str = r#"
    mke2fs -q -F -b 4096 "$LOOP"
    mount -t fuse.uext4 "$LOOP" mnt
    dd if=/dev/zero of=mnt/holes bs=4096 seek=3 count=2 status=none
    dd if=/dev/zero of=mnt/swap bs=1M count=4 status=none
    chmod 600 mnt/swap
    mkswap mnt/swap >/dev/null
    swapon mnt/swap
    trap 'swapoff mnt/swap' EXIT
    grep -q mnt/swap /proc/swaps
    fails 1 "" sh -c 'echo >>mnt/swap' 2>/dev/null
    swapoff mnt/swap
    trap - EXIT
    told=$(python3 -c "$BLOCKS" mnt/holes 5)
    umount mnt
    for block in 0 1 2 3 4; do
        debugfs -R "bmap /holes $block" "$LOOP" 2>/dev/null
    done >wanted
    test "$told" = "$(cat wanted)"
    # Of a part of the device the numbers would be wrong.
    "$TOOL" mount -o offset=0 "$LOOP" mnt
    test "$(python3 -c "$BLOCKS" mnt/holes 5)" = "$(printf '0\n0\n0\n0\n0')"
    umount mnt
"#;

/// Prints the physical block numbers of the first blocks of a file (`FIBMAP`).
const BLOCKS: &str = "import fcntl, os, struct, sys\n\
    file = os.open(sys.argv[1], os.O_RDONLY)\n\
    at = lambda block: fcntl.ioctl(file, 1, struct.pack('i', block))\n\
    [print(struct.unpack('i', at(block))[0]) for block in range(int(sys.argv[2]))]";

#[test]
fn blocks_are_told_and_swapped_to() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(ROOT);
    let device = LoopDevice::attach(&rig.image()).expect("a loop device");
    let told = format!("LOOP={}\nBLOCKS=\"{BLOCKS}\"\n{MAPPED}", device.path());
    in_room(&rig, OURS, ROOT, &told);
    drop(device);
    rig.assert_clean();
}

const MAPPED_BESIDE_FREEZE: &str = r#"
    mke2fs -q -F -b 4096 "$LOOP"
    mount -t fuse.uext4 "$LOOP" mnt
    askers=
    for name in 1 2 3 4; do
        timeout 60 python3 -c "$ASKER" mnt/$name &
        askers="$askers $!"
    done
    while kill -0 $askers 2>/dev/null; do
        timeout -s KILL 20 "$TOOL" freeze mnt && timeout -s KILL 20 "$TOOL" thaw mnt || {
            umount -f mnt
            exit 1
        }
    done
    wait $askers
    umount mnt
"#;

/// Dirties a block of a hole and asks for its physical number, many times.
const ASKER: &str = "import fcntl, os, struct, sys\n\
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
    for block in range(300):\n    \
        os.pwrite(file, b'x' * 4096, 8192 * block)\n    \
        told = fcntl.ioctl(file, 1, struct.pack('i', 2 * block))\n    \
        assert struct.unpack('i', told)[0] > 0";

/// A block map needs the dirty pages of the file, and a freeze parks them; neither may wait for the
/// other.
#[test]
fn blocks_are_told_beside_freezes() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(ROOT);
    let device = LoopDevice::attach(&rig.image()).expect("a loop device");
    let script = format!(
        "LOOP={}\nASKER=\"{ASKER}\"\n{MAPPED_BESIDE_FREEZE}",
        device.path()
    );
    in_room(&rig, OURS, ROOT, &script);
    drop(device);
    rig.assert_clean();
}

const READ_ONLY: &str = r#"
    blockdev --setro "$LOOP"
    "$TOOL" mount -o noatime "$LOOP" mnt 2>said
    case "$(cat said)" in *"write-protected"*"mounted read-only"*) ;; *) cat said >&2; exit 1;; esac
    mounted ro,noatime
    fails 1 "Read-only" touch mnt/file
    umount mnt
    blockdev --setrw "$LOOP"
    # A feature whose files can only be read.
    debugfs -w -R "feature shared_blocks" "$LOOP" 2>/dev/null
    "$TOOL" mount -o rw,noatime "$LOOP" mnt 2>said
    case "$(cat said)" in *"shared_blocks"*"mounted read-only"*) ;; *) cat said >&2; exit 1;; esac
    mounted ro,noatime
    umount mnt
    # Asked for, it is no news.
    test -z "$("$TOOL" mount -o ro "$LOOP" mnt 2>&1)"
    umount mnt
    debugfs -w -R "feature -shared_blocks" "$LOOP" 2>/dev/null
"#;

#[test]
fn what_can_only_be_read_is_mounted_so_and_says_it() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(ROOT);
    let device = LoopDevice::attach(&rig.image()).expect("a loop device");
    let told = format!("LOOP={}\n{READ_ONLY}", device.path());
    in_room(&rig, OURS, ROOT, &told);
    drop(device);
    rig.assert_clean();
}

const READ: &str = r#"
    mount -t fuse.uext4 "$LOOP" mnt -o ro
    mounted ro
    mkdir other
    mount -t fuse.uext4 "$LOOP" other -o ro
    umount other
    mount -o remount,rw mnt
    mounted rw
    fails 5 "in use" "$TOOL" tune "$LOOP" -L label
    echo first >mnt/file
    umount mnt
    e2fsck -fn "$LOOP" >/dev/null
"#;

/// Read-only mounts take no exclusive claim, so two may share a device.
#[test]
fn readers_share_a_device() {
    if !can_mount() {
        return;
    }
    let rig: Rig = rig_of(ROOT);
    let device = LoopDevice::attach(&rig.image()).expect("a loop device");
    let told = format!("LOOP={}\n{READ}", device.path());
    in_room(&rig, OURS, ROOT, &told);
    drop(device);
    rig.assert_clean();
}
