"""Commands of a VM, as tests run them."""

from __future__ import annotations

from actors.vms import (
    Connection,
    Exited,
    follow,
)

TIMEOUT = 20.0


def ended(connection: Connection) -> Exited:
    """Follow the command to its end; return how it ended."""
    following = follow(connection)
    for _ in following:
        pass
    assert following.exited is not None
    return following.exited


def left_running(connection: Connection) -> list[str]:
    """Return the programs that run in the command's namespace, or in one made there."""
    listing = """
        for process in /proc/[0-9]*; do
            [ $process = /proc/1 ] && continue
            [ "$(readlink $process/ns/pid)" = "$(readlink /proc/$$/ns/pid)" ] || cat $process/comm
        done 2>/dev/null
    """
    return connection.run(listing, timeout=TIMEOUT).stdout.decode().split()
