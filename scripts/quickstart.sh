#!/bin/sh
# Makes an ext4 image of a directory, adds to it, reads it back and checks it, without root. Where
# FUSE works, it also mounts the image and copies files into it. e2fsck is the judge.
# Everything happens in one temporary directory. QUICKSTART_TOOL=FILE uses a tool that is built.
set -eu

cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
say() { printf '\n== %s\n' "$*"; }

# Why no mount can be made here; empty where one can.
no_mount_because() {
  if [ ! -e /dev/fuse ]; then
    echo "there is no /dev/fuse (a container needs --device /dev/fuse)"
  elif ! (: <>/dev/fuse) 2>/dev/null; then
    echo "/dev/fuse cannot be opened"
  elif [ "$(stat -L -c %t:%T /dev/fuse)" != a:e5 ]; then
    echo "/dev/fuse is not the FUSE device"
  elif [ "$(id -u)" != 0 ] && ! command -v fusermount3 >/dev/null; then
    echo "fusermount3 is missing (package fuse3)"
  elif [ "$(id -u)" = 0 ] && ! unshare --mount true 2>/dev/null; then
    echo "this root may not mount (a container needs --cap-add SYS_ADMIN)"
  fi
}

if ! command -v cargo >/dev/null; then
  echo "quickstart: needs cargo (https://rustup.rs)" >&2
  exit 1
fi
mount_reason="$(no_mount_because)"
judge_reason=""
command -v e2fsck >/dev/null || judge_reason="e2fsck is missing (package e2fsprogs)"

if [ -n "${QUICKSTART_TOOL:-}" ]; then
  tool="$QUICKSTART_TOOL"
else
  say "Building the tool (without optimisation: a minute or two the first time)"
  cargo build --profile quick --package uext4-tools
  tool="${CARGO_TARGET_DIR:-target}/quick/uext4"
fi

place="$(mktemp -d)"
dir="$place/mnt"
image="$place/demo.img"

clean_up() {
  status=$?
  trap - EXIT INT TERM HUP
  if mountpoint -q "$dir" 2>/dev/null; then
    "$tool" umount "$dir" 2>/dev/null || fusermount3 -u -z "$dir" 2>/dev/null || umount -l "$dir"
  fi
  rm -rf --one-file-system "$place"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say "Building an ext4 image of docs, with room for more"
"$tool" build "$image" docs --size 64M

say "Adding a file, and listing what is there"
echo "written by quickstart" >"$place/note.txt"
"$tool" put "$image" "$place/note.txt" /note.txt
"$tool" ls -l "$image" /

say "Reading the tree back and comparing it"
"$tool" get -r "$image" /internals "$place/internals"
diff -r --no-dereference docs/internals "$place/internals"
echo "the same"

# Mounts the image, or sets the reason for which this user may not. Other errors end the script.
try_mount() {
  mkdir "$dir"
  "$tool" mount "$image" "$dir" 2>"$place/refusal" && return
  case "$(cat "$place/refusal")" in
  *"Operation not permitted"* | *"Permission denied"*)
    mount_reason="it is refused: $(tail -n 1 "$place/refusal")" ;;
  *)
    cat "$place/refusal" >&2
    exit 1 ;;
  esac
}

if [ -z "$mount_reason" ]; then try_mount; fi
if [ -z "$mount_reason" ]; then
  say "Mounting the image and copying crates into it"
  mountpoint "$dir"
  cp -a crates/num "$dir/num"
  df -h "$dir"
  diff -r --no-dereference crates/num "$dir/num"
  echo "the same"
  "$tool" umount "$dir"
fi

say "Checking the image"
"$tool" info "$image"
"$tool" check "$image"
if [ -z "$judge_reason" ]; then
  say "Asking e2fsck, which is not ours"
  e2fsck -fn "$image"
fi

say "Done: a clean ext4 image, written without the kernel's ext4"
if [ -n "$mount_reason" ]; then echo "Left out: the mount, because $mount_reason."; fi
if [ -n "$judge_reason" ]; then echo "Left out: e2fsck, because $judge_reason."; fi
