"""Lines of steps and pipelines in the files that declare them, read without running anything.

The language keeps no line of a step. But a step has a key, a label or a command, and where exactly one call in the
files has that text, the call makes the step. Steps that share a text, or compute theirs, have no line of their own.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.render import in_folder, is_yaml_name
from ci_daemon.lint.report import Place
from ci_daemon.submit import declared_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.ir import PipelineFile

_TEXTS = ("key", "label", "cmd")
_MAKES_STEPS = "sh"
_MAKE_JOBS = ("job", "then")


class PipelineFiles:
    """The texts of a project's pipeline files, by name; those that this Python cannot parse have no lines."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._steps: dict[tuple[str, str], set[Place]] = defaultdict(set)
        self._pipelines: dict[str, Place] = {}
        self._yaml: dict[str, PipelineFile] = {}
        for name, text in texts.items():
            if is_yaml_name(name):
                self._add_yaml(name, text)
                continue
            try:
                module = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError):
                continue
            with suppress(ValueError):  # only a render tells a slug that is computed
                for slug, line in declared_lines(module):
                    self._pipelines[slug] = Place(name, line)
            for node in ast.walk(module):
                if isinstance(node, ast.Call):
                    self._add(name, node)

    @classmethod
    def read(cls, tree: Path) -> PipelineFiles:
        """Read the files of a project."""
        files = sorted(each for each in (tree / ".hm").glob("*.*") if each.suffix == ".py" or is_yaml_name(each.name))
        return cls({file.relative_to(tree).as_posix(): file.read_text("utf-8", errors="replace") for file in files})

    def place(self, slug: str, step: Mapping[str, object]) -> Place | None:
        """Return the place of a step, as the IR has it, else of its pipeline."""
        for name in _TEXTS:
            text = step.get(name)
            if isinstance(text, str) and len(places := self._steps.get((name, text), ())) == 1:
                return next(iter(places))
        return self._pipelines.get(slug)

    def place_in(self, slug: str, path: tuple[str | int, ...]) -> Place | None:
        """Return the place of what a path into a document of version "1" leads to, or None."""
        found = self._yaml.get(slug)
        if found is None:
            match path:
                case ("jobs", str(key), *_) if len(places := self._steps.get(("job", key), ())) == 1:
                    return next(iter(places))
            return None
        mark = found.document.mark(path)
        return Place(found.name, mark.line, mark.column)

    def _add_yaml(self, name: str, text: str) -> None:
        """Remember the places of a YAML file; the mistakes of one that has any are told by its render."""
        from actors.ir import FileInvalid, PipelineFile  # noqa: PLC0415 - pydantic

        with suppress(FileInvalid):
            found = PipelineFile.parse(name, text)
            self._yaml[found.slug] = found

    def _add(self, file: str, call: ast.Call) -> None:
        """Remember the texts of a call; its line is that of the name `sh`, as a chain has many lines."""
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        match call.args[:1]:
            case [ast.Constant(value=str(key))] if name in _MAKE_JOBS:
                self._steps["job", key].add(Place(file, function.end_lineno))
        if name != _MAKES_STEPS:
            return
        given = {each.arg: each.value for each in call.keywords}
        given |= {"cmd": call.args[0]} if call.args else {}
        place = Place(file, function.end_lineno)
        match given:
            case {"cmd": ast.Constant(value=str(command)), "cwd": ast.Constant(value=str(folder))}:
                self._steps["cmd", in_folder(command, folder)].add(place)
        for text in _TEXTS:
            match given.get(text):
                case ast.Constant(value=str(value)):
                    self._steps[text, value].add(place)
