"""The check of a document against the model: all mistakes at once, each with its path. Pure."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from actors.ir.decoding import Fault, IrError, quoted
from actors.ir.language.beside import ALONE
from actors.ir.language.model import Input, Job, JobFile, Pipeline
from actors.ir.language.names import nearest
from actors.ir.language.references import faults_of_inputs, faults_of_references, faults_of_texts
from actors.ir.language.yaml_text import MOST_VALUES
from storage import BuildErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

    from actors.ir.language.beside import Beside

_Path = tuple[str | int, ...]
_Model = TypeVar("_Model", bound=BaseModel)

_MOST_FAULTS = 100
_MOST_SHOWN = 5
_MOST_ROUNDS = 20
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
        faults += islice(faults_of_references(pipeline, names, beside), _MOST_FAULTS)
        faults += islice(faults_of_texts(pipeline), _MOST_FAULTS)
    if faults or pipeline is None:
        raise refusal(faults)
    return pipeline


def checked_inputs(declared: object) -> tuple[Mapping[str, Input], list[Fault]]:
    """Return the inputs that a file of a job declares, and the mistakes in them, by paths in it."""
    if declared is None:
        return {}, []
    file, faults = _validated({"inputs": declared}, JobFile)
    inputs = {} if file is None else file.inputs or {}
    return inputs, [*faults, *faults_of_inputs(inputs, ("inputs",))]


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
