"""Writes to guarded files in every way. Arguments: the way, the file, for `later` a program."""

import ctypes, errno, fcntl, mmap, os, subprocess, sys

RWF_NOAPPEND = 0x20
libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd, mode):
    if libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(4)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def map_and_write(fd):
    with mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as m:
        m[0:1] = b"X"
        m.flush()


def cleared(path):
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    return fd


def copied(fd):
    beside = os.path.dirname(sys.argv[2]) + "/source"
    with open(beside, "wb") as made:
        made.write(b"XXXX")
    source = os.open(beside, os.O_RDONLY)
    os.copy_file_range(source, fd, 4, 0, 0)


def appending(path):
    return os.open(path, os.O_RDWR | os.O_APPEND)


WAYS = {
    "setfl": lambda path: os.pwrite(cleared(path), b"X", 0),
    "setfl-end": lambda path: os.pwrite(cleared(path), b"X", os.stat(path).st_size),
    "noappend": lambda path: os.pwritev(appending(path), [b"X"], 0, RWF_NOAPPEND),
    "mapping": lambda path: map_and_write(appending(path)),
    "punch": lambda path: fallocate(appending(path), 3),
    "zero": lambda path: fallocate(appending(path), 16),
    "copy": lambda path: copied(cleared(path)),
    "ftruncate": lambda path: os.ftruncate(appending(path), 1),
    "truncate": lambda path: os.truncate(path, 1),
    "o_trunc": lambda path: os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_APPEND),
    "open": lambda path: os.open(path, os.O_WRONLY),
}


def way(name, path):
    try:
        WAYS[name](path)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])


def later(flag, path):
    """Descriptors that are older than the flag; prints what their writes answer after it."""
    old, direct = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR | os.O_DIRECT)
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    mapped = mmap.mmap(old, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    os.pwrite(old, b"dirty", 4096)
    mapped[1:2] = b"M"
    subprocess.run(["chattr", flag, path], check=True)

    def tried(change):
        try:
            change()
            os.fsync(old)
            print("done")
        except OSError as error:
            print(errno.errorcode[error.errno])

    def append():
        for _ in range(300):
            os.write(log, b"z" * 10_000)

    def poke():
        mapped[2:3] = b"X"
        mapped.flush()

    def append_beside_a_mapping():
        """One page holds a byte that a mapping changed and bytes that were appended."""
        size = os.fstat(old).st_size
        start = size & ~4095
        with mmap.mmap(old, size - start, offset=start) as last:
            last[0:1] = b"X"
            os.write(log, b"kept")

    page = mmap.mmap(-1, 4096)
    page.write(b"D" * 4096)
    tried(append)
    tried(lambda: os.pwrite(old, b"X", 3))
    tried(poke)
    tried(lambda: fallocate(old, 3))
    if flag == "+a":
        tried(append_beside_a_mapping)
    if flag == "+i":
        tried(lambda: os.pwrite(direct, page, 4096))
        tried(lambda: copied(old))


if sys.argv[1] in WAYS:
    way(*sys.argv[1:3])
else:
    later(*sys.argv[1:3])
