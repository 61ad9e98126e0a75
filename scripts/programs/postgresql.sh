# PostgreSQL: initdb with checksums, pgbench, kill -9 of its postmaster and of our server, recovery, and
# its own checks of tables, indexes and pages.
bin="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)"
[ -n "$bin" ] || { echo "=== SKIPPED: PostgreSQL is not installed"; return 1; }
size=2G
use() {
  data="$root/pg/data"; port=$((20000 + RANDOM % 20000))
  mkdir "$root/pg"; chown postgres: "$root/pg"
  cd /
  pg "$bin/initdb" -k -A trust -D "$data" >/dev/null
  start; quietly pg "$bin/pgbench" -q -i -s 10
  bench 10
  local round
  for round in 1 2; do
    bench_and_kill postmaster; check_all; accounts
    bench_and_kill server; check_all; accounts
  done
  pg "$bin/psql" -qAt -c 'vacuum full' -c 'reindex database postgres' >/dev/null
  check_all; accounts
  pg "$bin/pg_ctl" -s -w -m fast -D "$data" stop
  pg "$bin/pg_checksums" -c -D "$data" | grep -e '^Blocks scanned' -e '^Bad'
  echo "$(cat "$aside/tps" | tr '\n' ' ')"
}
pg() { timeout -k 5 "${limit:-300}" setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/tmp PGHOST=/tmp PGPORT="$port" PGDATABASE=postgres "$@"; }
quietly() { "$@" >"$aside/out" 2>&1 || { cat "$aside/out"; fail "$*"; }; }
start() {
  pg "$bin/pg_ctl" -s -w -t 120 -D "$data" -o "-p $port -k /tmp -h ''" -l "$root/pg/log" start ||
    { tail -n 30 "$root/pg/log"; fail "PostgreSQL does not start"; }
}
bench() { quietly pg "$bin/pgbench" -n -c 8 -j 2 -T "$1"; grep '^tps' "$aside/out" | tee -a "$aside/tps" >/dev/null; }
# A client keeps a count of what was committed; it must be there after the recovery.
bench_and_kill() {
  local postmaster backends committed
  pg "$bin/psql" -qAtc 'create table if not exists told(n integer)' 2>/dev/null
  ( limit=60; pg "$bin/pgbench" -n -c 8 -T 30 >/dev/null 2>&1 || true ) &
  local bench=$!
  ( limit=20; while pg "$bin/psql" -qAtc "insert into told select coalesce(max(n), 0) + 1 from told returning n"; do :; done ) \
    >"$aside/told" 2>"$aside/teller" &
  local teller=$!
  sleep 4
  postmaster="$(head -n 1 "$data/postmaster.pid")"
  kill -STOP "$postmaster"; backends="$(pgrep -P "$postmaster" | tr '\n' ' ')"
  [ "$1" = postmaster ] || kill_server
  # Backends end by themselves when their postmaster is gone, but not those that wait for a lock of
  # one that failed.
  kill -9 "$postmaster" || true; sleep 2; kill -9 $backends 2>/dev/null || true
  wait "$bench" "$teller" || true
  wait_for_end "$postmaster" $backends
  [ "$1" = postmaster ] || mount_image
  start
  committed="$(tail -n 1 "$aside/told")"
  [ -n "$committed" ] || { cat "$aside/teller"; fail "nothing was told"; }
  [ "$(pg "$bin/psql" -qAtc 'select max(n) from told')" -ge "$committed" ] || fail "told $committed after $1"
  echo "killed the $1: $committed commits told and kept"
}
wait_for_end() {
  local pid
  for pid; do
    for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  done
  rm -f "/tmp/.s.PGSQL.$port" "/tmp/.s.PGSQL.$port.lock"
}
check_all() {
  pg "$bin/psql" -qAtc 'create extension if not exists amcheck' 2>/dev/null
  quietly pg "$bin/pg_amcheck" --heapallindexed --parent-check -d postgres
}
# The benchmark's own invariant.
accounts() {
  local said
  said="$(pg "$bin/psql" -qAtc 'select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches) and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers) and (select count(*) from pgbench_accounts) = 1000000')"
  [ "$said" = t ] || fail "the balances differ"
}
stop_program() { [ ! -e "${data:-/nowhere}/postmaster.pid" ] || kill -9 "$(head -n 1 "$data/postmaster.pid")" 2>/dev/null || true; }
