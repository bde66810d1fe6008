"""The services beside a VM's command, independent of connections: start and follow them.

The supervisor of the VM's job (``launcher/services.py``) runs them, so they outlive dropped connections and the daemon.
"""

from __future__ import annotations

import marshal
from dataclasses import field
from typing import TYPE_CHECKING

from actors.vms.guest.command import MARSHAL_VERSION, VmOutput, ask
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.vms.ssh.connection import Connection

_READY = b"ready"
_FAILED = "failed"
_ANSWER_SECONDS = 30.0


class ServiceFailed(Exception):
    """A service was not ready in time, or cannot run; the message has the last lines of its output."""


@immutable
class ServiceSpec:
    """A service to run from its disk: see `VmSpec.services`, of whose keys ``name`` is one.

    ``argv`` is its program, which runs as the image's ``user`` (``NAME:GROUP`` or numbers; root without) in ``folder``,
    with ``env`` as its whole environment but for HOME. It is ready once ``ready_command`` passes in ``sh``, its port
    takes connections, or its output has a text, within ``ready_seconds``; without any of these, once it is started.
    ``stop_signal`` asks it to end. ``files`` are folders of the job's disk, by the service's folders in whose place
    they are. With ``fails_job`` the VM ends the command when the service ends.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    folder: str = "/"
    ready_command: str | None = None
    ready_port: int | None = None
    ready_log: str | None = None
    ready_seconds: int = 60
    stop_signal: int = 15
    files: Mapping[str, str] = field(default_factory=dict)
    fails_job: bool = False
    output_limit: int = 100 << 20
    output_tail: int = 0


def start_services(connection: Connection, services: Iterable[ServiceSpec]) -> None:
    """Start the VM's services, unless they were started before, and return when all are ready.

    Raises ServiceFailed, ConnectionLost, and CommandTimeout if the VM does not answer.
    """
    specs = list(services)
    content = marshal.dumps([_wanted(spec) for spec in specs], MARSHAL_VERSION)
    seconds = max(spec.ready_seconds for spec in specs) + _ANSWER_SECONDS
    with ask(connection, "services", len(content), content, seconds=seconds) as supervisor:
        answer = supervisor.read_line()
        if answer == _READY:
            return
        word, _, size = answer.decode(errors="replace").partition(" ")
        if word != _FAILED or not size.isdigit():
            message = "the VM was made by an older release, which runs no services: build again"
            raise ServiceFailed(message)
        why, _, output = b"".join(supervisor.read_block(int(size))).decode(errors="replace").partition("\n")
    name, _, reason = why.partition(" ")
    said = " | ".join(output.strip().splitlines()[-_LAST_LINES:])
    message = f"the service {name} failed: {reason}; " + (f"its last lines: {said}" if said else "it printed nothing")
    raise ServiceFailed(message)


_LAST_LINES = 5


@immutable
class ServiceEnd:
    """The end of a service: its exit code, and whether it was asked to end."""

    exit_code: int
    stopped: bool


def follow_service(connection: Connection, name: str, offset: int = 0) -> VmOutput[ServiceEnd]:
    """Return a service's output from byte ``offset`` on, to iterate over as it arrives."""
    return VmOutput(connection, offset, _parse_end, word=f"follow:{name}")


def _parse_end(output: bytes) -> ServiceEnd:
    facts = [line.split() for line in output.decode(errors="replace").splitlines()]
    codes = [int(fact[1]) for fact in facts if fact[:1] == ["exit"] and len(fact) > 1 and fact[1].isdigit()]
    return ServiceEnd(codes[0] if codes else 255, ["stopped"] in facts)


def _wanted(spec: ServiceSpec) -> dict[str, object]:
    signs = {"command": spec.ready_command, "port": spec.ready_port, "log": spec.ready_log}
    return {
        "name": spec.name,
        "argv": list(spec.argv),
        "env": dict(spec.env),
        "user": spec.user,
        "folder": spec.folder,
        "ready": {name: sign for name, sign in signs.items() if sign is not None},
        "ready_seconds": float(spec.ready_seconds),
        "stop_signal": spec.stop_signal,
        "files": dict(spec.files),
        "fails_job": spec.fails_job,
        "output_limit": spec.output_limit,
        "output_tail": spec.output_tail,
    }
