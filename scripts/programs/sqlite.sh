# SQLite under load; its client killed, the server killed, a dozen times each; then vacuum and checks.
needs sqlite3 || return 1
. "$here/programs/database.sh"
size=512M
use() {
  local acks="$aside/acks" rows=0 round
  for round in $(seq 12); do
    start_writer "$root" "$acks"; wait_for_rows "$acks" $((rows + 150))
    stop_writer; rows="$(durable "$acks")"; judge_database "$root" "$rows"
  done
  for round in $(seq 12); do
    start_writer "$root" "$acks"; wait_for_rows "$acks" $((rows + 150))
    kill_server; stop_writer; rows="$(durable "$acks")"
    mount_image; judge_database "$root" "$rows"
  done
  # Four connections that write at once, one that reads.
  sqlite3 "$root/many" 'pragma journal_mode=wal; create table t(a integer primary key, writer, b);' >/dev/null
  local pids=
  for writer in 1 2 3 4; do
    ( for n in $(seq 60); do
        sqlite3 -cmd '.timeout 60000' "$root/many" "insert into t(writer, b) values($writer, hex(randomblob(200)));"
      done ) & pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || fail "a writer of four"; done
  [ "$(sqlite3 "$root/many" 'pragma integrity_check; select count(*) from t;')" = "$(printf 'ok\n240')" ] || fail "four writers"
  sqlite3 "$root/db" 'vacuum; pragma wal_checkpoint(truncate);' >/dev/null; judge_database "$root" "$rows"
  echo "$rows rows, 12 kills of the client, 12 of the server, 240 inserts of four writers"
}
