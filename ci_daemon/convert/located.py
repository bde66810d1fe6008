"""YAML values with the lines that they stand on. Pure.

Files come from strangers: no tag makes an object, and size, depth and what aliases expand to are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import yaml

from storage import immutable

__all__ = ["EMPTY", "Located", "NotReadable", "read"]

_MAX_CHARS = 512 * 1024
_MAX_DEPTH = 40
_MAX_VALUES = 50_000
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
"""Numbers that mean the same in all versions of YAML; others stay texts."""

_PLAIN = "tag:yaml.org,2002:"

Content: TypeAlias = "bool | int | float | str | tuple[Located, ...] | Mapping[str, Located] | None"


class NotReadable(Exception):
    """A file cannot be read as YAML; the message has the line."""


@immutable
class Located:
    """A value and its line. ``tag`` is a tag of the file's own, such as ``!reference``."""

    line: int
    value: Content
    tag: str | None = None

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

    @property
    def text(self) -> str | None:
        """Its text, if it is a string."""
        return self.value if isinstance(self.value, str) else None

    @property
    def scalar(self) -> str | None:
        """The text of a string, a number or a truth value, as both systems print it; None of anything else."""
        match self.value:
            case bool():
                return "true" if self.value else "false"
            case int() | float():
                return str(self.value)
            case str():
                return self.value
            case _:
                return None

    def has_tags(self) -> bool:
        """Tell whether a tag of the file's own is anywhere in it."""
        children = self.value.values() if isinstance(self.value, Mapping) else self.items()
        return self.tag is not None or any(each is not self and each.has_tags() for each in children)

    def texts(self) -> tuple[str, ...] | None:
        """Return its items if all are strings, else None."""
        found = [each.text for each in self.items()]
        return tuple(each for each in found if each is not None) if None not in found else None


EMPTY = Located(0, None)


def read(text: str) -> Located:
    """Return the document of a YAML text. Raises NotReadable."""
    if len(text) > _MAX_CHARS:
        message = f"it has more than {_MAX_CHARS >> 10} KiB"
        raise NotReadable(message)
    try:
        _check_depth(text)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            return EMPTY if node is None else _Reader(loader).located(node, 0)
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


def _check_depth(text: str) -> None:
    """Refuse what is nested deeply before anything recurses into it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            message = "nested too deeply"
            raise NotReadable(message)


class _Reader:
    """Converts the nodes of one document, each alias anew, up to a number of values."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._values = 0

    def located(self, node: yaml.Node, depth: int) -> Located:
        self._values += 1
        line = 0 if node.start_mark is None else node.start_mark.line + 1
        if self._values > _MAX_VALUES or depth > _MAX_DEPTH:
            message = f"line {line}: aliases expand to too much"
            raise NotReadable(message)
        tag = None if node.tag.startswith(_PLAIN) else node.tag
        if isinstance(node, yaml.MappingNode):
            return Located(line, dict(self._members(node, depth)), tag)
        if isinstance(node, yaml.SequenceNode):
            return Located(line, tuple(self.located(each, depth + 1) for each in node.value), tag)
        return Located(line, self._scalar(node), tag)

    def _members(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Located]]:
        """Yield the members, those of ``<<`` first, so that the mapping's own win.

        Keys are texts: ``on`` is no truth value.
        """
        for key, value in node.value:
            if key.tag == f"{_PLAIN}merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                    yield from self.located(merged, depth + 1).mapping().items()
        for key, value in node.value:
            if key.tag != f"{_PLAIN}merge":
                yield str(key.value), self.located(value, depth + 1)

    def _scalar(self, node: yaml.Node) -> Content:
        kind = node.tag.removeprefix(_PLAIN)
        if kind == "bool" and node.value.lower() not in {"true", "false"}:
            return str(node.value)
        if kind in {"null", "bool"} or (kind in {"int", "float"} and _NUMBER.fullmatch(node.value)):
            value: Content = self._loader.construct_object(node)
            return value
        return str(node.value)
