"""The pure part of proofs: the commands that run tests alone, and the rates at which these pass.

The names of tests are a stranger's text. They reach a command as variables, and there only those that are identifiers,
or quoted as words of the shell; no name is ever a part of a program.
"""

from __future__ import annotations

import json
import re
import shlex
from math import sqrt
from typing import TYPE_CHECKING

from actors.test_reports.commands import NotCertain, simple_commands
from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage import TestName

TESTS_VARIABLE = "CI_TESTS"
"""The variable with the tests to run: a JSON list of pairs of suite and name."""

_Z = 1.959964
"""The standard normal's quantile of a two-sided 95 %."""

_PYTEST = pattern(r"(?:^|[\s/'\"])(?:pytest|py\.test)(?=$|[\s'\"])", re.MULTILINE)
_GO = pattern(r"\b(?:go\s+test|gotestsum)\b")
_MAVEN = pattern(r"(?:^|[\s/])mvnw?(?=\s)", re.MULTILINE)
_IDENTIFIER = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_RUST_PATH = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*")
_JAVA_CLASS = pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_GRADLE_TASK = pattern(r":?(?:[\w-]+:)*test")
_ASSIGNMENT = pattern(r"[A-Za-z_]\w*=[^$`]*")
_PACKAGE_RUNNERS = (["npx"], ["yarn"], ["pnpm"], ["pnpm", "exec"], ["npm", "exec"], ["bunx"])


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

    By the template, if there is one; by a variable of the runner that the command calls once; by options after a
    command that ends with one plain call of its runner; else all of the job runs. A selection may take more tests than
    asked for, or all: only the report's word on each test counts.
    """
    if not tests:
        return Selection({}, alone=False)
    named = {TESTS_VARIABLE: json.dumps([[each.suite, each.name] for each in tests])}
    if template is not None:
        return Selection(named, alone=True, command=filled(template, tests))
    for runner, variable, option, chosen_before in _BY_VARIABLE:
        is_one = len(runner.findall(command)) == 1 and chosen_before not in f"{command} {env.get(variable, '')}"
        chosen = option(tests) if is_one else None
        if chosen is not None:
            return Selection(named | {variable: f"{env.get(variable, '')} {chosen}".strip()}, alone=True)
    lengthened = _lengthened(command, tests)
    return Selection(named, alone=lengthened is not None, command=lengthened)


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


@immutable
class PassRate:
    """A share of runs that passed, and the interval of the true one with 95 % confidence."""

    passed: int
    runs: int
    low: float
    high: float

    @classmethod
    def of(cls, passed: int, failed: int) -> PassRate:
        """Return the rate, with Wilson's interval, which holds for few runs and near 0 and 1 as well."""
        runs = passed + failed
        if not runs:
            return cls(0, 0, 0.0, 1.0)
        share, z2 = passed / runs, _Z * _Z
        middle = (share + z2 / (2 * runs)) / (1 + z2 / runs)
        half = _Z / (1 + z2 / runs) * sqrt(share * (1 - share) / runs + z2 / (4 * runs * runs))
        return cls(passed, runs, max(0.0, middle - half), min(1.0, middle + half))

    @property
    def words(self) -> str:
        """The rate as a sentence without its end."""
        if not self.runs:
            return "no run told anything"
        low, high = f"{self.low:.0%}", f"{self.high:.0%}"
        if self.passed == self.runs:
            return f"passed all {self.runs}: with 95% confidence it fails in at most {1 - self.low:.0%} of runs"
        if not self.passed:
            return f"failed all {self.runs}: with 95% confidence it passes in at most {high} of runs"
        return f"passed {self.passed} of {self.runs}: with 95% confidence it passes in {low} to {high} of runs"


def _method(test: TestName) -> tuple[str, str] | None:
    """Return the class and the method of a test of JUnit, None if its name is another one."""
    name = re.split(r"[(\[{]", test.name, maxsplit=1)[0]
    is_plain = _JAVA_CLASS.fullmatch(test.suite) and _IDENTIFIER.fullmatch(name)
    return (test.suite, name) if is_plain else None


def _of_maven(tests: Sequence[TestName]) -> str | None:
    """Return the options that have Surefire, from 2.19, take these methods in classes of these names."""
    methods = [_method(each) for each in tests]
    if None in methods:
        return None
    named = sorted({f"{each[0].rpartition('.')[2]}#{each[1]}" for each in methods if each})
    return f"-Dtest={','.join(named)} -Dsurefire.failIfNoSpecifiedTests=false -DfailIfNoTests=false"


_BY_VARIABLE = (
    (_PYTEST, "PYTEST_ADDOPTS", _of_pytest, "\0"),
    (_GO, "GOFLAGS", _of_go, "\0"),
    (_MAVEN, "MAVEN_ARGS", _of_maven, "-Dtest"),
)
"""The runners with a variable of options, and what says in a command that it chooses tests itself."""


def _lengthened(command: str, tests: Sequence[TestName]) -> str | None:
    """Return a command with options after its last call, None unless its runner certainly takes them."""
    try:
        *_, last = simple_commands(command)
    except NotCertain:
        return None
    while last and _ASSIGNMENT.fullmatch(last[0]):
        last.pop(0)
    for options_of in (_options_of_jest, _options_of_nextest, _options_of_gradle):
        options = options_of(last, tests)
        if options is not None:
            return f"{command.rstrip(chr(10) + '; ')} {shlex.join(options)}"
    return None


def _options_of_jest(words: list[str], tests: Sequence[TestName]) -> list[str] | None:
    """Return the options of Jest: names in its reports end with the title of the test."""
    before = words[: words.index("jest")] if "jest" in words else None
    if before is None or not (before == [] or before in _PACKAGE_RUNNERS):
        return None
    given = {each.partition("=")[0] for each in words}
    if given & {"-t", "--testNamePattern", "--"} or not all(each.name.isprintable() for each in tests):
        return None
    return ["-t", "|".join(f"{re.escape(each.name)}$" for each in tests)]


def _options_of_nextest(words: list[str], tests: Sequence[TestName]) -> list[str] | None:
    """Return the options of cargo-nextest, which writes the reports of Rust."""
    if words[:1] != ["cargo"] or not words[1:]:
        return None
    rest = words[2:] if words[1].startswith("+") else words[1:]
    given = {each.partition("=")[0] for each in rest}
    if rest[:2] != ["nextest", "run"] or given & {"-E", "--filterset", "--filter-expr", "--"}:
        return None
    if not all(_RUST_PATH.fullmatch(each.name) for each in tests):
        return None
    return ["-E", " | ".join(f"test(={each.name})" for each in tests)]


def _options_of_gradle(words: list[str], tests: Sequence[TestName]) -> list[str] | None:
    """Return the options of Gradle, whose last task has to be that of tests."""
    if words[:1] not in (["gradle"], ["./gradlew"]) or not _GRADLE_TASK.fullmatch(words[-1]) or "--tests" in words:
        return None
    methods = [_method(each) for each in tests]
    if None in methods:
        return None
    return [word for each in methods if each for word in ("--tests", ".".join(each))]
