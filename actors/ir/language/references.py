"""References within a pipeline, to jobs, inputs, axes and names: each must be there and fit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from actors.ir.built import EVENTS, NAMED
from actors.ir.decoding import Fault, quoted
from actors.ir.language.expansion import MOST_COMBINATIONS, cells_of, combinations_of, matrix_values
from actors.ir.language.inputs import misfit, variable_of
from actors.ir.language.names import has_names, names_in, nearest, unknown_names
from actors.ir.language.workspaces import Workspaces
from actors.ir.planning import topological
from storage import BuildErrorCode, Dependency

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.ir.language.beside import Beside, KnownJob
    from actors.ir.language.model import Common, Condition, Input, Job, Pipeline

_Path = tuple[str | int, ...]

_MOST_NAMES = 10_000

_WITHOUT_NAMES = frozenset(
    {"matrix", "needs", "from", "files", "files_of", "when", "cache", "keep", "gate", "identity", "registries"}
)
"""The keys of a job in whose texts no names are replaced."""

_OF_COMMANDS = frozenset({"run", "shell", "command", "ready", "files", "preview"})
"""The keys whose texts are commands, and those of services that are no mere values."""

_SERVICES = "services"

_OF_STRANGERS: Mapping[str, str | None] = {
    "build.branch": "CI_BRANCH",
    "build.commit": "CI_COMMIT",
    "build.tag": "CI_TAG",
    "build.event": "CI_EVENT",
    "build.target_branch": "CI_TARGET_BRANCH",
    "build.default_branch": None,
    "build.repository": None,
    "build.changed_files": None,
}
"""The names that may not be part of a command, with the variables that jobs have for them."""

_EVENTS_WITH: Mapping[str, frozenset[str]] = {
    "branch": frozenset(EVENTS) - {"tag"},
    "tag": frozenset({"tag", "manual"}),
    "target_branch": frozenset({"pull_request", "manual"}),
}
"""The events whose builds can have what a key of a condition asks for."""

_INPUTS = "inputs."
"""The beginning of the names of inputs in texts."""


def faults_of_references(pipeline: Pipeline, names: Mapping[str, None], beside: Beside) -> Iterator[Fault]:
    """Yield the mistakes in what refers to jobs. ``names`` are those of all, also of jobs with mistakes."""
    known = beside.by_name
    few = sum(map(combinations_of, pipeline.jobs.values())) <= MOST_COMBINATIONS
    if not few:
        message = f"expected at most {MOST_COMBINATIONS} combinations of all matrices together"
        yield Fault(BuildErrorCode.INVALID_IR, message, ("jobs",))
    for key, job in pipeline.jobs.items():
        path = "jobs", key
        if job.from_ is not None:
            yield from _of_parent(pipeline, key, job, names, known)
        for name, place in _needed(job, path):
            if name not in names:
                message = f"unknown job {quoted(name)}{nearest(name, [each for each in names if each != key])}"
                yield Fault(BuildErrorCode.UNKNOWN_DEPENDENCY, message, place)
            elif name == key:
                yield Fault(BuildErrorCode.CYCLE, "a job cannot need itself", place)
        yield from _of_files(pipeline, job, path, known)
        yield from _of_generation(job, path, beside)
        if few and job.matrix is not None and not cells_of(job):
            message = "the matrix has no cells: every axis needs a value, and not all may be excluded"
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "matrix"))
        yield from _of_axes(job, path, pipeline.inputs)
        yield from _of_gate(job, path)
        yield from _of_services(job, path)
        yield from _of_registries(job.with_defaults(pipeline.defaults), path)
        if job.when is not None and job.when.status == "failed" and not (job.needs or job.from_ or job.files):
            message = '"failed" is about what the job needs: name that in "needs"'
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "when", "status"))
    yield from _of_taken(pipeline, beside)
    if pipeline.defaults is not None:
        yield from _of_services(pipeline.defaults, ("defaults",))
    yield from (list(_of_cycle(pipeline)) or workspaces_of(pipeline).faults()) if few else _of_cycle(pipeline)
    yield from _of_inputs(pipeline)


def _of_registries(job: Job, path: _Path) -> Iterator[Fault]:
    """Yield the mistake of a job that gets logins which none of its programs finds."""
    if job.registries and not job.containers:
        message = "it is a login for programs that build images: give the job `containers: true`"
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "registries"))


def _of_gate(job: Job, path: _Path) -> Iterator[Fault]:
    """Yield the keys that contradict a gate: its environment is a lock, and a deployment is to run."""
    if job.gate is None:
        return
    if job.concurrency is not None:
        message = 'a job with a "gate" has the lock of its environment: take one of both away'
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "concurrency"))
    if job.cache is not None:
        message = 'a job with a "gate" is not passed from the cache: take one of both away'
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "cache"))


def workspaces_of(pipeline: Pipeline) -> Workspaces:
    """Return whose workspace each job takes. Raises IrError for a cycle."""
    jobs = {key: job.with_defaults(pipeline.defaults) for key, job in pipeline.jobs.items()}
    return Workspaces(jobs, in_order(pipeline))


def _of_taken(pipeline: Pipeline, beside: Beside) -> Iterator[Fault]:
    taken = beside.taken
    for key in filter(taken.__contains__, pipeline.jobs):
        message = f"the build has a job {quoted(key)} already: give this one another key"
        yield Fault(BuildErrorCode.DUPLICATE_KEY, message, ("jobs", key))


def _of_inputs(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the mistakes in the declarations of inputs, and the variables that hide theirs."""
    seen: dict[str, str] = {}
    place: _Path = ("on", "manual", "inputs")
    for name in pipeline.inputs:
        if (other := seen.setdefault(variable_of(name), name)) != name:
            message = f"its variable {variable_of(name)} is that of {quoted(other)}: rename one"
            yield Fault(BuildErrorCode.INVALID_IR, message, (*place, name))
    yield from faults_of_inputs(pipeline.inputs, place)
    followed = None if pipeline.on is None else pipeline.on.pipeline
    for name in (followed and followed.inputs) or {}:
        if name not in pipeline.inputs:
            hint = nearest(name, pipeline.inputs) if pipeline.inputs else ": `on.manual.inputs` declares none"
            message = f"unknown input {quoted(name)}{hint}"
            yield Fault(BuildErrorCode.INVALID_IR, message, ("on", "pipeline", "inputs", name))
    places = [(("env",), pipeline.env), (("defaults", "env"), pipeline.defaults and pipeline.defaults.env)]
    places += [(("jobs", key, "env"), job.env) for key, job in pipeline.jobs.items()]
    for path, env in places:
        for variable in (env or {}) if seen else ():
            if variable in seen:
                message = f"it has no effect: the variable is that of the input {quoted(seen[variable])}"
                yield Fault(BuildErrorCode.INVALID_IR, message, (*path, variable))


def faults_of_inputs(inputs: Mapping[str, Input], place: _Path) -> Iterator[Fault]:
    """Yield the mistakes in each declaration of an input."""
    for name, declared in inputs.items():
        path = (*place, name)
        kinds = [each for each in ("choice", "boolean", "number", "text") if getattr(declared, each)]
        if len(kinds) > 1:
            message = f"expected one kind of input, got {' and '.join(map(quoted, kinds))}"
            yield Fault(BuildErrorCode.INVALID_IR, message, path)
        elif declared.default is not None and (why := misfit(declared, declared.default)) is not None:
            yield Fault(BuildErrorCode.INVALID_IR, why, (*path, "default"))


def _needed(job: Job, path: _Path) -> Iterator[tuple[str, _Path]]:
    """Yield the jobs that a job needs besides its parent, each with the path where it says so."""
    yield from ((name, (*path, "needs", index)) for index, name in enumerate(job.needs or ()))
    yield from ((name, (*path, "files", name)) for name in job.files or ())


def _of_files(pipeline: Pipeline, job: Job, path: _Path, known: Mapping[str, list[KnownJob]]) -> Iterator[Fault]:
    """Yield the mistakes of a job that takes files of jobs which keep none."""
    for name in job.files or ():
        of = pipeline.jobs.get(name)
        if of is None:
            keeps_none = name in known and not any(each.keeps_files for each in known[name])
        else:
            keeps_none = of.use is None and not of.with_defaults(pipeline.defaults).artifacts
        if keeps_none:
            message = f'{quoted(name)} keeps no files: name them in its "artifacts"'
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "files", name))


def _of_generation(job: Job, path: _Path, beside: Beside) -> Iterator[Fault]:
    if job.generates is None:
        return
    if job.cache is not None:
        message = "a job that generates jobs is not cached: it would pass without its file"
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "cache"))
    if not beside.may_generate:
        message = "this is as deep as jobs may generate jobs: declare what it would generate here"
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "generates"))


def _of_parent(
    pipeline: Pipeline, key: str, job: Job, names: Mapping[str, None], known: Mapping[str, list[KnownJob]]
) -> Iterator[Fault]:
    parent, path = job.from_ or "", ("jobs", key, "from")
    cells = [] if parent in pipeline.jobs else known.get(parent, [])
    if parent not in names:
        message = f"unknown job {quoted(parent)}{nearest(parent, [each for each in names if each != key])}"
        yield Fault(BuildErrorCode.UNKNOWN_DEPENDENCY, message, path)
    elif parent == key:
        yield Fault(BuildErrorCode.CYCLE, "a job cannot start from its own disk", path)
    elif any(each.key != parent for each in cells) or (
        parent in pipeline.jobs and pipeline.jobs[parent].matrix is not None
    ):
        message = f"{quoted(parent)} has a matrix, and so several disks: start from a job without one"
        yield Fault(BuildErrorCode.INVALID_IR, message, path)
    elif cells and not cells[0].has_disk:
        message = f"{quoted(parent)} has left no disk: start from the job that generates this one, or from an image"
        yield Fault(BuildErrorCode.INVALID_IR, message, path)
    if job.image is not None:
        message = f"the image has no effect: the job starts from the disk of {quoted(parent)}"
        yield Fault(BuildErrorCode.INVALID_IR, message, ("jobs", key, "image"))


def _of_axes(job: Job, path: _Path, inputs: Mapping[str, Input]) -> Iterator[Fault]:
    if job.when is not None:
        yield from _of_condition(job, job.when, (*path, "when"), inputs)
    if job.matrix is None:
        return
    axes = job.matrix.axes
    for index, excluded in enumerate(job.matrix.exclude):
        for axis, value in excluded.items():
            place = (*path, "matrix", "exclude", index, axis)
            if axis not in axes:
                yield Fault(BuildErrorCode.INVALID_IR, f"unknown axis {quoted(axis)}{nearest(axis, axes)}", place)
            elif value not in axes[axis]:
                message = f"the axis {quoted(axis)} has no value {quoted(value)}{nearest(value, axes[axis])}"
                yield Fault(BuildErrorCode.INVALID_IR, message, place)


def _of_services(job: Common, path: _Path) -> Iterator[Fault]:
    for name, service in (job.services or {}).items():
        ready = service.ready
        if ready is not None and sum(sign is not None for sign in (ready.command, ready.port, ready.log)) != 1:
            message = 'expected one of "command", "port" and "log"'
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, _SERVICES, name, "ready"))


def _of_condition(job: Job, condition: Condition, path: _Path, inputs: Mapping[str, Input]) -> Iterator[Fault]:
    """Yield the mistakes of a condition in axes and inputs, and in keys that never hold together."""
    yield from _of_no_build(condition, path)
    for name, wanted in (condition.inputs or {}).items():
        if name not in inputs:
            hint = nearest(name, inputs) if inputs else ": `on.manual.inputs` declares none"
            yield Fault(BuildErrorCode.INVALID_IR, f"unknown input {quoted(name)}{hint}", (*path, "inputs", name))
            continue
        for index, value in enumerate(wanted):
            if (why := misfit(inputs[name], value)) is not None:
                yield Fault(BuildErrorCode.INVALID_IR, why, (*path, "inputs", name, index))
    axes = {} if job.matrix is None else job.matrix.axes
    for axis, values in (condition.matrix or {}).items():
        if axis not in axes:
            message = f"unknown axis {quoted(axis)}{nearest(axis, axes)}"
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "matrix", axis))
            continue
        for index, value in enumerate(values):
            if value not in axes[axis]:
                message = f"the axis {quoted(axis)} has no value {quoted(value)}{nearest(value, axes[axis])}"
                yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "matrix", axis, index))
    if condition.not_ is not None:
        yield from _of_condition(job, condition.not_, (*path, "not"), inputs)


def _of_no_build(condition: Condition, path: _Path) -> Iterator[Fault]:
    """Yield the mistake of keys that hold together for no build: every build would skip the job."""
    if condition.branch is not None and condition.tag is not None:
        message = 'no build has a tag and a branch, and keys mean all of them: it never holds beside "branch"'
        yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "tag"))
        return
    for key, possible in _EVENTS_WITH.items():
        if getattr(condition, key) is not None and condition.event and possible.isdisjoint(condition.event):
            message = f'no build for {" or ".join(map(quoted, condition.event))} has one: it never holds beside "event"'
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, key))


def _of_cycle(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the first cycle of several jobs; one job that needs itself is found elsewhere."""
    done: set[str] = set()
    for start in pipeline.jobs:
        ahead: list[tuple[str, Iterator[str]]] = [(start, iter(_before(pipeline, start)))] if start not in done else []
        trail = [start]
        while ahead:
            key, before = ahead[-1]
            following = next(before, None)
            if following is None:
                done.add(key)
                ahead.pop()
                trail.pop()
            elif following in trail:
                cycle = [*trail[trail.index(following) :], following][::-1]
                names = " -> ".join(map(quoted, cycle))
                yield Fault(BuildErrorCode.CYCLE, f"dependency cycle through {names}", ("jobs", cycle[-1]))
                return
            elif following not in done:
                ahead.append((following, iter(_before(pipeline, following))))
                trail.append(following)


def in_order(pipeline: Pipeline) -> list[str]:
    """Return the keys of jobs in the order of the file, but each after its dependencies. Raises IrError."""
    places = {key: place for place, key in enumerate(pipeline.jobs)}
    depends_on = [
        tuple(Dependency(place) for place in sorted({places[each] for each in _before(pipeline, key)}))
        for key in places
    ]
    keys = list(places)
    return [keys[place] for place in topological(keys, depends_on)]


def _before(pipeline: Pipeline, key: str) -> list[str]:
    job = pipeline.jobs[key]
    names = [*([] if job.from_ is None else [job.from_]), *(job.needs or ()), *(job.files or ())]
    return [name for name in names if name in pipeline.jobs and name != key]


def faults_of_texts(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the unknown names in texts, and names where they are not replaced."""
    of_build = [*(f"build.{name}" for name in NAMED), *(f"{_INPUTS}{name}" for name in pipeline.inputs)]
    left = _MOST_NAMES
    for path, text, known in _texts_with_names(pipeline, of_build):
        left -= text.count("${{")
        if left < 0:
            yield Fault(BuildErrorCode.INVALID_IR, f"expected at most {_MOST_NAMES} names in texts", path)
            return
        yield from _of_names(path, _key_of(path), text, known)


def _key_of(path: _Path) -> object:
    """Return the key whose text is at a path: of `env` and `defaults`, of a job, or of a service."""
    if path[0] == "env":
        return path[0]
    of_job = path[2:] if path[0] == "jobs" else path[1:]
    return of_job[2] if of_job[0] == _SERVICES else of_job[0]


def _texts_with_names(pipeline: Pipeline, of_build: list[str]) -> Iterator[tuple[_Path, str, list[str]]]:
    """Yield the texts in which a name begins, with their paths and the names that are known there."""
    for place in ("env", "defaults"):
        for path, text in _texts(getattr(pipeline, place), (place,)):
            if has_names(text):
                yield path, text, of_build
    for key, job in pipeline.jobs.items():
        known = [*matrix_values(job), *of_build]
        for path, text in _texts(job, ("jobs", key)):
            if has_names(text):
                yield path, text, known


def _of_names(path: _Path, key: object, text: str, known: list[str]) -> Iterator[Fault]:
    """Yield the mistakes of the names in a text, which is a part of the value of a key."""
    if key in _WITHOUT_NAMES:
        messages = [f"names in text are not replaced here: {each}" for each in unknown_names(text, ())]
    else:
        messages = unknown_names(text, known)
        for name in names_in(text) if key in _OF_COMMANDS else ():
            if name in _OF_STRANGERS:
                messages.append(_instead_of(name, _OF_STRANGERS[name]))
            elif name.startswith(_INPUTS) and name in known:
                messages.append(_instead_of(name, variable_of(name.removeprefix(_INPUTS))))
    yield from (Fault(BuildErrorCode.INVALID_IR, each, path) for each in messages)


def _instead_of(name: str, variable: str | None) -> str:
    if variable is None:
        return f"{quoted(name)} must not be part of a command: put it into a variable of env"
    return f'{quoted(name)} is what a stranger may choose, and must not become a command: write "${variable}"'


def _texts(value: object, path: _Path) -> Iterator[tuple[_Path, str]]:
    """Yield all texts in a part of the model, with their paths."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _texts(getattr(value, name), (*path, field.alias or name))
        yield from _texts(value.model_extra, path)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, (*path, index))
