"""Binds the tree SRC on DST with FIRST.. of the file system shown as SHOWN.., COUNT ids.

`mount --bind -o X-mount.idmap` of util-linux 2.39 does the same.
"""
import ctypes
import os
import sys

source, target, first, shown, count = sys.argv[1:6]
libc = ctypes.CDLL(None, use_errno=True)


def check(name, result):
    if result < 0:
        error = ctypes.get_errno()
        sys.exit(f"{name}: {os.strerror(error)}")
    return result


ready, is_ready = os.pipe()
done, is_done = os.pipe()
child = os.fork()
if child == 0:
    os.close(is_done)
    libc.unshare(0x10000000)  # CLONE_NEWUSER
    os.write(is_ready, b"x")
    os.read(done, 1)
    os._exit(0)
os.read(ready, 1)
for ids in "uid_map", "gid_map":
    with open(f"/proc/{child}/{ids}", "w") as file:
        file.write(f"{first} {shown} {count}\n")
namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
os.close(is_done)
os.waitpid(child, 0)
# OPEN_TREE_CLONE, AT_FDCWD
tree = check("open_tree", libc.syscall(428, -100, source.encode(), 1))
# struct mount_attr: set MOUNT_ATTR_IDMAP, clear, propagation, namespace; AT_EMPTY_PATH
attributes = (ctypes.c_uint64 * 4)(0x100000, 0, 0, namespace)
check("mount_setattr", libc.syscall(442, tree, b"", 0x1000, attributes, 32))
# MOVE_MOUNT_F_EMPTY_PATH
check("move_mount", libc.syscall(429, tree, b"", -100, target.encode(), 4))
