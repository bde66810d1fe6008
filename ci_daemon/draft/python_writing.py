"""Drafts of pipelines in Python. Pure; every value from outside is written as a literal."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from typing import TYPE_CHECKING

from ci_daemon.draft.contents import contents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_daemon.draft.model import DraftPipeline

_WIDTH = 120
_INDENT = "    "
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_IMPORTED = ("files", "job", "pipeline")


def written(pipeline: DraftPipeline, docstring: str) -> str:
    """Return the text of a pipeline file."""
    head, jobs = contents(pipeline)
    names = _Names({*_IMPORTED, *dir(builtins)})
    function = names(pipeline.slug)
    variables = {key: names(key) for key in jobs}
    used = {each for job in jobs.values() for each in (job.get("from"), *job.get("needs", ()))}
    body = [line for key, job in jobs.items() for line in _job(key, job, variables, named=key in used)]
    imports = [each for each in _IMPORTED if any(f"{each}(" in line for line in body) or each == "pipeline"]
    options = [_literal(pipeline.slug), *(f"{name}={_literal(value)}" for name, value in head.items())]
    return "\n".join(
        [
            f'"""{_plain(docstring)}"""',
            "",
            f"from ci_daemon.language import {', '.join(imports)}",
            "",
            "",
            *_call("@pipeline", options, ""),
            f"def {function}() -> None:",
            *body,
            "",
        ]
    )


class _Names:
    """Names of functions and variables, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def __call__(self, text: str) -> str:
        """Return a name that resembles a text."""
        name = _NOT_IN_NAMES.sub("_", text.lower()).strip("_") or "step"
        name = f"_{name}" if name[0].isdigit() else name
        found, number = name, 1
        while found in self._taken or keyword.iskeyword(found):
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def _job(key: str, job: Mapping[str, object], variables: Mapping[str, str], *, named: bool) -> Iterator[str]:
    """Yield the lines that declare a job, which gets a name where another one refers to it."""
    options = [_literal(key)]
    for name, value in job.items():
        match name, value:
            case "from", _:
                continue
            case "needs", list(needed):
                options.append(f"needs=[{', '.join(variables[each] for each in needed)}]")
            case "cache", {"files": list(files)}:
                options.append(f"cache=files({', '.join(map(_literal, files))})")
            case _:
                options.append(f"{name}={_literal(value)}")
    parent = job.get("from")
    function = "job" if parent is None else f"{variables[str(parent)]}.then"
    yield from _call(f"{variables[key]} = {function}" if named else function, options, _INDENT)


def _call(function: str, arguments: Sequence[str], indent: str) -> list[str]:
    """Return a call on one line, else with one argument a line."""
    line = f"{indent}{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return [line]
    return [
        f"{indent}{function}(",
        *(f"{indent}{_INDENT}{each}," for each in arguments),
        f"{indent})",
    ]


def _literal(value: object) -> str:
    """Return the literal of a value; a text of several lines has as many here."""
    match value:
        case str():
            return _text(value)
        case dict():
            return f"{{{', '.join(f'{_literal(key)}: {_literal(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            return repr(value)


def _text(text: str) -> str:
    if "\n" in text.strip("\n"):
        lines = [_on_one_line(f"{line}\n") for line in text.split("\n")[:-1]]
        last = text.rsplit("\n", maxsplit=1)[-1]
        parts = [*lines, *([_on_one_line(last)] if last else [])]
        inner = "".join(f"\n{_INDENT * 3}{part}" for part in parts)
        return f"({inner}\n{_INDENT * 2})"
    return _on_one_line(text)


def _on_one_line(text: str) -> str:
    """Return a literal on one line, which means the same in Python as in JSON."""
    if all(each.isprintable() or each in "\n\t" for each in text):
        return json.dumps(text, ensure_ascii=False)
    return repr(text)


def _plain(text: str) -> str:
    """Return a text for a docstring: one line without what would end it."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
