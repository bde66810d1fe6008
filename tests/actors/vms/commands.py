"""Commands of a VM, as tests run them."""

from __future__ import annotations

from actors.vms import Completed, Connection, Exited, follow, in_job

TIMEOUT = 120.0
"""Long enough for a VM that is emulated."""


def ended(connection: Connection) -> Exited:
    """Follow the command to its end; return how it ended."""
    following = follow(connection)
    for _ in following:
        pass
    assert following.exited is not None
    return following.exited


def run_in_job(connection: Connection, program: str, stdin: bytes = b"") -> Completed:
    """Run a shell program in the job's namespaces."""
    return connection.run(in_job(program), stdin=stdin, timeout=TIMEOUT)


def left_running(connection: Connection) -> list[str]:
    """Return the programs that run in the command's namespace, or in one made there."""
    listing = """
        for process in /proc/[0-9]*; do
            [ $process = /proc/1 ] && continue
            [ "$(readlink $process/ns/pid)" = "$(readlink /proc/$$/ns/pid)" ] || cat $process/comm
        done 2>/dev/null
    """
    return run_in_job(connection, listing).stdout.decode().split()
