#!/bin/sh
# Installs each kind of package in a clean Debian chroot and uses it once there.
#   deb      dpkg -i, then the helper, man pages, completions and unit are looked at and used
#   install  make install and make uninstall
#   static   the musl binary alone, in a root directory that has no C library
# Needs root, debootstrap and Debian's packages. Everything happens in one temporary directory.
set -eu

cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
say() { printf '\n== %s\n' "$*"; }
fail() { echo "packaging/test.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root, to enter a chroot"

place="$(mktemp -d)"
root="$place/debian" empty="$place/empty"

clean_up() {
  status=$?
  trap - EXIT INT TERM HUP
  for dir in "$root/mnt" "$root/proc" "$empty/mnt" "$empty/proc"; do
    if mountpoint -q "$dir" 2>/dev/null; then umount -l "$dir"; fi
  done
  rm -rf --one-file-system "$place"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

within() { timeout -k 5 120 chroot "$root" "$@"; }

# A whole life of an image in the chroot: made, filled, mounted by the helper, changed, unmounted.
use_it() {
  within uext4 mkfs --size 64M /demo.img >/dev/null
  within uext4 put /demo.img /etc/debian_version /version
  # With an x- option umount(8) calls the helper, which waits until the image is closed.
  within mount -t fuse.uext4 -o x-wait /demo.img /mnt
  within cmp /mnt/version /etc/debian_version
  within cp -r /etc/apt /mnt/apt
  within umount /mnt
  within uext4 check /demo.img >/dev/null
  e2fsck -fn "$root/demo.img" >/dev/null 2>&1 || fail "e2fsck finds damage after $1"
  within uext4 ls /demo.img /apt | grep -q sources.list || fail "$1: the copy is not there"
  rm "$root/demo.img"
}

# What lies beside the program is there and understood by its readers.
look_at() {
  prefix="$root$1"
  for page in uext4 uext4-mount uext4-mkfs uext4-umount; do
    found="$(ls "$prefix/share/man/man1/$page.1" "$prefix/share/man/man1/$page.1.gz" 2>/dev/null || true)"
    [ -s "$found" ] || fail "no man page $page(1)"
  done
  within bash -c ". '$1/share/bash-completion/completions/uext4' && complete -p uext4" >/dev/null
  [ -s "$prefix/share/zsh/site-functions/_uext4" ] || fail "no completions for zsh"
  [ -s "$prefix/share/fish/vendor_completions.d/uext4.fish" ] || fail "no completions for fish"
  run_unit "$prefix/lib/systemd/system/uext4@.service"
}

# Runs the command lines of the unit as systemd would expand them.
run_unit() {
  start="$(sed -n 's/^ExecStart=//p' "$1")" stop="$(sed -n 's/^ExecStop=//p' "$1")"
  within uext4 mkfs --size 16M /unit.img >/dev/null
  export IMAGE=/unit.img DIR=/mnt OPTIONS=noatime
  # The shell expands the variables of the unit.
  within sh -c "exec $start" >/dev/null &
  server=$!
  tries=0
  until mountpoint -q "$root/mnt"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "the unit's command does not mount"
    sleep 0.1
  done
  within sh -c "exec $stop"
  wait "$server" || fail "the unit's server failed"
  rm "$root/unit.img"
}

say "A clean Debian"
codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")"
debootstrap --variant=minbase "$codename" "$root" >"$place/debootstrap.log" 2>&1 ||
  { tail -5 "$place/debootstrap.log"; fail "debootstrap failed"; }
[ -e "$root/dev/fuse" ] || mknod -m 666 "$root/dev/fuse" c 10 229
mount -t proc proc "$root/proc"

say "make deb"
make --no-print-directory deb
cp target/package/uext4.deb "$root/uext4.deb"
within dpkg -i /uext4.deb >/dev/null
use_it "the package"
look_at /usr
within dpkg --verify uext4
within dpkg -r uext4 >/dev/null
if within sh -c 'command -v uext4' >/dev/null; then fail "dpkg -r leaves the program"; fi

say "make install"
make --no-print-directory install DESTDIR="$root" PREFIX=/usr/local SBINDIR=/sbin
use_it "make install"
look_at /usr/local
make --no-print-directory uninstall DESTDIR="$root" PREFIX=/usr/local SBINDIR=/sbin
left="$(find "$root/usr/local" "$root/sbin/" -name '*uext4*')"
[ -z "$left" ] || fail "make uninstall leaves $left"

say "make static"
make --no-print-directory static
mkdir "$empty"
cp target/package/uext4-static "$empty/uext4"
alone() { timeout -k 5 120 chroot "$empty" /uext4 "$@"; }
alone mkfs --size 16M /demo.img >/dev/null
alone put /demo.img /uext4 /copy
alone get /demo.img /copy /back
cmp "$empty/uext4" "$empty/back"
mkdir -p "$empty/dev" "$empty/mnt" "$empty/run" "$empty/proc"
mount -t proc proc "$empty/proc"
mknod -m 666 "$empty/dev/fuse" c 10 229
mknod -m 666 "$empty/dev/null" c 1 3
alone mount -o sandbox /demo.img /mnt
cp "$empty/uext4" "$empty/mnt/second"
alone umount /mnt
alone check /demo.img >/dev/null
e2fsck -fn "$empty/demo.img" >/dev/null 2>&1 || fail "e2fsck finds damage after the static binary"

say "Done: the package, the installation and the static binary work in a clean Debian"
