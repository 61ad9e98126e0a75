# Says what a file system does, for a comparison of two: everything said must be the same on both.
# Runs as the superuser in a fresh file system, the current directory.
export LC_ALL=C TZ=UTC
umask 0
as() { # as GROUPS COMMAND: as user 1000 of group 1000 with further groups, or - for none.
    groups=$1; shift
    if [ "$groups" = - ]; then groups=--clear-groups; else groups="--groups=$groups"; fi
    setpriv --reuid=1000 --regid=1000 "$groups" sh -c "$*" 2>&1 | sed 's/^sh: [0-9]*: //'
}
look() { stat -c '%n %A %u:%g links %h size %s sectors %b %F' "$@"; }
chmod 755 .
echo "== space"; stat -f -c '%b %f %a %c %d %s %S %l' .
mkdir d; echo text >d/file; truncate -s 1M d/sparse; head -c 100000 /dev/zero >d/full; sync -f .; sync d/*
ln -s "$(head -c 59 /dev/zero | tr '\0' a)" d/short; ln -s "$(head -c 60 /dev/zero | tr '\0' a)" d/long
mknod d/null c 1 3; mknod d/block b 300 70000; mkfifo d/pipe; ln d/file d/second
look d d/*; stat -f -c '%b %f %a %c %d' .

echo "== setgid directories"; mkdir sg; chgrp 77 sg; chmod 2777 sg
as - 'mkdir sg/sub; mknod sg/out p -m 2775; touch sg/f; cp -p /bin/true sg/x; chmod 2775 sg/x'
as 77 'mknod sg/in p; chmod 2775 sg/in; install -m 2775 /bin/true sg/y'
as 77 'python3 -c "import os,stat; os.mknod(\"sg/made\", stat.S_IFIFO|0o2775); os.close(os.open(\"sg/opened\", os.O_CREAT, 0o2775))"'
as - 'python3 -c "import os,stat; os.mknod(\"sg/made2\", stat.S_IFIFO|0o2775); os.close(os.open(\"sg/opened2\", os.O_CREAT, 0o2775))"'
stat -c '%n %A %u:%g' sg/*
echo "== sticky"; mkdir st; chmod 1777 st; touch st/root; as - 'rm -f st/root; mv st/root st/x; touch st/mine; rm st/mine'; ls st
echo "== groups"; echo secret >g; chgrp 77 g; chmod 640 g
as - cat g; as 77 cat g; as 1,2,3,77,99 cat g; as 77 'echo x >>g'; as 77 chmod 666 g; as 77 chgrp 1000 g
touch own; chown 1000:1000 own; as 77 'chgrp 77 own; chgrp 78 own; chmod 6777 own'; look own
echo "== setuid goes"
for how in 'echo x >>own' 'truncate -s 3 own' ': >own' 'chgrp 77 own' 'fallocate -l 5000 own'; do
    chmod 6777 own; as 77 "$how"; stat -c "%A" own
done
for mode in 6666 2666 2646; do for group in - 77; do
    for how in 'echo x >>own' 'truncate -s 3 own' ': >own' 'chgrp 1000 own' 'fallocate -l 5000 own' 'cp d/full own'; do
        chown 1000:77 own; chmod $mode own; as $group "$how"; stat -c "$mode $group %A %g" own
    done
done; done
for how in 'echo x >>own' 'truncate -s 3 own' 'chown 1000:78 own' ':'; do
    setfattr -n security.capability -v 0x0100000200200000002000000000000000000000 own; eval "$how"; getfattr -d -m security own
done
chown 1000:77 own; chmod 6777 own; echo root >own; stat -c %A own; chown 1000:77 own; stat -c %A own
echo "== times"; touch any; chmod 666 any; as - 'touch any && echo now; touch -d @1 any'
touch -d @123.987654321 any; stat -c '%x %y' any
echo "== ACLs"; mkdir acl; setfacl -d -m u:1000:rwx,g:77:rx,o::- acl; setfacl -m u:1000:rwx acl
umask 027; mkdir acl/sub; mkdir -m 700 acl/closed; touch acl/file; mkfifo acl/pipe; mkdir plain; touch plain/f; umask 0
getfacl -n acl acl/* plain plain/f; chmod 600 acl/file; getfacl -n acl/file
as - 'ls acl/sub && mkdir acl/sub/x && echo made; setfacl -m u:5:r acl'
echo "== attributes"; for name in user.a trusted.b security.c bad.d; do setfattr -n $name -v 1 d/file 2>&1; done
setfattr -n user.a -v 1 d/pipe 2>&1; setfattr -h -n user.a -v 1 d/short 2>&1
setfattr -n user.$(head -c 251 /dev/zero | tr '\0' n) -v 1 d/file 2>&1; getfattr -d -m - d/file 2>&1
as - 'getfattr -d -m - d/file; setfattr -n user.x -v 1 d/file'
echo "== flags"; echo 0 >f
chattr +i f; (echo a >>f) 2>&1 | sed 's/.*: //'; rm -f f 2>&1; mv f ff 2>&1; ln f ff 2>&1; chmod 777 f 2>&1; lsattr f; chattr -i f
chattr +a f; echo b >>f; (echo c >f) 2>&1 | sed 's/.*: //'; rm -f f 2>&1; lsattr f; chattr -a f
chattr +cdSAsu f; lsattr f; chattr -cdSAsu f; lsattr f; as - 'chattr +i own; chattr +d own'; lsattr own
echo "== names"; long=$(head -c 255 /dev/zero | tr '\0' n); touch $long && echo 255; touch ${long}n 2>/dev/null || echo not 256
echo "== space in files"; fallocate -l 100000 al; look al; fallocate -n -o 200000 -l 4096 al; look al
fallocate -p -o 4096 -l 8192 al; fallocate -z -o 90000 -l 100000 al; look al
echo "== renames"; mkdir -p a/b; mv a a/b 2>&1; mkdir full; touch full/x; mv -T a full 2>&1; mv -T d/file a 2>&1; rmdir full 2>&1
echo "== locks"; exec 9>lock; flock -n 9 && flock -n lock true || echo locked; flock -u 9; flock -n lock echo free
