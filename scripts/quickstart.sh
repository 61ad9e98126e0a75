#!/bin/sh
# Makes an ext4 image, mounts it without the kernel's ext4, copies files into it, looks at them,
# unmounts it and lets e2fsck judge. Everything happens in one temporary directory.
set -eu

cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
say() { printf '\n== %s\n' "$*"; }

say "Looking for FUSE and e2fsck"
make --no-print-directory deps

say "Building the tool (release)"
cargo build --release --quiet --package uext4-tools
tool="${CARGO_TARGET_DIR:-target}/release/uext4"

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

say "Making an ext4 image of 1 GiB"
mkdir "$dir"
"$tool" mkfs "$image" --size 1G -L demo

say "Mounting it"
"$tool" mount "$image" "$dir"
mountpoint "$dir"

source_dir=/usr/include
[ -d "$source_dir" ] || source_dir="$PWD/crates"
say "Copying $source_dir into it"
cp -a "$source_dir" "$dir/copy"
ls "$dir/copy" | head -5
df -h "$dir"

say "Comparing the copy with the original"
diff -r --no-dereference "$source_dir" "$dir/copy"
echo "the same"

say "Unmounting"
"$tool" umount "$dir"

say "Asking the tool about the image"
"$tool" info "$image"
"$tool" ls -l "$image" /

say "Asking e2fsck, which is not ours"
e2fsck -fn "$image"

say "Done: a clean ext4 image, written without the kernel's ext4"
