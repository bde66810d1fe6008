"""PID 1 of a VM while it starts, in the VM's own namespaces."""

from __future__ import annotations

import os

from . import init, network, outer, shares
from .ids import as_root, own_id
from .job import users
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    join_descriptor,
    unshare,
)

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NAMESPACES = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_ID_BYTES = 16


class GuestProcess:
    """A process in new namespaces, which becomes the VM's PID 1 when it is told to."""

    def __init__(self, spec: dict[str, Any], root: str, report: int) -> None:
        """Make the namespaces, the network's too, and the process, which waits for ``go``. Raises OSError.

        ``root`` is a mount of the base tree.
        """
        wait, self._go = os.pipe()
        self._progress, progress = os.pipe()

        def enter_namespaces() -> None:
            os.chdir(root)
            spec["users"], network_of_vm, spec["offline"] = users.make(nested=spec["user_namespaces"])
            join_descriptor(network_of_vm, CLONE_NEWNET)
            unshare(_NAMESPACES)
            if spec["network"]:
                network.set_rules(spec["network"]["rules"])
            if os.fork() == 0:
                os.close(self._go)
                os.write(progress, own_id().ljust(_ID_BYTES))
                _run_guest(spec, wait, progress, report)

        status = as_root(shares.INNER_MAP, shares.INNER_MAP, enter_namespaces)
        os.close(wait)
        os.close(progress)
        found = os.read(self._progress, _ID_BYTES) if status == 0 else b""
        if not found:
            message = "the namespaces of the VM cannot be made"
            raise OSError(message)
        self.pid = int(found)

    def go(self) -> None:
        """Let the process set up the VM; return when it can no longer fail. Raises OSError.

        Its own report has come before, and says more.
        """
        os.write(self._go, b"1")
        os.close(self._go)
        if os.read(self._progress, 1) != b"1":
            message = "the first process of the VM has ended"
            raise OSError(message)
        os.close(self._progress)


def _run_guest(spec: dict[str, Any], wait: int, progress: int, report: int) -> NoReturn:
    try:
        if os.read(wait, 1) == b"1":
            outer.enter_root(spec)
            init.limit(user_namespaces=spec["user_namespaces"])
            os.write(progress, b"1")
            init.serve(spec["arrivals"], spec["control"], spec["offline"], spec["users"])
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(report, f"failed {error}\n".encode())
    finally:
        os._exit(1)
