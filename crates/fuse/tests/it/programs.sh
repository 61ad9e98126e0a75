# Real programs in a fresh file system, the current directory. Ends at the first that fails.
# The first argument says how many directories of 50 files the repository has.
set -e
has() { command -v "$1" >/dev/null 2>&1 || { echo "=== SKIPPED: $1 is not installed ==="; false; }; }
export LC_ALL=C GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
mkdir -p tree; dirs=$1
for d in $(seq "$dirs"); do
    mkdir tree/d$d
    for f in $(seq 50); do echo "file $f of directory $d" >tree/d$d/f$f; done
done
ln tree/d1/f1 tree/hard; ln -s d1/f2 tree/soft; mkfifo tree/pipe; chmod 2750 tree/d2
truncate -s 5M tree/sparse; setfattr -n user.note -v said tree/hard; setfacl -m u:1000:rw tree/d1/f3

if has git; then
    echo "== git"
    cp -a tree repo; cd repo; rm pipe
    git init -q .; git add .; git commit -qm one; git checkout -qb other
    git mv d1 e1; git commit -qam two; git checkout -q -; git checkout -q other
    git gc -q; git fsck --full --strict; test -z "$(git status --porcelain)"; cd ..
    git clone -q repo clone; git -C clone fsck --full; test -z "$(git -C clone status --porcelain)"
    rm -rf repo clone
fi
echo "== tar"; tar --xattrs --acls -cf t.tar tree; mkdir out; tar --xattrs --acls -xpf t.tar -C out
diff -r --no-dereference -x pipe tree out/tree; test "$(getfattr --only-values -n user.note out/tree/hard)" = said
echo "== cp"; cp -a tree copy; diff -r --no-dereference -x pipe tree copy
test "$(stat -c %i copy/hard)" = "$(stat -c %i copy/d1/f1)"; getfacl -n -p copy/d1/f3 | grep -q 'user:1000:rw-'
if has rsync; then
    echo "== rsync"; rsync -aHAX --checksum tree/ synced/
    test -z "$(rsync -aHAX --checksum --delete --itemize-changes -n tree/ synced/)"
fi
echo "== find"; test "$(find tree -type f -name 'f*' | wc -l)" = $((dirs * 50)); rm -rf out copy synced t.tar; ls
if has fio; then
    echo "== fio"
    for engine in psync mmap; do for direct in 0 1; do
        fio --name=x --filename=fio --rw=randrw --bs=4k --size=16M --verify=crc32c --do_verify=1 \
            --ioengine=$engine --direct=$direct >fio.log 2>&1 || { cat fio.log; exit 1; }
    done; done
    rm -f fio fio.log
fi
