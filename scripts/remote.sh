#!/bin/sh
# Executes the recipes of docs/remote.md on this machine: an image on a remote store is made,
# mounted, written with fsync, unmounted and checked. Usage: remote.sh [nbd|qcow2|loop|rbd]...
#   nbd    nbdkit exports a file; nbdfuse shows the export as a file
#   qcow2  qemu-nbd exports a qcow2 image; nbdfuse shows it
#   loop   a loop device over a file of a network file system (sshfs, without an SSH daemon)
#   rbd    an image of a Ceph cluster ($RBD=pool/image), through qemu-nbd and nbdfuse
# Needs root, and for each recipe its programs. It says which are missing and fails.
set -eu

cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin:/usr/lib/openssh"
tool="${UEXT4:-${CARGO_TARGET_DIR:-target}/release/uext4}"
say() { printf '\n== %s\n' "$*"; }
fail() { echo "remote.sh: $*" >&2; exit 1; }
need() { for program in "$@"; do command -v "$program" >/dev/null || fail "$program is missing"; done; }
[ -x "$tool" ] || fail "no tool at $tool: run 'make build', or set UEXT4"

place="$(mktemp -d)"
loop="" pids=""

clean_up() {
  status=$?
  trap - EXIT INT TERM HUP
  for dir in "$place/mnt" "$place/nbd" "$place/net"; do
    mountpoint -q "$dir" 2>/dev/null && umount -l "$dir"
  done
  [ -z "$loop" ] || losetup -d "$loop"
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  rm -rf --one-file-system "$place"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

until_there() { # PATH TEST
  tries=0
  until [ "$2" "$1" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "$1 does not appear"
    sleep 0.1
  done
}

# The life of a file system on $1, with everything under a time limit.
use() {
  timeout 120 "$tool" mkfs "$1"
  timeout 60 "$tool" mount "$1" "$place/mnt"
  timeout 60 dd if=/dev/urandom of="$place/mnt/data" bs=64k count=64 conv=fsync status=none
  timeout 60 cmp -n 1 "$place/mnt/data" "$place/mnt/data"
  sum="$(timeout 60 sha256sum <"$place/mnt/data")"
  timeout 60 "$tool" umount "$place/mnt"
  timeout 60 "$tool" check "$1"
  [ "$sum" = "$(timeout 60 "$tool" cat "$1" /data | sha256sum)" ] || fail "the data differ"
}

# Shows the NBD server on socket $1 as the file nbd/disk.
show_nbd() {
  nbdfuse "$place/nbd/disk" --unix "$1" &
  pids="$! $pids"
  until_there "$place/nbd/disk" -e
}

hide_nbd() {
  fusermount3 -u "$place/nbd"
}

nbd() {
  need nbdkit nbdfuse fusermount3
  truncate -s 256M "$place/store"
  nbdkit -U "$place/socket" -P "$place/pid" --filter=log file "$place/store" \
    logfile="$place/nbd.log"
  pids="$(cat "$place/pid") $pids"
  show_nbd "$place/socket"
  use "$place/nbd/disk"
  grep -aq Flush "$place/nbd.log" || fail "fsync did not reach the server as a flush"
  hide_nbd
  e2fsck -fn "$place/store"
}

qcow2() {
  need qemu-img qemu-nbd nbdfuse fusermount3
  qemu-img create -q -f qcow2 "$place/disk.qcow2" 256M
  qemu-nbd --fork --persistent -f qcow2 --cache=writeback --discard=unmap \
    --pid-file="$place/pid" -k "$place/socket" "$place/disk.qcow2"
  pids="$(cat "$place/pid") $pids"
  show_nbd "$place/socket"
  use "$place/nbd/disk"
  hide_nbd
  kill "$(cat "$place/pid")"
  qemu-img convert -O raw "$place/disk.qcow2" "$place/raw"
  e2fsck -fn "$place/raw"
}

loop() {
  need sshfs sftp-server socat losetup
  mkdir -p "$place/store"
  truncate -s 256M "$place/store/disk.img"
  # In place of `sshfs HOST:DIR net`: the same protocol without an SSH daemon.
  socat UNIX-LISTEN:"$place/socket" EXEC:sftp-server &
  pids="$! $pids"
  until_there "$place/socket" -S
  timeout 600 socat EXEC:"sshfs -f -o passive host\\:$place/store $place/net" \
    UNIX-CONNECT:"$place/socket" &
  pids="$! $pids"
  until_there "$place/net/disk.img" -e
  loop="$(losetup -f --show "$place/net/disk.img")"
  use "$loop"
  losetup -d "$loop"
  loop=""
  fusermount3 -u "$place/net"
  e2fsck -fn "$place/store/disk.img"
}

rbd() {
  need qemu-nbd nbdfuse fusermount3
  [ -n "${RBD:-}" ] || fail "set RBD=pool/image (and CEPH_CONF)"
  qemu-nbd --fork --persistent -f raw --cache=writeback --pid-file="$place/pid" \
    -k "$place/socket" "rbd:$RBD${CEPH_CONF:+:conf=$CEPH_CONF}"
  pids="$(cat "$place/pid") $pids"
  show_nbd "$place/socket"
  use "$place/nbd/disk"
  hide_nbd
}

[ "$#" -gt 0 ] || set -- nbd qcow2 loop
for recipe in "$@"; do
  case "$recipe" in
    nbd | qcow2 | loop | rbd) ;;
    *) fail "$recipe: no such recipe" ;;
  esac
  say "$recipe"
  rm -rf --one-file-system "$place"
  mkdir -p "$place/mnt" "$place/nbd" "$place/net"
  "$recipe"
done
say "Done: $* made, mounted, synced, unmounted and checked"
