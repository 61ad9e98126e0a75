#!/bin/sh
# Copies everything that an installation of uext4 consists of below ROOT.
# Usage: stage.sh BINARY ROOT PREFIX SBINDIR   (ROOT may be empty: the running system)
set -eu

binary="$1" root="$2" prefix="$3" sbindir="$4"
here="$(cd "$(dirname "$0")" && pwd)"
share="$root$prefix/share"
units="$root$prefix/lib/systemd/system"
umask 022

install -d "$root$prefix/bin" "$root$sbindir" "$units" "$share/man/man1" \
  "$share/bash-completion/completions" "$share/zsh/site-functions" \
  "$share/fish/vendor_completions.d" "$share/doc/uext4"

install -m 755 -s "$binary" "$root$prefix/bin/uext4"
# mount(8) and umount(8) call these names; the program looks at the name it was called by.
for helper in mount.fuse.uext4 umount.fuse.uext4; do
  ln -sfn "$prefix/bin/uext4" "$root$sbindir/$helper"
done

tool="$root$prefix/bin/uext4"
"$tool" man "$share/man/man1"
"$tool" completions bash >"$share/bash-completion/completions/uext4"
"$tool" completions zsh >"$share/zsh/site-functions/_uext4"
"$tool" completions fish >"$share/fish/vendor_completions.d/uext4.fish"
for unit in uext4@.service uext4-check@.service; do
  sed "s|@BINDIR@|$prefix/bin|g" "$here/$unit.in" >"$units/$unit"
done
install -m 644 "$here/uext4-check@.timer" "$units"
install -m 644 "$here/../LICENSE-MIT" "$here/../LICENSE-APACHE" "$share/doc/uext4"
