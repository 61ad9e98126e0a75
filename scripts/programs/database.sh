# For the programs that use SQLite: a database in WAL mode with a writer that tells what is durable.

# Commits transactions for ever; each row that was committed is told in $2.
start_writer() {
  ( cd "$1"; {
      echo "pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=50;"
      echo "create table if not exists t(a integer primary key, b text, c integer);"
      echo "create index if not exists i on t(b); create table if not exists sum(n integer);"
      echo "insert into sum select 0 where not exists (select * from sum);"
      while :; do
        echo "begin; insert into t(b, c) values(hex(randomblob(400)), 1);"
        echo "update t set b = hex(randomblob(300)) where a = 1 + abs(random()) % (select max(a) from t);"
        echo "delete from t where a % 7 = 0 and a < (select max(a) from t) - 50;"
        echo "update sum set n = (select max(a) from t); commit; select 'row', max(a) from t;"
      done
    } | exec sqlite3 -bail db >"$2" 2>"$2.errors" ) 2>/dev/null &
  writer=$!
}
stop_writer() {
  # The shell that feeds it ends by itself when the pipe breaks.
  pkill -9 -P "$writer" || true
  wait "$writer" 2>/dev/null || true
  writer=
}
stop_program() { [ -z "${writer:-}" ] || stop_writer; }
# The last row that a whole line tells.
durable() { { sed '$d' "$1"; tail -c 1 "$1" | grep -q . || tail -n 1 "$1"; } | sed -n 's/^row|//p' | tail -n 1; }
wait_for_rows() {
  for _ in $(seq 600); do
    local rows; rows="$(durable "$1")"
    [ "${rows:-0}" -lt "$2" ] || return 0
    sleep 0.1
  done
  cat "$1.errors"; fail "the database does not get on"
}
# Whole, with all rows that were told.
judge_database() {
  local said rows
  said="$(sqlite3 "$1/db" 'pragma integrity_check; select max(a), n from t, sum;')" || fail "$said"
  [ "${said%%
*}" = ok ] || fail "integrity: $said"
  rows="$(echo "$said" | tail -n 1)"
  [ "${rows%|*}" = "${rows#*|}" ] || fail "half a transaction: $rows"
  [ "${rows%|*}" -ge "$2" ] || fail "${rows%|*} rows of $2 that were durable"
}
