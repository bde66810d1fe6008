"""Parsing and planning of a pipeline IR: its versions and shapes, and the order of its jobs.

Version "1" is the language's own, see `actors.ir.language`. Of version "0" one shape is a list of commands and waits
(pipeline-ir.md, "Flat shape"), the other has nodes, and edges between their indexes (pipeline-ir.md, "Graph shape").
Each job comes after those that it depends on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from actors.ir.decoding import IrError, decode, quoted
from actors.ir.readers import Faults, InvalidValue, Reader, at, choice, environment, items, members, peek, record, size
from actors.ir.step import CommandStep, continues, image, seconds, step
from actors.ir.unknown_keys import unknown_keys
from storage import BuildErrorCode, Dependency, EdgeKind, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.built import Built
    from actors.ir.settings import IrSettings
    from actors.ir.unknown_keys import UnknownKey
    from storage import Concurrency, NewJob


Dependencies = Sequence[tuple[Dependency, ...]]

_MAX_CYCLE_KEYS = 10

_Command: TypeAlias = "tuple[CommandStep, Mapping[str, str], tuple[Dependency, ...]]"


def load(text: str, limits: IrSettings, built: Built | None = None) -> Plan:
    """Return the plan of a pipeline IR for a build. Raises IrError for any faulty text."""
    return plan(parse(text, limits, built))


def parse(text: str, limits: IrSettings, built: Built | None = None) -> Definition:
    """Return the pipeline that an IR describes, in document order (pipeline-ir.md, "Validation").

    The version is checked first, because it says how to read the rest. Then the members of each object are checked in
    the order of the text, and missing members last. Conditions and names in text are about what is ``built``.

    Raises:
        IrError: the first fault in document order, with all others.
    """
    try:
        if len(text) > limits.max_bytes or len(text.encode(errors="replace")) > limits.max_bytes:
            raise InvalidValue(f"at most {limits.max_bytes} bytes")
        return _read(decode(text), limits, built)
    except InvalidValue as fault:
        raise fault.error() from None


def plan(definition: Definition) -> Plan:
    """Return the jobs in DAG creation order (pipeline-ir.md, "Plan").

    Raises:
        IrError: ``cycle``.
    """
    jobs = definition.jobs
    order = topological([job.step_key for job in jobs], [job.depends_on for job in jobs])
    places = {index: place for place, index in enumerate(order)}
    placed: list[NewJob] = []
    for index in order:
        job = _placed(jobs[index], places)
        parent = next((placed[each.position] for each in job.depends_on if each.kind is EdgeKind.BUILDS_IN), None)
        placed.append(job if parent is None else replace(job, image=parent.image))
    return Plan(
        tuple(placed),
        definition.timeout_seconds,
        definition.unknown_keys,
        strict_shell=definition.strict_shell,
        concurrency=definition.concurrency,
    )


def _placed(job: NewJob, places: Mapping[int, int]) -> NewJob:
    if all(places[dependency.position] == dependency.position for dependency in job.depends_on):
        return job
    moved = [old._replace(position=places[old.position]) for old in job.depends_on]
    return replace(job, depends_on=tuple(sorted(moved, key=attrgetter("position"))))


def _read(document: object, limits: IrSettings, built: Built | None) -> Definition:
    root = members(document)
    if root.get("version") == "1" and "jobs" in root:  # else it is a document of version "0" with a wrong version
        from actors.ir.language.lowering import read_pipeline  # noqa: PLC0415 - pydantic

        return read_pipeline(root, limits, built)
    if built is not None and built.inputs:
        message = f"inputs: unknown input {quoted(next(iter(built.inputs)))}: the pipeline declares none"
        raise IrError(BuildErrorCode.INPUTS_INVALID, message)
    if root.get("version") != "0":
        got = quoted(root["version"]) if "version" in root else "nothing"
        raise IrError(BuildErrorCode.BAD_VERSION, f'expected version "0", got {got}')
    shapes = [name for name in root if name in _SHAPES and root[name] is not None]
    if not shapes:
        raise InvalidValue('"graph" or "steps"')
    if len(shapes) > 1:
        return at(shapes[1], _ambiguous, root)
    return replace(_SHAPES[shapes[0]](root, limits), unknown_keys=unknown_keys(root))


def _ambiguous(_: object) -> Definition:
    raise InvalidValue('"graph" or "steps", not both')


@immutable
class Definition:
    """A valid pipeline in document order. Dependencies may still point forwards or form cycles.

    ``unknown_keys`` are those of its document that have no effect. With ``strict_shell`` its commands end at their
    first failure, whatever the service's own choice is.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)
    strict_shell: bool = False
    concurrency: Concurrency | None = None


@immutable
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones only (pipeline-ir.md, "Plan").

    A job that builds in another has that job's image, because its disk is based on it.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)
    strict_shell: bool = False
    concurrency: Concurrency | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each of them."""
        return tuple(map(str, self.unknown_keys))


def with_needed(plan: Plan, wanted: Collection[int]) -> Plan:
    """Return the plan of the jobs at some positions, and of all that they need."""
    needed = set(wanted)
    for position in reversed(range(len(plan.jobs))):
        if position in needed:
            needed.update(dependency.position for dependency in plan.jobs[position].depends_on)
    places = {position: place for place, position in enumerate(sorted(needed))}
    return replace(plan, jobs=tuple(_moved(plan.jobs[position], places) for position in places))


def _moved(job: NewJob, places: Mapping[int, int]) -> NewJob:
    """Return a job whose dependencies are at new places."""
    depends_on = (each._replace(position=places[each.position]) for each in job.depends_on)
    return replace(job, depends_on=tuple(depends_on))


def topological(keys: Sequence[object], depends_on: Dependencies) -> list[int]:
    """Return the jobs' indexes in topological order; of the jobs that are ready, the lowest comes first.

    Args:
        keys: the jobs' keys, for the message.
        depends_on: each job's dependencies, sorted by position.

    Raises:
        IrError: ``cycle``.
    """
    if all(not prerequisites or prerequisites[-1].position < index for index, prerequisites in enumerate(depends_on)):
        return list(range(len(depends_on)))
    sorter = TopologicalSorter(
        {index: [each.position for each in prerequisites] for index, prerequisites in enumerate(depends_on)}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(keys, min(error.args[1]), depends_on) from None
    ready = list(sorter.get_ready())
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for index in sorter.get_ready():
            heappush(ready, index)
    return order


def dependent_items(
    reader: Reader[None], keys: Sequence[object], dependencies: Callable[[], Dependencies]
) -> Reader[None]:
    """Return a reader of lists of dependencies, whose items ``reader`` reads.

    ``dependencies`` returns those that were read so far. A cycle among them is a fault, too: before that of the first
    faulty item if earlier items close it, otherwise the last one (pipeline-ir.md, "Validation").
    """

    def read(value: object) -> None:
        if not isinstance(value, list):
            raise InvalidValue("a list")
        faults, cycle = Faults(), None
        for index, item in enumerate(value):
            try:
                reader(item)
            except InvalidValue as fault:
                if not faults and (cycle := _cycle_among(keys, dependencies())) is not None:
                    faults.add(cycle)
                faults.add(fault.below(index))
        if cycle is None and (cycle := _cycle_among(keys, dependencies())) is not None:
            faults.add(cycle)
        faults.check()

    return read


def _cycle_among(keys: Sequence[object], depends_on: Dependencies) -> InvalidValue | None:
    try:
        topological(keys, depends_on)
    except IrError as error:
        return InvalidValue(error.message, error.code)
    return None


def _cycle(keys: Sequence[object], start: int, depends_on: Dependencies) -> IrError:
    """Return the error that names the shortest cycle through ``start``, each job before its dependent."""
    dependents: list[list[int]] = [[] for _ in depends_on]
    for index, prerequisites in enumerate(depends_on):
        for dependency in prerequisites:
            dependents[dependency.position].append(index)
    came_from: dict[int, int] = {}
    queue = deque([start])
    while start not in came_from:
        index = queue.popleft()
        for dependent in dependents[index]:
            if dependent not in came_from:
                came_from[dependent] = index
                queue.append(dependent)
    cycle = [start]
    while len(cycle) == 1 or cycle[-1] != start:
        cycle.append(came_from[cycle[-1]])
    names = [quoted(keys[index]) for index in reversed(cycle)]
    if len(names) > _MAX_CYCLE_KEYS:
        names[_MAX_CYCLE_KEYS - 1 : -1] = [f"({len(names) - _MAX_CYCLE_KEYS} more)"]
    return IrError(BuildErrorCode.CYCLE, f"dependency cycle through {' -> '.join(names)}")


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
        if at("type", _flat_kind, members(value).get("type")) == "wait":
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


_flat_kind = choice("command", "wait")


@immutable
class _Node:
    step: CommandStep
    env: Mapping[str, str] = field(default_factory=dict)


def read_graph(document: Mapping[str, object], limits: IrSettings) -> Definition:
    """Read a document of the graph shape.

    Raises:
        InvalidValue: all faults in document order, also cycles.
    """
    nodes = peek(document, "graph", "nodes")
    edges = _Edges([peek(node, "step", "key") for node in nodes] if isinstance(nodes, list) else [])

    def make(
        graph: Sequence[_Node], default_image: str | None = None, timeout_seconds: int | None = None
    ) -> Definition:
        jobs = (
            node.step.job(node.env, default_image, depends_on)
            for node, depends_on in zip(graph, edges.dependencies(), strict=True)
        )
        return Definition(tuple(jobs), timeout_seconds)

    graph = record(
        _nodes, {"nodes": _node_list(limits)}, {"edges": dependent_items(edges.add, edges.keys, edges.dependencies)}
    )
    return record(make, {"graph": graph}, {"default_image": image, "timeout_seconds": seconds})(document)


def _nodes(nodes: Sequence[_Node], **_edges: object) -> Sequence[_Node]:
    return nodes


def _node_list(limits: IrSettings) -> Reader[Sequence[_Node]]:
    node = record(_Node, {"step": step(limits, {})}, {"env": environment(limits.max_env_bytes)})

    def read(value: object) -> Sequence[_Node]:
        if isinstance(value, list) and not value:
            raise InvalidValue("at least one step")
        if isinstance(value, list) and len(value) > limits.max_jobs:
            raise InvalidValue(f"at most {limits.max_jobs} steps")
        return items(node)(value)

    return read


class _Edges:
    """Reader of edges, grouped by dependent.

    Edges between the same two nodes become one dependency: ``builds_in`` if any of them is, ``continue_on_failure``
    only if all of them are.
    """

    def __init__(self, keys: Sequence[object]) -> None:
        self.keys = keys
        self._depends_on: list[dict[int, Dependency]] = [{} for _ in keys]
        self._parents: dict[int, int] = {}

    def dependencies(self) -> Dependencies:
        """Return each node's dependencies read so far, sorted by position."""
        return [tuple(sources[source] for source in sorted(sources)) for sources in self._depends_on]

    def add(self, value: object) -> None:
        """Read one edge."""
        if not isinstance(value, list) or len(value) not in {3, 4}:
            raise InvalidValue("[from, to, kind]")
        source, target = at(0, _index, value[0]), at(1, _index, value[1])
        kind = EdgeKind(at(2, _edge_kind, value[2]))
        lenient = value[3:] not in ([], [None]) and at(3, continues, value[3])
        nodes = range(len(self.keys))
        if source not in nodes or target not in nodes:
            verb = "builds in" if kind is EdgeKind.BUILDS_IN else "depends on"
            message = f"{self._name(target)} {verb} {self._name(source)}"
            raise InvalidValue(message, BuildErrorCode.UNKNOWN_DEPENDENCY)
        if kind is EdgeKind.BUILDS_IN and self._parents.setdefault(target, source) != source:
            raise InvalidValue(f'at most one "builds_in" parent for step {quoted(self.keys[target])}')
        known = self._depends_on[target].get(source)
        if known is not None:
            kind = EdgeKind.BUILDS_IN if EdgeKind.BUILDS_IN in {kind, known.kind} else kind
            lenient = lenient and known.continue_on_failure
        self._depends_on[target][source] = Dependency(source, kind, lenient)

    def _name(self, index: int) -> str:
        if 0 <= index < len(self.keys):
            return f"step {quoted(self.keys[index])}"
        return f"unknown step {quoted(str(index))}"


def _index(value: object) -> int:
    if type(value) is not int:
        raise InvalidValue("the index of a node")
    return value


_edge_kind = choice(*EdgeKind)


_SHAPES = {"graph": read_graph, "steps": read_flat}
