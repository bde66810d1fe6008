"""Running some tests of a job alone: the job's own command, told to leave out others. Pure.

The names of tests are a stranger's text. They reach a command as variables, and there only those that are identifiers,
or quoted as words of the shell; no name is ever a part of a program.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage import TestName

TESTS_VARIABLE = "CI_TESTS"
"""The variable with the tests to run: a JSON list of pairs of suite and name."""

_PYTEST = pattern(r"(?:^|[\s/'\"])(?:pytest|py\.test)(?=$|[\s'\"])", re.MULTILINE)
_GO = pattern(r"\b(?:go\s+test|gotestsum)\b")
_IDENTIFIER = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


@immutable
class Selection:
    """The variables by which a command runs some tests; ``alone`` if it leaves out most others.

    ``command`` is another command in its place, None for its own.
    """

    env: Mapping[str, str]
    alone: bool
    command: str | None = None


def selection(command: str, env: Mapping[str, str], tests: Sequence[TestName], template: str | None) -> Selection:
    """Return how to run some tests of a job with this command and these variables.

    By the template of the pipeline, if there is one; by a variable of the runner that the command calls once; else all
    of the job runs. A selection may take more tests than asked for, or all: only the report's word on each test counts.
    """
    if not tests:
        return Selection({}, alone=False)
    named = {TESTS_VARIABLE: json.dumps([[each.suite, each.name] for each in tests])}
    if template is not None:
        return Selection(named, alone=True, command=filled(template, tests))
    for runner, variable, option in ((_PYTEST, "PYTEST_ADDOPTS", _of_pytest), (_GO, "GOFLAGS", _of_go)):
        chosen = option(tests) if len(runner.findall(command)) == 1 else None
        if chosen is not None:
            return Selection(named | {variable: f"{env.get(variable, '')} {chosen}".strip()}, alone=True)
    return Selection(named, alone=False)


def filled(template: str, tests: Sequence[TestName]) -> str:
    """Return a template of a command with the tests in the place of its words, each quoted for the shell.

    ``{tests}`` stands for their names, ``{suites}`` for their suites, ``{pattern}`` for an expression of their names.
    """
    values = {
        "{tests}": " ".join(shlex.quote(each.name) for each in tests),
        "{suites}": " ".join(map(shlex.quote, dict.fromkeys(each.suite for each in tests))),
        "{pattern}": shlex.quote(f"^({'|'.join(re.escape(each.name) for each in tests)})$"),
    }
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)


def _of_pytest(tests: Sequence[TestName]) -> str | None:
    """Return the option that has pytest take functions of these names in modules or classes of theirs."""
    terms = set[str]()
    for each in tests:
        names = (each.suite.rpartition(".")[2], each.name.partition("[")[0])
        if not all(map(_IDENTIFIER.fullmatch, names)):
            return None
        terms.add(f"({' and '.join(names)})")
    return f'-k "{" or ".join(sorted(terms))}"'


def _of_go(tests: Sequence[TestName]) -> str | None:
    """Return the option that has `go test` take the functions of these tests and subtests."""
    functions = {each.name.partition("/")[0] for each in tests}
    if not all(map(_IDENTIFIER.fullmatch, functions)):
        return None
    return f"-count=1 -run=^({'|'.join(sorted(functions))})$"
