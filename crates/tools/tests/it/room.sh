# A mount namespace of its own, in which mount(8) finds our helpers and /dev/fuse is for all users:
# nothing of the machine changes. Runs as the superuser in an empty directory; then $SCRIPT, as user
# $AS, with the functions below.
set -eu
room=$PWD
# Copies of what other tests have mounted would keep their images in use.
awk '$1 ~ "^/dev/loop" || $3 == "fuse.uext4" { print $2 }' /proc/self/mounts |
    while read -r at; do umount -l "$at"; done
mkdir old sbin dev mnt run
# As after a boot: no server ran yet.
mount --bind run "$(readlink -f /run)"
mkdir -m 1777 tmp
export TMPDIR="$room/tmp"
mount --bind "$(readlink -f /sbin)" old
for program in old/*; do ln -s "$room/$program" sbin/; done
rm -f sbin/uext4 sbin/mount.fuse.uext4 sbin/umount.fuse.uext4
for name in $LINKS; do ln -s "$TOOL" "sbin/$name"; done
mount --bind sbin "$(readlink -f /sbin)"
mount -t tmpfs none dev
mknod -m 666 dev/fuse c 10 229
mount --bind dev/fuse /dev/fuse
if test -e fstab; then mount --bind fstab /etc/fstab; fi
chown "$AS" . mnt
trap 'umount -l "$room/mnt" 2>/dev/null || true' EXIT
cat >functions <<'END'
# fails STATUS WORD COMMAND...: it fails with this status and says this.
fails() {
    status=$1 word=$2 got=0; shift 2
    said=$("$@" 2>&1) || got=$?
    case "$got $said" in "$status "*"$word"*) ;; *) echo "$*: $got: $said" >&2; exit 1;; esac
}
# How it is mounted.
how() { findmnt -n -o FSTYPE,OPTIONS mnt; }
mounted() { case "$(how)" in "fuse.uext4"*"$1"*) ;; *) echo "not $1: $(how)" >&2; exit 1;; esac; }
absent() { if how; then echo "still mounted" >&2; exit 1; fi; }
# Waits until the server has closed the image.
closed() { until "$TOOL" replay disk.img >/dev/null 2>&1; do sleep 0.02; done; }
END
export room
setpriv --reuid="$AS" --regid="$AS" --clear-groups sh -euc ". ./functions; $SCRIPT"
