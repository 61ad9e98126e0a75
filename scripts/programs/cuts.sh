# A database in WAL mode while the image is copied at an instant, again and again: each copy is what a
# machine finds whose server ended there. We, e2fsck and the kernel recover it; the database must be
# whole and have all rows that were durable before. Writes that were not flushed are in the copies;
# losing those is tried by "cargo xtask database".
needs sqlite3 || return 1
. "$here/programs/database.sh"
size=256M
use() {
  local acks="$aside/acks" cut rows judged=0
  start_writer "$root" "$acks"; wait_for_rows "$acks" 20
  mkdir "$aside/ours" "$aside/kernel"
  for cut in $(seq 24); do
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    rows="$(durable "$acks")"
    stop_server_and_copy
    judge_copies "$rows"; judged=$((judged + 1))
  done
  stop_writer; rows="$(durable "$acks")"; judge_database "$root" "$rows"
  echo "$judged cuts, each recovered by us, e2fsck and the kernel; $rows rows"
}
stop_server_and_copy() {
  kill -STOP "$server"
  while ! grep -q '^State:.T' "/proc/$server/status"; do sleep 0.01; done
  cp --sparse=always "$image" "$aside/cut"
  kill -CONT "$server"
}
judge_copies() {
  local of_mount="$server" copy
  for copy in 1 2; do cp --sparse=always "$aside/cut" "$aside/cut$copy"; done
  mount_image "$aside/cut" "$aside/ours"
  judge_database "$aside/ours" "$1"
  umount_image "$aside/ours"; clean "$aside/cut"
  e2fsck -fp "$aside/cut1" >"$aside/e2fsck" 2>&1 || [ $? -le 1 ] || { cat "$aside/e2fsck"; fail "e2fsck -p"; }
  by_kernel "$aside/cut1" "$1"
  by_kernel "$aside/cut2" "$1"
  server="$of_mount"
}
by_kernel() {
  mount -o loop "$1" "$aside/kernel"
  judge_database "$aside/kernel" "$2"
  umount "$aside/kernel"; clean "$1"
}
