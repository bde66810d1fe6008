"""Run a program in a network namespace that has only a proxy; a script.

It gives the listening socket of the proxy to the service, over the connection whose descriptor is its first
argument. The program has the ids of the caller, and no capability.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def main() -> None:
    """Enter the namespace, send the socket, and become the program of the further arguments."""
    if _enter():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(fileno=int(sys.argv[1])) as service:
        socket.send_fds(service, [b"."], [listener.fileno()])
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    others = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    os.execvpe(sys.argv[2], sys.argv[2:], {**others, "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy})  # noqa: S606


def _enter() -> bool:
    """Enter a network namespace; False where the service may make none, such as in its unit of systemd.

    The proxy alone then keeps the program from all but literal addresses of the loopback, for which it asks no proxy.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        import ctypes  # noqa: PLC0415 - it fails where memory may not be made executable

        libc = ctypes.CDLL(None)
    except (ImportError, MemoryError, OSError):
        return False
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    for name, text in {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - of few imports, one less
            file.write(text)
    return True


if __name__ == "__main__":
    main()
