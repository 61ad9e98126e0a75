"""Says what a file system does, step by step, for a comparison of two: all must be the same on both.

Runs as the superuser in a fresh file system, the current directory. Arguments: sections, or none
for all.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import signal
import stat
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
O_RDWR, O_RDONLY, O_WRONLY, O_CREAT = os.O_RDWR, os.O_RDONLY, os.O_WRONLY, os.O_CREAT
USER = 1000


def name_of(error):
    return errno.errorcode.get(error.errno, str(error.errno))


def attempt(call, *args):
    """What the call answers, or the name of its errno."""
    try:
        return call(*args)
    except OSError as error:
        return name_of(error)


def allocate(file, mode, offset, size):
    return attempt(lambda: checked(libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(size))))


def say(what, call, *args):
    print(what, attempt(call, *args))


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def rename2(old, new, flags):
    old, new = old.encode(), new.encode()
    return checked(libc.renameat2(AT_FDCWD, old, AT_FDCWD, new, flags))


def apart(call, *args):
    """Runs in a process of its own; answers its exit status, or the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            code = call(*args) or 0
        except OSError as error:
            print("failed", name_of(error))
            code = 1
        sys.stdout.flush()
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def as_user(call, *args, groups=()):
    def change():
        os.setgroups(groups)
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        return call(*args)

    return apart(change)


def link_open(file, path):
    """Gives an open file a name."""
    opened = f"/proc/self/fd/{file}".encode()
    return checked(libc.linkat(AT_FDCWD, opened, AT_FDCWD, path.encode(), 0x400))


def write(path, data=b"text"):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def look(*paths):
    for path in paths:
        seen = os.lstat(path)
        kind = stat.filemode(seen.st_mode)
        print(path, kind, seen.st_uid, seen.st_gid, "links", seen.st_nlink, "size", seen.st_size)


def aligned(data):
    """A buffer for direct I/O."""
    buffer = mmap.mmap(-1, max(len(data), 1))
    buffer[: len(data)] = data
    return memoryview(buffer)[: len(data)]


def direct(path, offset, size=None, data=None):
    file = os.open(path, O_RDWR | os.O_DIRECT)
    try:
        if data is not None:
            return os.pwritev(file, [aligned(data)], offset)
        buffer = aligned(bytes(size))
        done = os.preadv(file, [buffer], offset)
        return bytes(buffer[:done])
    finally:
        os.close(file)


def appending():
    def writer(mark):
        file = os.open("log", O_WRONLY | O_CREAT | os.O_APPEND)
        for index in range(1000):
            os.write(file, b"%s%04d%s\n" % (mark, index, mark * (index % 90)))

    def both():
        child = os.fork()
        if child == 0:
            writer(b"b")
            os._exit(0)
        writer(b"a")
        os.waitpid(child, 0)

    apart(both)
    lines = read("log").splitlines()
    for mark in b"ab":
        mine = [line for line in lines if line[0] == mark]
        whole = all(len(line) == 5 + int(line[1:5]) % 90 for line in mine)
        print(chr(mark), len(mine), whole, mine == sorted(mine))
    file = os.open("log", O_RDWR | os.O_APPEND)
    size = os.fstat(file).st_size
    os.pwrite(file, b"at the end", 0)
    print(os.fstat(file).st_size - size, os.pread(file, 1, 0) in (b"a", b"b"))
    print(os.lseek(file, 0, os.SEEK_CUR), os.write(file, b"!"), os.lseek(file, 0, os.SEEK_CUR) - size)
    fcntl.fcntl(file, fcntl.F_SETFL, 0)
    os.pwrite(file, b"start", 0)
    print(os.pread(file, 5, 0))


def direct_and_buffered():
    model = bytearray()
    path = "direct"
    file = os.open(path, O_RDWR | O_CREAT)
    os.ftruncate(file, 1 << 20)
    model.extend(bytes(1 << 20))
    view = mmap.mmap(file, 1 << 20)
    random.seed(5)
    wrong = 0
    for step in range(400):
        block, blocks = random.randrange(250), random.randrange(1, 6)
        at, size = block * 4096, blocks * 4096
        data = bytes([random.randrange(256)]) * size
        how = step % 5
        if how == 0:
            direct(path, at, data=data)
        elif how == 1:
            at, data = at + 100, data[:-200]
            os.pwrite(file, data, at)
        elif how == 2:
            view[at : at + size] = data
        if how < 3:
            model[at : at + len(data)] = data
        elif how == 3:
            wrong += direct(path, at, size) != model[at : at + size]
        else:
            wrong += os.pread(file, size, at) != model[at : at + size]
            wrong += view[at : at + size] != model[at : at + size]
    print("differences", wrong)
    say("past the end", lambda: direct(path, 1 << 20, data=b"x" * 4096))
    say("short", lambda: len(direct(path, 1 << 20, 65536)))
    say("far", lambda: direct(path, 1 << 30, 4096))
    say("size", lambda: os.fstat(file).st_size)
    os.ftruncate(file, (1 << 20) + 10)
    print("cut", direct(path, 1 << 20, 4096))
    direct(path, (1 << 20) + 8192, data=b"y" * 4096)
    print("hole", direct(path, 1 << 20, 8192) == b"x" * 10 + bytes(8182))


def mapped():
    write("map", b"0" * 12288)
    file = os.open("map", O_RDWR)
    shared, private = mmap.mmap(file, 0), mmap.mmap(file, 0, mmap.MAP_PRIVATE)
    shared[10:14] = b"fold"
    print(os.pread(file, 4, 10), private[10:14])
    os.pwrite(file, b"told", 20)
    print(shared[20:24], private[20:24])
    private[30:34] = b"mine"
    print(os.pread(file, 4, 30), shared[30:34])
    os.pwrite(file, b"late", 40)
    print(shared[40:44], private[40:44])
    shared.flush()
    print(direct("map", 0, 4096)[:50])
    os.utime("map", (1000, 1000))
    shared[100:101] = b"x"
    shared.flush()
    print("mtime moves", os.stat("map").st_mtime > 1000, "atime", os.stat("map").st_atime)
    os.ftruncate(file, 5000)
    print("behind the end", shared[5000:5010], apart(lambda: shared[8192] and 0))
    shared[6000:6004] = b"lost"
    os.ftruncate(file, 12288)
    print("grown", shared[6000:6004], read("map")[5000:] == bytes(7288))

    def fail(flags, protection, *how):
        inner = os.open("map", flags)
        return mmap.mmap(inner, 4096, mmap.MAP_SHARED, protection).size()

    both = mmap.PROT_READ | mmap.PROT_WRITE
    say("for reading", fail, O_RDONLY, both)
    say("for writing", fail, O_WRONLY, both)
    say("appending", fail, O_RDWR | os.O_APPEND, both)
    say("programs", fail, O_RDONLY, mmap.PROT_READ | mmap.PROT_EXEC)
    say("directory", lambda: mmap.mmap(os.open(".", O_RDONLY), 4096, prot=mmap.PROT_READ).size())
    os.unlink("map")
    shared[50:55] = b"after"
    print("unlinked", os.pread(file, 5, 50))

    def parent_and_child():
        child = os.fork()
        if child == 0:
            shared[60:65] = b"child"
            os._exit(0)
        os.waitpid(child, 0)
        print("child", shared[60:65], os.pread(file, 5, 60))

    apart(parent_and_child)


def lock(file, kind, start=0, length=0, command=fcntl.F_SETLK):
    asked = struct.pack("hhqqi4x", kind, 0, start, length, 0)
    answer = fcntl.fcntl(file, command, asked)
    kind, _, start, length, pid = struct.unpack("hhqqi4x", answer)
    return kind, start, length, pid and (pid if pid < 0 else "another")


def locks():
    write("locked", b"x" * 1000)
    file = os.open("locked", O_RDWR)
    lock(file, fcntl.F_WRLCK, 100, 100)

    def other():
        mine = os.open("locked", O_RDWR)
        for at in [(0, 100), (0, 101), (150, 10), (200, 0), (0, 0)]:
            for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
                say(f"{at} {kind}", lambda: lock(mine, kind, *at))
                say("seen", lambda: lock(mine, kind, *at, fcntl.F_GETLK))
        say("flock", lambda: fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))

    apart(other)
    os.close(os.open("locked", O_RDONLY))
    print("closing one frees all", apart(lambda: lock(os.open("locked", O_RDWR), fcntl.F_WRLCK) and 0))
    ofd = 37
    lock(file, fcntl.F_WRLCK, 0, 10, ofd)
    second = os.open("locked", O_RDWR)
    say("OFD", lambda: lock(second, fcntl.F_RDLCK, 0, 10, ofd))
    say("OFD beside", lambda: lock(second, fcntl.F_RDLCK, 10, 10, ofd))
    say("OFD seen", lambda: lock(second, fcntl.F_RDLCK, 0, 10, 36))
    say("OFD and POSIX", lambda: lock(second, fcntl.F_RDLCK, 0, 10))
    os.close(os.open("locked", O_RDONLY))
    say("OFD stays", lambda: lock(second, fcntl.F_RDLCK, 0, 10, ofd))
    fcntl.flock(file, fcntl.LOCK_SH)
    say("shared", lambda: fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB))
    say("upgrade", lambda: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
    fcntl.flock(file, fcntl.LOCK_UN)
    say("again", lambda: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
    say("for reading", lambda: lock(os.open("locked", O_RDONLY), fcntl.F_WRLCK))

    def waits():
        child = os.fork()
        if child == 0:
            inner = os.open("locked", O_RDWR)
            lock(inner, fcntl.F_WRLCK, 500, 1, fcntl.F_SETLKW)
            os.pwrite(inner, b"second", 500)
            os._exit(0)
        time.sleep(0.05)
        os.pwrite(file, b"first ", 500)
        lock(file, fcntl.F_UNLCK, 500, 1)
        os.waitpid(child, 0)
        print("in order", os.pread(file, 6, 500))

    lock(file, fcntl.F_WRLCK, 500, 1)
    fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, 0, 500, 1, 0))

    def first():
        lock(file, fcntl.F_WRLCK, 500, 1)
        waits()

    apart(first)


def set_id():
    def changes(path):
        file = os.open(path, O_RDWR)
        yield "write", lambda: os.write(file, b"x")
        yield "nothing", lambda: os.write(file, b"")
        yield "writev", lambda: os.writev(file, [b"x", b"y"])
        yield "direct", lambda: direct(path, 0, data=b"z" * 4096)
        yield "ftruncate", lambda: os.ftruncate(file, 8192)
        yield "same size", lambda: os.ftruncate(file, os.fstat(file).st_size)
        yield "truncate", lambda: os.truncate(path, 100)
        yield "O_TRUNC", lambda: os.close(os.open(path, O_WRONLY | os.O_TRUNC))
        yield "allocate", lambda: allocate(file, 0, 0, 20000)
        yield "punch", lambda: allocate(file, 3, 0, 4096)
        yield "copy", lambda: os.copy_file_range(os.open("from", O_RDONLY), file, 1000)
        yield "chown nothing", lambda: os.chown(path, -1, -1)
        yield "chown", lambda: os.chown(path, -1, os.stat(path).st_gid)
        yield "utime", lambda: os.utime(path)
        yield "setxattr", lambda: os.setxattr(path, "user.a", b"1")
        yield "link", lambda: (os.link(path, "hard"), os.unlink("hard"))[0]
        yield "chmod", lambda: os.chmod(path, 0o7777)

    write("from", b"f" * 1000)
    os.chmod(".", 0o777)
    for mode in (0o6777, 0o2767, 0o2777):
        for run, user in ((as_user, "user"), (apart, "root")):

            def steps():
                for what, change in changes("own"):
                    os.chmod("own", mode)
                    result = attempt(change)
                    seen = os.stat("own")
                    print(user, f"{mode:o}", what, result, stat.filemode(seen.st_mode), seen.st_size)

            write("own")
            os.chown("own", USER, USER)
            run(steps)
    os.chmod(".", 0o755)


def sticky():
    os.mkdir("sticky")
    os.chmod("sticky", 0o1777)
    write("sticky/root")
    os.mkdir("sticky/dir")
    write("sticky/given")
    os.chown("sticky/given", USER, USER)

    def steps():
        write("sticky/mine")
        say("over", os.rename, "sticky/mine", "sticky/root")
        say("away", os.rename, "sticky/root", "sticky/gone")
        say("exchange", rename2, "sticky/mine", "sticky/root", EXCHANGE)
        say("rmdir", os.rmdir, "sticky/dir")
        say("into", os.rename, "sticky/mine", "sticky/dir/mine")
        say("given", os.unlink, "sticky/given")
        say("link", os.link, "sticky/root", "sticky/hard")
        say("mine", os.rename, "sticky/mine", "sticky/other")

    as_user(steps)
    os.chown("sticky", USER, USER)
    as_user(lambda: say("owner of the directory", os.unlink, "sticky/root"))
    print(sorted(os.listdir("sticky")))


def renames():
    for path in ("a", "a/b", "a/b/c", "full", "empty"):
        os.mkdir(path)
    write("full/x")
    for path in ("f", "g"):
        write(path, path.encode())
    os.link("f", "h")
    os.symlink("a", "s")
    before = os.stat("f").st_ino
    for old, new, flags in [
        ("f", "g", NOREPLACE), ("f", "n", NOREPLACE), ("n", "f", NOREPLACE),
        ("f", "h", 0), ("f", "h", NOREPLACE), ("f", "h", EXCHANGE), ("f", "f", 0), ("f", "f", EXCHANGE),
        ("f", "none", EXCHANGE), ("none", "f", EXCHANGE), ("none", "none", 0), ("f", "a", EXCHANGE),
        ("f", "a", EXCHANGE), ("a", "a/b", EXCHANGE), ("a/b/c", "a", EXCHANGE), ("a", "full", EXCHANGE),
        ("a", "full", EXCHANGE), ("s", "a", EXCHANGE), ("s", "a", EXCHANGE),
        ("f", "g", NOREPLACE | EXCHANGE), ("f", "g", WHITEOUT | EXCHANGE), ("f", "g", 8),
        ("a", "a/b/c/d", 0), ("a/b", "a", 0), ("empty", "full", 0), ("full", "empty", 0), ("full", "empty", NOREPLACE),
        ("full", "f", 0), ("f", "full", 0), ("empty", "a/b", 0), ("a/b/c", "c", 0), ("a/.", "x", 0),
        ("a/..", "x", 0), ("f", "a/..", 0), ("f/", "x", 0), ("f", "x/", 0), ("full", "dir/", 0),
        (".", "x", 0), ("s/", "x", 0), ("g", "w", WHITEOUT), ("w", "g", WHITEOUT), ("w", "none", WHITEOUT),
        ("f", "g", WHITEOUT), ("n" * 256, "f", 0), ("f", "n" * 256, 0), ("f", "n" * 255, 0), ("", "f", 0),
    ]:
        say(f"{old[:9]} {new[:9]} {flags}", rename2, old, new, flags)
    for where, dirs, files in os.walk("."):
        dirs.sort()
        look(where, *(os.path.join(where, name) for name in sorted(files)))
    print(os.lstat("h").st_ino == before)
    as_user(lambda: say("of others", os.rename, "h", "k"))
    os.mkdir("theirs")
    os.chown("theirs", USER, USER)
    os.mkdir("theirs/dir")
    os.mkdir("theirs/to")
    os.chown("theirs/to", USER, USER)
    as_user(lambda: say("a directory whose .. cannot change", os.rename, "theirs/dir", "theirs/to/dir"))
    as_user(lambda: say("which stays", os.rename, "theirs/dir", "theirs/name"))


def moments(path):
    seen = os.lstat(path)
    return [seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns]


def moved(what, paths, call, *args):
    """Which times a call changes."""
    before = [moments(path) for path in paths]
    time.sleep(0.012)
    result = attempt(call, *args)
    after = [moments(path) if os.path.lexists(path) else None for path in paths]
    marks = [
        "".join(mark if old != new else "-" for mark, old, new in zip("amc", *pair)) if pair[1] else "gone"
        for pair in zip(before, after)
    ]
    print(what, result, *marks)


def utimens(path, atime, mtime, follow=True):
    times = (ctypes.c_long * 4)(*atime, *mtime)
    return checked(libc.utimensat(AT_FDCWD, path.encode(), times, 0 if follow else 0x100))


def times():
    now, omit = (0, (1 << 30) - 1), (0, (1 << 30) - 2)
    write("t")
    os.mkdir("d")
    os.symlink("t", "l")
    for what, atime, mtime in [
        ("both", (5, 7), (6, 8)), ("omit", omit, omit), ("omit and set", omit, (9, 1)), ("set and omit", (3, 3), omit),
        ("now", now, now), ("now and omit", now, omit), ("bad", (1, 1 << 30), (1, 1)), ("negative", (1, -1), (1, 1)),
    ]:
        moved(what, ["t"], utimens, "t", atime, mtime)
    for seconds in (1 - (1 << 31), -1, 0, (1 << 31) - 1, 1 << 31, (1 << 32) + 5, 8_000_000_000, 15032385534):
        utimens("t", (seconds, 123456789), (seconds, 999999999))
        print(seconds, moments("t")[:2])
    moved("link itself", ["t", "l"], utimens, "l", (1, 1), (2, 2), False)
    moved("behind the link", ["t", "l"], utimens, "l", (1, 1), (2, 2))
    os.chmod("t", 0o666)

    def steps():
        for what, atime, mtime in [("now", now, now), ("set", (1, 1), (1, 1)), ("half", now, omit), ("omit", omit, omit)]:
            say("others " + what, utimens, "t", atime, mtime)

    as_user(steps)
    os.chmod("t", 0o644)
    as_user(steps)
    all_of = ["t", "d"]
    moved("create", all_of, write, "d/x")
    moved("link", all_of, os.link, "t", "d/y")
    moved("rename", [".", "d", "d/y"], os.rename, "d/y", "d/z")
    moved("replace", ["d", "d/z", "d/x"], os.rename, "d/z", "d/x")
    moved("exchange", ["d", "t", "d/x"], rename2, "t", "d/x", EXCHANGE)
    moved("no change", ["d", "d/x"], os.rename, "d/x", "d/x")
    moved("mkdir", all_of, os.mkdir, "d/sub")
    moved("across", [".", "d", "d/sub"], os.rename, "d/sub", "sub")
    moved("rmdir", [".", "sub"], os.rmdir, "sub")
    moved("unlink", all_of, os.unlink, "d/x")
    moved("missing", all_of, os.unlink, "d/x")
    moved("symlink", all_of, os.symlink, "t", "d/s")
    moved("chmod", all_of, os.chmod, "t", 0o600)
    moved("chmod same", all_of, os.chmod, "t", 0o600)
    moved("chown", all_of, os.chown, "t", 5, 5)
    moved("chown nothing", all_of, os.chown, "t", -1, -1)
    moved("setxattr", all_of, os.setxattr, "t", "user.a", b"1")
    moved("setxattr same", all_of, os.setxattr, "t", "user.a", b"1")
    moved("removexattr", all_of, os.removexattr, "t", "user.a")
    file = os.open("t", O_RDWR)
    moved("write", all_of, os.write, file, b"more")
    moved("write nothing", all_of, os.write, file, b"")
    moved("truncate", all_of, os.ftruncate, file, 2)
    moved("same size", all_of, os.ftruncate, file, 2)
    moved("truncate by name", all_of, os.truncate, "t", 2)
    moved("other size by name", all_of, os.truncate, "t", 3)
    moved("O_TRUNC", all_of, lambda: os.close(os.open("t", O_WRONLY | os.O_TRUNC)))
    moved("O_TRUNC of nothing", all_of, lambda: os.close(os.open("t", O_WRONLY | os.O_TRUNC)))
    moved("allocate", all_of, lambda: allocate(file, 0, 0, 5000))
    moved("allocate again", all_of, lambda: allocate(file, 0, 0, 5000))
    moved("keep", all_of, lambda: allocate(file, 1, 0, 9000))
    moved("sync", all_of, os.fsync, file)
    moved("mknod", all_of, os.mkfifo, "d/p")


def accesses():
    """Which calls are accesses, and when one is noted."""
    far = 4_000_000_000 * 10**9

    def after(what, path, call, *args):
        os.utime(path, ns=(far, far))
        attempt(call, *args)
        time.sleep(0.1)
        print(what, "kept" if os.stat(path).st_atime_ns == far else "noted")

    write("a", b"x" * (1 << 20))
    file = os.open("a", O_RDWR)
    os.fsync(file)
    past_cache, pages = os.open("a", O_RDONLY | os.O_DIRECT), mmap.mmap(file, 0)

    def fresh(call, *args):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return lambda: call(*args)

    after("read-ahead by advice", "a", fresh(os.posix_fadvise, file, 0, 0, os.POSIX_FADV_WILLNEED))
    after("part of a page", "a", fresh(os.pwrite, file, b"part", 5000))
    os.fsync(file)
    after("fault of a mapping", "a", fresh(lambda: pages[500_000]))
    after("by name", "a", read, "a")
    after("past the cache", "a", os.preadv, past_cache, [aligned(bytes(4096))], 0)
    after("past the cache, opened alone", "a", lambda: os.close(os.open("a", O_RDONLY | os.O_DIRECT)))
    after("past the cache, the end", "a", os.preadv, past_cache, [aligned(bytes(4096))], 1 << 20)
    after("to be written", "a", lambda: os.close(os.open("a", O_WRONLY)))
    after("untouched", "a", lambda: os.read(os.open("a", O_RDONLY | os.O_NOATIME), 9))
    for n_round in range(20):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(file, 1 << 17, 0)
        os.utime("a", ns=(far, far))
    time.sleep(0.1)
    print("read-ahead that comes late", os.stat("a").st_atime_ns == far)
    read("a")
    before = os.stat("a").st_atime_ns
    os.pwrite(file, b"changed", 100)
    time.sleep(0.05)
    read("a")
    print("after a write that another still has open", os.stat("a").st_atime_ns > before)


def tmpfile():
    os.mkdir("here")
    file = os.open("here", O_RDWR | os.O_TMPFILE, 0o640)
    seen = os.fstat(file)
    print(stat.filemode(seen.st_mode), seen.st_nlink, os.listdir("here"))
    os.write(file, b"nameless")
    say("by proc", link_open, file, "here/named")
    print(os.fstat(file).st_nlink, read("here/named"))
    say("again", link_open, file, "here/named")
    say("twice", link_open, file, "here/second")
    other = os.open("here", O_RDWR | os.O_TMPFILE, 0o600)
    say("by nothing", lambda: checked(libc.linkat(other, b"", AT_FDCWD, b"here/empty", AT_EMPTY_PATH)))
    closed = os.open("here", O_RDWR | os.O_TMPFILE | os.O_EXCL, 0o600)
    say("exclusive", link_open, closed, "here/closed")
    say("for reading", lambda: os.open("here", O_RDONLY | os.O_TMPFILE, 0o600))
    say("in a file", lambda: os.open("here/named", O_RDWR | os.O_TMPFILE, 0o600))
    gone = os.open("here/empty", O_RDWR)
    os.unlink("here/empty")
    say("unlinked", link_open, gone, "here/back")
    as_user(lambda: say("of others", lambda: os.open("here", O_RDWR | os.O_TMPFILE, 0o600)))
    print(sorted(os.listdir("here")))


def holes():
    file = os.open("sparse", O_RDWR | O_CREAT)
    block = os.statvfs(".").f_bsize
    say("empty", lambda: (attempt(os.lseek, file, 0, os.SEEK_HOLE), attempt(os.lseek, file, 0, os.SEEK_DATA)))
    for at in (3, 4, 9, 20):
        os.pwrite(file, b"d" * block, at * block)
    os.ftruncate(file, 40 * block + 7)
    allocate(file, 1, 12 * block, 5 * block)

    def walk():
        at, seen = 0, []
        while True:
            data = attempt(os.lseek, file, at, os.SEEK_DATA)
            if isinstance(data, str):
                return seen, data
            at = os.lseek(file, data, os.SEEK_HOLE)
            seen.append((data, at))

    print(walk())
    os.fsync(file)
    print(walk())
    os.pwrite(file, b"x", 13 * block + 5)
    print(walk())
    allocate(file, 3, 3 * block + 10, 2 * block)
    print(walk())
    size = 40 * block + 7
    for at in (size - 1, size, size + 1, -1, 1 << 62):
        print(at, attempt(os.lseek, file, at, os.SEEK_DATA), attempt(os.lseek, file, at, os.SEEK_HOLE))
    say("directory", lambda: os.lseek(os.open(".", O_RDONLY), 0, os.SEEK_DATA) and 0)
    os.fsync(file)
    say("kept", lambda: os.fstat(file).st_blocks)


def copies():
    write("from", bytes(range(256)) * 100)
    a, b = os.open("from", O_RDWR), os.open("to", O_RDWR | O_CREAT)
    copy = os.copy_file_range
    say("all", lambda: copy(a, b, 100000))
    say("at the end", lambda: copy(a, b, 100))
    say("at places", lambda: copy(a, b, 1000, 5000, 99))
    say("nothing", lambda: copy(a, b, 0))
    say("beyond", lambda: copy(a, b, 1000, 30000, 0))
    say("over itself", lambda: copy(a, a, 1000, 0, 500))
    say("beside itself", lambda: copy(a, a, 1000, 0, 2000))
    say("grows", lambda: copy(a, b, 500, 0, 40000))
    say("appending", lambda: copy(a, os.open("to", O_WRONLY | os.O_APPEND), 10))
    say("for reading", lambda: copy(a, os.open("to", O_RDONLY), 10))
    say("for writing", lambda: copy(os.open("from", O_WRONLY), b, 10))
    say("directory", lambda: copy(os.open(".", O_RDONLY), b, 10))
    say("to a directory", lambda: copy(a, os.open(".", O_RDONLY), 10))
    say("flags", lambda: checked(libc.copy_file_range(a, None, b, None, ctypes.c_long(10), 1)))
    size = os.fstat(b).st_size
    for what, at in (("past the largest", (1 << 44)), ("past all", (1 << 63) - 100)):
        say(what, lambda: copy(a, b, 1000, 0, at))
    say("up to the largest", lambda: copy(a, b, 1000, 0, (1 << 44) - 4096 - 10))
    os.ftruncate(b, size)
    os.symlink("to", "link")
    os.chown("to", USER, USER)
    for mode in (0o6755, 0o2745):
        os.chmod("to", mode)
        as_user(lambda: say("by its owner", lambda: copy(a, os.open("to", O_WRONLY), 10, 0, 0)))
        look("to")
    print(os.fstat(a).st_size, os.fstat(b).st_size, sum(read("to")), read("to")[99:105], sum(read("from")))


GETFLAGS, SETFLAGS = 0x80086601, 0x40086602
GETXATTR, SETXATTR = 0x801C581F, 0x401C5820
IMMUTABLE, APPEND, NODUMP, NOATIME, SYNC, PROJINHERIT = 0x10, 0x20, 0x40, 0x80, 0x8, 0x20000000


def flags(path):
    file = os.open(path, O_RDONLY)
    try:
        return struct.unpack("i", fcntl.ioctl(file, GETFLAGS, bytes(8))[:4])[0]
    finally:
        os.close(file)


def set_flags(path, value):
    file = os.open(path, O_RDONLY)
    try:
        fcntl.ioctl(file, SETFLAGS, struct.pack("l", value))
    finally:
        os.close(file)


def add_flags(path, more):
    set_flags(path, flags(path) | more)


def drop_flags(path, less):
    set_flags(path, flags(path) & ~less)


def fixed():
    def steps(path):
        yield "write", lambda: write(path)
        yield "append", lambda: os.write(os.open(path, O_WRONLY | os.O_APPEND), b"x")
        yield "append and cut", lambda: os.close(os.open(path, O_WRONLY | os.O_APPEND | os.O_TRUNC))
        yield "truncate", lambda: os.truncate(path, 1)
        yield "chmod", lambda: os.chmod(path, 0o600)
        yield "chown", lambda: os.chown(path, 1, 1)
        yield "utime", lambda: os.utime(path, (1, 1))
        # At another moment than the writes.
        yield "utime now", lambda: time.sleep(0.02) or os.utime(path)
        yield "setxattr", lambda: os.setxattr(path, "user.a", b"1")
        yield "trusted", lambda: os.setxattr(path, "trusted.a", b"1")
        yield "removexattr", lambda: os.removexattr(path, "user.none")
        yield "acl", lambda: os.setxattr(path, "system.posix_acl_access", acl((1, 6), (4, 4), (32, 4)))
        yield "link", lambda: os.link(path, "hard")
        yield "rename", lambda: os.rename(path, "other")
        yield "over", lambda: os.rename("plain", path)
        yield "exchange", lambda: rename2("plain", path, EXCHANGE)
        yield "unlink", lambda: os.unlink(path)
        yield "generation", lambda: fcntl.ioctl(os.open(path, O_RDONLY), 0x40087602, struct.pack("l", 5)) and 0
        yield "project", lambda: set_project(path, 5)

    for flag in (IMMUTABLE, APPEND):
        write("plain")
        write("fix")
        add_flags("fix", flag)
        for what, call in steps("fix"):
            say(f"{flag:#x} {what}", call)
        look("fix", "plain")
        drop_flags("fix", flag)
        os.mkdir("fixdir")
        write("fixdir/x")
        os.mkdir("fixdir/sub")
        add_flags("fixdir", flag)
        for what, call in [
            ("create", lambda: write("fixdir/new")), ("mkdir", lambda: os.mkdir("fixdir/newdir")),
            ("rename in", lambda: os.rename("plain", "fixdir/in")), ("rename", lambda: os.rename("fixdir/x", "fixdir/y")),
            ("out", lambda: os.rename("fixdir/x", "out")), ("over", lambda: os.rename("fixdir/in", "fixdir/x")),
            ("unlink", lambda: os.unlink("fixdir/x")), ("rmdir", lambda: os.rmdir("fixdir/sub")),
            ("link", lambda: os.link("fix", "fixdir/hard")), ("write", lambda: write("fixdir/x", b"more")),
            ("symlink", lambda: os.symlink("x", "fixdir/l")), ("tmpfile", lambda: os.close(os.open("fixdir", O_RDWR | os.O_TMPFILE))),
            ("itself", lambda: os.rename("fixdir", "fixdir2")), ("chmod", lambda: os.chmod("fixdir", 0o700)),
        ]:
            say(f"{flag:#x} {what}", call)
        print(sorted(os.listdir("fixdir")))
        drop_flags("fixdir", flag)
        os.system("rm -rf fix fixdir fixdir2 plain out other hard")


def acl(*entries):
    """An access control list: (tag, permissions[, id])."""
    no_id = 0xFFFFFFFF
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *(e if len(e) == 3 else (*e, no_id))) for e in entries)


def acls():
    access, default = "system.posix_acl_access", "system.posix_acl_default"
    write("f")
    os.chmod("f", 0o640)
    os.mkdir("d")
    get = lambda path, name: attempt(os.getxattr, path, name)
    say("plain", get, "f", access)
    for what, path, name, value in [
        ("minimal", "f", access, acl((1, 6), (4, 5), (32, 1))), ("named", "f", access, acl((1, 6), (2, 7, USER), (4, 5), (16, 5), (32, 0))),
        ("no mask", "f", access, acl((1, 6), (2, 7, USER), (4, 5), (32, 0))), ("no owner", "f", access, acl((4, 5), (32, 0))),
        ("twice", "f", access, acl((1, 6), (2, 7, 5), (2, 7, 5), (4, 5), (16, 7), (32, 0))), ("bad tag", "f", access, acl((3, 6), (4, 5), (32, 0))),
        ("bad permissions", "f", access, acl((1, 9), (4, 5), (32, 0))), ("short", "f", access, b"\2\0\0\0\1"), ("version", "f", access, b"\1\0\0\0"),
        ("empty", "f", access, acl()), ("default of a file", "f", default, acl((1, 6), (4, 5), (32, 0))),
        ("default", "d", default, acl((1, 7), (2, 5, USER), (4, 7), (8, 3, 77), (16, 7), (32, 4))),
    ]:
        say(what, os.setxattr, path, name, value)
        print(get(path, access), get(path, default))
        look(path)
    for umask in (0, 0o77):
        os.umask(umask)
        os.mkdir(f"d/dir{umask}", 0o777)
        os.close(os.open(f"d/file{umask}", O_CREAT | O_WRONLY, 0o666))
        os.close(os.open(f"d/private{umask}", O_CREAT | O_WRONLY, 0o600))
        os.symlink("x", f"d/link{umask}")
        file = os.open("d", O_RDWR | os.O_TMPFILE, 0o666)
        link_open(file, f"d/tmp{umask}")
    os.umask(0)
    for name in sorted(os.listdir("d")):
        path = "d/" + name
        look(path)
        if not os.path.islink(path):
            print(get(path, access), get(path, default))
    os.chmod("d/file0", 0o750)
    print(get("d/file0", access))
    os.chmod(".", 0o755)
    os.chmod("d", 0o755)
    for path in ("d/file0", "d/private0", "d/dir0"):
        say(path, lambda: [as_user(lambda: 0 if os.access(path, mode) else 1, groups=groups) for mode in (4, 2, 1) for groups in ((), (77,))])
    say("remove", os.removexattr, "d", default)
    say("remove again", os.removexattr, "d", default)
    say("of others", lambda: as_user(lambda: say("inner", os.setxattr, "f", access, acl((1, 6), (4, 5), (32, 1)))))
    os.chown("f", USER, USER)
    os.chmod("f", 0o2755)
    os.chown("f", USER, 77)
    os.chmod("f", 0o2755)
    as_user(lambda: say("kills setgid", os.setxattr, "f", access, acl((1, 6), (2, 7, 5), (4, 5), (16, 7), (32, 1))))
    look("f")


def get_xattr(path):
    return struct.unpack("5I", fcntl.ioctl(os.open(path, O_RDONLY), GETXATTR, bytes(28))[:20])


def set_xattr(path, xflags, project=0, extsize=0, cow=0):
    return fcntl.ioctl(os.open(path, O_RDONLY), SETXATTR, struct.pack("5I8x", xflags, extsize, 0, project, cow)) and 0


def set_project(path, project):
    return set_xattr(path, get_xattr(path)[0], project)


def ioctls():
    write("f", b"f" * 5000)
    os.mkdir("d")
    os.mkfifo("p")
    os.chown("f", USER, USER)
    os.chmod("f", 0o644)
    for path in ("f", "d"):
        print(path, f"{flags(path):#x}", attempt(get_xattr, path))
        # Data in the journal (14) are a matter of capabilities, too.
        for bit in [bit for bit in range(32) if bit != 14]:
            old = flags(path)
            result = attempt(add_flags, path, 1 << bit)
            now = flags(path)
            print(f"bit {bit}", result, f"{old ^ now:#x}", attempt(get_xattr, path))
            if now != old:
                say("back", set_flags, path, old)
        for xflag in [1 << bit for bit in range(20)] + [1 << 31]:
            old = get_xattr(path)
            result = attempt(set_xattr, path, xflag)
            print(f"xflag {xflag:#x}", result, attempt(get_xattr, path), f"{flags(path):#x}")
            attempt(set_xattr, path, old[0])
        say("project", set_xattr, path, 0, 7)
        say("extent size", set_xattr, path, 0, 0, 4096)
        say("cow size", set_xattr, path, 0, 0, 0, 4096)
        print(attempt(get_xattr, path))
    say("of a root flag", lambda: as_user(lambda: say("inner", add_flags, "f", IMMUTABLE)))
    say("of the owner", lambda: as_user(lambda: say("inner", add_flags, "f", NODUMP | SYNC)))
    say("of others", lambda: as_user(lambda: say("inner", add_flags, "d", NODUMP)))
    say("x of others", lambda: as_user(lambda: say("inner", set_xattr, "d", 0x80)))
    say("x of the owner", lambda: as_user(lambda: say("inner", set_xattr, "f", 0x80)))
    print(f"{flags('f'):#x}")
    say("project of the owner", lambda: as_user(lambda: say("inner", set_xattr, "f", 0, 9)))
    inner = os.open("f", O_RDONLY)
    version = struct.unpack("i", fcntl.ioctl(inner, 0x80087601, bytes(8))[:4])[0]
    say("set version", lambda: fcntl.ioctl(inner, 0x40087602, struct.pack("l", 77)) and 0)
    now = struct.unpack("i", fcntl.ioctl(inner, 0x80087601, bytes(8))[:4])[0]
    same = lambda: struct.unpack("i", fcntl.ioctl(inner, 0x80086603, bytes(8))[:4])[0] == now
    print("version", now if now == 77 else now == version, attempt(same))
    say("set version of ext4", lambda: fcntl.ioctl(inner, 0x40086604, struct.pack("l", 78)) and 0)
    as_user(lambda: say("of the owner", lambda: fcntl.ioctl(inner, 0x40087602, struct.pack("l", 79)) and 0))
    for number in (0x40087602, 0x40086604):
        as_user(lambda: say("version of others", lambda: fcntl.ioctl(os.open("d", O_RDONLY), number, struct.pack("l", 80)) and 0))
    label = lambda: fcntl.ioctl(inner, 0x81009431, bytes(256)).rstrip(b"\0")
    named = lambda text: fcntl.ioctl(inner, 0x41009432, text.ljust(256, b"\0")) and 0
    say("label", label)
    for text in (b"new label", b"sixteen letters!", b"seventeen letters", b"", b"x" * 256):
        say("set", named, text)
        say("label", label)
    as_user(lambda: (say("label of others", label), say("set", named, b"other"))[0])
    trim = lambda start, length, least: struct.unpack("3Q", fcntl.ioctl(inner, 0xC0185879, struct.pack("3Q", start, length, least)))
    everything = (1 << 64) - 1
    say("trim", lambda: trim(0, everything, 0)[1] > 0)
    say("trim nothing", trim, 1 << 60, 1, 0)
    say("trim little", trim, 0, 100, 0)
    say("trim of too much", trim, 0, everything, 1 << 60)
    as_user(lambda: say("trim of others", trim, 0, everything, 0))
    uuid = lambda: fcntl.ioctl(inner, 0x8008662C, struct.pack("II16x", 16, 0))[8:] != bytes(16)
    say("UUID", uuid)
    say("UUID of any", lambda: fcntl.ioctl(inner, 0x80111500, bytes(17))[0])
    say("freeze", lambda: fcntl.ioctl(inner, 0xC0045877, 0))
    say("thaw", lambda: fcntl.ioctl(inner, 0xC0045878, 0))
    for what, number in (("freeze", 0xC0045877), ("thaw", 0xC0045878), ("shutdown", 0x8004587D)):
        as_user(lambda: say(f"{what} of others", lambda: fcntl.ioctl(inner, number, bytes(4)) and 0))
    say("unknown", lambda: fcntl.ioctl(inner, 0x6699, 0))
    for number in (
        # Policies and keys of encryption, then fs-verity.
        0x800C6613, 0x40106614, 0x400C6615, 0xC0096616, 0xC0506617, 0xC0406618, 0xC0406619, 0xC080661A, 0x8010661B,
        0x40806685, 0xC0046686, 0xC0286687,
    ):
        for path in ("f", "d"):
            opened = os.open(path, O_RDONLY)
            say(f"{path} {number:#x}", fcntl.ioctl, opened, number, bytearray(256))
            os.close(opened)
    say("pipe", flags_of_pipe)


def foreign_numbers():
    """Numbers that differ from those of known ioctls in direction or size only, by users that must not
    change anything. The kernel checks owners and read-only mounts for exact numbers only."""
    write("f", b"f" * 5000)
    os.mkdir("d")
    known = {
        0x80086601, 0x40086602, 0x801C581F, 0x401C5820, 0x80087601, 0x40087602, 0x80086603, 0x40086604,
        0xC0185879, 0x81009431, 0x41009432, 0x8004587D, 0x8008662C, 0x4008662C, 0x800C6613, 0x40806685,
    }
    opened = [os.open(path, O_RDONLY) for path in ("f", "d")]

    def all_of(kind, number):
        for direction in range(4):
            for size in (0, 1, 2, 3, 4, 6, 8, 9, 12, 16, 20, 24, 27, 28, 29, 32, 64, 128, 255, 256, 257, 4096):
                command = direction << 30 | size << 16 | kind << 8 | number
                if command in known:
                    continue
                for file in opened:
                    # Flags NODUMP and NOATIME, extents kept; bit 7 of the same word as `fsx_xflags`.
                    data = bytearray(struct.pack("5I", 0x800C0, 0, 0, 5, 0).ljust(4096, b"\0"))
                    yield f"{command:#x}", attempt(lambda: fcntl.ioctl(file, command, data) and 0)

    def steps():
        for kind, number in (
            (0x66, 1), (0x66, 2), (0x58, 31), (0x58, 32), (0x76, 1), (0x76, 2), (0x66, 3), (0x66, 4),
            (0x58, 121), (0x94, 49), (0x94, 50), (0x58, 125), (0x66, 44), (0x66, 19), (0x66, 133),
        ):
            answers = {}
            for command, answer in all_of(kind, number):
                answers.setdefault(answer, []).append(command)
            for answer, commands in answers.items():
                print(f"{kind:#x} {number}", answer, *sorted(set(commands)))

    as_user(steps)
    apart(steps)
    for path in ("f", "d"):
        print(path, f"{flags(path):#x}", get_xattr(path), os.stat(path).st_size)


CAPABILITY = "security.capability"


def capabilities():
    """Which changes of data take file capabilities away, from files with and without `chattr +S`."""

    def changes(path):
        file = os.open(path, O_RDWR)
        yield "write", lambda: os.write(file, b"x")
        yield "nothing", lambda: os.write(file, b"")
        yield "writev", lambda: os.writev(file, [b"x", b"y"])
        yield "append", lambda: os.write(os.open(path, O_WRONLY | os.O_APPEND), b"x")
        yield "direct", lambda: direct(path, 0, data=b"z" * 4096)
        yield "ftruncate", lambda: os.ftruncate(file, 8192)
        yield "truncate", lambda: os.truncate(path, 100)
        yield "O_TRUNC", lambda: os.close(os.open(path, O_WRONLY | os.O_TRUNC))
        yield "O_TRUNC of nothing", lambda: os.close(os.open(path, O_WRONLY | os.O_TRUNC))
        yield "open", lambda: os.close(os.open(path, O_RDWR))
        yield "allocate", lambda: allocate(file, 0, 0, 20000)
        yield "punch", lambda: allocate(file, 3, 0, 4096)
        yield "copy", lambda: os.copy_file_range(os.open("from", O_RDONLY), file, 1000)
        yield "sendfile", lambda: os.sendfile(file, os.open("from", O_RDONLY), 0, 1000)
        yield "chown", lambda: os.chown(path, -1, os.stat(path).st_gid)
        yield "chmod", lambda: os.chmod(path, 0o755)
        yield "utime", lambda: os.utime(path)

    write("from", b"f" * 1000)
    os.chmod(".", 0o777)
    capability = struct.pack("5I", 0x02000001, 1 << 10, 0, 0, 0)
    for run, user in ((as_user, "user"), (apart, "root")):
        for more in (0, SYNC):
            write("own", b"o" * 3000)
            os.chown("own", USER, USER)
            set_flags("own", flags("own") | more)
            for nr in range(len(list(changes("own")))):
                os.setxattr("own", CAPABILITY, capability)

                def step():
                    what, change = list(changes("own"))[nr]
                    result = attempt(change)
                    left = CAPABILITY in os.listxattr("own")
                    print(user, more, what, result, "kept" if left else "gone", os.stat("own").st_size)

                run(step)
            os.unlink("own")
    os.chmod(".", 0o755)


def flags_of_pipe():
    file = os.open("p", O_RDONLY | os.O_NONBLOCK)
    return fcntl.ioctl(file, GETFLAGS, bytes(8))


def inherits():
    os.mkdir("d")
    add_flags("d", NODUMP | NOATIME | SYNC | APPEND)
    write("d/f")
    os.mkdir("d/sub")
    os.symlink("x", "d/l")
    os.mkfifo("d/p")
    for path in ("d/f", "d/sub"):
        print(path, f"{flags(path):#x}")
    drop_flags("d", APPEND)


STATX = 332


def statx(path, mask=0xFFF):
    buffer = ctypes.create_string_buffer(256)
    checked(libc.syscall(STATX, AT_FDCWD, path.encode(), 0x100, mask, buffer))
    mask, _, attributes, _, _, _, mode = struct.unpack("<IIQIIIH", buffer.raw[:30])
    attributes_mask = struct.unpack("<Q", buffer.raw[56:64])[0]
    btime = struct.unpack("<qI", buffer.raw[80:92])
    return mask, attributes, attributes_mask, mode, btime


def birth():
    # Times of files may be a tick behind, so a second back is one too few.
    start = time.time() - 2
    write("f")
    os.mkdir("d")
    os.symlink("f", "l")
    for path in ("f", "d", "l"):
        mask, _, _, mode, btime = statx(path)
        print(path, hex(mask & 0xFFF), oct(mode), start < btime[0] < start + 100)
    old = statx("f")[4]
    os.utime("f", (1, 1))
    os.rename("f", "g")
    print(statx("g")[4] == old, statx("g", 0x7FF)[0] & 0x7FF == 0x7FF)


def attribute_flags():
    """Each flag of setxattr(2), on an attribute that is there and one that is not."""
    write("f")
    os.mkdir("d")
    for path in ("f", "d"):
        for there in (False, True):
            for name in (b"user.a", b"trusted.a", b"security.a", b"user.", b"none.a", b"a", b"user." + b"n" * 251):
                for bits in range(6):
                    attempt(os.removexattr, path, name)
                    if there:
                        attempt(os.setxattr, path, name, b"old")
                    put = lambda: checked(libc.setxattr(path.encode(), name, b"new", ctypes.c_size_t(3), bits))
                    print(path, name[:12], there, bits, attempt(put), attempt(os.getxattr, path, name))
    print(sorted(os.listxattr("f")), sorted(os.listxattr("d")))


def limits():
    for size in (1023, 1024, 4095, 4096):
        say(f"target {size}", os.symlink, "t" * size, f"l{size}")
    for name in (b"\xff\xfe", "ü".encode(), b" ", b"a\nb", b"..."):
        say(repr(name), write, name)
    print(sorted(os.listdir(b".")))
    for path in ("", "none/x", "f/x", "n" * 256, "n/" * 2048 + "x"):
        write("f")
        say(path[:9], lambda: os.stat(path).st_size)
    say("name", os.pathconf, ".", "PC_NAME_MAX")
    say("mknod", os.mknod, "dev", stat.S_IFCHR | 0o600, os.makedev(4095, 1048575))
    print(os.major(os.stat("dev").st_rdev), os.minor(os.stat("dev").st_rdev))
    say("root", os.rmdir, ".")
    say("rmdir file", os.rmdir, "f")
    say("unlink dir", os.unlink, "lost+found")
    say("link dir", os.link, "lost+found", "x")
    say("too large", os.truncate, "f", 1 << 60)
    say("negative", os.truncate, "f", -1)
    say("large", os.truncate, "f", (1 << 44) - 4096)
    say("largest", lambda: os.stat("f").st_size)
    say("one more", os.truncate, "f", (1 << 44) - 4095)
    say("sync", lambda: checked(libc.syncfs(os.open(".", O_RDONLY))))
    seen = os.statvfs(".")
    print(seen.f_bsize, seen.f_frsize, seen.f_blocks, seen.f_files, seen.f_flag, seen.f_namemax)


def attributes():
    write("f")
    os.chmod("f", 0o644)
    os.mkdir("d")
    for name, value, flag in [
        ("user.a", b"1", 0), ("user.a", b"2", 1), ("user.b", b"2", 2), ("user.a", b"3", 2), ("user.", b"1", 0), ("user", b"1", 0),
        ("none.a", b"1", 0), ("", b"1", 0), ("user." + "n" * 250, b"1", 0), ("user." + "n" * 251, b"1", 0),
        ("user.large", b"x" * 3000, 0), ("user.huge", b"x" * 70000, 0), ("user.more", b"x" * 5000, 0), ("trusted.t", b"t", 0), ("security.s", b"s", 0),
        ("system.other", b"s", 0), ("user.empty", b"", 0), ("user.a", b"1", 3), ("user.c", b"1", 4),
    ]:
        say(f"{name[:12]} {len(value)} {flag}", os.setxattr, "f", name, value, flag)
    print(sorted(name[:12] for name in os.listxattr("f")))
    as_user(lambda: print(sorted(name[:12] for name in os.listxattr("f"))))
    for name in ("user.a", "trusted.t", "security.s", "user.none", "user.empty", "system.posix_acl_access"):
        say(name, os.getxattr, "f", name)
        as_user(lambda: say("user", os.getxattr, "f", name))
        as_user(lambda: say("user", os.setxattr, "f", name, b"u"))
    os.mkdir("st", 0o1777)
    os.chmod("st", 0o1777)
    as_user(lambda: say("sticky", os.setxattr, "st", "user.a", b"u"))
    os.symlink("f", "l")
    for path in ("l", "d"):
        for name in ("user.a", "trusted.a", "security.a"):
            say(f"{path} {name}", lambda: os.setxattr(path, name, b"1", follow_symlinks=False))
    say("gone", os.removexattr, "f", "user.a")
    say("gone again", os.removexattr, "f", "user.a")


def fill(path):
    """Past every cache, so that the answer comes at once."""
    file, at = os.open(path, O_RDWR | O_CREAT | os.O_DIRECT), 0
    for size in (1 << 20, 4096):
        data = aligned(bytes(size))
        try:
            while True:
                at += os.pwritev(file, [data], at)
        except OSError as error:
            print("full", name_of(error))


def full():
    os.chmod(".", 0o777)
    for path in ("f", "g"):
        write(path)
        os.chown(path, USER, USER)

    def user():
        fill("big")
        print("left", os.statvfs(".").f_bavail)
        say("mkdir", os.mkdir, "d")
        say("target", os.symlink, "t" * 100, "l")
        say("short target", os.symlink, "t", "s")
        say("create", lambda: os.close(os.open("n", O_CREAT)))
        say("allocate", lambda: attempt(os.truncate, "f", 1 << 20))
        say("direct", direct, "f", 0, None, b"x" * 4096)
        say("rename", os.rename, "n", "m")

    as_user(user)
    say("by the superuser", direct, "g", 4096, None, b"x" * 4096)
    say("attribute by the superuser", os.setxattr, "g", "user.large", b"x" * 3000)
    say("mkdir by the superuser", os.mkdir, "d")
    say("unlink", os.unlink, "big")
    libc.syncfs(os.open(".", O_RDONLY))
    say("attribute", os.setxattr, "f", "user.large", b"x" * 3000)


ALL = [
    appending, direct_and_buffered, mapped, locks, set_id, sticky, renames, times, accesses, tmpfile, holes, copies, fixed, acls,
    ioctls, foreign_numbers, capabilities, inherits, birth, attribute_flags, limits, attributes, full,
]

if __name__ == "__main__":
    os.umask(0)
    signal.alarm(50)
    wanted = sys.argv[1:]
    for section in ALL:
        if wanted and section.__name__ not in wanted:
            continue
        print("==", section.__name__)
        os.mkdir(section.__name__)
        os.chdir(section.__name__)
        section()
        os.chdir("..")
