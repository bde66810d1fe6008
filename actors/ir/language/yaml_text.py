"""YAML as values with the lines and columns that they stand on, and the mistakes of files there. Pure.

Files come from strangers: size, depth and what aliases stand for are bounded. It reads YAML 1.2: scalars keep their
spelling, see `scalars`. Merge keys and anchors work, and no tag makes an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import yaml

from actors.ir.decoding import quoted
from actors.ir.language.scalars import Plain
from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yaml import _yaml

    from actors.ir.decoding import Fault


MAX_BYTES = 256 << 10
"""The most bytes of a file."""

MOST_VALUES = 100_000
"""The most values of a document, with what its aliases stand for."""

_MAX_DEPTH = 40
_KINDS = ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in _KINDS)
"""The tags that a value has without writing one."""

_MERGE = "<<"
_PLAIN = frozenset({None, ""})

Path: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = "str | list[Value] | dict[str, Value]"


@immutable
class Mark:
    """A place in a file; lines and columns count from 1. ``file`` is named if it is another one."""

    line: int
    column: int
    file: str = ""


class NotYaml(Exception):
    """A text is not YAML, or none that is read. The message says why."""

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.mark = mark


class Document:
    """A YAML document: its value, and the place of each key and item.

    ``repeated`` are the keys that stand twice in a mapping, of which the first counts.
    """

    def __init__(self, value: Value, marks: dict[Path, Mark], repeated: tuple[tuple[str, Mark], ...] = ()) -> None:
        self.value = value
        self.repeated = repeated
        self.marks = marks

    def mark(self, path: Path) -> Mark:
        """Return the place of what a path leads to, or of the nearest thing around it."""
        for end in range(len(path), -1, -1):
            if (found := self.marks.get(path[:end])) is not None:
                return found
        return Mark(1, 1)


_IN_WORDS = {
    "mapping values are not allowed in this context": (
        'a ": " begins a mapping, which cannot be here: quote the text, or put it behind `|` on lines of its own'
    ),
    "found character that cannot start any token": (
        "no value begins with this character: indent by spaces, not tabs, and quote text that begins with it"
    ),
}
"""Words of the library for the two usual mistakes, and words that say what to do."""


def read_yaml(text: str) -> Document:
    """Return the document of a text. Raises NotYaml."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        message = f"the file has more than {MAX_BYTES >> 10} KiB"
        raise NotYaml(message)
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "it is not YAML").removeprefix("but ")
        raise NotYaml(_IN_WORDS.get(problem, problem), None if mark is None else _mark(mark)) from None
    except (yaml.YAMLError, ValueError) as error:
        message = f"it is not YAML: {str(error).splitlines()[0]}"
        raise NotYaml(message) from None
    if node is None:
        message = "the file is empty"
        raise NotYaml(message)
    reader = _Reader()
    return Document(reader.value(node, (), 0), reader.marks, tuple(reader.repeated))


def _check_events(text: str) -> None:
    """Refuse what is nested deeply, or has several documents, before anything recurses into it."""
    depth = documents = 0
    for event in _events(text):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        mark = None if event.start_mark is None else _mark(event.start_mark)
        if depth > _MAX_DEPTH:
            message = f"nested more than {_MAX_DEPTH} levels deep"
            raise NotYaml(message, mark)
        if documents > 1:
            message = "another document begins here: a file has one pipeline"
            raise NotYaml(message, mark)


def _events(text: str) -> Iterator[yaml.Event]:
    yield from yaml.parse(text, Loader=yaml.CSafeLoader)


def _mark(mark: yaml.Mark | _yaml.Mark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _scalar(node: yaml.ScalarNode) -> str:
    return Plain(node.value) if node.style in _PLAIN else str(node.value)


class _Reader:
    """Converts the nodes of one document, each alias anew, up to a number of values."""

    def __init__(self) -> None:
        self.marks: dict[Path, Mark] = {}
        self.repeated: dict[tuple[str, Mark], None] = {}
        self._values = 0

    def value(self, node: yaml.Node, path: Path, depth: int) -> Value:
        self._values += 1
        if self._values > MOST_VALUES or depth > _MAX_DEPTH:
            message = "aliases expand to too much"
            raise NotYaml(message, _mark(node.start_mark))
        if node.tag not in _TAGS:
            message = f"the tag {quoted(node.tag)} means nothing here"
            raise NotYaml(message, _mark(node.start_mark))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(each, (*path, index), depth + 1) for index, each in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - there are three kinds
        return _scalar(node)

    def _item(self, node: yaml.Node, path: Path, depth: int) -> Value:
        self.marks[path] = _mark(node.start_mark)
        return self.value(node, path, depth)

    def _mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> dict[str, Value]:
        """Return the members; those of ``<<`` come before the mapping's own, which win."""
        own: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        for key, value in node.value:
            mark = _mark(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                message = "expected a key, and there is a list or a mapping"
                raise NotYaml(message, mark)
            name = str(_scalar(key))
            if name == _MERGE and key.style in _PLAIN:
                for each in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                    if not isinstance(each, yaml.MappingNode):
                        message = '"<<" merges mappings, and this is none'
                        raise NotYaml(message, _mark(each.start_mark))
                    found = self._mapping(each, path, depth + 1)
                    merged = {**found, **merged}
                continue
            if name in own:
                self.repeated[name, mark] = None
                self.value(value, (*path, f"{name} again"), depth + 1)  # it counts, and may have mistakes of its own
                continue
            self.marks[(*path, name)] = mark
            own[name] = self.value(value, (*path, name), depth + 1)
        return {**merged, **own} if merged else own


@immutable
class Mistake:
    """A mistake in a file, with its line and column."""

    file: str
    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"

    @classmethod
    def at(cls, file: str, mark: Mark, message: str, code: str = BuildErrorCode.INVALID_IR) -> Mistake:
        """Return the mistake at a place, which may be of another file that this one uses."""
        return cls(mark.file or file, mark.line, mark.column, code, message)

    @classmethod
    def of(cls, file: str, document: Document, fault: Fault) -> Mistake:
        """Return the fault of a file's document."""
        return cls.at(file, document.mark(fault.path), fault.message, fault.code)


class FileInvalid(Exception):
    """A file describes no pipeline; ``mistakes`` are in the order of its lines."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(dict.fromkeys(mistakes), key=lambda each: (each.file, each.line, each.column)))
        super().__init__("\n".join(map(str, self.mistakes)))


def read_file(name: str, text: str) -> tuple[Document, list[Mistake]]:
    """Return the document of a file, and the keys that stand twice. Raises FileInvalid."""
    try:
        document = read_yaml(text)
    except NotYaml as error:
        raise FileInvalid([Mistake.at(name, error.mark or Mark(1, 1), error.message)]) from None
    return document, [
        Mistake.at(name, mark, f"the key {quoted(key)} stands twice here") for key, mark in document.repeated
    ]
