# Tries, inside the sandbox, everything that the sandbox is said to refuse, and says what was refused. Nothing it tries
# does harm where it succeeds: marks are the caller's own, limits and shares are set to what they are.
#
# Each probe is a list of attempts; a claim is proved where every attempt failed with the system's refusal.
import ctypes
import json
import os
import signal
import socket
import sys

ASKED = json.loads(MARKS)
FOLDER, MARK, PROCESS, PORT = ASKED["folder"], ASKED["mark"], ASKED["process"], ASKED["port"]
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def same_affinity():
    os.sched_setaffinity(PROCESS, os.sched_getaffinity(PROCESS))


def same_priority():
    os.setpriority(os.PRIO_PROCESS, PROCESS, os.getpriority(os.PRIO_PROCESS, PROCESS))


def limits_of_another():
    import resource

    resource.prlimit(PROCESS, resource.RLIMIT_NOFILE)


def signals_by_a_pipe():
    import fcntl

    fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, PROCESS)


def connect():
    socket.create_connection(("127.0.0.1", PORT), 5)


def fork():
    if os.fork() == 0:
        os._exit(0)


def write(path, size):
    with open(path, "wb") as file:
        for _ in range(size >> 16):
            file.write(bytes(1 << 16))


ATTEMPTS = {
    "network": [connect, lambda: socket.socket(socket.AF_UNIX), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0))],
    "write": [
        lambda: open(MARK, "a").write("x"),
        lambda: open(os.path.join(FOLDER, "new"), "w"),
        lambda: os.truncate(MARK, 0),
        lambda: os.rename(MARK, MARK + ".moved"),
        lambda: os.remove(MARK),
        lambda: os.mkdir(os.path.join(FOLDER, "folder")),
        lambda: os.symlink("/", os.path.join(FOLDER, "link")),
        lambda: os.link(MARK, os.path.join(FOLDER, "twin")),
        lambda: os.mkfifo(os.path.join(FOLDER, "fifo")),
    ],
    "read": [lambda: open(MARK).read(), lambda: os.listdir(FOLDER), lambda: open(f"/proc/{PROCESS}/environ", "rb").read(1)],
    "attributes": [
        lambda: os.chmod(MARK, 0o600),
        lambda: os.chown(MARK, os.getuid(), os.getgid()),
        lambda: os.utime(MARK, (1, 1)),
        lambda: os.setxattr(MARK, "user.demask", b"x"),
    ],
    "see": [lambda: os.stat(MARK), lambda: os.lstat(MARK), lambda: os.access(MARK, os.F_OK) or [][0]],
    "start": [fork, lambda: os.posix_spawn("/bin/true", ["true"], {})],
    "others": [
        lambda: os.kill(PROCESS, 0),
        lambda: os.killpg(PROCESS, 0),
        same_affinity,
        same_priority,
        limits_of_another,
        signals_by_a_pipe,
        lambda: signal.pidfd_send_signal(os.pidfd_open(PROCESS), 0),
    ],
    "leave": [os.setsid, lambda: os.setpgid(0, 0), lambda: call("prctl", 1, 0, 0, 0, 0)],
    "memory": [lambda: bytearray(ASKED["memory"])],
    "file": [lambda: write("large", ASKED["file"] + (1 << 20))],
}

proved = {}
for claim, attempts in ATTEMPTS.items():
    proved[claim] = True
    for attempt in attempts:
        try:
            attempt()
        except (OSError, MemoryError, IndexError):
            continue
        except AttributeError:
            pass  # this Python cannot try it, so nothing is proved
        proved[claim] = False
raise SystemExit(json.dumps(proved))
