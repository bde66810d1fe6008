"""Texts with expressions of GitHub, of which only few are certain. Pure.

A text that a stranger chooses (the name of a branch, a title) becomes a variable of the shell, never a part of a
command.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import SET_HERE, event_word, word
from actors.ir.systems.omissions import LeftOut, UnknownExpression
from actors.ir.systems.substitution import is_expanded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from actors.ir.systems.github_outputs import Outputs
    from actors.ir.systems.located import Located

_MATRIX = re.compile(r"matrix\.([\w-]+)")
_SECRET = re.compile(r"secrets\.([A-Za-z_]\w*)")
_INPUT = re.compile(r"(?:github\.event\.)?inputs\.([A-Za-z][\w-]{0,62})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

TOKENS = frozenset(
    {"secrets.GITHUB_TOKEN", "github.token", "secrets.GITEA_TOKEN", "gitea.token"}
    | {"secrets.FORGEJO_TOKEN", "forgejo.token", "forge.token"}
)
"""Expressions of the token that GitHub, Gitea and Forgejo make for each job by themselves."""

_ALIAS = re.compile(r"(gitea|forgejo|forge)\.")

_REF = (
    '"$(if [ -n "${CI_TAG:-}" ]; then printf %s "refs/tags/$CI_TAG"; '
    'elif [ -n "${CI_PULL_REQUEST:-}" ]; then printf %s "refs/pull/$CI_PULL_REQUEST/merge"; '
    'else printf %s "refs/heads/$CI_BRANCH"; fi)"'
)
_REF_NAME = (
    '"$(if [ -n "${CI_PULL_REQUEST:-}" ]; then printf %s "$CI_PULL_REQUEST/merge"; else printf %s "$CI_BRANCH"; fi)"'
)
_REF_TYPE = '"$(if [ -n "${CI_TAG:-}" ]; then echo tag; else echo branch; fi)"'
_HEAD = '"$(if [ -n "${CI_PULL_REQUEST:-}" ]; then printf %s "${CI_BRANCH#*:}"; fi)"'

SET_BY_GITHUB = MappingProxyType(
    {
        "GITHUB_SHA": '"$CI_COMMIT"',
        "GITHUB_REF": _REF,
        "GITHUB_REF_NAME": _REF_NAME,
        "GITHUB_REF_TYPE": _REF_TYPE,
        "GITHUB_HEAD_REF": _HEAD,
        "GITHUB_BASE_REF": '"${CI_TARGET_BRANCH:-}"',
        "GITHUB_RUN_NUMBER": '"$CI_BUILD_NUMBER"',
        "GITHUB_EVENT_NAME": event_word("push", "workflow_dispatch", "pull_request"),
        "GITHUB_WORKSPACE": "/workspace",
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": "/dev/null",  # of a step whose outputs nothing takes
        "GITHUB_STEP_SUMMARY": '"$CI_SUMMARY"',
        "RUNNER_OS": "Linux",
        "RUNNER_ARCH": "X64",
        "RUNNER_TEMP": "/tmp",  # noqa: S108 - each job has a VM of its own
    }
)
"""Variables that GitHub sets, as words of the shell here."""

_IN_VALUES = MappingProxyType(
    {
        "github.sha": "GITHUB_SHA",
        "github.ref": "GITHUB_REF",
        "github.ref_name": "GITHUB_REF_NAME",
        "github.ref_type": "GITHUB_REF_TYPE",
        "github.head_ref": "GITHUB_HEAD_REF",
        "github.base_ref": "GITHUB_BASE_REF",
        "github.run_number": "GITHUB_RUN_NUMBER",
        "github.event_name": "GITHUB_EVENT_NAME",
        "github.workspace": "GITHUB_WORKSPACE",
        "runner.os": "RUNNER_OS",
        "runner.arch": "RUNNER_ARCH",
        "runner.temp": "RUNNER_TEMP",
    }
)


def expressions(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts of a text: what stands before an expression, and it; None at the end."""
    at = 0
    while (begin := text.find("${{", at)) >= 0 and (end := text.find("}}", begin)) >= 0:
        yield text[at:begin], text[begin + 3 : end].strip()
        at = end + 2
    yield text[at:], None


def filled(text: str | None, cell: Mapping[str, str], env: Mapping[str, str] | None = None) -> str:
    """Return a text with the values of a cell of the matrix, and of variables, in it.

    Raises UnknownExpression.
    """
    if text is None:
        message = "it is no text"
        raise UnknownExpression(message)
    found = []
    for before, expression in expressions(text):
        found.append(before)
        if expression is not None:
            found.append(_value(expression, cell, env or {}))
    return "".join(found)


def _value(expression: str, cell: Mapping[str, str], env: Mapping[str, str]) -> str:
    name = _MATRIX.fullmatch(expression)
    if name is not None and name[1] in cell:
        return cell[name[1]]
    if expression.startswith("env.") and expression[4:] in env:
        return env[expression[4:]]
    message = f"the expression ${{{{ {_short(expression)} }}}} is not known here"
    raise UnknownExpression(message)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a line of a terminal


def _given(name: str) -> str:
    """Return an input as a word of the shell; GitHub has none but in builds that people ask for."""
    variable = f"INPUT_{name.replace('-', '_').upper()}"
    return f'"$([ "$CI_EVENT" != manual ] || printf %s "${{{variable}:-}}")"'


class Environment:
    """Variables of a workflow, a job or a step: ``values`` are known, ``words`` are words of the shell.

    ``secrets`` are the names of secrets that the words take; ``tokens`` are the variables that had GitHub's own token.
    ``outputs`` are those of other jobs and steps, which its values may name.
    """

    def __init__(self, outer: Environment | None = None, outputs: Outputs | None = None) -> None:
        self.outputs: Outputs | None = outer.outputs if outer else outputs
        self.values: dict[str, str] = dict(outer.values) if outer else {}
        self.words: dict[str, str] = dict(outer.words) if outer else {}
        self.secrets: list[str] = list(outer.secrets) if outer else []
        self.tokens: dict[str, Located] = dict(outer.tokens) if outer else {}

    def add(self, env: Located, key: str, cell: Mapping[str, str], passed: Collection[str] = ()) -> None:
        """Add variables, which hide those of the same name. ``passed`` are names of the caller's own.

        Raises LeftOut if a value is not known: another value, or none, would take its place.
        """
        if env.value is not None and not isinstance(env.value, dict):
            raise LeftOut(env, key, "its variables are no mapping")
        known = dict(self.values)
        for name, given in env.mapping().items():
            if not _NAME.fullmatch(name) or name in SET_HERE:
                raise LeftOut(given, f"{key}.{name}", "this is no name that a variable may have here")
            text = given.number_or_text
            if text is None and given.value is None:
                text = ""
            parts = list(expressions(text or ""))
            if len(parts) == 2 and parts[0][1] in TOKENS and not (parts[0][0] or parts[1][0]):  # noqa: PLR2004 - one
                if name in self.values or name in self.words:
                    raise LeftOut(given, f"{key}.{name}", "without GitHub's token another value takes its place")
                self.tokens[name] = given
                continue
            try:
                value, is_word = self._value_or_word(text, cell, known)
            except UnknownExpression as error:
                why = f"{error}, and without {name} it would run under other conditions"
                raise LeftOut(given, f"{key}.{name}", why) from error
            if name == "CI" and not is_word:
                # The service's own CI wins over a step's variable, and not over one of its script.
                value, is_word = word(value), True
            self._set(name, value, is_word=is_word)

    def _value_or_word(self, text: str | None, cell: Mapping[str, str], known: Mapping[str, str]) -> tuple[str, bool]:
        """Return a value that is known and False, or a word of the shell and True. Raises UnknownExpression."""
        try:
            return filled(text, cell, known), False
        except UnknownExpression:
            if text is None:
                raise
            return self.word(text, cell, known), True

    def _set(self, name: str, value: str, *, is_word: bool) -> None:
        for each in (self.values, self.words):
            each.pop(name, None)
        self.tokens.pop(name, None)
        (self.words if is_word else self.values)[name] = value

    def word(self, text: str, cell: Mapping[str, str], known: Mapping[str, str]) -> str:
        """Return a text with secrets, outputs and what is built in it as a word of the shell.

        Raises UnknownExpression if it has others.
        """
        words, secrets = [], []
        for before, expression in expressions(text):
            words.append(word(before) if before else "")
            if expression is None:
                continue
            secret = _SECRET.fullmatch(expression)
            if secret is not None and expression not in TOKENS:
                secrets.append(secret[1])
                words.append(f'"${secret[1]}"')
            elif (given := _INPUT.fullmatch(expression)) is not None:
                words.append(_given(given[1]))
            elif (name := _ALIAS.sub("github.", expression)) in _IN_VALUES:
                words.append(SET_BY_GITHUB[_IN_VALUES[name]])
            elif self.outputs is not None and (output := self.outputs.word(expression)) is not None:
                words.append(output)
            else:
                words.append(word(_value(expression, cell, known)))
        self.secrets += [each for each in secrets if each not in self.secrets]
        return "".join(words)

    def script(self, text: str | None, cell: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return a script with values in it, and the variables for outputs, as words of the shell.

        Raises UnknownExpression.
        """
        found = ""
        variables: dict[str, str] = {}
        for before, expression in expressions(text or ""):
            found += before
            output = None if expression is None or self.outputs is None else self.outputs.reference(expression)
            if output is not None:
                if not is_expanded(found):
                    message = f"the shell may put no value in the place of ${{{{ {_short(expression or '')} }}}} there"
                    raise UnknownExpression(message)
                found += output.text
                variables |= output.variables
            elif expression is not None:
                found += _value(expression, cell, self.values)
        return found, variables
