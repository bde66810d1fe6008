"""Run a program in a network namespace that has only a proxy; a script.

Usage: ``python -I proxied.py DESCRIPTOR UID GID FOLDER PROGRAM [ARGUMENT...]``, as root of the VMs' ids with the caller
added (``IdMap.with_caller``). The descriptor is a connection to the service: the environment comes over it, since a
broker passes none on, and the listening socket of the proxy goes back. The program runs in FOLDER with the ids of the
caller, UID and GID, and can gain no privilege.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import socket
import struct
import sys

_CALLER = 65536
"""The caller's id in the mapping, as in ``userns.CALLER``."""

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def main(descriptor: str, uid: str, gid: str, folder: str, *program: str) -> None:
    """Enter the namespace, send the socket, and become the program."""
    _become_caller(uid, gid)
    os.chdir(folder)  # a broker opened it among the mounts of the service, where it has no path for this process
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(fileno=int(descriptor)) as service:
        with service.makefile("rb") as sent:
            environment: dict[str, str] = marshal.load(sent)  # noqa: S302 - from the caller
        socket.send_fds(service, [b"."], [listener.fileno()])
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    others = {name: value for name, value in environment.items() if not name.lower().endswith("_proxy")}
    os.environ["PATH"] = environment.get("PATH", os.defpath)  # where the program is looked for
    os.execvpe(program[0], program, {**others, "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy})  # noqa: S606 - the very point


def _become_caller(uid: str, gid: str) -> None:
    """Take the caller's ids, and namespaces of its own for users and for the network; exit if that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.setresgid(_CALLER, _CALLER, _CALLER)
    os.setresuid(_CALLER, _CALLER, _CALLER)
    # The change of ids took this process's files in /proc from it, among them the maps.
    for call, *arguments in (
        (libc.prctl, _PR_SET_DUMPABLE, 1, 0, 0, 0),
        (libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (libc.unshare, _CLONE_NEWUSER | _CLONE_NEWNET),
    ):
        if call(*arguments) != 0:
            reason = os.strerror(ctypes.get_errno())
            sys.exit(f"a pull can have no network of its own here ({reason}): see `ci-daemon doctor`")
    for name, text in {"setgroups": "deny", "uid_map": f"{uid} {_CALLER} 1", "gid_map": f"{gid} {_CALLER} 1"}.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - of few imports, one less
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
