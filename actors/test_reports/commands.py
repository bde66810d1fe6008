"""Commands that certainly end as their tests do: a runner called last and alone. Pure.

Whether failed tests are all that failed a job cannot be seen in an exit code alone: an earlier command may have failed,
a later one not have run, or the runner have stopped early. So of all commands these few are known, and no other.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SEPARATORS = pattern(r"[;\n]+|&&\n*")
_UNKNOWN = pattern(r"#.*|(?:[>|&\n]|<(?!<)|;(?!;))*(?:[()]|<<|;;)[();<>|&\n]*", re.DOTALL)
_OPERATOR = pattern(r"[<>|&\n]+")
_SIMPLE = pattern(r"[\w./@%+,:=-]+")
_COMPOUND = pattern(
    r"if|then|else|elif|fi|for|while|until|do|done|case|esac|select|function|[{}!.]|\[\[|time|coproc|trap|exec|eval"
    r"|source|alias|shopt|exit|return|builtin|command|pushd|popd|set"
)
"""Words with which a command begins that may change what the next ones mean, or where the shell ends."""

_STOPS_EARLY = pattern(
    r"-[a-wyzA-Z]*x[a-zA-Z]*|--(exitfirst|maxfail|stepwise|sw|sw-skip|last-failed|lf|collect-only|co|cov-fail-under"
    r"|continue-on-collection-errors|no-cov-on-fail)(=.*)?"
)
_VOID = pattern(
    r"^(?:!{2,} |INTERNALERROR>|_+ ERROR collecting |(?:ERROR: |FAIL )?(?:Coverage failure|Required test coverage))"
    r"|maximum crashed workers reached"
)
"""Lines of pytest that tell of another failure than that of tests, or of tests that did not run."""

_COLOR = pattern(r"\x1b\[[0-9;]*m")
_PLAIN_SETTINGS = pattern(r"-[eux]*o?|pipefail")

PYTEST_FAILED = 1
"""The exit code of pytest when tests failed, and nothing else."""


@immutable
class ReportedTests:
    """A command that ends with pytest, which writes its report to this path of the workspace."""

    report: str


class NotCertain(Exception):
    """A command of which nobody knows that it ends as its tests do; the message says why."""


def reported_tests(command: str, variables: Iterable[str] = ()) -> ReportedTests:
    """Return what is known of a command that calls pytest last, in a job with variables.

    Raises NotCertain.
    """
    *earlier, last = simple_commands(command)
    words = _without_wrapper(last)
    if words is None:
        raise NotCertain("its command does not end with a plain call of pytest")
    _require_alone([word for each in earlier for word in each], variables)
    report, options = None, iter(words)
    for word in options:
        if not _SIMPLE.fullmatch(word) and any(sign in word for sign in "$`"):
            raise NotCertain("its call of pytest has variables")
        if _STOPS_EARLY.fullmatch(word) or "no:terminal" in word:
            raise NotCertain(f"its call of pytest has the option {word}")
        name, given, value = word.partition("=")
        if name in {"--junitxml", "--junit-xml"}:
            report = value if given else next(options, "")
    if report is None:
        raise NotCertain("its call of pytest names no --junitxml")
    path = posixpath.normpath(posixpath.join(_folder(earlier), report))
    if not _SIMPLE.fullmatch(report) or path.startswith(("/", "..")):
        raise NotCertain("the path of its --junitxml is not a plain one in the workspace")
    return ReportedTests(path)


def _require_alone(earlier: list[str], variables: Iterable[str]) -> None:
    """Raise NotCertain if words before the call of pytest, or variables of the job, are of pytest, too."""
    if any("pytest" in word or "py.test" in word for word in earlier):
        raise NotCertain("its command calls pytest more than once")
    if any(word.startswith("PYTEST_") for word in (*earlier, *variables)):
        raise NotCertain("its command or its environment sets a variable of pytest")


def void_line(output: str) -> str | None:
    """Return the first line by which pytest says that more than tests failed; None without one."""
    lines = (_COLOR.sub("", line) for line in output.splitlines())
    return next((line.strip()[:200] for line in lines if _VOID.search(line)), None)


def simple_commands(command: str) -> list[list[str]]:
    """Return the words of a command's simple commands, those in one pipeline together. Raises NotCertain."""
    reader = shlex.shlex(command.replace("\\\n", " ").strip("\n; "), posix=True, punctuation_chars="();<>|&\n")
    reader.whitespace, reader.commenters, reader.whitespace_split = " \t\r", "", True
    found: list[list[str]] = [[]]
    parted = False
    try:
        for word in reader:
            if _SEPARATORS.fullmatch(word):
                parted = True
                continue
            if _UNKNOWN.fullmatch(word):
                raise NotCertain("its command has comments, functions, subshells or here-documents")
            if parted and found[-1]:
                found.append([])
            parted = False
            found[-1].append(word)
    except ValueError:
        raise NotCertain("its command cannot be read") from None
    if not all(map(_is_plain, found)):
        raise NotCertain("its command has conditions, loops or settings of the shell")
    if any(map(_OPERATOR.fullmatch, found[-1])):
        raise NotCertain("its last call has pipes, redirections or alternatives")
    return found


def _is_plain(words: list[str]) -> bool:
    """Tell whether a command changes neither what the next ones mean nor where the shell ends."""
    if words[:1] == ["set"]:
        return all(map(_PLAIN_SETTINGS.fullmatch, words[1:]))
    return bool(words) and not _COMPOUND.fullmatch(words[0])


def _without_wrapper(words: list[str]) -> list[str] | None:
    """Return the words after pytest in a call of it, None if it is no plain one."""
    rest = list(words)
    while rest and re.fullmatch(r"[A-Za-z_]\w*=[^$`]*", rest[0]):
        if rest[0].startswith("PYTEST_"):
            return None
        rest.pop(0)
    if rest[:2] in (["uv", "run"], ["poetry", "run"]):
        rest = rest[2:]
    if len(rest) > 2 and re.fullmatch(r"python(3(\.\d+)?)?", rest[0]) and rest[1:3] == ["-m", "pytest"]:  # noqa: PLR2004 - the words
        return rest[3:]
    return rest[1:] if rest and rest[0] in {"pytest", "py.test"} else None


def _folder(earlier: list[list[str]]) -> str:
    """Return the folder of the workspace that earlier commands lead to. Raises NotCertain."""
    folder = ""
    for each in _changes(earlier):
        if len(each) != 2 or not _SIMPLE.fullmatch(each[1]) or each[1] == "-":  # noqa: PLR2004 - `cd` and a folder
            raise NotCertain("its command changes its folder in a way that is not plain")
        folder = posixpath.join(folder, each[1])
    return folder


def _changes(earlier: list[list[str]]) -> Iterator[list[str]]:
    return (each for each in earlier if each[0] == "cd")
