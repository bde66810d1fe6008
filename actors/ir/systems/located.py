"""YAML values with the lines that they stand on. Pure.

Files come from strangers: no tag makes an object, and size, depth and what aliases expand to are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import yaml

from storage import immutable

MAX_BYTES = 512 * 1024
"""The most bytes of a file that are read."""

_MAX_DEPTH = 40
_MAX_VALUES = 50_000
_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,14})|-?(0|[1-9][0-9]{0,9})\.[0-9]{1,5}")
"""Numbers that mean the same in all versions of YAML."""

_LIKE_A_NUMBER = re.compile(
    r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?0[box][0-9a-fA-F_]+"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
"""Texts that some version of YAML takes for a number."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PLAIN = "tag:yaml.org,2002:"

Content: TypeAlias = "bool | int | float | str | tuple[Located, ...] | Mapping[str, Located] | None"


class NotReadable(Exception):
    """A file cannot be read, or is none that is converted; the message has the line."""


@immutable
class Located:
    """A value, its line, and its file, if that is another than the one that was given.

    ``tag`` is a tag of the file's own, such as ``!reference``. ``odd`` marks a number that systems read differently.
    """

    line: int
    value: Content
    tag: str | None = None
    file: str | None = None
    odd: bool = False

    def mapping(self) -> Mapping[str, Located]:
        """Return its members; none if it is no mapping."""
        return self.value if isinstance(self.value, Mapping) else {}

    def items(self) -> tuple[Located, ...]:
        """Return its items; of a single value that one, and of null none."""
        if isinstance(self.value, tuple):
            return self.value
        return () if self.value is None else (self,)

    def get(self, *path: str) -> Located:
        """Return the member at a path of names, or an empty value."""
        found = self
        for name in path:
            found = found.mapping().get(name, EMPTY)
        return found

    def with_value(self, value: Content) -> Located:
        """Return another value at the same place."""
        return Located(self.line, value, None, self.file)

    @property
    def text(self) -> str | None:
        """Its text, if it is a string."""
        return self.value if isinstance(self.value, str) and not self.odd else None

    @property
    def is_off(self) -> bool:
        """Tell whether it is false, or not there."""
        return self.value is None or self.value is False

    @property
    def scalar(self) -> str | None:
        """The text of a string, a number or a truth value, as GitLab prints it; None of anything else."""
        match self.value:
            case bool():
                return "true" if self.value else "false"
            case int() | float():
                return str(self.value)
            case _:
                return self.text

    @property
    def number_or_text(self) -> str | None:
        """The same as GitHub prints it: a number has no zeros at the end, 3.0 is 3."""
        if isinstance(self.value, float) and self.value.is_integer():
            return str(int(self.value))
        return self.scalar

    def has_tags(self) -> bool:
        """Tell whether a tag of the file's own is anywhere in it."""
        children = self.value.values() if isinstance(self.value, Mapping) else self.items()
        return self.tag is not None or any(each is not self and each.has_tags() for each in children)

    def texts(self) -> tuple[str, ...] | None:
        """Return its items if all are strings, else None."""
        found = [each.text for each in self.items()]
        return tuple(each for each in found if each is not None) if None not in found else None


EMPTY = Located(0, None)


def read(text: str, file: str | None = None) -> Located:
    """Return the document of a YAML text. ``file`` is put into its values. Raises NotReadable."""
    return next(iter(read_all(text, file, most=1)), EMPTY)


def read_all(text: str, file: str | None = None, *, most: int) -> tuple[Located, ...]:
    """Return the documents of a YAML text, at most so many. Raises NotReadable."""
    if len(text) > MAX_BYTES:
        message = f"it has more than {MAX_BYTES >> 10} KiB"
        raise NotReadable(message)
    try:
        loader = _Loader(text)
        try:
            nodes: list[yaml.Node | None] = []
            while loader.check_node():
                if len(nodes) == most:
                    mark = loader.peek_event().start_mark  # type: ignore[no-untyped-call] # PyYAML's stubs leave it open
                    line = 0 if mark is None else mark.line + 1
                    what = "only files of one" if most == 1 else f"only the first {most}"
                    message = f"line {line}: another document begins here: {what} are converted"
                    raise NotReadable(message)
                nodes.append(loader.get_node())
            reader = _Reader(loader, file)
            return tuple(EMPTY if node is None else reader.located(node, 0) for node in nodes)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}: "
        problem = (error.problem or error.context or "it is not YAML").removeprefix("but ")
        message = f"{where}{problem}"
        raise NotReadable(message) from error
    except (yaml.YAMLError, ValueError) as error:
        message = f"it is not YAML: {str(error).splitlines()[0]}"
        raise NotReadable(message) from error


class _Loader(yaml.SafeLoader):
    """A loader that refuses what is nested deeply before anything recurses into it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def get_event(self) -> yaml.Event:
        event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call] # as above
        self._depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if self._depth > _MAX_DEPTH:
            message = "nested too deeply"
            raise NotReadable(message)
        return event


class _Reader:
    """Converts the nodes of one document, each alias anew, up to a number of values."""

    def __init__(self, loader: yaml.SafeLoader, file: str | None) -> None:
        self._loader = loader
        self._file = file
        self._values = 0

    def located(self, node: yaml.Node, depth: int) -> Located:
        self._values += 1
        line = 0 if node.start_mark is None else node.start_mark.line + 1
        if self._values > _MAX_VALUES or depth > _MAX_DEPTH:
            message = f"line {line}: aliases expand to too much"
            raise NotReadable(message)
        tag = None if node.tag.startswith(_PLAIN) else node.tag
        if isinstance(node, yaml.MappingNode):
            return Located(line, self._members(node, depth), tag, self._file)
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.located(each, depth + 1) for each in node.value)
            return Located(line, items, tag, self._file)
        value = self._scalar(node)
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        odd = is_plain and isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(value) is not None
        return Located(line, value, tag, self._file, odd and tag is None)

    def _members(self, node: yaml.MappingNode, depth: int) -> dict[str, Located]:
        """Return the members.

        Those of ``<<`` stand below the mapping's own, and the first of several above the others.
        Keys are texts: ``on`` is no truth value. Systems differ in what wins where a key stands before a ``<<`` that
        brings it, too, so that this is refused.
        """
        own: dict[str, Located] = {}
        merged: dict[str, Located] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag != f"{_PLAIN}merge":
                if not isinstance(key, yaml.ScalarNode):
                    message = f"line {line}: a key that is no plain text"
                    raise NotReadable(message)
                self._check_text(key)
                name = str(key.value)
                if name in own:
                    message = f"line {line}: {' '.join(name.split())[:40]} stands twice in one mapping"
                    raise NotReadable(message)
                own[name] = self.located(value, depth + 1)
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else (value,)
            for each in reversed(sources):
                if not isinstance(each, yaml.MappingNode):
                    message = f"line {line}: `<<` takes mappings alone"
                    raise NotReadable(message)
                merged |= self.located(each, depth + 1).mapping()
            if twice := [name for name in own if name in merged]:
                message = f"line {line}: `<<` brings {twice[0]}, which stands above it: write `<<` first"
                raise NotReadable(message)
        return {**merged, **own}

    def _check_text(self, node: yaml.Node) -> None:
        if _SURROGATE.search(node.value):
            line = 0 if node.start_mark is None else node.start_mark.line + 1
            message = f"line {line}: an escape stands for half of a character"
            raise NotReadable(message)

    def _scalar(self, node: yaml.Node) -> Content:
        self._check_text(node)
        kind = node.tag.removeprefix(_PLAIN)
        if kind == "bool" and node.value.lower() not in {"true", "false"}:
            return str(node.value)
        if kind in {"null", "bool"} or (kind in {"int", "float"} and _NUMBER.fullmatch(node.value)):
            value: Content = self._loader.construct_object(node)
            return value
        return str(node.value)
