#!/bin/bash
# Real programs on a mount, each to its own full success, then e2fsck.
#
#   scripts/programs.sh [-t dev_fuse|io_uring] TOOL PROGRAM...
#
# TOOL is the program uext4, PROGRAM the name of a file in scripts/programs or "all". Without -t each
# runs over both transports. Needs root; says what is not installed and goes on. Images are sparse
# files in /dev/shm, which vanish at the end.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
export LC_ALL=C
here="$(cd "$(dirname "$0")" && pwd)"
repository="$(dirname "$here")"
transports="dev_fuse io_uring"
if [ "$1" = -t ]; then transports="$2"; shift 2; fi
tool="$(realpath "$1")"; shift
programs="$*"
[ "$programs" != all ] || programs="git rsync sqlite cuts postgresql npm cargo"

place="$(mktemp -d /dev/shm/uext4-programs-XXXXXX)"
chmod 755 "$place"
image="$place/image"; root="$place/mount"; aside="$place/aside"
mkdir "$root" "$aside"
server=

say() { printf '\n== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
needs() { for one; do command -v "$one" >/dev/null || { echo "=== SKIPPED: $one is not installed"; return 1; }; done; }
# Prints the seconds that a command took.
timed() { local what="$1" from=$SECONDS; shift; "$@"; echo "$what: $((SECONDS - from)) s"; }

# The kernel offers rings to mounts made while its parameter says so; tests that run meanwhile use the
# same lock, in which stands what to put back.
parameter=/sys/module/fuse/parameters/enable_uring
lock=/run/uext4-enable-uring.lock
rings() {
  exec 9<>"$lock"; flock 9
  was="$(cat "$lock")"
  [ -n "$was" ] || { was="$(cat "$parameter")"; printf %s "$was" >"$lock"; }
  echo Y >"$parameter"
}
rings_back() { printf %s "$was" >"$parameter"; : >"$lock"; exec 9>&-; }

# Mounts $1 (or the image) on $2 (or the root) and waits until it answers.
mount_image() {
  local file="${1:-$image}" at="${2:-$root}" word=no_io_uring
  if [ "$transport" = io_uring ]; then word=io_uring; rings; fi
  "$tool" mount --foreground -o "$word,allow_other" "$file" "$at" 9>&- 2>"$aside/said" &
  server=$!
  for _ in $(seq 600); do
    mountpoint -q "$at" && break
    kill -0 "$server" || { cat "$aside/said"; fail "no mount"; }
    sleep 0.05
  done
  stat "$at" >/dev/null
  if [ "$transport" = io_uring ]; then rings_back; fi
}
umount_image() {
  "$tool" umount "${1:-$root}" || fail "umount"
  wait "$server" || fail "the server ended with $?"
  server=
}
# As if it had crashed. The mount is detached; what used it hears errors.
kill_server() {
  kill -9 "$server"; wait "$server" 2>/dev/null || true
  umount -l "$root"; server=
}
clean() { e2fsck -fn "${1:-$image}" >"$aside/e2fsck" 2>&1 || { cat "$aside/e2fsck"; fail "e2fsck"; }; }

clean_up() {
  status=$?
  trap - EXIT INT TERM
  type stop_program >/dev/null 2>&1 && stop_program
  [ -z "$server" ] || kill -CONT "$server" 2>/dev/null || true
  for at in "$root" "$aside"/*; do ! mountpoint -q "$at" || umount -l "$at"; done
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  rm -rf --one-file-system "$place"
  exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM

for program in $programs; do
  for transport in $transports; do
    say "$program over $transport"
    # Says with needs() what it cannot do without, and defines size, use and perhaps stop_program.
    unset -f use stop_program 2>/dev/null || true
    . "$here/programs/$program.sh" || continue
    truncate -s "$size" "$image"; mke2fs -q -F -t ext4 -b 4096 "$image"
    mount_image
    timed "$program over $transport" use
    cd /
    umount_image
    clean
    rm -rf --one-file-system "$aside"; mkdir "$aside"; rm -f "$image"
    echo "ok: $program over $transport"
  done
done
