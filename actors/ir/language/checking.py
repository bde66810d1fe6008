"""The check of a document against the model: all mistakes at once, each with its path. Pure."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from actors.ir.built import NAMED
from actors.ir.decoding import Fault, IrError, quoted
from actors.ir.language.beside import ALONE
from actors.ir.language.expansion import MOST_COMBINATIONS, cells_of, combinations_of, matrix_values
from actors.ir.language.inputs import misfit, variable_of
from actors.ir.language.model import Common, Condition, Input, Job, JobFile, Pipeline
from actors.ir.language.names import has_names, names_in, nearest, unknown_names
from actors.ir.language.workspaces import Workspaces
from actors.ir.language.yaml_text import MOST_VALUES
from actors.ir.planning import topological
from storage import BuildErrorCode, Dependency

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

    from actors.ir.language.beside import Beside, KnownJob

_Path = tuple[str | int, ...]
_Model = TypeVar("_Model", bound=BaseModel)

_MOST_FAULTS = 100
_MOST_SHOWN = 5
_MOST_ROUNDS = 20
_MOST_NAMES = 10_000
_KEY = "[key]"
EXTENSION = "x-"
"""The beginning of keys that mean nothing here."""

_EXPECTED = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
}
"""The values that pydantic's kinds of errors ask for."""

_MESSAGES = {
    "too_short": "expected at least one",
    "too_long": "expected at most {max_length}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_pattern_mismatch": "expected a name of a-z, 0-9 and -",
    "language": "{message}",
}
"""The messages of others of its errors."""

_OTHER_WORDS = {
    "script": "run",
    "commands": "run",
    "command": "run",
    "steps": "jobs",
    "cmd": "run",
    "environment": "env",
    "variables": "env",
    "depends_on": "needs",
    "builds_in": "from",
    "cwd": "working_directory",
    "workdir": "working_directory",
    "timeout_seconds": "timeout",
    "timeout-minutes": "timeout",
    "memory_gb": "memory",
    "disk_gb": "disk",
    "allow_failure": "soft_fail",
    "continue-on-error": "soft_fail",
    "label": "name",
    "strategy": "matrix",
    "triggers": "on",
    "uses": "use",
    "extends": "use",
}
"""Words of other systems, and of the other languages, for what is said here in another way."""

_WITHOUT_NAMES = frozenset(
    {"matrix", "needs", "from", "files", "files_of", "when", "cache", "keep", "gate", "identity"}
)
"""The keys of a job in whose texts no names are replaced."""

_OF_COMMANDS = frozenset({"run", "shell", "command", "ready", "files"})
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

_INPUTS = "inputs."
"""The beginning of the names of inputs in texts."""


def check(document: object, beside: Beside = ALONE) -> Pipeline:
    """Return the pipeline that a document describes, in which every reference holds.

    It may refer to the jobs ``beside`` it, too. Raises IrError with all mistakes; their paths lead into the document.
    """
    if not isinstance(document, dict):
        raise refusal([Fault(BuildErrorCode.INVALID_IR, "expected a mapping with jobs")])
    if _values_in(document) > MOST_VALUES:
        raise refusal([Fault(BuildErrorCode.INVALID_IR, f"expected at most {MOST_VALUES} values")])
    known = {name: value for name, value in document.items() if not str(name).startswith(EXTENSION)}
    pipeline, faults = _validated(known, Pipeline)
    if pipeline is not None:
        commandless = _commandless(pipeline, known)
        faults += islice(_of_commands(pipeline, commandless, tuple(faults)), _MOST_FAULTS)
        whole = {key: job for key, job in pipeline.jobs.items() if key not in commandless}
        pipeline = pipeline.model_copy(update={"jobs": whole})
        jobs = known.get("jobs")
        names = dict.fromkeys(map(str, jobs)) if isinstance(jobs, dict) else {}
        names |= dict.fromkeys(beside.by_name)
        faults += islice(_of_references(pipeline, names, beside), _MOST_FAULTS)
        faults += islice(_of_texts(pipeline), _MOST_FAULTS)
    if faults or pipeline is None:
        raise refusal(faults)
    return pipeline


def checked_inputs(declared: object) -> tuple[Mapping[str, Input], list[Fault]]:
    """Return the inputs that a file of a job declares, and the mistakes in them, by paths in it."""
    if declared is None:
        return {}, []
    file, faults = _validated({"inputs": declared}, JobFile)
    inputs = {} if file is None else file.inputs or {}
    return inputs, [*faults, *_of_declarations(inputs, ("inputs",))]


def _commandless(pipeline: Pipeline, document: Mapping[str, Any]) -> set[str]:
    """Return the jobs that have no command, and take over none."""
    written = document["jobs"]
    return {key for key, job in pipeline.jobs.items() if {"run", "use"}.isdisjoint(written[key]) and not job.entrypoint}


def _of_commands(pipeline: Pipeline, commandless: Collection[str], faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield the jobs without a command, unless a misspelled key has it, and values that none takes."""
    misspelled = {each.path[:2] for each in faults if each.message.endswith('did you mean "run"?')}
    for key, job in pipeline.jobs.items():
        if key in commandless and ("jobs", key) not in misspelled:
            yield Fault(BuildErrorCode.INVALID_IR, 'it needs "run"', ("jobs", key, "run"))
        if job.entrypoint:
            yield from _of_entry_point(key, job)
        if job.use is None and job.with_ is not None:
            yield Fault(BuildErrorCode.INVALID_IR, 'it has no effect without "use"', ("jobs", key, "with"))


def _of_entry_point(key: str, job: Job) -> Iterator[Fault]:
    """Yield the keys that say nothing of a job that runs its image's program."""
    for name, value in (("run", job.run or None), ("shell", job.shell), ("working_directory", job.working_directory)):
        if value is not None:
            message = 'it has no effect beside "entrypoint", which runs the program of the image'
            yield Fault(BuildErrorCode.INVALID_IR, message, ("jobs", key, name))
    if job.from_ is not None:
        message = "it is that of an image: the job starts from a disk"
        yield Fault(BuildErrorCode.INVALID_IR, message, ("jobs", key, "entrypoint"))


def _values_in(document: object) -> int:
    """Count the values in a document, up to some more than are allowed."""
    count, ahead = 0, [document]
    while ahead and count <= MOST_VALUES:
        value = ahead.pop()
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inside)
        ahead += (each for each in inside if isinstance(each, dict | list))
    return count


def refusal(faults: Iterable[Fault]) -> IrError:
    """Return the error of a document with mistakes, each of which gets its path into its message."""
    found = tuple(replace(each, message=f"{_in_words(each.path)}{each.message}") for each in dict.fromkeys(faults))
    found = found[:_MOST_FAULTS]
    shown = "; ".join(each.message for each in found[:_MOST_SHOWN])
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return IrError(found[0].code, f"{shown}{more}", found)


def _in_words(path: _Path) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{parts.removeprefix('.')}: " if parts else ""


def _validated(document: Mapping[str, Any], model: type[_Model]) -> tuple[_Model | None, list[Fault]]:
    """Return what a document says without its mistakes, and these.

    A value at fault is left out, and the rest is looked at again, so that mistakes in what refers to it are found, too.
    """
    faults: list[Fault] = []
    rest: Any = document
    for _ in range(_MOST_ROUNDS):
        try:
            return model.model_validate(rest), faults
        except ValidationError as error:
            details = error.errors(include_url=False)
        if rest is document:
            faults = list(_told_once(details[:_MOST_FAULTS], document, model))
            if len(details) > _MOST_FAULTS:
                break
            rest = deepcopy(dict(document))
        for path in sorted({_known_part(each) for each in details}, key=_from_the_end, reverse=True):
            _leave_out(rest, path)
    return None, faults


def _told_once(details: Iterable[ErrorDetails], document: object, model: type[BaseModel]) -> Iterator[Fault]:
    """Yield the faults of mistakes, without keys that are missing for being misspelled beside."""
    found = [(each["type"], _fault(each, document, model)) for each in details]
    unknown = [(fault.path[:-1], fault.message) for kind, fault in found if kind == "extra_forbidden"]
    for kind, fault in found:
        meant = f"did you mean {quoted(str(fault.path[-1]))}?" if fault.path else ""
        if kind != "missing" or not any(path == fault.path[:-1] and text.endswith(meant) for path, text in unknown):
            yield fault


def _from_the_end(path: _Path) -> list[tuple[bool, int, str]]:
    return [(isinstance(part, int), part if isinstance(part, int) else 0, str(part)) for part in path]


def _location(details: ErrorDetails) -> _Path:
    """Return the path of a mistake; pydantic marks one of a key by a last part of its own."""
    path = details["loc"]
    return path[:-1] if path and path[-1] == _KEY else path


def _known_part(details: ErrorDetails) -> _Path:
    """Return the path to leave out because of a mistake: where a value is missing, its parent's."""
    path = _location(details)
    return path[:-1] if details["type"] == "missing" and len(path) > 1 else path


def _leave_out(document: Any, path: _Path) -> None:  # noqa: ANN401 - a document
    """Remove the value at a path, or what is nearest around it."""
    places = [document]
    for part in path:
        here = places[-1]
        inside = part in here if isinstance(here, dict) else isinstance(here, list) and part in range(len(here))
        if not inside:
            break
        places.append(here[part])
    if len(places) > 1:
        del places[-2][path[len(places) - 2]]


def _fault(details: ErrorDetails, document: object, model: type[BaseModel]) -> Fault:
    path = _location(details)
    return Fault(BuildErrorCode.INVALID_IR, _message(details, path, document, model), path)


def _message(details: ErrorDetails, path: _Path, document: object, model: type[BaseModel]) -> str:
    kind = details["type"]
    if kind == "extra_forbidden":
        return _of_unknown_key(str(path[-1]), _model_at(path[:-1], model))
    if kind == "missing":
        return f"it needs {quoted(str(path[-1]))}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {quoted(_at(document, path))}"
    return _MESSAGES.get(kind, details["msg"]).format(**details.get("ctx", {}))


def _of_unknown_key(name: str, model: type[BaseModel] | None) -> str:
    known = [] if model is None else [field.alias or key for key, field in model.model_fields.items()]
    other = _OTHER_WORDS.get(name)
    if other in known:
        return f"unknown key {quoted(name)}: did you mean {quoted(other)}?"
    hint = nearest(name, known) if name.isprintable() else ""
    return f"unknown key {quoted(name)}{hint}"


def _model_at(path: _Path, model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model of the mapping at a path in a model; None if there is none."""
    annotation: Any = model
    for part in path:
        annotation = _inside(annotation, part)
    return _model_in(annotation)


def _inside(annotation: Any, part: str | int) -> Any:  # noqa: ANN401 - types
    """Return the type of what is inside a value: of an item, of a mapping's value, or of a field."""
    if isinstance(part, int) or (values := _values_in_mapping(annotation)) is not None:
        return annotation if isinstance(part, int) else values
    model = _model_in(annotation)
    fields = {} if model is None else {field.alias or key: field for key, field in model.model_fields.items()}
    return fields[part].annotation if part in fields else None


def _values_in_mapping(annotation: Any) -> Any:  # noqa: ANN401 - types
    """Return the type of the values of a mapping that is no model; None if it is another type."""
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    inner = getattr(annotation, "__args__", ())
    return next((found for each in inner if (found := _values_in_mapping(each)) is not None), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - a type
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    inner = getattr(annotation, "__args__", ())
    return next((found for each in inner if (found := _model_in(each)) is not None), None)


def _at(value: object, path: _Path) -> object:
    for part in path:
        match value, part:
            case dict(), str():
                value = value.get(part)
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return None
    return value


def _of_references(pipeline: Pipeline, names: Mapping[str, None], beside: Beside) -> Iterator[Fault]:
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
        if job.when is not None and job.when.status == "failed" and not (job.needs or job.from_ or job.files):
            message = '"failed" is about what the job needs: name that in "needs"'
            yield Fault(BuildErrorCode.INVALID_IR, message, (*path, "when", "status"))
    yield from _of_taken(pipeline, beside)
    if pipeline.defaults is not None:
        yield from _of_services(pipeline.defaults, ("defaults",))
    yield from (list(_of_cycle(pipeline)) or workspaces_of(pipeline).faults()) if few else _of_cycle(pipeline)
    yield from _of_inputs(pipeline)


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
    jobs = {key: with_defaults(job, pipeline.defaults) for key, job in pipeline.jobs.items()}
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
    yield from _of_declarations(pipeline.inputs, place)
    places = [(("env",), pipeline.env), (("defaults", "env"), pipeline.defaults and pipeline.defaults.env)]
    places += [(("jobs", key, "env"), job.env) for key, job in pipeline.jobs.items()]
    for path, env in places:
        for variable in (env or {}) if seen else ():
            if variable in seen:
                message = f"it has no effect: the variable is that of the input {quoted(seen[variable])}"
                yield Fault(BuildErrorCode.INVALID_IR, message, (*path, variable))


def _of_declarations(inputs: Mapping[str, Input], place: _Path) -> Iterator[Fault]:
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
    """Yield the jobs whose files a job takes, and which keep none."""
    for name in job.files or ():
        of = pipeline.jobs.get(name)
        if of is None:
            keeps_none = name in known and not any(each.keeps_files for each in known[name])
        else:
            keeps_none = of.use is None and not with_defaults(of, pipeline.defaults).artifacts
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
    """Yield the mistakes in what a condition says of the axes of a job, and of the inputs."""
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


def _of_cycle(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the first cycle of jobs that need each other; one of a single job is told by itself."""
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
    """Return the keys of jobs, each after what it depends on, else as they stand. Raises IrError."""
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


def _of_texts(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the unknown names in texts, and those that must not stand where they do."""
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


def with_defaults(job: Job, defaults: Common | None) -> Job:
    """Return a job with the defaults of its pipeline; a job that starts from a disk takes no image."""
    if defaults is None:
        return job
    given = {name: getattr(defaults, name) for name in defaults.model_fields_set}
    if job.from_ is not None:
        given.pop("image", None)
    more = {name: value for name, value in given.items() if name not in job.model_fields_set}
    if defaults.env and job.env:
        more["env"] = {**defaults.env, **job.env}
    return job.model_copy(update=more)
