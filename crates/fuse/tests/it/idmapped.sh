# Prints what an idmapped mount ($1) does, and what the tree ($2) has then. Ids 0.. of the file
# system are 100000.. in the mount; 100000 is the superuser of a container.
export LC_ALL=C
umask 022
as() {
    id=$1
    shift
    (cd "$mapped" && setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@") 2>&1
}
show() {
    for tree in "$mapped" "$plain"; do
        (cd "$tree" && stat -c '%n %u:%g %a %F' "$@") 2>&1
    done
}
py() {
    /usr/bin/python3 -c "import ctypes, os, sys
def c(r): print('ok' if r == 0 else os.strerror(ctypes.get_errno()))
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
$1"
}
mapped=$1 plain=$2
chmod 777 "$plain"

echo == made
for id in 0 5 100000 100005; do
    as $id sh -c 'id=$0; echo data >file$id; mkdir dir$id; ln -s x link$id; mkfifo fifo$id
        ln file$id hard$id' $id
done
show file100000 dir100000 link100000 fifo100000 hard100000 file100005 dir100005
ls "$plain" | sort

echo == owners
echo given >"$plain/given"
chmod 666 "$plain/given"
as 0 chown 100007:100008 given
show given
for owner in 7 65536 165536 100000; do as 0 chown $owner given; done
as 100000 chown 100009 given
as 100007 chown 100008 given
as 100000 chgrp 100000 given
show given

echo == modes
chown 5:5 "$plain/given"
as 100005 chmod 6777 given
show given
as 100006 sh -c 'echo x >>given'
show given
as 100005 chmod 6777 given
as 0 chown 100006 given
show given
as 100006 chmod 4777 given
as 100005 truncate -s 1 given
show given
as 100006 chmod 4777 given
as 100005 fallocate -l 10000 given
show given
as 100006 chmod 4777 given
as 100005 sh -c ': >given'
show given
as 100006 chmod 4777 given
as 100005 dd if=/dev/zero of=given oflag=direct bs=4096 count=1 status=none
show given
for id in 100005 100006 100007; do
    as 0 chmod 2666 given
    as $id sh -c 'echo x >>given'
    show given
done
as 0 chown 100006:100006 given
show given
as 100005 chmod 600 given
as 6 chmod 600 given

echo == setgid
mkdir "$plain/setgid"
chown 0:20 "$plain/setgid"
chmod 2777 "$plain/setgid"
as 100005 mkdir setgid/dir
as 100005 sh -c 'echo x >setgid/file'
for id in 100005 100020; do
    py "os.chdir('$mapped')
os.setresgid($id, $id, $id); os.setresuid($id, $id, $id)
os.open('setgid/exec$id', os.O_CREAT | os.O_WRONLY, 0o2775)"
done
py "os.chdir('$mapped')
os.setgroups([100020]); os.setresgid(100005, 100005, 100005); os.setresuid(100005, 100005, 100005)
os.open('setgid/member', os.O_CREAT | os.O_WRONLY, 0o2775)"
show setgid/dir setgid/file setgid/exec100005 setgid/exec100020 setgid/member

echo == nameless
py "os.chdir('$mapped')
os.setresgid(100005, 100005, 100005); os.setresuid(100005, 100005, 100005)
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644)
c(libc.linkat(-100, f'/proc/self/fd/{fd}'.encode(), -100, b'linked', 0x400))
c(libc.renameat2(-100, b'linked', -100, b'moved', 4))"
show linked moved

echo == lists
echo x >"$plain/listed"
chmod 600 "$plain/listed"
as 0 setfacl -m u:100009:rw,g:100010:r listed
as 0 setfacl -m u:9:rw listed
for tree in "$mapped" "$plain"; do (cd "$tree" && getfacl -n listed 2>&1); done
for id in 9 10 100000 100009 100010; do as $id cat listed; done
as 100000 setfacl -m u:100011:rwx listed
mkdir "$plain/default"
chmod 777 "$plain/default"
as 0 setfacl -d -m u:100009:rwx default
as 100005 sh -c 'echo x >default/file'
for tree in "$mapped" "$plain"; do (cd "$tree" && getfacl -n default default/file 2>&1); done

echo == attributes
echo x >"$plain/named"
chown 5:5 "$plain/named"
as 100005 setfattr -n user.own -v 1 named
as 100006 setfattr -n user.other -v 1 named
as 5 setfattr -n user.unmapped -v 1 named
as 0 setfattr -n trusted.secret -v 1 named
as 100000 setfattr -n trusted.more -v 1 named
for id in 0 5 100005; do as $id getfattr -m - named; done
setcap cap_net_raw+ep "$plain/named"
getfattr -e hex -d -m security.capability "$plain/named" 2>&1 | grep -v '^# file'
as 100005 sh -c 'echo y >>named'
getfattr -e hex -d -m security.capability "$plain/named" 2>&1 | grep -v '^# file'

echo == flags
for id in 100006 5 100005; do as $id chattr +d named; done
as 100005 chattr +i named
as 0 chattr +i named
as 0 sh -c 'echo z >>named'
as 0 chattr -i named
lsattr "$plain/named" | cut -c1-20

echo == names
for id in 5 100006; do as $id mv file100005 taken; done
mkdir "$plain/sticky"
chmod 1777 "$plain/sticky"
as 100005 sh -c 'echo x >sticky/file'
for id in 5 100006 100005; do as $id rm -f sticky/file; done
rm -rf "$plain"/file* "$plain"/dir*
ls -A "$plain" | sort
