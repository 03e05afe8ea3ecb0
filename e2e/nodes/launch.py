"""Become a pod's sandbox, or one attempt of a container: namespaces, mounts, exec.

Run as a program of its own, `python -I -S launch.py PARENT STATUS_FD`, with its orders as JSON on
stdin; standard library only, one thread, since the kernel lets a process change its namespaces only
so. It tells what happens as JSON lines on STATUS_FD: `{"pid": n}` once the program runs, or
`{"error": "..."}`; then, for a container, `{"code": n, "signal": n}`.

The sandbox has the pod's network, host name, IPC and mount namespace, and sleeps. A container joins
them, then gets a mount and a PID namespace of its own. This process stays outside as its parent: it
writes the container's output to its log file and passes signals on (SIGTERM, and SIGUSR1 as
SIGKILL). Whoever loses its parent is killed by the kernel, so nothing outlives the node.

The container's root is this machine's root, seen through overlays whose changes are kept in memory:
programs find the same files as outside, mount points can be made anywhere, and nothing of it
touches the disk. Everything is mounted after the change of root, so that a symbolic link such as
/var/run leads to the container's /run and not to the machine's.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import json
import os
import platform
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWPID, NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_SLAVE = 16384, 1 << 19
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

HOST = "/.host"
"""Where the machine's own root stands while the container's is built; gone before exec."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
OPTIONAL_DEVICES = ("fuse", "kfd", "dri")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
LEFT_OUT_TYPES = ("nsfs", "autofs", "binfmt_misc", "rpc_pipefs")
START_FAILED = 128

_libc = ctypes.CDLL(None, use_errno=True)


class LaunchError(Exception):
    """One sentence for the container's status."""


def main() -> None:
    parent, status_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(status_fd, False)
    die_with_parent(parent)
    order = json.loads(sys.stdin.buffer.read())
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    try:
        if order["role"] == "sandbox":
            become_sandbox(order, status_fd)
        else:
            run_container(order, status_fd)
    except (OSError, LaunchError) as error:
        tell(status_fd, error=str(error))
        sys.exit(START_FAILED)


def tell(status_fd: int, **said: Any) -> None:
    os.write(status_fd, json.dumps(said).encode() + b"\n")


def die_with_parent(parent: int) -> None:
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        sys.exit(START_FAILED)


# The sandbox


def become_sandbox(order: dict[str, Any], status_fd: int) -> None:
    _check(_libc.unshare(NEWNET | NEWIPC | NEWUTS | NEWNS), "unshare")
    mount("none", "/", "", MS_REC | MS_SLAVE)
    for folder, size in order["memory"].items():
        os.makedirs(folder, exist_ok=True)
        limit = f",size={size}" if size else ""
        mount("memory", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777{limit}")
    name = order["hostname"].encode()
    _check(_libc.sethostname(name, len(name)), "sethostname")
    tell(status_fd, pid=os.getpid())
    os.execvp("sleep", ["sleep", "infinity"])


# A container: outside


def run_container(order: dict[str, Any], status_fd: int) -> None:
    sandbox = order["sandbox_pid"]
    for name, flag in (("net", NEWNET), ("ipc", NEWIPC), ("uts", NEWUTS), ("mnt", NEWNS)):
        join(f"/proc/{sandbox}/ns/{name}", flag)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    times = os.open(order["times"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    output, output_end = os.pipe()
    trouble, trouble_end = os.pipe()
    child = 0

    def pass_on(number: int, _frame: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL if number == signal.SIGUSR1 else number)

    _check(_libc.unshare(NEWPID), "unshare")
    me = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(output)
        os.close(trouble)
        inside(order, me, output_end, trouble_end)
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGUSR1, pass_on)
    os.close(output_end)
    os.close(trouble_end)
    said = _read_all(trouble).decode(errors="replace")
    tell(status_fd, **({"error": said} if said else {"pid": child}))
    write_log(output, log, times)
    _, status = os.waitpid(child, 0)
    child = 0
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    tell(status_fd, code=128 + number if number else os.WEXITSTATUS(status), signal=number)


def write_log(output: int, log: int, times: int) -> None:
    """Until the last process of the container has ended. `times` gets, for each piece, where it
    ends in the log and when it was read: without it nobody could say since when a line is there."""
    size = os.fstat(log).st_size
    while piece := os.read(output, 65536):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(log, rest) :]
        size += len(piece)
        os.write(times, struct.pack("<Qd", size, time.time()))


def _read_all(descriptor: int) -> bytes:
    read = b""
    while piece := os.read(descriptor, 65536):
        read += piece
    os.close(descriptor)
    return read


# A container: inside, as the first process of its PID namespace


def inside(order: dict[str, Any], parent: int, output: int, trouble: int) -> None:
    """Never returns. Whatever goes wrong is written to `trouble`, which exec closes."""
    try:
        os.setsid()
        # A parent outside of the PID namespace shows as 0: only its signal can tell that it died.
        _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        _check(_libc.unshare(NEWNS), "unshare")
        build_root(order["scratch"])
        for each in order["mounts"]:
            bind(each)
        _check(_libc.umount2(HOST.encode(), MNT_DETACH), f"umount {HOST}")
        os.rmdir(HOST)
        os.makedirs(order["cwd"], exist_ok=True)
        os.chdir(order["cwd"])
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.umask(0o022)
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except (OSError, LaunchError) as error:
        os.write(trouble, str(error).encode(errors="replace") or b"unknown error")
    os._exit(START_FAILED)


def build_root(scratch: str) -> None:
    """Overlays of all the machine's file systems, with /proc and /dev of the container's own."""
    mount("none", "/", "", MS_REC | MS_SLAVE)
    mount("scratch", scratch, "tmpfs", 0, "mode=0755")
    root = f"{scratch}/root"
    os.mkdir(root)
    os.mkdir(f"{scratch}/layers")
    lay_over("/", root, f"{scratch}/layers/0")
    for number, point in enumerate(points_below_root(scratch), start=1):
        lay_over(point, root + point, f"{scratch}/layers/{number}")
    mount("/sys", f"{root}/sys", "", MS_BIND | MS_REC)
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.mkdir(root + HOST)
    change_root(root, root + HOST)
    make_devices()


def points_below_root(scratch: str) -> list[str]:
    """Mount points that programs expect files below: no kernel interfaces, none of our own."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        if after.split()[0] in LEFT_OUT_TYPES or point in found or point == "/":
            continue
        if not _is_in(point, ("/proc", "/sys", "/dev", os.path.dirname(scratch))):
            found.append(point)
    return sorted(found)


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def lay_over(lower: str, target: str, layer: str) -> None:
    """An overlay of `lower`; where that cannot be, as for a single file, the thing itself."""
    if not os.path.lexists(target):
        return
    if os.path.isdir(lower) and not any(c in lower for c in ":,\\"):
        os.makedirs(f"{layer}/upper")
        os.makedirs(f"{layer}/work")
        options = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work"
        try:
            mount("overlay", target, "overlay", 0, options)
            return
        except OSError:
            if lower == "/":
                raise
    mount(lower, target, "", MS_BIND)


def change_root(root: str, old: str) -> None:
    number = PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise LaunchError(f"processors of type {platform.machine()} are not served")
    _check(_libc.syscall(number, root.encode(), old.encode()), "pivot_root")
    os.chdir("/")


def make_devices() -> None:
    mount("dev", "/dev", "tmpfs", MS_NOSUID, "mode=0755")
    names = [*DEVICES, *OPTIONAL_DEVICES]
    names += [each for each in os.listdir(f"{HOST}/dev") if each.startswith("nvidia")]
    for name in names:
        source = f"{HOST}/dev/{name}"
        if os.path.exists(source):
            bind({"source": source[len(HOST) :], "target": f"/dev/{name}"})
    os.mkdir("/dev/pts")
    mount(
        "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"
    )
    os.mkdir("/dev/shm")
    for name, target in LINKS.items():
        os.symlink(target, f"/dev/{name}")


def bind(order: dict[str, Any]) -> None:
    """One mount; source is a path outside. With `within` it must not lead out of that folder."""
    source, target = HOST + order["source"], order["target"]
    if order.get("create"):
        os.makedirs(source, exist_ok=True)
    if "within" in order:
        within = os.path.realpath(HOST + order["within"])
        if not _is_in(os.path.realpath(source), (within,)):
            raise LaunchError(f"the sub-path of {target} leads out of its volume")
    make_mount_point(target, is_folder=os.path.isdir(source))
    mount(source, target, "", MS_BIND | MS_REC)
    if order.get("read_only"):
        mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def make_mount_point(target: str, *, is_folder: bool) -> None:
    if is_folder:
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))


# The kernel


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(done, f"mount {target}")


def join(namespace: str, kind: int) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.setns(descriptor, kind), f"setns {namespace}")
    os.close(descriptor)


def _check(result: int, what: str) -> None:
    if result == -1:
        number = ctypes.get_errno()
        if number == errno.EPERM:
            raise PermissionError(number, f"{what}: not permitted; process nodes need root")
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
