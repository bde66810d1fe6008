"""A switch that connects members and their clients, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Self

from actors.vms.launcher.kernel import CLONE_NEWNET, join_descriptor

_PREFIX = "10.98.0"


class Switch:
    """The network 10.98.0.0/24, as a context manager.

    Clients are at ``.1``, members at ``.10`` plus their number.
    """

    def __enter__(self) -> Self:
        script = (
            f"ip link set lo up && ip link add hub type bridge && ip address add {_PREFIX}.1/24 dev hub"
            " && ip link set hub up && echo up && exec sleep infinity"
        )
        argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", script]
        self._keeper = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._keeper.stdout
        assert self._keeper.stdout.readline() == "up\n", "the switch does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.kill()
        self._keeper.communicate()

    @property
    def namespace(self) -> str:
        """The path of its network namespace, for `nsenter --net=…`."""
        return f"/proc/{self._keeper.pid}/ns/net"

    def entered(self) -> AbstractContextManager[None]:
        """Bring this thread into the network, with all threads and processes that it starts."""
        return entered_network(self.namespace)

    def address(self, number: int) -> str:
        """Return the address of a member."""
        return f"{_PREFIX}.{10 + number}"

    def plug(self, number: int, pid: int) -> None:
        """Lay a cable from the switch to the member whose PID 1 this is."""
        port = f"port{number}"
        self._run(f"ip link add {port} type veth peer name lan netns {pid} && ip link set {port} master hub up")
        address = f"ip address add {self.address(number)}/24 dev lan && ip link set lan up"
        inside = f"{address} && ip route add default via {_PREFIX}.1"
        subprocess.run(["nsenter", "--target", str(pid), "--net", "sh", "-c", inside], check=True)

    def cut(self, number: int) -> None:
        """Cut a member off: packets are lost without a word."""
        self._run(f"ip link set port{number} down")

    def mend(self, number: int) -> None:
        """Connect a member that was cut off."""
        self._run(f"ip link set port{number} up")

    def _run(self, command: str) -> None:
        subprocess.run(["nsenter", f"--net={self.namespace}", "sh", "-c", command], check=True)


@contextmanager
def entered_network(namespace: str) -> Iterator[None]:
    """Bring this thread into a network namespace, by its path, until the end of the block."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(namespace, os.O_RDONLY)
    try:
        join_descriptor(there, CLONE_NEWNET)
        yield
    finally:
        join_descriptor(own, CLONE_NEWNET)
        os.close(own)
        os.close(there)
