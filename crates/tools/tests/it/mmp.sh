# Two servers of one file system, each on a loop device of its own with direct I/O, as on two hosts:
# neither shares a page cache with the other, nor sees in /sys what the other uses. One is stopped
# and goes on. Runs as the superuser in a mount namespace of its own, in an empty directory; $SEED
# says for how long it is stopped.
set -eu
writer=
cleanup() {
    set +e
    [ -z "${server:-}" ] || kill -CONT "$server" 2>/dev/null
    [ -z "$writer" ] || kill "$writer" 2>/dev/null
    for at in ma mb; do umount -l "$at" 2>/dev/null; done
    for device in ${a:-} ${b:-}; do losetup -d "$device"; done
}
trap cleanup EXIT
fail() { echo "seed $SEED: $*" >&2; exit 1; }
between() { awk -v seed="$SEED$1" -v from="$2" -v to="$3" \
    'BEGIN { srand(seed); print from + rand() * (to - from) }'; }
pid_of() { "$TOOL" stats "$1" --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1; }
# What differs outside of the MMP block.
differs() { cmp -l before i.img | awk -v at="$mmp" '$1 <= at || $1 > at + 4096' | head -3; }
mkdir ma mb
"$TOOL" mkfs -q --size 64M -b 4096 -O mmp i.img
mmp=$(($(dumpe2fs -h i.img 2>/dev/null | sed -n 's/^MMP block number: *//p') * 4096))
[ "$mmp" -gt 0 ]
a=$(losetup -f --show --direct-io=on i.img)
b=$(losetup -f --show --direct-io=on i.img)
mount -t tmpfs none /sys
"$TOOL" mount "$a" ma
server=$(pid_of ma)
# It writes all the time, and notes what was promised.
: >promised
(
    nr=0
    while dd if=/dev/urandom of="ma/file$((nr % 50))" bs=64k count=2 conv=fsync 2>/dev/null; do
        nr=$((nr + 1)); echo "$nr" >>promised
    done
    echo failed >>promised
) &
writer=$!
sleep 2

# Stopped for less than the lease: it goes on.
kill -STOP "$server"; sleep "$(between 1 1 4)"; kill -CONT "$server"
# Stopped while another host looks, and back at half of the 11 s that the other waits, so that a
# busy machine is back in time too: the other gives up.
kill -STOP "$server"
(got=0; "$TOOL" mount "$b" mb 2>said || got=$?; echo $got >status) &
other=$!
sleep "$(between 2 2 6)"
kill -CONT "$server"
wait "$other"
[ "$(cat status)" = 5 ] || fail "a second mount: $(cat status): $(cat said)"
grep -q '(MMP)' said || fail "no host: $(cat said)"
before=$(wc -l <promised)
sleep 2
[ "$(wc -l <promised)" -gt "$before" ] || fail "the first server does not write any more"
if grep -q failed promised; then fail "the first server failed"; fi

# Stopped for longer: the other takes over, and the first writes nothing after that.
kill -STOP "$server"
"$TOOL" mount "$b" mb
echo other >mb/other
"$TOOL" freeze mb
cp --sparse=always i.img before
kill -CONT "$server"
# It notices within its update interval, and at its next write.
for _ in $(seq 200); do if grep -q failed promised; then break; fi; sleep 0.1; done
grep -q failed promised || fail "the first server still answers"
if echo late 2>/dev/null >ma/late && sync ma/late 2>/dev/null; then fail "it promises to write"; fi
sleep 7
[ -z "$(differs)" ] || fail "both wrote: $(differs)"
said=$("$TOOL" umount ma 2>&1) && fail "umount is content"
case "$said" in *MMP*) ;; *) fail "umount says: $said";; esac
[ -z "$(differs)" ] || fail "both wrote: $(differs)"
"$TOOL" thaw mb
echo more >>mb/other
[ "$(cat mb/other)" = "$(printf 'other\nmore')" ]
"$TOOL" umount mb
e2fsck -fn i.img >check 2>&1 || fail "$(cat check)"
[ "$("$TOOL" cat i.img /other)" = "$(printf 'other\nmore')" ] || fail "the other's file is gone"
