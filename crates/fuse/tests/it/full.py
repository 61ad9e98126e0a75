"""Fills a file system and says what writers hear and what is kept. Runs in its root, as the superuser.

`fill`: prints what is heard. `look`: prints what is kept of what was told, as recorded by `fill`.
"""

import ctypes
import errno
import json
import os
import subprocess
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
PIECE = 1 << 20
USER = 1000


def piece(number):
    return (b"%07d\n" % number) * (PIECE // 8)


def attempt(call, *args):
    try:
        call(*args)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def leave(bytes_left):
    """Takes all that users may have but so much."""
    file = os.open("taken", os.O_RDWR | os.O_CREAT)
    seen = os.statvfs(".")
    size = seen.f_bavail * seen.f_frsize - bytes_left
    if libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(size)) < 0:
        sys.exit(f"fallocate: {os.strerror(ctypes.get_errno())}")
    os.close(file)


def filled(file):
    """Bytes whose writer was told that they are written, and what ended it."""
    told = 0
    while told < 1 << 30:
        try:
            told += os.write(file, piece(told // PIECE)[told % PIECE :])
        except OSError as error:
            return told, errno.errorcode[error.errno]
    return told, "no end"


def by_user(call):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setgroups(())
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        call()
        sys.stdout.flush()
        os._exit(0)
    return child


def fill():
    os.chmod(".", 0o777)
    mine = {}
    early = os.open("early", os.O_WRONLY | os.O_CREAT)
    other = os.open("other", os.O_RDWR | os.O_CREAT)
    os.write(other, piece(0))
    go, goes = os.pipe()
    says, say = os.pipe()

    def user():
        file = os.open("user", os.O_WRONLY | os.O_CREAT)
        os.write(say, b"opened\n")
        os.read(go, 1)
        told, why = filled(file)
        print("a user", why, "nothing left to users", os.statvfs(".").f_bavail < 256)
        print("again", filled(os.open("user", os.O_WRONLY | os.O_APPEND))[1])
        sys.stdout.flush()
        os.write(say, b"%d\n" % told)

    child = by_user(user)
    heard = os.fdopen(says)
    heard.readline()
    leave(20 << 20)
    os.write(goes, b"g")
    mine["user"] = int(heard.readline())
    assert os.waitpid(child, 0)[1] == 0
    seen = os.statvfs(".")
    print("the reserve is kept", seen.f_bfree * seen.f_frsize > 100 << 20)

    # The superuser's part, of which little is left.
    file = os.open("reserve", os.O_RDWR | os.O_CREAT)
    size = os.statvfs(".").f_bfree * seen.f_frsize - (60 << 20)
    libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(size))
    mine["early"], why = filled(early)
    print("early", why)
    # Whichever call it is: one of them tells.
    late = [attempt(os.pwrite, other, piece(1), PIECE), attempt(os.close, other)]
    print("unheard", late == ["done", "done"])
    attempt(os.close, early)
    print("over what is there", attempt(lambda: os.pwrite(file, piece(5), 0)), attempt(os.fsync, file))
    os.unlink("other")
    os.ftruncate(file, size - (10 << 20))
    attempt(os.fsync, file)
    new = os.open("new", os.O_RDWR | os.O_CREAT)
    mine["new"], why = filled(new)
    print("new", why, "some", mine["new"] > 5 << 20)
    # It may tell once more what did not fit.
    attempt(os.fsync, new)
    rest = os.open("rest", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    while attempt(os.write, rest, b"r" * 4096) == "done":
        pass
    fresh = os.open("fresh", os.O_WRONLY | os.O_CREAT)
    print("fresh", attempt(os.write, fresh, b"x"), os.fstat(fresh).st_size, attempt(os.close, fresh))
    heard = subprocess.run(["sh", "-c", "exec 2>&-; echo x > shell"]).returncode
    print("a shell", heard != 0, os.stat("shell").st_size)
    print("its own", attempt(lambda: os.pwrite(new, piece(0), 0)), attempt(os.fsync, new), attempt(os.close, new))
    before = os.stat("new").st_mtime_ns
    time.sleep(0.02)
    late = os.open("new", os.O_WRONLY)
    os.write(late, b"0000000")
    print("time moves", os.stat("new").st_mtime_ns > before)
    os.close(late)
    os.fsync(os.open(".", os.O_RDONLY))
    with open(sys.argv[2], "w") as record:
        json.dump(mine, record)


def look():
    """Pieces that are not as they were told."""
    for name, told in json.load(open(sys.argv[2])).items():
        with open(name, "rb") as file:
            kept = file.read(told)
        lost = [at for at in range(0, told, PIECE) if kept[at : at + PIECE] != piece(at // PIECE)[: told - at]]
        print(name, len(lost), "lost")


{"fill": fill, "look": look}[sys.argv[1]]()
