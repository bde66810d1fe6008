"""Commands of several lines in which a line may fail unnoticed. Pure.

A v0 document's command runs in a shell without ``set -e``, so only its last line decides whether a step passes
(engine.md, "The command"). The text is read as a shell reads it, only as far as it takes to tell its lines apart.
Where that is unclear, nothing is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_DEPTH = 50
_ENDS_OF_WORDS = frozenset(" \t\n;&|<>()")
_CLOSERS = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
_BEFORE_COMMANDS = frozenset({"then", "else", "elif", "do", "!", "time", "if", "while", "until", "{"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;&|;;|&>>?|<<<|<<-?|>>|[<>]&|>\||<>|[;&|<>()\n]")
_NO_PARAMETERS = re.compile(r"[ \t]*\)")
_CONDITION_ENDS = re.compile(r"(?<=\s)\]\](?![^\s;&|)])")
_ENDS_THE_SHELL = re.compile(r"\b(exit|return)\b")
_HARMLESS = frozenset(
    {"echo", "printf", ":", "true", "exit", "exec", "export", "readonly", "declare", "typeset", "local", "set"}
    | {"shopt", "unset", "trap", "umask", "alias", "ulimit", "function"}
)
"""Commands that do not fail, whose failure ``set -e`` does not see either, or that end the shell."""


def hides_failures(command: str) -> bool:
    """Tell whether a line of a command, other than its last, may fail without failing the step.

    That is so if the command has several lines, none of them is ``set -e`` in any of its spellings, and one before the
    last is a command that may fail and that nothing after it looks at.
    """
    try:
        lines = _Reader(command).lines()
    except _Unclear:
        return False
    statements = [each for line in lines for each in line]
    if any(map(_ends_at_failures, statements)):
        return False
    last = len(statements) - len(lines[-1]) if lines else 0
    return any(
        not _is_harmless(each) and "$?" not in after.text and "PIPESTATUS" not in after.text
        for each, after in pairwise(statements[: last + 1])
    )


class _Unclear(Exception):
    """The text is not one that this reader can tell apart."""


@dataclass(slots=True)
class _Statement:
    """A command or a list of them; ``words`` are its words and operators that are in no compound command."""

    words: list[str] = field(default_factory=list)
    text: str = ""


def _ends_at_failures(statement: _Statement) -> bool:
    """Tell whether a statement makes the shell end at the first failure."""
    match statement.words:
        case ["set", *options]:
            for option in options:
                if option == "--" or option in {"&&", "||", "|"}:
                    return False
                if option == "errexit" or re.fullmatch(r"-[A-Za-df-z]*e[A-Za-z]*", option):
                    return True
        case ["trap", *_, "ERR"]:
            return True
    return False


def _is_harmless(statement: _Statement) -> bool:
    """Tell whether a statement does not fail, or its failure is looked at."""
    words = statement.words
    if "||" in words or "&" in words or "()" in words:
        return True
    if words[:1] in (["if"], ["case"]) and _ENDS_THE_SHELL.search(statement.text) is not None:
        return True  # a guard
    if "&&" in words or "|" in words:
        return False
    name = next((word for word in words if not _ASSIGNMENT.match(word)), None)
    if name is None:
        return not any("$(" in word or "`" in word for word in words)
    return name in _HARMLESS


class _Reader:
    """Reads a command once, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: list[list[_Statement]] = [[]]
        self._statement = _Statement()
        self._begin = 0
        self._open: list[str] = []
        self._is_command = True
        self._documents: list[tuple[str, bool]] = []

    def lines(self) -> Sequence[Sequence[_Statement]]:
        """Return the statements that begin in each line, without lines that have none. Raises _Unclear."""
        text, size = self._text, len(self._text)
        while self._at < size:
            here = self._at
            if text[here] in " \t\r":
                self._at += 1
            elif text.startswith("\\\n", here):
                self._at += 2
            elif text[here] == "#":
                self._at = _find(text, "\n", here)
            elif (operator := _OPERATOR.match(text, here)) is not None:
                self._at = operator.end()
                self._operator(operator[0])
            else:
                self._at = _end_of_word(text, here)
                self._word(text[here : self._at])
        if self._open:
            raise _Unclear
        self._end_statement()
        return [line for line in self._lines if line]

    def _operator(self, operator: str) -> None:
        match operator:
            case "\n":
                self._end_line()
            case ";" | ";;" | ";&" | ";;&" | "&":
                self._end_command(operator)
            case "&&" | "||" | "|" | "|&":
                self._add("|" if operator == "|&" else operator)
                self._is_command = True
            case "(":
                self._parenthesis()
            case ")":
                self._close_parenthesis()
            case _:
                self._redirect(operator)

    def _end_line(self) -> None:
        self._skip_documents()
        if not self._open and not self._goes_on:
            self._end_statement()
            self._lines.append([])
        self._is_command = True

    def _end_command(self, operator: str) -> None:
        if operator == "&":
            self._add(operator)
        if not self._open:
            self._end_statement()
        self._is_command = True

    def _redirect(self, operator: str) -> None:
        if operator in "<>" and self._text.startswith("(", self._at):  # the output or input of a command
            self._at = _end_of_nested(self._text, self._at + 1, ")")
            return
        word = self._next_word()
        if operator in {"<<", "<<-"}:
            self._documents.append((re.sub(r"[\\'\"]", "", word), operator == "<<-"))

    @property
    def _goes_on(self) -> bool:
        """True after an operator that goes on in the next line."""
        return bool(self._statement.words) and self._statement.words[-1] in {"&&", "||", "|"}

    def _parenthesis(self) -> None:
        before = self._text[self._at - 2] if self._at > 1 else "\n"
        if before == "=" or self._text.startswith("(", self._at):  # an array, or arithmetic
            self._at = _end_of_nested(self._text, self._at, ")")
            self._is_command = before == "="
        elif _NO_PARAMETERS.match(self._text, self._at) and not self._is_command:  # a function
            self._at = _find(self._text, ")", self._at) + 1
            self._add("()")
            self._is_command = True
        elif self._is_command:
            self._push(")")
        else:
            raise _Unclear

    def _close_parenthesis(self) -> None:
        if self._open[-1:] == [")"]:
            self._open.pop()
            self._is_command = False
        elif self._open[-1:] == ["esac"]:  # the end of a pattern
            self._is_command = True
        else:
            raise _Unclear

    def _word(self, word: str) -> None:
        if not self._is_command:
            self._add(word)
            if word in {"in", "do"} and self._open[-1:] in (["esac"], ["done"]):
                self._is_command = True
            return
        if self._open and word == self._open[-1] != ")":
            self._open.pop()
            self._is_command = False
            return
        if word in {"fi", "done", "esac", "}"}:
            raise _Unclear
        self._add(word)
        if word == "[[":
            end = _CONDITION_ENDS.search(self._text, self._at)
            if end is None:
                raise _Unclear
            self._at = end.end()
        elif word == "function":
            self._add(self._next_word())
            return
        elif word in _CLOSERS:
            self._push(_CLOSERS[word])
        self._is_command = word in _BEFORE_COMMANDS or _ASSIGNMENT.match(word) is not None

    def _push(self, closer: str) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise _Unclear
        self._open.append(closer)
        self._is_command = True

    def _add(self, word: str) -> None:
        if not self._open:
            self._statement.words.append(word)
        elif not self._statement.words:
            self._statement.words.append("(")

    def _next_word(self) -> str:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1
        begin, self._at = self._at, _end_of_word(self._text, self._at)
        return self._text[begin : self._at]

    def _end_statement(self) -> None:
        text = self._text[self._begin : self._at]
        self._begin = self._at
        if self._statement.words or text.lstrip()[:1] in {"<", ">"}:
            self._statement.text = text
            self._lines[-1].append(self._statement)
            self._statement = _Statement()

    def _skip_documents(self) -> None:
        """Skip the here-documents whose operators are in the line that ends here."""
        for delimiter, indented in self._documents:
            while True:
                if self._at >= len(self._text):
                    break
                begin, self._at = self._at, _find(self._text, "\n", self._at)
                line = self._text[begin : self._at]
                self._at = min(self._at + 1, len(self._text))
                if (line.lstrip("\t") if indented else line) == delimiter:
                    break
        self._documents.clear()


def _find(text: str, wanted: str, begin: int) -> int:
    found = text.find(wanted, begin)
    return len(text) if found < 0 else found


def _end_of_word(text: str, begin: int) -> int:
    """Return where a word ends, with its quotes and substitutions."""
    at = begin
    while at < len(text) and text[at] not in _ENDS_OF_WORDS:
        at = _end_of_part(text, at, 0)
    return at


def _end_of_part(text: str, at: int, depth: int) -> int:
    """Return where a character of a word ends, or the quoted text or the substitution that begins there."""
    match text[at]:
        case "\\":
            return at + 2
        case "'":
            return _end_of_quoted(text, at + 1, escapes=text[at - 1 : at] == "$")
        case '"':
            return _end_of_nested(text, at + 1, '"', depth + 1)
        case "`":
            return _end_of_nested(text, at + 1, "`", depth + 1)
        case "$" if text[at + 1 : at + 2] in {"(", "{"}:
            return _end_of_nested(text, at + 2, ")" if text[at + 1] == "(" else "}", depth + 1)
    return at + 1


def _end_of_quoted(text: str, at: int, *, escapes: bool) -> int:
    while at < len(text) and text[at] != "'":
        at += 2 if escapes and text[at] == "\\" else 1
    if at >= len(text):
        raise _Unclear
    return at + 1


def _end_of_nested(text: str, at: int, closer: str, depth: int = 0) -> int:
    """Return where a nested part ends, behind its closer."""
    if depth > _MAX_DEPTH:
        raise _Unclear
    while at < len(text) and text[at] != closer:
        if closer == ")" and text[at] == "(":
            at = _end_of_nested(text, at + 1, ")", depth + 1)
        elif closer == '"' and text[at] == "'":  # an ordinary character there
            at += 1
        elif closer in {")", "`"} and text[at] == "#" and text[at - 1] in " \t\n":
            at = _find(text, "\n", at)
        else:
            at = _end_of_part(text, at, depth)
    if at >= len(text):
        raise _Unclear
    return at + 1
