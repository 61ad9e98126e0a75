# Each user of an image in turn, and every command that writes beside it. Runs as the superuser in a
# mount namespace of its own, in an empty directory.
set -eu
cleanup() {
    set +e
    for at in m k bound; do umount -l "$at" 2>/dev/null; done
    [ -z "${holder:-}" ] || kill "$holder" 2>/dev/null
    losetup -n -O NAME,BACK-FILE | grep -F "$PWD/" | while read -r name _; do losetup -d "$name"; done
}
trap cleanup EXIT
fail() { echo "$*" >&2; exit 1; }
# refused USER WORD COMMAND...: exit status 5, one line that names the user.
refused() {
    user=$1 word=$2 got=0; shift 2
    said=$(timeout 20 "$TOOL" "$@" 2>&1) || got=$?
    [ "$got" = 5 ] || fail "$user: uext4 $*: $got: $said"
    case "$said" in *"in use: "*"$word"*) ;; *) fail "$user: uext4 $*: no $word in: $said";; esac
    [ "$(echo "$said" | wc -l)" = 1 ] || fail "$user: uext4 $*: $said"
}
# all USER WORD IMAGE: every command that writes is refused, and changes nothing.
all() {
    user=$1 word=$2 image=$3
    before=$(sha1sum <i.img)
    refused "$user" "$word" put "$image" src /new
    refused "$user" "$word" mkdir "$image" /new
    refused "$user" "$word" rm "$image" /file
    refused "$user" "$word" mv "$image" /file /moved
    refused "$user" "$word" ln "$image" /file /link
    refused "$user" "$word" chmod 600 "$image" /file
    refused "$user" "$word" chown 1:1 "$image" /file
    refused "$user" "$word" tune "$image" -L label
    refused "$user" "$word" quota "$image" --set 1 --space-hard 1M
    refused "$user" "$word" trim "$image"
    refused "$user" "$word" replay "$image"
    refused "$user" "$word" mkfs --force "$image"
    refused "$user" "$word" mkfs --force --size 1M "$image"
    refused "$user" "$word" mount "$image" other
    [ "$before" = "$(sha1sum <i.img)" ] || fail "$user: the image changed"
}
attach() { losetup -f --show "$@"; }
mkdir m k other bound
echo data >src
"$TOOL" mkfs -q --size 16M i.img
"$TOOL" put i.img src /file

# A loop device that nothing uses is no user, and what is written is seen through it.
loop=$(attach i.img)
"$TOOL" put i.img src /first
"$TOOL" ls "$loop" | grep -q first || fail "not seen through the loop device"

# The kernel's ext4 on it.
mount -o noatime "$loop" k
sync -f k
all kernel "$loop is mounted on $PWD/k" i.img
all "kernel, device" "$loop is mounted on $PWD/k" "$loop"
# The same file by other names.
ln i.img linked
all linked "$loop is mounted on $PWD/k" linked
mkdir bound/deep
mount --bind . bound
all bound "$loop is mounted on $PWD/k" bound/i.img
umount bound
umount k

# Mounted in another mount namespace only.
mkfifo ready
unshare -m sh -c "mount -o noatime $loop k && sync -f k; echo >ready; exec sleep 100" &
holder=$!
read -r _ <ready
all namespace "in the mount namespace of process" i.img
kill "$holder"; wait "$holder" 2>/dev/null || true; holder=
# The kernel lets go of it a moment later.
for _ in $(seq 100); do if "$TOOL" replay i.img >/dev/null 2>&1; then break; fi; sleep 0.05; done

# Our server on the loop device, and on the file.
"$TOOL" mount -o noatime "$loop" m
all "server on the device" "$loop is mounted on $PWD/m" i.img
second=$(attach i.img)
all "server on the device, second" "$loop is mounted on $PWD/m" "$second"
mv i.img moved; cp --sparse=always moved i.img
refused moved "$loop is mounted on $PWD/m" put moved src /new
said=$("$TOOL" mount -o ro moved other 2>&1)
case "$said" in *"note: moved: in use: $loop is mounted on"*) ;; *) fail "no warning: $said";; esac
refused remounted "$loop is mounted on $PWD/m" remount other -o rw
"$TOOL" umount other
mv moved i.img
"$TOOL" umount m
"$TOOL" mount -o noatime i.img m
server=$("$TOOL" stats m --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
all "server on the file" "process $server (uext4)" i.img
all "server on the file, device" "process $server (uext4)" "$loop"
all "server on the file, second" "process $server (uext4)" "$second"
if mount -o noatime "$loop" k 2>/dev/null; then fail "the kernel mounted what a server writes"; fi
said=$("$TOOL" mount -o ro i.img other 2>&1)
case "$said" in *"note: i.img: in use: process $server (uext4)"*) ;; *) fail "no warning: $said";; esac
"$TOOL" umount other
# A file without a name.
mv i.img gone; cp --sparse=always gone i.img; rm gone linked
refused deleted "process $server (uext4)" put "$loop" src /new
"$TOOL" umount m
losetup -d "$second"
"$TOOL" put "$loop" src /last
losetup -d "$loop"

# A partition of a loop device.
truncate -s 20M disk
printf 'label: dos\n2048,32768,L\n' | sfdisk -q disk
dd if=i.img of=disk bs=1M seek=1 conv=notrunc status=none
"$TOOL" replay disk --partition 1 >/dev/null
loop=$(attach -P disk)
# A kernel that knows no partition tables takes them one by one.
[ -b "${loop}p1" ] || partx -a "$loop"
if [ -b "${loop}p1" ]; then
    mount -o noatime "${loop}p1" k
    word="${loop}p1 is mounted on $PWD/k"
    refused partition "$word" put disk --partition 1 src /new
    refused partition "$word" put "$loop" --partition 1 src /new
    refused partition "$word" put "${loop}p1" src /new
    refused partition "$word" mkfs --force "$loop"
    umount k
else
    echo "=== SKIPPED: the kernel makes no partitions on loop devices ===" >&2
fi
losetup -d "$loop"

# Nothing is written beside a reader; without a user everything works.
"$TOOL" replay i.img >/dev/null
e2fsck -fn i.img >/dev/null 2>&1 || fail "i.img is damaged"
"$TOOL" put i.img src /new
said=$("$TOOL" mount -o ro i.img other 2>&1)
[ -z "$said" ] || fail "a warning without a writer: $said"
"$TOOL" umount other
