"""The jobs of other files: `use` takes over the keys of a file, with values of its inputs. Pure.

That happens before a document is checked, so that all rules are of the job as it will be: a value that a stranger may
choose is refused in the command of a used job, too. What a render leaves has no `use`, and needs no other file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from actors.ir.decoding import Fault, quoted
from actors.ir.language.checking import EXTENSION, checked_inputs, refusal
from actors.ir.language.inputs import default_of, misfit
from actors.ir.language.names import nearest
from actors.ir.language.scalars import JobFileName, Plain, is_null, spelled
from actors.ir.language.yaml_text import MAX_BYTES, MOST_VALUES, Document, FileInvalid, Mark, Mistake, Path, read_file
from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.ir.language.model import Input

_USE, _WITH, _INPUTS = "use", "with", "inputs"
_NAME = re.compile(r"\$\{\{\s*with\.([A-Za-z0-9_-]+)\s*\}\}")
_MOST_CHARS = 4 * MAX_BYTES
"""The most characters that all used jobs of a pipeline may come to."""


@immutable
class JobFileText:
    """The text of a file of a job, and the name for its mistakes; or ``refused``, why there is none."""

    name: str
    text: str = ""
    refused: str | None = None


@immutable
class _Template:
    """A job as its file declares it, and the inputs that it takes."""

    name: str
    document: Document
    inputs: Mapping[str, Input]

    @classmethod
    def parse(cls, file: JobFileText) -> _Template:
        """Return the job of a file. Raises FileInvalid."""
        document, mistakes = read_file(file.name, file.text)
        value = document.value
        if not isinstance(value, dict):
            mistakes.append(Mistake.at(file.name, Mark(1, 1), "expected a mapping with the keys of a job"))
            raise FileInvalid(mistakes)
        faults = [
            Fault(BuildErrorCode.INVALID_IR, "a job that others use cannot use another one", (key,))
            for key in (_USE, _WITH)
            if key in value
        ]
        inputs, found = checked_inputs(value.get(_INPUTS))
        faults += found
        if faults:
            mistakes += (Mistake.of(file.name, document, each) for each in refusal(faults).faults)
        if mistakes:
            raise FileInvalid(mistakes)
        return cls(file.name, document, inputs)

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of the job."""
        value: Any = self.document.value
        return {key: each for key, each in value.items() if key != _INPUTS and not key.startswith(EXTENSION)}


def used_files(document: Document) -> Iterator[str]:
    """Yield the names of the files that jobs of a document use, as written; wrong ones are left out."""
    for _, job in _jobs(document):
        name = job.get(_USE)
        if isinstance(name, str):
            try:
                JobFileName.parse(name)
            except ValueError:
                continue
            yield str(name)


def _jobs(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    value: Any = document.value
    jobs = value.get("jobs") if isinstance(value, dict) else None
    for key, job in jobs.items() if isinstance(jobs, dict) else ():
        if isinstance(job, dict):
            yield key, job


def taken_over(name: str, document: Document, files: Mapping[str, JobFileText]) -> tuple[Document, list[Mistake]]:
    """Return a document whose jobs have the keys of the files that they use, and the mistakes in that.

    ``files`` are by the names that `used_files` yields. A job whose file or values have mistakes stays as it is.
    """
    taking = _Taking(document, files)
    for key, job in _jobs(document):
        if isinstance(job.get(_USE), str) and str(job[_USE]) in files:
            taking.take(key, job)
    if not taking.jobs and not taking.faults and not taking.mistakes:
        return document, []
    mistakes = [*taking.mistakes]
    if taking.faults:
        mistakes += (Mistake.of(name, document, each) for each in refusal(taking.faults).faults)
    value: Any = document.value
    jobs = {key: taking.jobs.get(key, job) for key, job in value["jobs"].items()}
    return Document({**value, "jobs": jobs}, {**document.marks, **taking.marks}), mistakes


class _Taking:
    """The jobs of a document that take over others, up to a size; each file is read once."""

    def __init__(self, document: Document, files: Mapping[str, JobFileText]) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.marks: dict[Path, Mark] = {}
        self.faults: list[Fault] = []
        self.mistakes: list[Mistake] = []
        self._own_marks = document.marks
        self._files = files
        self._templates: dict[str, _Template | None] = {}
        self._chars = _MOST_CHARS
        self._values = MOST_VALUES

    def take(self, key: str, job: dict[str, Any]) -> None:
        """Give a job the keys of its file."""
        path, template = ("jobs", key), self._template(str(job[_USE]), ("jobs", key, _USE))
        if template is None or self._is_full(path):
            return
        faults = len(self.faults)
        values = self._given(template, job.get(_WITH), path)
        if len(self.faults) > faults:
            return
        keys = template.keys
        own = {name: each for name, each in job.items() if name not in {_USE, _WITH}}
        if "from" in own:
            keys.pop("image", None)
        taken = {name: self._copied(each, values, template, (name,)) for name, each in keys.items()}
        if self._is_full(path):
            return
        marks = {(*path, *place): mark for place, mark in template.document.marks.items() if place}
        env = taken.get("env")
        if isinstance(env, dict) and isinstance(own.get("env"), dict):
            own["env"] = {**env, **own["env"]}
        self.jobs[key] = {**taken, **own}
        self.marks |= {
            place: Mark(mark.line, mark.column, template.name)
            for place, mark in marks.items()
            if place not in self._own_marks
        }

    def _template(self, use: str, path: Path) -> _Template | None:
        file = self._files[use]
        if file.refused is not None:
            self._add(file.refused, path)
            return None
        if use not in self._templates:
            self._templates[use] = None
            try:
                self._templates[use] = _Template.parse(file)
            except FileInvalid as error:
                self.mistakes += error.mistakes
        return self._templates[use]

    def _given(self, template: _Template, given: object, path: Path) -> dict[str, str]:
        """Return the values of a file's inputs."""
        if given is not None and not is_null(given) and not isinstance(given, dict):
            self._add(f"expected a mapping, got {quoted(given)}", (*path, _WITH))
        values = given if isinstance(given, dict) else {}
        for name in values:
            if name not in template.inputs:
                hint = nearest(name, template.inputs) if template.inputs else f": {template.name} declares none"
                self._add(f"unknown input {quoted(name)}{hint}", (*path, _WITH, name))
        return {name: self._value(name, each, values, path) for name, each in template.inputs.items()}

    def _value(self, name: str, declared: Input, given: Mapping[str, object], path: Path) -> str:
        if name not in given:
            if declared.required and declared.default is None:
                self._add(f"the job needs the input {quoted(name)}", (*path, _USE))
            return default_of(declared)
        try:
            value = spelled(given[name])
        except PydanticCustomError as error:
            self._add(error.message(), (*path, _WITH, name))
            return default_of(declared)
        if (why := misfit(declared, value)) is not None:
            self._add(why, (*path, _WITH, name))
        return value

    def _copied(self, value: object, given: Mapping[str, str], template: _Template, path: Path) -> object:
        """Return a part of a file with the names of its inputs replaced."""
        self._values -= 1
        if self._chars < 0 or self._values < 0:
            return value
        match value:
            case str():
                found = self._replaced(value, given, template, path)
                self._chars -= len(found)
                return found
            case dict():
                return {key: self._copied(each, given, template, (*path, key)) for key, each in value.items()}
            case list():
                return [self._copied(each, given, template, (*path, place)) for place, each in enumerate(value)]
            case _:
                return value

    def _replaced(self, text: str, given: Mapping[str, str], template: _Template, path: Path) -> str:
        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if name in given:
                return given[name]
            hint = nearest(name, given) if given else ': the file declares no "inputs"'
            mark = template.document.mark(path)
            self.mistakes.append(Mistake.at(template.name, mark, f"unknown name {quoted(f'with.{name}')}{hint}"))
            return ""

        found = _NAME.sub(value_of, text)
        return Plain(found) if isinstance(text, Plain) else found

    def _is_full(self, path: Path) -> bool:
        if self._chars >= 0 and self._values >= 0:
            return False
        message = f"the used jobs come to more than {_MOST_CHARS >> 10} KiB, or {MOST_VALUES} values"
        self._add(message, (*path, _USE))
        return True

    def _add(self, message: str, path: Path) -> None:
        self.faults.append(Fault(BuildErrorCode.INVALID_IR, message, path))
