# Says which accesses change an access time, for a comparison of two mounts with the same options.
# Runs as the superuser in a fresh file system, the current directory. What a cache answers twice
# (a symlink, data of one opening) is looked at once.
export LC_ALL=C TZ=UTC
seen() { stat -c %x "$1"; }
tell() { # tell WORDS FILE COMMAND: whether the command changed the access time.
    words=$1 file=$2; shift 2; before=$(seen "$file"); sleep 0.03; eval "$*" >/dev/null
    if [ "$before" = "$(seen "$file")" ]; then echo "$words: kept"; else echo "$words: new"; fi
}
open() { python3 -c "import os, sys; os.$2(os.open(sys.argv[1], os.O_RDONLY | $3), $4)" "$1"; }
echo text >file; echo text >old; mkdir dir; touch dir/name; ln -s file link; sync -f .
tell "first read" file cat file
tell "read again" file cat file
echo more >>file
tell "read after a write" file cat file
chmod 600 file
tell "read after a chmod" file cat file
tell "open alone" file open file fstat 0 ''
tell "read untouched" old open old read os.O_NOATIME 9
chattr +A old
tell "read with +A" old cat old
chattr -A old; touch -a -d '2 days ago' old; touch -m -d '3 days ago' old
tell "read of an old one" old cat old
tell "read of nothing" old open old read 0 0
tell "first listing" dir ls dir
tell "listing again" dir ls dir
touch dir/more
tell "listing after a new name" dir ls dir
tell "a lookup" dir stat dir/name
tell "first look at a link" link readlink link
tell "a write" file 'echo x >>file'
