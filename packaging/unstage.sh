#!/bin/sh
# Removes what stage.sh installed. Usage: unstage.sh ROOT PREFIX SBINDIR
set -eu

root="$1" prefix="$2" sbindir="$3"
share="$root$prefix/share"
rm -f "$root$prefix/bin/uext4" "$root$sbindir/mount.fuse.uext4" "$root$sbindir/umount.fuse.uext4" \
  "$share/man/man1/uext4.1" "$share/man/man1"/uext4-*.1 \
  "$share/bash-completion/completions/uext4" "$share/zsh/site-functions/_uext4" \
  "$share/fish/vendor_completions.d/uext4.fish" "$root$prefix/lib/systemd/system/uext4@.service" \
  "$root$prefix/lib/systemd/system"/uext4-check@.* \
  "$share/doc/uext4/LICENSE-MIT" "$share/doc/uext4/LICENSE-APACHE"
rmdir "$share/doc/uext4" 2>/dev/null || true
