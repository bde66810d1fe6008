"""The flat shape: a list of commands and waits (pipeline-ir.md, "Flat shape")."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from actors.ir.decoding import quoted
from actors.ir.ordering import Definition, Dependencies, dependent_items
from actors.ir.readers import InvalidValue, at, choice, environment, members, peek, record, size
from actors.ir.step import CommandStep, continues, image, seconds, step
from storage import BuildErrorCode, Dependency, EdgeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.ir.settings import IrSettings

_Command: TypeAlias = "tuple[CommandStep, Mapping[str, str], tuple[Dependency, ...]]"


def read_flat(document: Mapping[str, object], limits: IrSettings) -> Definition:
    """Read a document of the flat shape.

    Raises:
        InvalidValue: all faults in document order, also cycles.
    """
    steps = _Steps(document, limits)

    def make(
        steps: Sequence[_Command], default_image: str | None = None, timeout_seconds: int | None = None, **_env: object
    ) -> Definition:
        jobs = (step.job(env, default_image, depends_on) for step, env, depends_on in steps)
        return Definition(tuple(jobs), timeout_seconds)

    env = environment(limits.max_env_bytes)
    optional = {"env": env, "default_image": image, "timeout_seconds": seconds}
    return record(make, {"steps": steps.read}, optional)(document)


class _Steps:
    """Reader of the list of steps: each command with its env and its dependencies.

    The document's env counts once per command, and the sum may not exceed ``max_bytes``, the limit of the document.
    In the graph shape every node spells out its env, so that limit holds there anyway. Without it a short document
    could become jobs of unbounded size.
    """

    def __init__(self, document: Mapping[str, object], limits: IrSettings) -> None:
        steps = document.get("steps")
        commands = [item for item in steps if peek(item, "type") == "command"] if isinstance(steps, list) else []
        self.keys = [peek(command, "key") for command in commands]
        self._positions = {key: place for place, key in enumerate(self.keys) if isinstance(key, str)}
        self._limits = limits
        self._waits = _Waits(len(commands))
        self._commands: list[_Command | None] = []
        self._env = _document_env(document, limits)
        self._env_bytes = 0
        env = environment(limits.max_env_bytes, self._env)
        self._command = step(limits, {"env": env, "builds_in": self._parent})

    def read(self, value: object) -> Sequence[_Command]:
        """Read the list."""
        if len(self.keys) > self._limits.max_jobs:
            raise InvalidValue(f"at most {self._limits.max_jobs} commands")
        dependent_items(self._item, self.keys, self.dependencies)(value)
        if not self._commands:
            raise InvalidValue("at least one command")
        return [command for command in self._commands if command is not None]

    def dependencies(self) -> Dependencies:
        """Return each command's dependencies; empty for commands that have faults or are not read yet."""
        unread = len(self.keys) - len(self._commands)
        return [() if command is None else command[2] for command in self._commands] + [()] * unread

    def _item(self, value: object) -> None:
        if at("type", _kind, members(value).get("type")) == "wait":
            self._waits.wait(len(self._commands), continue_on_failure=continues(value))
            return
        self._commands.append(None)
        command = self._command(value)
        env = self._env if command.env is None else command.env
        before, most = self._env_bytes, self._limits.max_bytes
        self._env_bytes += size(env)
        if before <= most < self._env_bytes:
            raise InvalidValue(f"at most {most} bytes of env in all steps together")
        self._commands[-1] = command, env, self._waits.dependencies(command.builds_in)

    def _parent(self, value: object) -> int:
        if not isinstance(value, str):
            raise InvalidValue("the key of a step")
        if value not in self._positions:
            child = quoted(self.keys[len(self._commands) - 1])
            message = f"step {child} builds in unknown step {quoted(value)}"
            raise InvalidValue(message, BuildErrorCode.UNKNOWN_DEPENDENCY)
        return self._positions[value]


class _Waits:
    """The dependencies that the waits read so far give the next command.

    A wait makes every later command depend on every earlier one. If several waits stand between two commands, any
    terminal state satisfies the dependency only if all of them say ``continue_on_failure``. Commands after the same
    waits share one tuple, because 1,000 commands can have half a million dependencies.
    """

    def __init__(self, commands: int) -> None:
        self._strict = tuple(Dependency(place) for place in range(commands))
        self._lenient = tuple(Dependency(place, continue_on_failure=True) for place in range(commands))
        self._strict_before = 0
        self._awaited_before = 0
        self._shared: tuple[Dependency, ...] | None = ()

    def wait(self, commands: int, *, continue_on_failure: bool) -> None:
        """Add a wait that stands after the first ``commands`` commands."""
        self._awaited_before = commands
        if not continue_on_failure:
            self._strict_before = commands
        self._shared = None

    def dependencies(self, parent: int | None) -> tuple[Dependency, ...]:
        """Return the dependencies of a command that builds in ``parent``, sorted by position."""
        if self._shared is None:
            strict, awaited = self._strict_before, self._awaited_before
            self._shared = self._strict[:strict] + self._lenient[strict:awaited]
        if parent is None:
            return self._shared
        return (*self._shared[:parent], Dependency(parent, EdgeKind.BUILDS_IN), *self._shared[parent + 1 :])


def _document_env(document: Mapping[str, object], limits: IrSettings) -> Mapping[str, str]:
    """Return the document's env, the base of each step's; a fault in it is reported later, in order."""
    try:
        return environment(limits.max_env_bytes)(document.get("env"))
    except InvalidValue:
        return {}


_kind = choice("command", "wait")
