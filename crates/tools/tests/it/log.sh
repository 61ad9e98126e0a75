# Meets damage in a mount whose log is the socket `log` of this directory, if there is one.
# $1: mount options, or --foreground.
set -e
mount -t tmpfs none dev
for name in fuse null; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
# This directory may be there.
if [ -d /dev/shm ]; then
    mkdir dev/shm
    mount --rbind /dev/shm dev/shm
fi
if [ -e log ]; then
    touch dev/log
    mount --bind log dev/log
fi
mount --rbind dev /dev
# Mounts are made by full paths, which lead through the new /dev.
cd "$PWD"
dir=$(printf 'mnt\033[31m')
meet() {
    for name in dir dir other; do
        LC_ALL=C ls "$dir/$name" >seen 2>&1 || true
        grep -q 'Structure needs cleaning' seen
    done
}
if [ "$1" = --foreground ]; then
    "$TOOL" mount --foreground -o errors=continue disk.img "$dir" &
    for _ in $(seq 100); do
        mountpoint -q "$dir" && break
        sleep 0.05
    done
    meet
    "$TOOL" umount "$dir" 2>/dev/null
    wait $!
else
    "$TOOL" mount -o "$1" disk.img "$dir"
    meet
    "$TOOL" info "$dir"
    "$TOOL" umount "$dir" 2>umounted || grep -q 'directory leaf' umounted
fi
