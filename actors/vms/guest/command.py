"""The one command of a VM, independent of connections: start it, follow it from any byte, end it.

The supervisor of the VM's job (``launcher/supervisor.py``) runs it, so the command and its time-out outlive
dropped connections and the daemon itself (engine.md, "The command").
"""

from __future__ import annotations

import marshal
import re
import shlex
from dataclasses import field
from enum import Enum, auto
from math import isfinite
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from actors.vms.provider import VmError, VmLost
from actors.vms.ssh.errors import CommandTimeout
from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.vms.ssh.connection import Connection
    from actors.vms.ssh.forwarding import PortSocket, VmSocket

T = TypeVar("T")

_ANSWER_SECONDS = 30.0
_MAX_ARGUMENT_CHARS = 30_000
"""Characters of one argument. In UTF-8 each takes at most four bytes, and Linux allows 128 KiB."""

_SUPERVISOR = "/run/ci-daemon/supervisor"
MARSHAL_VERSION = 4
"""Python's since 3.4: the VM may have been made by another release."""

_TOLD_FOLDER = "/run/ci"
"""The folder of `launcher/told.py`."""

_STARTED = b"started"
_OPEN = b"open"
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_EXIT_CODES = range(256)


class CommandLost(VmLost):
    """The command's supervisor is gone, and with it the rest of the output and the exit code."""


class CommandNotStarted(CommandLost):
    """No command was started in this VM, or its traces were removed."""


@immutable
class CommandSpec:
    """A command to run as root: ``bash -c command``, or ``sh`` without bash; or a ``program`` itself.

    If it is ``strict``, the shell ends at the first failure: ``bash -eo pipefail -c command``, or ``sh -e``.
    ``env`` is its whole environment. The VM itself ends it after ``seconds``: TERM to all its processes, KILL after
    ``grace`` seconds more. ``output_limit`` bytes of the combined output are kept, the last ``output_tail`` of them
    from its end, which come once the command has ended. While the host cannot keep it, the command waits, and is ended
    after ``output_patience`` seconds. ``processes`` limits its processes and threads if it runs in a user namespace, so
    that room is left to end it. Raises ValueError for NUL characters and invalid names of variables.
    """

    command: str
    strict: bool = False
    program: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = "/workspace"
    seconds: float = 3600.0
    grace: float = 10.0
    output_limit: int = 100 << 20
    output_tail: int = 0
    output_patience: float = 120.0
    processes: int = 4000

    def __post_init__(self) -> None:
        if any("\0" in text for text in (self.command, *self.program, self.cwd, *self.env, *self.env.values())):
            message = "a command, its folder and its environment must not contain NUL characters"
            raise ValueError(message)
        if not all(_VARIABLE.fullmatch(name) for name in self.env):
            message = "a variable's name must consist of letters, digits and underscores, and not start with a digit"
            raise ValueError(message)


class CommandState(Enum):
    """The progress of a VM's one command."""

    NOT_STARTED = auto()
    RUNNING = auto()
    ENDED = auto()


@immutable
class Exited:
    """The end of a command as the VM reports it; a signal N is exit code 128 + N.

    ``size`` bytes of output were kept; with ``truncated`` there was more. ``unkept`` is the error for which output was
    lost, although there should have been room; 0 if there was none. With ``timed_out`` the VM ended the command at its
    time-out. ``seconds_ago`` counts from the command's end to this answer; None from an older release's. Without
    ``watched`` this process was stopped meanwhile, and has only the VM's word for the moment of the end.
    ``cut_off`` names programs that the command left, and that held its output when their time was up. A
    ``failed_service`` ended before the command, which fails for it: a sentence about that. ``told`` names the files by
    which it has told something (`told`).
    """

    exit_code: int
    size: int
    truncated: bool
    timed_out: bool = False
    seconds_ago: float | None = field(default=None, compare=False)
    cut_off: tuple[str, ...] = field(default=(), compare=False)
    unkept: int = 0
    watched: bool = field(default=True, compare=False)
    failed_service: str = ""
    told: tuple[str, ...] = field(default=(), compare=False)


def start(connection: Connection, spec: CommandSpec) -> CommandOutput:
    """Start the VM's command, unless it was started before, and return its output once it runs.

    Raises VmError if the VM cannot run it, ConnectionLost or CommandTimeout if it may or may not have started.
    """
    wanted = {
        "arguments": [*(["-e"] if spec.strict else []), *_arguments(_for_a_shell(spec))],
        "program": list(spec.program),
        "pipefail": spec.strict,
        "env": dict(spec.env),
        "cwd": spec.cwd,
        "seconds": spec.seconds,
        "grace": spec.grace,
        "output_limit": spec.output_limit,
        "output_tail": spec.output_tail,
        "output_patience": spec.output_patience,
        "processes": spec.processes,
    }
    content = marshal.dumps(wanted, MARSHAL_VERSION)
    supervisor = ask(connection, "start", len(content), content)
    answer = supervisor.read_line()
    if answer != _STARTED:
        supervisor.close()
        message = f"the VM cannot start a command: {answer.decode(errors='replace').removeprefix('failed ')}"
        raise VmError(message)
    return VmOutput(connection, 0, parse_result, supervisor=supervisor)


def inspect(connection: Connection) -> CommandState:
    """Ask whether the VM's command was started and has ended. Raises ConnectionLost and CommandTimeout."""
    with ask(connection, "inspect") as supervisor:
        answer = supervisor.read_line()
    return {b"running": CommandState.RUNNING, b"ended": CommandState.ENDED}.get(answer, CommandState.NOT_STARTED)


class VmOutput(Generic[T]):
    """The output of a command or a service, from byte ``offset`` to its end.

    Each byte comes within 100 ms of its being written.

    Of output that is longer than its limit, the end comes when the command has ended. An empty piece tells that
    ``paused`` became true, because more than the beginning was written, or ``left_out`` the number of bytes that are
    missing before the end. Iterate once, in one thread; afterwards ``exited`` says how it ended. Iterating
    advances ``offset`` and raises CommandNotStarted, CommandLost and ConnectionLost; following again from ``offset``
    misses nothing.
    """

    def __init__(
        self,
        connection: Connection,
        offset: int,
        parse: Callable[[bytes], T],
        *,
        word: str = "follow",
        supervisor: VmSocket | None = None,
    ) -> None:
        """``word`` asks for this output unless ``supervisor`` is about to send it; ``parse`` reads its end."""
        self.offset = offset
        self.exited: T | None = None
        self.paused = False
        self.left_out = 0
        self._connection = connection
        self._parse = parse
        self._word = word
        self._supervisor = supervisor

    def __iter__(self) -> Iterator[memoryview]:
        """Yield pieces as they arrive."""
        supervisor = self._supervisor or ask(self._connection, self._word, self.offset)
        self._supervisor = supervisor
        with supervisor:
            supervisor.wait_without_limit()
            while True:
                word, _, size = supervisor.read_line().partition(b" ")
                match word:
                    case b"output":
                        for piece in supervisor.read_block(int(size)):
                            self.offset += len(piece)
                            yield piece
                    case b"paused":
                        self.paused = True
                        yield memoryview(b"")
                    case b"skipped":
                        self.left_out = int(size)
                        self.offset += self.left_out
                        yield memoryview(b"")
                    case b"result":
                        self.exited = self._parse(b"".join(supervisor.read_block(int(size))))
                        return
                    case _:
                        message = "no command was started in this VM"
                        raise CommandNotStarted(message)

    @property
    def at_hand(self) -> bool:
        """True if more has come, so that the next piece, or the end, does not wait for the VM."""
        return self._supervisor is not None and self._supervisor.at_hand

    def close(self) -> None:
        """Hang up, if that was not done at the end."""
        if self._supervisor is not None:
            self._supervisor.close()


CommandOutput: TypeAlias = VmOutput[Exited]


def follow(connection: Connection, offset: int = 0) -> CommandOutput:
    """Return the command's output from byte ``offset`` on, to iterate over as it arrives."""
    return VmOutput(connection, offset, parse_result)


class PortClosed(VmError):
    """Nothing takes connections at a port of the job."""


def open_port(connection: Connection, port: int, *, seconds: float) -> PortSocket:
    """Connect to a port of the job, at which what its programs listen to on the loopback is reached.

    Raises PortClosed, ConnectionLost, and CommandTimeout after so many seconds.
    """
    supervisor = ask(connection, "port", port, seconds=seconds)
    if supervisor.read_line() != _OPEN:
        supervisor.close()
        message = f"nothing takes connections at port {port}"
        raise PortClosed(message)
    return supervisor.as_port(port)


@immutable
class Told:
    """The first bytes of a file by which a command has told something, and its size."""

    content: bytes
    size: int


def told_path(name: str) -> str:
    """Return the path of one of the files by which a command tells something."""
    return f"{_TOLD_FOLDER}/{name}"


def told(connection: Connection, name: str, most_bytes: int) -> Told:
    """Return what an ended command has told by one of the files that its end names.

    Raises VmError if the VM does not say so, ConnectionLost and CommandTimeout.
    """
    with ask(connection, f"told:{name}", most_bytes) as supervisor:
        word, *numbers = supervisor.read_line().decode(errors="replace").split()
        if word != "told" or len(numbers) != _NUMBERS or not all(map(str.isdecimal, numbers)):
            message = "the VM does not say what its command has told"
            raise VmError(message)
        size, sent = map(int, numbers)
        if sent > most_bytes:
            message = "the VM sent more than was requested"
            raise VmError(message)
        return Told(b"".join(supervisor.read_block(sent)), size)


_NUMBERS = 2


def terminate(connection: Connection, grace: float = 10.0) -> None:
    """End the command: TERM to all its processes, KILL after ``grace`` seconds; return when all are dead.

    Once asked, the VM carries on even if the connection drops. A command that was never started or has ended is fine.
    Raises VmError if the command cannot be ended: then destroy the VM.
    """
    try:
        with ask(connection, "terminate", round(grace * 100), seconds=grace + _ANSWER_SECONDS) as supervisor:
            supervisor.read_line()
    except CommandTimeout as error:
        message = "the VM does not answer, so its command cannot be ended"
        raise VmError(message) from error


def ask(
    connection: Connection, word: str, number: int = 0, content: bytes = b"", *, seconds: float = _ANSWER_SECONDS
) -> VmSocket:
    """Ask the supervisor of the VM's job (`launcher/supervisor.py`), which answers within so many seconds."""
    supervisor = connection.open_socket(_SUPERVISOR, timeout=seconds)
    try:
        supervisor.send(f"{word} {number}\n".encode() + content)
    except BaseException:
        supervisor.close()
        raise
    return supervisor


def parse_result(output: bytes) -> Exited:
    """Parse the lines of a result. Raises CommandLost."""
    lines = [line.split() for line in output.decode(errors="replace").splitlines()]
    facts = {line[0]: line[1:] for line in lines if line}
    try:
        size, dropped = map(int, facts["output"])
        (exit_code,) = map(int, facts["exit"])
        if exit_code not in _EXIT_CODES:
            raise ValueError(exit_code)
        seconds_ago = _seconds_ago(facts)
        unkept = int(facts["unkept"][0]) if "unkept" in facts else 0
    except (KeyError, IndexError, ValueError) as error:
        message = "the VM does not say how its command ended"
        raise CommandLost(message) from error
    cut_off, told = (tuple(facts.get(name, ())) for name in ("cut-off", "told"))
    return Exited(exit_code, size, dropped > 0, "timed-out" in facts, seconds_ago, cut_off, unkept, told=told)


def _seconds_ago(facts: Mapping[str, list[str]]) -> float | None:
    """Return the seconds since the command ended. Raises KeyError and ValueError for invalid facts."""
    if "ended" not in facts:
        return None
    (ended,), (now,) = map(float, facts["ended"]), map(float, facts["now"])
    if not isfinite(now - ended):
        raise ValueError(now, ended)
    return max(0.0, now - ended)


def _for_a_shell(spec: CommandSpec) -> str:
    """Return the command; of a program one that a VM of an older release runs, which knows of none."""
    return f"exec {shlex.join(spec.program)}" if spec.program else spec.command


def _arguments(command: str) -> list[str]:
    """Return the arguments of the shell that runs a command: in parts if it is too long for one."""
    if len(command) <= _MAX_ARGUMENT_CHARS:
        return ["-c", command]
    parts = [command[start : start + _MAX_ARGUMENT_CHARS] for start in range(0, len(command), _MAX_ARGUMENT_CHARS)]
    joined = "".join(f"${{{number}}}" for number in range(1, len(parts) + 1))
    return ["-c", f'eval "set --\n{joined}"', "sh", *parts]
