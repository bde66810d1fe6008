"""PID 1 of an engine's instance: it makes the VM as on the service's own host, and ends with it.

The instance has a base image's tree as its root and the launcher in it (``actors/vms/incus/tarballs.py``). It has no
secret of its own: the service brings the keys by a program that it runs in the instance (``requests.py``). As with a
sandbox, the VM is in a user namespace below, whose shares are bounded here and which owns the network.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import marshal
import os
import select

from .. import shares, syscall_filter
from ..answer import answer
from ..guest_process import GuestProcess
from ..kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    await_children,
    ignore_children,
    join_empty_keyring,
    make_read_only,
    mount,
    raise_oom_score,
    set_title,
    survive_failed_writes,
)
from . import agent as engine_agent
from . import interface
from .words import BOOT, CONTROL, DOOR, END, FOLDER, INTERFACE, MESSAGE_BYTES, SSH

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_OUTER = f"{FOLDER}/outer"
_OOM_SCORE = 990
_BACKLOG = 128


def main(*, agent: bool = False) -> NoReturn:
    """Wait for the keys, make the VM, and run until it ends.

    An instance with a kernel of its own needs the engine's ``agent``.
    """
    try:
        await_children()
        survive_failed_writes()
        _signal.signal(_signal.SIGPWR, lambda *_: os._exit(0))  # the engine shuts the instance down
        mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m")
        os.mkdir(FOLDER, 0o700)
        join_empty_keyring()
        door = _listener(DOOR)
        if agent:
            engine_agent.start()
        raise_oom_score(_OOM_SCORE)  # not of the agent: no VM is reached without it, and nothing starts it again
        syscall_filter.prepare()
        _serve(door)
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        _say(error)
    finally:
        if agent:
            engine_agent.turn_off()
        os._exit(1)


def _serve(door: _socket.socket) -> None:
    """Answer the programs at the door, until one asks for the end or the VM has ended."""
    poll = select.poll()
    poll.register(door.fileno(), select.POLLIN)
    vm = -1
    while all(ready != vm for ready, _ in poll.poll()):
        program = _socket.socket(fileno=door._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        word, _, content = program.recv(MESSAGE_BYTES).partition(b" ")
        if word == END:
            return
        if word == BOOT and vm < 0:
            vm = _boot(marshal.loads(content), program.fileno())  # noqa: S302 - from the service itself
            if vm >= 0:
                poll.register(vm, select.POLLIN)
        program.close()


def _boot(spec: dict[str, Any], report: int) -> int:
    """Make the VM and tell the service; return a pidfd of its PID 1, or -1 if it cannot be made."""
    try:
        vm = _make(spec, report)
    except OSError as error:
        answer(report, f"failed {error}\n".encode())
        return -1
    ignore_children()  # also what the service's programs leave
    set_title(b"ci-daemon VM")
    answer(report, b"ready\n")
    return vm


def _make(spec: dict[str, Any], report: int) -> int:
    arrivals = _bound(SSH, _socket.SOCK_DGRAM)
    control = _listener(CONTROL)
    spec["arrivals"], spec["control"] = arrivals.fileno(), control.fileno()
    os.mkdir(_OUTER, 0o700)
    mount("/", _OUTER, flags=MS_BIND)
    make_read_only(_OUTER)
    shares.bound(spec["limits"], spec["objects"])
    guest = GuestProcess(spec, _OUTER, report)
    if spec["network"]:
        interface.hand_over(INTERFACE, guest.pid)
        interface.configure(INTERFACE, spec["network"], guest.pid)
    guest.go()
    return os.pidfd_open(guest.pid)


def _listener(path: str) -> _socket.socket:
    listener = _bound(path, _socket.SOCK_SEQPACKET)
    listener.listen(_BACKLOG)
    return listener


def _bound(path: str, kind: int) -> _socket.socket:
    bound = _socket.socket(_socket.AF_UNIX, kind)
    bound.bind(path)
    return bound


def _say(error: Exception) -> None:
    """Tell the owner why there is no VM; the engine keeps what the console shows."""
    with open("/dev/console", "wb", buffering=0) as console:
        console.write(f"ci-daemon: {error}\n".encode())
