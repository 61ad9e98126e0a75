# A tree with hard links, holes, access lists and attributes to the mount and back; nothing differs.
needs rsync setfacl setfattr || return 1
size=1G
use() {
  local tree="$aside/tree" back="$aside/back"
  mkdir "$tree"; cp -a "$repository/crates" "$repository/docs" "$tree/"
  cd "$tree"
  for n in $(seq 300); do
    echo "file $n" >"f$n"; ln "f$n" "hard$n"; ln -s "f$n" "soft$n"
    setfacl -m "u:$((1000 + n)):rw,g:$((2000 + n)):r" "f$n"
    setfattr -n user.note -v "note $n" "f$n"; setfattr -n trusted.number -v "$n" "f$n"
    touch -d "@$((1000000000 + n)).$n" "f$n"; chown "$n:$((n + 1))" "f$n"; chmod "$((600 + n % 8))" "f$n"
  done
  mkdir -m 2750 group; setfacl -d -m u:1234:rwx group; mkfifo pipe; mknod null c 1 3
  truncate -s 20M sparse; echo end >>sparse; mkdir -m 1777 sticky
  sync -f .
  rsync -aHAXS "$tree/" "$root/copy/"
  compare "$tree/" "$root/copy/"
  rsync -aHAXS "$root/copy/" "$back/"
  compare "$tree/" "$back/"
  umount_again
  compare "$tree/" "$root/copy/"
  rsync -aHAXS --delete --link-dest="$root/copy" "$tree/" "$root/linked/"
  [ "$(stat -c %i "$root/linked/f1")" = "$(stat -c %i "$root/copy/f1")" ] || fail "link-dest"
  echo "$(find "$tree" | wc -l) names"
}
umount_again() { cd /; umount_image; clean; mount_image; }
compare() {
  local said
  said="$(rsync -aHAXS --checksum --delete --itemize-changes -n "$1" "$2")"
  [ -z "$said" ] || { echo "$said" | head; fail "$2 differs"; }
  [ "$(stat -c %i "$2/f7")" = "$(stat -c %i "$2/hard7")" ] || fail "a hard link was lost"
}
