"""Regular expressions over a megabyte of each of their own characters: each takes linear time.

Most of them meet a stranger's text: names, headers, logs, reports, repositories. So each is tried, as it is used.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as kinds
import re._parser as parser
import signal
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from actors.ir.problems import MATCHERS
from storage.patterns import Deferred

_CHECKOUT = Path(__file__).parent.parent.parent
_PACKAGES = ("actors", "api", "ci_daemon", "storage")
_SIZE = 1_000_000
_CPU_SECONDS = 3.0
"""A linear pattern takes 0.01 to 0.1 s; one of quadratic time would take hours."""

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")
_SAMPLES = {
    kinds.CATEGORY_DIGIT: "0",
    kinds.CATEGORY_NOT_DIGIT: "a",
    kinds.CATEGORY_SPACE: " \n",
    kinds.CATEGORY_NOT_SPACE: "a",
    kinds.CATEGORY_WORD: "a_",
    kinds.CATEGORY_NOT_WORD: "-",
}


def _characters(parsed: Any) -> Iterator[str]:
    """Yield characters that a parsed pattern tells apart: its literals, and some of each class."""
    for kind, value in parsed:
        if kind in {kinds.LITERAL, kinds.NOT_LITERAL}:
            yield chr(value)
        elif kind is kinds.RANGE:
            yield from map(chr, value)
        elif kind is kinds.CATEGORY:
            yield from _SAMPLES[value]
        elif isinstance(value, (list, tuple, parser.SubPattern)):
            yield from _characters(_below(kind, value))


def _below(kind: Any, value: Any) -> Iterator[Any]:
    """Yield the parts of a group, a repetition, a class or a choice."""
    for each in value[1] if kind is kinds.BRANCH else [value] if kind is kinds.IN else value:
        if isinstance(each, (list, parser.SubPattern)):
            yield from each


def _literals(parsed: Any) -> str:
    """Return the text that a pattern begins with, to lead a search into it."""
    text = ""
    for kind, value in parsed:
        if kind is kinds.LITERAL:
            text += chr(value)
        elif kind is kinds.IN and value[0][0] is kinds.LITERAL:
            text += chr(value[0][1])
        elif kind is not kinds.AT:
            break
    return text


def _texts(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Yield a megabyte of each of a pattern's characters, of what it begins with, and of both in turn."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = parser.parse(text, pattern.flags & ~re.DEBUG)
    begins = _literals(parsed)
    for each in dict.fromkeys([*_characters(parsed), "a", " ", "\n"]):
        yield each * _SIZE + "\0"
        if begins:
            yield begins + each * _SIZE + "\0"
            yield (begins + each) * (_SIZE // (len(begins) + 1))


@dataclass(frozen=True)
class _Use:
    """A pattern of a module, under the name or the text that is used there, and the method that is called."""

    name: str
    pattern: re.Pattern[Any]
    method: str


def _uses(tree: ast.Module, values: Mapping[str, Any]) -> Iterator[_Use]:
    """Yield the uses of patterns in a module, by the values of its names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]):
                text = _text(first, values)
                if method in _METHODS and text is not None:
                    yield _Use(str(text), re.compile(text, _flags(node)), method)
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in _METHODS:
                pattern = values.get(name)
                if isinstance(pattern, re.Pattern | Deferred):
                    yield _Use(name, re.compile(pattern.pattern, pattern.flags), method)


def _text(node: ast.expr, values: Mapping[str, Any]) -> str | bytes | None:
    """Return a pattern's text, if it is written in its call or a constant of the module; else None."""
    found = (
        node.value if isinstance(node, ast.Constant) else values.get(node.id) if isinstance(node, ast.Name) else None
    )
    return found if isinstance(found, (str, bytes)) else None


def _flags(call: ast.Call) -> int:
    """Return the flags that a call names."""
    found = re.NOFLAG
    for node in (each for part in (*call.args[1:], *call.keywords) for each in ast.walk(part)):
        match node:
            case ast.Attribute(value=ast.Name(id="re"), attr=name) if name.isupper():
                found |= getattr(re, name)
    return found


def _all_uses() -> Iterator[Any]:
    for package in _PACKAGES:
        for path in sorted((_CHECKOUT / package).rglob("*.py")):
            source = path.read_text()
            if "import re\n" not in source and " = pattern(" not in source:
                continue
            name = ".".join(path.relative_to(_CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
            values = vars(importlib.import_module(name))
            for use in dict.fromkeys(_uses(ast.parse(source), values)):
                yield pytest.param(use.pattern, use.method, id=f"{name}.{use.name}.{use.method}")


def _of_matchers() -> Iterator[Any]:
    """Yield the patterns of problem matchers, which a table has."""
    for name, matcher in MATCHERS.items():
        for number, each in enumerate((*matcher.lines, *filter(None, (matcher.head,)))):
            yield pytest.param(re.compile(each.pattern, each.flags), "fullmatch", id=f"{name}.{number}")


@contextmanager
def _bounded_cpu(what: str) -> Iterator[None]:
    """Fail if the body takes too much CPU time; the engine of regular expressions looks for signals."""

    def stop(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"{what} takes more than {_CPU_SECONDS:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(("pattern", "method"), [*_all_uses(), *_of_matchers()])
def test_no_text_makes_a_regular_expression_slow(pattern: re.Pattern[Any], method: str):
    arguments = ("",) if method in {"sub", "subn"} else ()
    for text in _texts(pattern):
        subject = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
        with _bounded_cpu(f"{method} of {pattern.pattern!r} over {text[:20]!r}…"):
            done = getattr(pattern, method)(
                *(a if isinstance(subject, str) else a.encode() for a in arguments), subject
            )
            if method == "finditer":
                deque(done, maxlen=0)
