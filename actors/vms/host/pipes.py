"""The way for pipes into a VM that listens at a socket on this host (``launcher/programs.py``)."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

from actors.vms.launcher.programs import SCRIPT_BYTES
from actors.vms.provider import VmError, VmLost
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.vms.host.vm_folder import VmFolder


PROGRAMS = "programs"
"""The name of the socket in the VM's folder."""

_SEND_SECONDS = 10.0


@immutable
class PipesToVm:
    """The pipes of one VM, see `HostPipes`."""

    vm: VmFolder

    @classmethod
    def of(cls, vm: VmFolder) -> Self | None:
        """Return those of a VM; None if it was made by an earlier release, which has none."""
        return cls(vm) if (vm.folder / PROGRAMS).is_socket() else None

    def start(self, script: str, streams: Sequence[int], /) -> None:
        """Start a shell script with these streams, and a pipe for its exit code."""
        text = script.encode()
        if len(text) > SCRIPT_BYTES:
            message = f"a script of {len(text):,} bytes is too long"
            raise VmError(message)
        try:
            with self.vm.connect(_SEND_SECONDS, PROGRAMS, socket.SOCK_DGRAM) as way:
                socket.send_fds(way, [text], list(streams))
        except (FileNotFoundError, ConnectionError) as error:
            message = f"VM {self.vm.id} has ended"
            raise VmLost(message) from error
        except OSError as error:
            message = f"VM {self.vm.id} takes no program: {error_reason(error)}"
            raise VmError(message) from error
